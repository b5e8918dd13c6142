"""Launching for real: results, shared memory, errors, stops, and nothing left behind."""

import asyncio
import json
import linecache
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
import torch

import cpump_kit as cp
from cpump_kit.running.supervisor import ASKED

DDP = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from cpump_kit import main, report

def train(rank, world_size, *, steps=5):
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        loss = model(torch.full((3, 4), rank + 1.0)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        report(loss=loss.item(), samples=3, total=3 * steps)
    weights = [p.sum().item() for p in model.parameters()]
    dist.destroy_process_group()
    return {"rank": rank, "weights": weights, "threads": torch.get_num_threads()}

if __name__ == "__main__":
    main(train)
"""
METHODS = ["forkserver", "spawn"]


@pytest.fixture
def script(tmp_path):
    def write(text, name="lesson.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write


def failure(run) -> str:
    with pytest.raises(cp.WorkerError) as caught:
        run.results
    assert run.state == "failed" and str(caught.value).startswith(run.error)
    return str(caught.value)


def wait_until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.mark.parametrize("method", METHODS)
def test_ddp_trains_and_reports(script, method):
    run = cp.launch(script(DDP), nprocs=2, start_method=method, steps=7)
    assert run.state in ("starting", "training")
    first, second = run.results
    assert (first["rank"], second["rank"]) == (0, 1) and first["weights"] == second["weights"]
    assert first["threads"] == run.threads == cp.threads_per_worker(2)
    assert run.state == "done" and run.error is None and run.samples == 2 * 7 * 3
    records = list(run.history)
    assert [(r["rank"], r["step"]) for r in records] == [(rank, step) for rank in (0, 1) for step in range(7)]
    assert all(r["samples"] == 3 and 0 < r["time"] < run.seconds for r in records)
    assert run.progress[0] == 1.0 and run.samples_per_second > 0
    assert [status.state for status in run.ranks] == ["done", "done"]


@pytest.mark.parametrize("method", METHODS + ["fork"])
def test_tensors_modules_locks_and_barriers_are_shared(method):
    context = multiprocessing.get_context("spawn")
    counter, model = torch.zeros(1, dtype=torch.int64), torch.nn.Linear(2, 1).share_memory()
    lock, barrier = context.Lock(), context.Barrier(2)

    def train(rank, world_size, *, counter, model, lock, barrier):
        for _ in range(200):
            with lock:
                counter += 1
        barrier.wait(20)
        if rank == 1:
            with torch.no_grad():
                model.weight.fill_(7.0)
        return int(counter)

    run = cp.launch(train, nprocs=2, start_method=method, counter=counter.share_memory_(), model=model, lock=lock,
                    barrier=barrier)
    assert run.results == [400, 400] and int(counter) == 400
    assert model.weight.tolist() == [[7.0, 7.0]]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not notice it")
def test_what_is_made_for_the_call_alone_lives_as_long_as_the_run():
    context = multiprocessing.get_context("spawn")

    def train(rank, world_size, *, barrier, locks, board):
        barrier.wait(30)
        with locks["one"]:
            board[rank] += rank + 1
        return board.tolist()

    run = cp.launch(train, nprocs=2, start_method="spawn", barrier=context.Barrier(2), locks={"one": context.Lock()},
                    board=torch.zeros(2).share_memory_())
    assert sorted(max(run.results)) == [1.0, 2.0]


def test_a_lock_that_cannot_travel_says_how_to_make_one_that_can():
    def train(rank, world_size, *, lock):
        pass

    with pytest.raises(cp.LaunchError, match="the argument lock .* get_context"):
        cp.launch(train, lock=multiprocessing.get_context("fork").Lock())


def test_a_function_of_a_notebook_cell_goes_by_value():
    name = "/tmp/ipykernel_1/123.py"  # as IPython names a cell; no such file
    cell = "class Net:\n    size = 3\n\ndef train(rank, world_size, *, fail=False):\n" \
           "    if fail:\n        raise ValueError('boom')\n    return Net.size + rank\n"
    linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
    module = {"__name__": "__main__"}
    exec(compile(cell, name, "exec"), module)
    assert cp.launch(module["train"], nprocs=2).results == [3, 4]
    text = failure(cp.launch(module["train"], fail=True))
    assert text.startswith("Rank 0 failed at notebook cell, line 6, in train: ValueError: boom")
    assert "raise ValueError('boom')" in text


def test_an_edited_script_is_used_as_it_is_now(script):
    run = "from helper import VALUE\ndef train(rank, world_size): return VALUE\n"
    script("VALUE = 1\n", "helper.py")
    path = script(run)
    assert cp.launch(path).results == [1]
    script("VALUE = 22\n", "helper.py")
    assert cp.launch(path).results == [22]
    script("def train(rank, world_size): return 'edited'\n")
    assert cp.launch(path).results == ["edited"]


def test_results_outlive_their_worker(script):
    path = script("""
        import torch
        class Answer:
            def __init__(self, value): self.value = value
        def train(rank, world_size):
            return Answer(torch.arange(6.0).reshape(2, 3)), torch.zeros(1_000_000)
        """)
    (answer, big), = cp.launch(path).results
    assert float(answer.value.sum()) == 15.0 and big.shape == (1_000_000,)


@pytest.mark.parametrize("method", METHODS)
def test_an_exception_shows_its_own_traceback_once(script, method):
    path = script("""
        import torch.distributed as dist

        def train(rank, world_size):
            dist.init_process_group("gloo")
            if rank == 1:
                helper()
            dist.barrier()

        def helper():
            raise ValueError("boom <b>")
        """)
    text = failure(cp.launch(path, nprocs=2, start_method=method))
    assert text.startswith("Rank 1 failed at lesson.py, line 11, in helper: ValueError: boom <b>")
    assert text.count("Traceback") == 1 and "multiprocessing" not in text and "cpump_kit" not in text
    assert f'File "{path}", line 7, in train' in text


@pytest.mark.parametrize("body, said", [
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL"),
    ("import os; os._exit(0)", "ended by itself with exit code 0 before lesson.py had returned"),
    ("import sys; sys.exit(3)", "left the training with sys.exit at lesson.py, line 1, in train"),
    ("import nothing_of_that_name", "ModuleNotFoundError"),
    ("return lambda: (i for i in iter(object, 1)), (i for i in [1])", "cannot pickle 'generator' object"),
])
def test_ways_to_end(script, body, said):
    assert said in failure(cp.launch(script(f"def train(rank, world_size): {body}\n")))


def test_an_error_at_the_top_of_the_script(script):
    text = failure(cp.launch(script("x = 1\ny = undefined\ndef train(rank, world_size): pass\n")))
    assert "Rank 0 failed at lesson.py, line 2, in <module>: NameError" in text


def test_stop_keeps_what_was_reported(script):
    path = script("""
        import time
        from cpump_kit import report
        def train(rank, world_size, *, deaf=False):
            step = 0
            while True:
                try:
                    report(loss=1.0, samples=1)
                    time.sleep(0.01)
                except KeyboardInterrupt:
                    if not deaf:
                        raise
        """)
    for deaf in (False, True):
        run = cp.launch(path, nprocs=2, deaf=deaf)
        wait_until(lambda run=run: all(status.steps > 3 for status in run.ranks))
        run.stop()
        with pytest.raises(cp.RunStopped, match="Stopped by you after .* run.history"):
            run.results
        assert run.state == "stopped" and len(run.history) > 6
        assert [status.state for status in run.ranks] == ["stopped", "stopped"]


def test_a_run_can_be_stopped_before_it_trains(script):
    run = cp.launch(script(DDP), nprocs=2, start_method="spawn")
    run.stop()
    with pytest.raises(cp.RunStopped):
        run.results


def test_interrupt_while_waiting_stops_the_run(script):
    path = script("import time\ndef train(rank, world_size): time.sleep(60)\n")
    run = cp.launch(path)
    wait_until(lambda: run.state == "training")
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(cp.RunStopped):
            run.results
    finally:
        signal.signal(signal.SIGALRM, before)


def test_await_gives_the_results(script):
    async def cell():
        run = cp.launch(script(DDP), nprocs=2)
        beats = asyncio.create_task(asyncio.sleep(0))
        results = await run
        await beats
        return results, await run

    results, again = asyncio.run(cell())
    assert results == again and [result["rank"] for result in results] == [0, 1]


def test_what_workers_print_is_kept_by_rank(script):
    path = script("""
        import os, sys
        def train(rank, world_size):
            print("first from", rank)
            sys.stderr.write("unfinished ")
            os.write(1, b"from below\\n")
            sys.stderr.write("last")
        """)
    run = cp.launch(path, nprocs=2)
    assert run.results == [None, None]
    for rank in (0, 1):
        lines = [line for other, line in run.output if other == rank]
        assert lines == [f"first from {rank}", "from below", "unfinished last"]
        assert (run.folder / f"rank{rank}.log").read_text().startswith("first from")


def test_reports_must_be_numbers(script):
    path = script("from cpump_kit import report\ndef train(rank, world_size): report(loss='high')\n")
    assert "TypeError: report(loss=...) takes a number or a tensor of one element, not str" in failure(cp.launch(path))


def test_threads_follow_the_reader(script, monkeypatch):
    path = script("import os, torch\ndef train(rank, world_size): "
                  "return torch.get_num_threads(), os.environ['OMP_NUM_THREADS'], os.environ['MARK']\n")
    monkeypatch.setenv("MARK", "seen")
    assert cp.launch(path, threads=3).results == [(3, "3", "seen")]
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert cp.launch(path).results == [(5, "5", "seen")]


def test_a_script_without_a_main_guard_starts_once(script):
    path = script("""
        import cpump_kit as cp
        def train(rank, world_size): return rank
        cp.main(train)
        """)
    assert cp.launch(path, nprocs=2).results == [0, 1]
    path = script("import cpump_kit as cp\ndef train(rank, world_size): return rank\ncp.launch(__file__)\n")
    text = failure(cp.launch(path))
    assert "lesson.py, line 3" in text and "put it under the main guard" in text


def test_data_loader_workers_find_the_scripts_classes(script):
    path = script("""
        from torch.utils.data import DataLoader, Dataset
        class Squares(Dataset):
            def __len__(self): return 6
            def __getitem__(self, i): return i * i
        def train(rank, world_size, *, context):
            loader = DataLoader(Squares(), 2, num_workers=1, multiprocessing_context=context)
            return [batch.tolist() for batch in loader]
        """)
    for context in multiprocessing.get_all_start_methods():
        if context != "fork":
            assert cp.launch(path, context=context).results == [[[0, 1], [4, 9], [16, 25]]]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and signals as Linux has them")
@pytest.mark.parametrize("method", METHODS)
def test_nothing_listens_beyond_loopback_and_nothing_outlives_a_killed_launcher(script, tmp_path, method):
    lesson = script("""
        import os, subprocess, sys, time
        from pathlib import Path
        import torch, torch.distributed as dist
        def train(rank, world_size, *, folder):
            dist.init_process_group("gloo")
            dist.all_reduce(torch.ones(1))
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            Path(folder, f"pid{rank}.tmp").write_text(f"{os.getpid()} {child.pid} {os.getppid()}")
            Path(folder, f"pid{rank}.tmp").rename(Path(folder, f"pid{rank}"))
            time.sleep(600)
        """)
    launcher = script(f"""
        import cpump_kit as cp
        run = cp.launch({str(lesson)!r}, nprocs=2, start_method={method!r}, folder={str(tmp_path)!r})
        print(run.folder, flush=True)
        run.results
        """, "launcher.py")
    program = subprocess.Popen([sys.executable, launcher], stdout=subprocess.PIPE, text=True)
    try:
        folder = Path(program.stdout.readline().strip())
        files = [tmp_path / "pid0", tmp_path / "pid1"]
        wait_until(lambda: all(file.exists() for file in files), 60)
        family = [psutil.Process(int(pid)) for file in files for pid in file.read_text().split()[:2]]
        ours = [psutil.Process(program.pid), *psutil.Process(program.pid).children(recursive=True), *family]
        addresses = {c.laddr.ip for process in ours for c in process.net_connections() if c.status == "LISTEN"}
        assert addresses and addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    finally:
        program.kill()
        program.wait()
        program.stdout.close()
    assert psutil.wait_procs(family, timeout=10)[1] == []
    wait_until(lambda: not folder.exists())


def test_two_runs_at_once(script):
    path = script(DDP)
    runs = [cp.launch(path, nprocs=2) for _ in range(3)]
    weights = [result["weights"] for run in runs for result in run.results]
    assert weights.count(weights[0]) == 6


@pytest.mark.parametrize("command", ["python", "cpump run", "torchrun"])
def test_the_same_script_from_the_command_line(script, tmp_path, command):
    path, file = script(DDP), tmp_path / "out.json"
    words = {"python": [path, "--nprocs", "2", "--json", file],
             "cpump run": ["-m", "cpump_kit", "run", path, "--nprocs", "2", "--json", file],
             "torchrun": ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", path]}[command]
    done = subprocess.run([sys.executable, *map(str, words), "--steps", "4"], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    assert "[rank 0] {'rank': 0, 'weights': [" in done.stdout
    if command == "torchrun":
        assert "[rank 1] step 1  loss" in done.stderr
        return
    written = json.loads(file.read_text())
    assert {key: written[key] for key in ("nprocs", "state", "samples", "error")} == {
        "nprocs": 2, "state": "done", "samples": 24, "error": None}
    assert written["script"].endswith("lesson.py") and written["samples_per_second"] > 0 and written["seconds"] > 0
    assert written["results"][0]["weights"] == written["results"][1]["weights"] and written["threads"] >= 1


def test_the_command_line_says_what_is_wrong(script, tmp_path):
    path = script("def train(rank, world_size, *, n=3): raise ValueError('boom')\n")
    for words, code, said in [(["--nprocs", "0"], 2, "nprocs must be a whole number"), ([], 1, "ValueError: boom")]:
        done = subprocess.run([sys.executable, "-m", "cpump_kit", "run", str(path), *words], capture_output=True,
                              text=True, timeout=120)
        assert done.returncode == code and said in done.stderr, done.stderr
    done = subprocess.run([sys.executable, "-m", "cpump_kit", "run", str(tmp_path / "none.py")], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "there is no script" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C goes to a group there")
def test_ctrl_c_on_the_command_line(script):
    path = script("""
        import time
        from cpump_kit import main
        def train(rank, world_size):
            print("training", flush=True)
            time.sleep(600)
        """)
    command = [sys.executable, "-m", "cpump_kit", "run", str(path), "--nprocs", "2"]
    program = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        while "training" not in (line := program.stderr.readline()):
            assert line, "it ended early"
        program.send_signal(signal.SIGINT)
        text = program.stderr.read()
        assert program.wait(20) == 130 and "Stopped by you" in text and "Traceback" not in text
    finally:
        program.kill()
        program.wait()
        program.stderr.close()


def test_a_run_that_its_program_forgets_is_ended_with_it(script):
    lesson = script("import time\ndef train(rank, world_size): time.sleep(600)\n")
    launcher = script(f"import cpump_kit as cp\ncp.launch({str(lesson)!r}, nprocs=2)\n", "launcher.py")
    done = subprocess.run([sys.executable, launcher], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr.count("\n") == 1 and "was stopped" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the fork server is Linux's default here")
def test_importing_the_kit_starts_the_fork_server_only_where_a_launch_is_likely():
    ask = ("import cpump_kit, sys; assert 'torch' not in sys.modules; "
           "from multiprocessing import forkserver as f; print(f._forkserver._forkserver_pid is not None, end='')")

    def started(**environment):
        return subprocess.run([sys.executable, "-c", ask], env={**os.environ, **environment}, capture_output=True,
                              text=True, check=True).stdout

    assert started() == "True" and started(RANK="0") == "False" and started(CPUMP_LEFTOVERS="folder") == "False"


@pytest.mark.parametrize("command", [
    "from multiprocessing.forkserver import main; main(3, 4)",
    "import sys; from multiprocessing.forkserver import main; main(3, 4)",  # from Python 3.14 on
    "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)"])
def test_a_child_of_multiprocessing_starts_nothing_when_it_imports_the_kit(monkeypatch, command):
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", command])
    assert not cp._launches_later()
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", "import cpump_kit"])
    assert cp._launches_later()


def test_stopping_takes_no_longer_than_it_says():
    assert ASKED < 2


def test_a_worker_stands_where_its_launcher_stands(script, tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "beside.py").write_text("VALUE = 3\n")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    path = script("""
        import os
        from beside import VALUE

        def train(rank, world_size):
            return os.getcwd(), os.listdir(), VALUE
        """)
    assert cp.launch(path).results == [(str(folder), ["beside.py"], 3)]


def test_a_progress_bar_is_seen_while_it_moves_and_as_it_looks_last(script):
    path = script("""
        import sys, time

        def train(rank, world_size, *, lock):
            for i in range(1, 4):
                sys.stderr.write(f"\\rbar {i}/4")
                sys.stderr.flush()
            with lock:
                sys.stderr.write("\\rbar 4/4\\n")
        """)
    lock = multiprocessing.get_context("spawn").Lock()
    lock.acquire()
    run = cp.launch(path, lock=lock)
    wait_until(lambda: run.output == [(0, "bar 3/4")])
    lock.release()
    run.results
    assert run.output == [(0, "bar 4/4")]


def test_workers_that_need_more_memory_than_is_free_are_pointed_out(monkeypatch):
    from cpump_kit.running import launch as launching

    monkeypatch.setitem(launching.WORKER_BYTES, "forkserver", 2**45)
    run = cp.launch(lambda rank, world_size: rank, nprocs=2, start_method="forkserver")
    assert run.results == [0, 1]
    assert any("2 workers need at least 65536.0 GiB" in note for note in run.notes)


def test_memory_that_runs_low_is_pointed_out_while_the_run_goes_on(monkeypatch):
    from cpump_kit.running import supervisor

    monkeypatch.setattr(supervisor, "LITTLE", 1.1)  # of the memory: then there is always too little
    run = cp.launch(lambda rank, world_size: time.sleep(600))
    wait_until(lambda: supervisor.MEMORY_LOW in run.notes)
    run.stop()
    run.wait()
    assert run.notes.count(supervisor.MEMORY_LOW) == 1


def test_spawned_workers_are_kept_ready_for_the_next_run():
    program = textwrap.dedent("""
        import os, time
        import cpump_kit as cp
        from cpump_kit.running import processes

        def train(rank, world_size):
            return os.getpid(), os.environ["MARK"]

        if __name__ == "__main__":
            os.environ["MARK"] = "first"
            first = cp.launch(train, nprocs=2)
            first.wait()
            while len(processes.ready_pids()) < 2:
                time.sleep(0.05)
            ready, os.environ["MARK"] = processes.ready_pids(), "second"
            (one, mark), (two, _) = cp.launch(train, nprocs=2).results
            asked = cp.launch(train, start_method="spawn").results[0][0]  # a start that was asked for is a fresh one
            print(ready == {one, two}, mark, asked in ready)
        """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240,
                          env={**os.environ, "CPUMP_START_METHOD": "spawn"})
    assert done.stdout.split() == ["True", "second", "False"], done.stderr
