"""As on macOS and Windows, where processes can only be spawned: the core of the kit with nothing else to use.

A process of its own runs these tests of other files, since what is started ahead depends on the start method.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CORE = ("(ways_to_end or two_runs or are_shared or interrupt_while_waiting or spawned_workers or loader_workers or "
        "notebook_cell or edited_script) and not forkserver")


def test_the_core_works_with_spawn_alone():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "test_launch.py"), "-k", CORE]
    done = subprocess.run(command, cwd=HERE.parent, env={**os.environ, "CPUMP_START_METHOD": "spawn"}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=280)
    assert done.returncode == 0, done.stdout[-5000:]
    assert int(done.stdout.split(" passed")[0].split()[-1]) >= 10, done.stdout  # the names above still find tests
