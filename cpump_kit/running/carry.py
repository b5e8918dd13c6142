"""How a function and its arguments travel to a worker, and how its result comes back.

Down: tensors, modules, locks and barriers go by handle (the same memory, the same lock), as `multiprocessing` would
send them at a process's start; functions and classes of a notebook go by value, as cloudpickle does. Our workers
are running already when their job is sent, so what multiprocessing hands over at the start (file descriptors) goes
through its resource sharer instead. Up: everything by value, since the worker is gone when the result is read.
"""

from __future__ import annotations

import io
import linecache
import os
import pickle
import sys
from collections import ChainMap
from multiprocessing import reduction, synchronize
from multiprocessing.context import get_spawning_popen, set_spawning_popen
from types import CodeType

import cloudpickle

from ..errors import LaunchError
from ..notebook import cell_name


class _Pickler(cloudpickle.Pickler):
    """cloudpickle for code, multiprocessing's own reducers (torch registers its tensors there) for handles.

    `cells` collects the text of the notebook cells whose code goes by value, by the name that tracebacks show.
    """

    def __init__(self, file):
        self.cells: dict[str, str] = {}
        # Set before __init__, which is when the pickler looks for it.
        locks = (synchronize.Lock, synchronize.RLock, synchronize.Semaphore, synchronize.BoundedSemaphore)
        ours = {CodeType: self._code, **dict.fromkeys(locks, _lock)}
        self.dispatch_table = ChainMap(ours, reduction.ForkingPickler._extra_reducers,
                                       cloudpickle.Pickler.dispatch_table)
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)

    def _code(self, code: CodeType):
        file, name = code.co_filename, cell_name(code.co_filename)
        if file in linecache.cache and not os.path.exists(file):
            self.cells[name] = "".join(linecache.cache[file][2])
        make, parts = cloudpickle.Pickler.dispatch_table[CodeType](code)
        # cloudpickle 3.1 drops the file's name, which a traceback needs.
        return make, tuple(name if part in (file, "<dynamic-code>") else part for part in parts)


def _lock(lock):
    # Python before 3.11.5 sends such a lock, and the process that takes it ends with SIGSEGV.
    if sys.platform != "win32" and lock._semlock.name is None:
        raise RuntimeError("it was made in a fork context, and has no name by which a running process could find it")
    return lock.__reduce_ex__(pickle.HIGHEST_PROTOCOL)


class _RunningWorker:
    """Stands where multiprocessing looks for the process being started, and says how a handle reaches it."""

    DupFd = staticmethod(lambda handle: handle)

    @staticmethod
    def duplicate_for_child(handle: int):
        if sys.platform == "win32":
            return _WindowsHandle(handle)
        from multiprocessing import resource_sharer

        return resource_sharer.DupFd(handle)


class _WindowsHandle:
    """A lock's handle, taken over by the process that unpickles it."""

    ALL_ACCESS = 0x1F0003  # SEMAPHORE_ALL_ACCESS

    def __init__(self, handle: int):
        self.duplicate = reduction.DupHandle(handle, self.ALL_ACCESS)

    def __reduce__(self):
        return reduction.DupHandle.detach, (self.duplicate,)


class _Nobody(_RunningWorker):
    """For a trial: no handle is duplicated."""

    @staticmethod
    def duplicate_for_child(handle: int):
        return handle


def pack(thing) -> tuple[bytes, dict[str, str]]:
    """Pickle `thing` for one worker; also the text of the notebook cells whose code went along, by name.

    Handles can be received once, so pack afresh for each rank.
    """
    file = io.BytesIO()
    cells = _dump(thing, file, _RunningWorker())
    return file.getvalue(), cells


def _dump(thing, file, receiver) -> dict[str, str]:
    before = get_spawning_popen()
    set_spawning_popen(receiver)
    try:
        pickler = _Pickler(file)
        pickler.dump(thing)
    finally:
        set_spawning_popen(before)
    return pickler.cells


def unpack(data: bytes):
    """The inverse of `pack` and of `pack_result`. Only for bytes from a pipe between a run and its own workers."""
    return pickle.loads(data)


def pack_result(thing, module=None) -> bytes:
    """Pickle a result by value; what `module` (the worker's script) defines goes along with its definition."""
    if module is not None:
        cloudpickle.register_pickle_by_value(module)
    return cloudpickle.dumps(thing)


class _Nowhere(io.RawIOBase):
    def write(self, data) -> int:
        return len(data)


def check_travels(name: str, value) -> None:
    """Raise LaunchError, which names the argument, why it cannot travel, and what to do instead."""
    try:
        _dump(value, _Nowhere(), _Nobody())
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "fork context" in reason:
            cure = "Make it with multiprocessing.get_context(\"spawn\"), for example get_context(\"spawn\").Lock()."
        else:
            cure = ("Send what it is made from (a path, a size, a seed) and make it inside the function; "
                    "tensors, modules, locks and barriers do travel.")
        raise LaunchError(f"{name} cannot be sent to a worker process: {reason.rstrip('.')}. {cure}") from None
