"""Beyond one machine: a training goes on from its checkpoint, and the files for clusters are sound."""

import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import yaml
from torch.distributed.run import get_args_parser

import cpump_kit as cp

SCRIPTS = Path(__file__).parents[2] / "notebooks" / "scripts"


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
