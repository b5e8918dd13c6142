"""Beyond one process tree: a killed worker's training resumes, two hosts train as one, and the cluster files hold."""

import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
import torch
import yaml
from test_every_start import free_port
from torch.distributed.run import get_args_parser

import cpump_kit as cp

SCRIPTS = Path(__file__).parents[2] / "notebooks" / "scripts"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SCRIPTS.parents[1]), "OMP_NUM_THREADS": "1"}
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
TIME = 50


@contextmanager
def torchrun(*options, before=(), **environment):
    """A torchrun agent whose lines can be read; it and its workers have ended afterwards."""
    command = [*before, sys.executable, "-m", "torch.distributed.run", *map(str, options)]
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env={**ENVIRONMENT, **environment})
    late = threading.Timer(TIME, agent.terminate)  # so that no line is waited for in vain; workers end with it
    late.start()
    try:
        yield agent
    finally:
        late.cancel()
        workers = [] if agent.poll() is not None else psutil.Process(agent.pid).children(recursive=True)
        agent.terminate()
        for process in psutil.wait_procs(workers, timeout=10)[1]:
            process.kill()
        agent.communicate()


def accuracy(said: str) -> float:
    return float(re.search(r"'accuracy': ([\d.]+)", said)[1])


# Elastic restart. 640 samples are 10 steps of each of 2 ranks in an epoch, with batches of 32.

TRAINING = {"samples": 640, "batch_size": 32, "lr": 0.01, "epochs": 4}
OPTIONS = [part for name, value in TRAINING.items() for part in (f"--{name.replace('_', '-')}", value)]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """(what the ranks returned, the last checkpoint) of a run that nothing happened to."""
    path = tmp_path_factory.mktemp("kept") / "whole.pt"
    results = cp.launch(SCRIPTS / "elastic.py", 2, threads=1, show=False, checkpoint=str(path), **TRAINING).results
    return results, torch.load(path)


def equal(one, other) -> bool:
    """Whether two states are the same to the last bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(equal, one, other))
    return one == other


@pytest.mark.skipif(sys.platform == "win32", reason="torchrun restarts workers with POSIX signals")
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_worker_resumes_and_ends_as_if_nothing_had_happened(victim, uninterrupted, tmp_path):
    checkpoint, pids, begun, said = tmp_path / "kept.pt", {}, [], []
    options = ["--nnodes", 1, "--nproc-per-node", 2, "--max-restarts", 1, "--rdzv-backend", "c10d",
               "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1", SCRIPTS / "elastic.py",
               *OPTIONS, "--checkpoint", checkpoint]
    with torchrun(*options, **LOOPBACK, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1") as agent:
        for line in agent.stdout:
            said.append(line)
            # Two ranks may write into one line: torchrun starts them unbuffered.
            for rank, pid, epoch in re.findall(r"rank (\d) of 2 is process (\d+) and begins with epoch (\d)", line):
                pids[int(rank)] = int(pid)
                begun.append(int(epoch))
            if "epoch 2 step 20 " in line and len(begun) == 2:
                os.kill(pids[victim], 9)
        assert agent.wait(TIME) == 0, "".join(said)
    results, whole = uninterrupted
    assert begun == [0, 0, 2, 2]
    assert equal(torch.load(checkpoint), whole)
    assert accuracy("".join(said)) == results[0]["accuracy"]
    assert [path.name for path in tmp_path.iterdir()] == ["kept.pt"]  # and no half-written one beside it


def test_a_second_start_goes_on_where_the_first_ended(uninterrupted, tmp_path):
    checkpoint = str(tmp_path / "kept.pt")
    for epochs in (1, 3, 4):
        run = cp.launch(SCRIPTS / "elastic.py", 2, threads=1, show=False, checkpoint=checkpoint,
                        **{**TRAINING, "epochs": epochs})
        first, second = run.results
        assert torch.equal(first["weights"], second["weights"])
    assert run.samples == TRAINING["samples"]  # the last start had one epoch to do
    assert equal(torch.load(checkpoint), uninterrupted[1])


def test_without_a_checkpoint_it_is_the_training_of_ddp(tmp_path):
    small = {"samples": 300, "epochs": 1, "lr": 0.01}
    ours, ddp = (cp.launch(SCRIPTS / name, 2, threads=1, show=False, **small).results[0]
                 for name in ("elastic.py", "ddp.py"))
    assert torch.equal(ours["weights"], ddp["weights"]) and ours["accuracy"] == ddp["accuracy"]


def test_a_file_that_was_cut_while_it_was_written_does_no_harm(uninterrupted, tmp_path):
    checkpoint = tmp_path / "kept.pt"
    (tmp_path / "kept.pt.new").write_bytes(b"the first half of a checkp")
    cp.launch(SCRIPTS / "elastic.py", 2, threads=1, show=False, checkpoint=str(checkpoint), **TRAINING).wait()
    assert equal(torch.load(checkpoint), uninterrupted[1]) and not (tmp_path / "kept.pt.new").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="torchrun restarts workers with POSIX signals")
def test_a_job_goes_on_without_a_host_that_is_gone(tmp_path):
    checkpoint, said, both = tmp_path / "kept.pt", [], threading.Event()
    training = [*OPTIONS[:-1], 30, "--checkpoint", checkpoint]  # `--epochs` comes last
    patience = "last_call_timeout=5,keep_alive_interval=1,keep_alive_max_attempt=3"  # seconds; by default much longer
    meeting = f"127.0.0.1:{free_port()}"

    def read(agent):
        for line in agent.stdout:
            said.append(line)
            if len(set(re.findall(r"rank (\d) of 2 ", "".join(said)))) == 2 and "epoch 3 " in line:
                both.set()

    with ExitStack() as ended:
        hosts, readers = [], []
        for is_host in (1, 0):
            hosts.append(ended.enter_context(torchrun(
                "--nnodes", "1:2", "--nproc-per-node", 1, "--max-restarts", 3, "--rdzv-backend", "c10d", "--rdzv-id",
                "elastic", "--rdzv-endpoint", meeting, "--rdzv-conf", f"is_host={is_host},{patience}",
                "--local-addr", "127.0.0.1", SCRIPTS / "elastic.py", *training, **LOOPBACK,
                TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")))
            readers.append(threading.Thread(target=read, args=hosts[-1:]))
            readers[-1].start()
        assert both.wait(TIME), "".join(said)
        gone = psutil.Process(hosts[1].pid)
        for process in [gone, *gone.children(recursive=True)]:
            process.kill()
        assert hosts[0].wait(TIME) == 0, "".join(said)
        for reader in readers:
            reader.join()
    begun = re.findall(r"rank 0 of 1 is process \d+ and begins with epoch (\d+)", "".join(said))
    assert begun and int(begun[-1]) >= 3, "".join(said)
    assert torch.load(checkpoint)["epoch"] == 30


# Two hosts: namespaces with a network stack and an address each, joined by a virtual cable.

def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20)
    if done.returncode:
        raise PermissionError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def two_hosts():
    """[(namespace, address, interface)] of two hosts that reach each other; all is gone afterwards."""
    mark = f"cp{os.getpid() % 100_000}"
    hosts = [(f"{mark}{letter}", f"10.213.77.{i}", f"{mark}{letter}") for i, letter in enumerate("ab", start=1)]
    with ExitStack() as made:
        for namespace, *_ in hosts:
            ip("netns", "add", namespace)
            made.callback(ip, "netns", "del", namespace)  # and the cable with it
        (first, _, one), (second, _, other) = hosts
        ip("-n", first, "link", "add", one, "type", "veth", "peer", "name", other, "netns", second)
        for namespace, address, interface in hosts:
            ip("-n", namespace, "addr", "add", f"{address}/24", "dev", interface)
            ip("-n", namespace, "link", "set", interface, "up")
            ip("-n", namespace, "link", "set", "lo", "up")
        yield hosts


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("ip"), reason="needs Linux with the ip command")
def test_two_hosts_with_addresses_of_their_own_train_as_launch_does():
    small = {"epochs": 1, "samples": 300, "lr": 0.01}
    with ExitStack() as ended:
        try:
            hosts = ended.enter_context(two_hosts())
        except (PermissionError, OSError) as error:
            pytest.skip(f"no network namespaces here: {error}")
        agents, meeting = [], f"{hosts[0][1]}:29500"
        for number, (namespace, address, interface) in enumerate(hosts):
            # The hosts have one name, that of this machine, so each is told whether the meeting point is its own.
            options = ["--nnodes", 2, "--nproc-per-node", 1, "--rdzv-backend", "c10d", "--rdzv-id", "hosts",
                       "--rdzv-endpoint", meeting, "--rdzv-conf", f"is_host={int(number == 0)}",
                       "--local-addr", address, SCRIPTS / "ddp.py"]
            options += [part for name, value in small.items() for part in (f"--{name}", value)]
            agents.append(ended.enter_context(torchrun(
                *options, before=("ip", "netns", "exec", namespace), GLOO_SOCKET_IFNAME=interface)))
        said = [agent.communicate(timeout=TIME)[0] for agent in agents]
        assert [agent.returncode for agent in agents] == [0, 0], "\n".join(said)
        sent = [int(ip("netns", "exec", namespace, "cat", f"/sys/class/net/{interface}/statistics/tx_bytes"))
                for namespace, _, interface in hosts]
    launched = cp.launch(SCRIPTS / "ddp.py", 2, threads=1, show=False, **small).results[0]
    result = re.search(r"\[rank 0\] (\{.*?\})$", "\n".join(said), re.MULTILINE | re.DOTALL)[1]
    assert result == str(launched)
    steps, gradients = 3, launched["weights"].nbytes  # of two hosts each sends as much as the gradients have
    assert min(sent) > steps * gradients


# The files for clusters, which no test can run here: what they call is there and takes what they give.

def sbatch_command() -> list[str]:
    text = (SCRIPTS / "ddp.sbatch").read_text().replace("\\\n", " ")
    text = re.sub(r'"?\$\{?(\w+)\}?"?', lambda name: "4" if name[1] in ("SLURM_JOB_NUM_NODES", "RANKS") else name[1],
                  text)
    line = next(line for line in text.splitlines() if line.startswith("srun"))
    return line.split()[2:]


def job_documents() -> list[dict]:
    return list(yaml.safe_load_all((SCRIPTS / "ddp_job.yaml").read_text()))


def job_command() -> list[str]:
    return job_documents()[1]["spec"]["template"]["spec"]["containers"][0]["command"]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_can_read_the_slurm_file():
    assert subprocess.run(["bash", "-n", SCRIPTS / "ddp.sbatch"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("command", [sbatch_command, job_command])
def test_the_cluster_files_call_torchrun_with_what_it_and_the_script_know(command):
    python, dash_m, module, *rest = command()
    assert (python, dash_m, module) == ("python", "-m", "torch.distributed.run")
    options = get_args_parser().parse_args(rest)
    assert (SCRIPTS / options.training_script).name == "ddp.py" and (SCRIPTS / options.training_script).is_file()
    assert (options.nnodes, options.nproc_per_node, options.rdzv_backend) == ("4", "4", "c10d")
    assert options.rdzv_endpoint and options.rdzv_id != "none"
    given = options.training_script_args
    script = subprocess.run([sys.executable, SCRIPTS / options.training_script, *given, "--help"],
                            capture_output=True, text=True, env=ENVIRONMENT, timeout=TIME, check=True)
    assert all(word.split("=")[0] in script.stdout for word in given if word.startswith("--"))


def test_the_job_has_as_many_pods_as_torchrun_waits_for_and_meets_at_the_first():
    service, job = job_documents()
    name, spec = service["metadata"]["name"], job["spec"]
    assert service["spec"]["clusterIP"] == "None" and spec["completionMode"] == "Indexed"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert spec["template"]["spec"]["subdomain"] == name
    assert spec["completions"] == spec["parallelism"] == 4
    assert f"--rdzv-endpoint={job['metadata']['name']}-0.{name}:29500" in job_command()
    assert "--nnodes=4" in job_command()
