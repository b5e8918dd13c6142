"""Beyond one machine: a training goes on from its checkpoint, and the files for clusters are sound."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from torch.distributed.run import get_args_parser

import cpump_kit as cp

SCRIPTS = Path(__file__).parents[2] / "notebooks" / "scripts"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_worker_costs_no_more_than_the_epoch_that_was_going_on(tmp_path):
    options = ["--epochs", "3", "--samples", "4000", "--checkpoint", str(tmp_path / "kept.pt")]
    job = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "2",
         SCRIPTS / "elastic.py", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": str(SCRIPTS.parents[1]), "OMP_NUM_THREADS": "1",
             "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})  # or restarted ranks find the addresses of those that are gone
    said, victim = "", None
    try:
        for line in job.stdout:
            said += line
            if victim is None and re.match("epoch 1 ", line):
                victim = int(re.search(r"rank 1 of 2 is process (\d+)", said)[1])
                os.kill(victim, signal.SIGKILL)
        assert job.wait(timeout=60) == 0, said
    finally:
        job.terminate()
        job.wait()
    assert re.findall(r"begins with epoch (\d)", said) == ["0", "0", "1", "1"], said
    plain = cp.launch(SCRIPTS / "elastic.py", 2, threads=1, show=False, epochs=3, samples=4000).results[0]
    assert f"'accuracy': {plain['accuracy']}" in said and str(plain["weights"]) in said


def test_it_resumes_and_ends_as_if_it_had_never_stopped(tmp_path):
    def train(epochs, checkpoint=""):
        return cp.launch(SCRIPTS / "elastic.py", 2, threads=1, show=False, epochs=epochs, samples=600,
                         checkpoint=checkpoint).results[0]["weights"]

    path = str(tmp_path / "kept.pt")
    assert not torch.equal(train(1, path), whole := train(2))
    assert torch.equal(train(2, path), whole)


def torchrun_is_given(words: list[str]) -> str:
    """The script that torchrun would run with these words, all of which it knows."""
    given = get_args_parser().parse_args(words)
    assert given.rdzv_backend == "c10d" and given.rdzv_endpoint and given.rdzv_id
    return given.training_script


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_slurm_file_is_a_shell_script_that_runs_torchrun():
    text = (SCRIPTS / "ddp.sbatch").read_text()
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
    words = text.split("torch.distributed.run", 1)[1].replace("\\\n", " ").replace('"$SLURM_JOB_NUM_NODES"', "4")
    assert (SCRIPTS / torchrun_is_given(words.replace('"$RANKS"', "4").replace('"', "").split())).exists()


def test_the_kubernetes_file_starts_as_many_agents_as_it_says():
    service, job = yaml.safe_load_all((SCRIPTS / "ddp_job.yaml").read_text())
    words = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert (SCRIPTS / torchrun_is_given(words[words.index("torch.distributed.run") + 1:])).exists()
    pods = job["spec"]["completions"]
    assert f"--nnodes={pods}" in words and job["spec"]["parallelism"] == pods
    first = next(word for word in words if word.startswith("--rdzv-endpoint="))
    assert f"={job['metadata']['name']}-0.{service['metadata']['name']}:" in first
