"""Errors of torch and multiprocessing that need explaining: the rank, the script's line, the cause and the cure."""

import os
import textwrap

import pytest

import cpump_kit as cp
from cpump_kit.running.explain import explain

UNUSED = """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.spare = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)

        def forward(self, x):
            return self.used(x)

    def train(rank, world_size, *, find=False):
        dist.init_process_group("gloo")
        model = DDP(Net(), find_unused_parameters=find)
        for step in range(3):
            model(torch.ones(2, 4)).sum().backward()
        return step + 1, model.module.spare.weight.grad is None
"""
NO_GUARD = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.arange(6.0))
    loader = DataLoader(data, batch_size=2, num_workers=1, multiprocessing_context="spawn", timeout=60)
    batches = [batch[0].tolist() for batch in loader]

    def train(rank, world_size):
        return batches
"""
DEAD_SENDER = """
    import torch
    import torch.multiprocessing as mp

    def child(queue, as_numpy):
        value = torch.arange(6.0).reshape(2, 3)
        queue.put(value.numpy() if as_numpy else value)

    def train(rank, world_size, *, as_numpy):
        context = mp.get_context("spawn")
        queue = context.Queue()
        process = context.Process(target=child, args=(queue, as_numpy))
        process.start()
        process.join()
        return float(queue.get(timeout=30).sum())
"""
INTERFACE = """
    import os
    import torch.distributed as dist

    def train(rank, world_size):
        os.environ["GLOO_SOCKET_IFNAME"] = "nowhere0"
        dist.init_process_group("gloo")
"""
FIXED_PORT = """
    import os
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    def train(rank, world_size, *, port):
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", str(port)
        total = torch.ones(1)
        for method in (None, "env://", f"tcp://127.0.0.1:{port}"):
            dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world_size)
            dist.all_reduce(total)
            dist.destroy_process_group()
        init_device_mesh("cpu", (world_size,))
        dist.all_reduce(total)
        return total.item()
"""


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "lesson.py"
        path.write_text(textwrap.dedent(text))
        return path

    return write


def error_of(run) -> str:
    with pytest.raises(cp.WorkerError):
        run.results
    return run.error


def test_unused_parameters_are_named_with_both_cures(script):
    path = script(UNUSED)
    error = error_of(cp.launch(path, nprocs=2))
    assert "lesson.py, line 18, in train: " in error
    assert "spare.bias, spare.weight" in error and "find_unused_parameters=True" in error
    assert cp.launch(path, nprocs=2, find=True).results == [(3, True)] * 2


def test_the_line_is_the_readers_also_for_a_function_that_was_imported(tmp_path, monkeypatch):
    (tmp_path / "imported.py").write_text(textwrap.dedent(UNUSED))
    monkeypatch.syspath_prepend(tmp_path)
    from imported import train

    assert "imported.py, line 18, in train" in error_of(cp.launch(train, nprocs=2))


def test_a_missing_main_guard_is_named(script):
    error = error_of(cp.launch(script(NO_GUARD)))
    assert error.startswith("Rank 0 failed at lesson.py, line 7, in ") and 'if __name__ == "__main__":' in error


def test_a_tensor_whose_sender_has_ended(script):
    path = script(DEAD_SENDER)
    error = error_of(cp.launch(path, as_numpy=False))
    assert "lesson.py, line 15, in train: the process that sent this tensor has ended" in error
    assert cp.launch(path, as_numpy=True).results == [15.0]


def test_a_network_interface_that_is_not_there(script):
    error = error_of(cp.launch(script(INTERFACE)))
    assert "no network interface nowhere0" in error and "GLOO_SOCKET_IFNAME" in error


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such limit")
def test_too_many_open_files_says_the_limit():
    def train(rank, world_size):
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        return [open(os.devnull) for _ in range(50)]

    assert "too many open files: this process may have 40" in error_of(cp.launch(train))


def test_scripts_that_fix_a_port_run_side_by_side_and_again(script):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        runs = [cp.launch(script(FIXED_PORT), nprocs=2, port=port) for _ in range(2)]
        assert [run.results for run in runs] == [[16.0, 16.0]] * 2


def test_errors_that_speak_for_themselves_are_left_alone():
    assert explain(ValueError("boom"), "") is None and explain(FileNotFoundError(2, "no such file"), "") is None
