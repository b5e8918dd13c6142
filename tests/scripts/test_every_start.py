"""Every DDP script, unchanged: launch, torchrun, and two torchrun agents as on two hosts, with equal results."""

import os
import re
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import cpump_kit as cp

SCRIPTS = Path(__file__).parents[2] / "notebooks" / "scripts"
GROUPED = sorted(path.name for path in SCRIPTS.glob("*.py")
                 if "init_process_group" in path.read_text() and "world_size, *, epochs=" in path.read_text())
SMALL = {"epochs": 1, "lr": 0.01, "samples": 600}
OPTIONS = [str(part) for name, value in SMALL.items() for part in (f"--{name}", value)]


def torchrun(script: str, *options: str) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS.parents[1]), "OMP_NUM_THREADS": "1"}
    if sys.platform == "linux":
        environment["GLOO_SOCKET_IFNAME"] = "lo"
    command = [sys.executable, "-m", "torch.distributed.run", *options, SCRIPTS / script, *OPTIONS]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def outputs(*agents: subprocess.Popen) -> str:
    """What the agents printed, after they have ended well."""
    with ExitStack() as ended:
        for agent in agents:
            ended.callback(agent.wait)
            ended.callback(agent.terminate)  # called first; torchrun ends its workers then
        said = [agent.communicate(timeout=120)[0] for agent in agents]
    assert [agent.returncode for agent in agents] == [0] * len(agents), "\n".join(said)
    return "\n".join(said)


def result_of_rank_0(said: str) -> str:
    return re.search(r"\[rank 0\] (\{.*?\})$", said, re.MULTILINE | re.DOTALL)[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def launched() -> dict[str, str]:
    """The result of rank 0 under launch, by script."""
    return {script: str(cp.launch(SCRIPTS / script, 2, threads=1, show=False, **SMALL).results[0])
            for script in GROUPED}


def test_the_scripts_are_found():
    assert {"ddp.py", "mlp.py", "accumulation.py", "loading.py", "stages.py", "pipeline.py"} <= set(GROUPED)


@pytest.mark.parametrize("script", GROUPED)
def test_torchrun(script, launched):
    assert result_of_rank_0(outputs(torchrun(script, "--standalone", "--nproc-per-node", "2"))) == launched[script]


@pytest.mark.parametrize("script", GROUPED)
def test_two_agents(script, launched):
    options = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", script,
               "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--local-addr", "127.0.0.1"]
    assert result_of_rank_0(outputs(torchrun(script, *options), torchrun(script, *options))) == launched[script]
