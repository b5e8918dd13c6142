"""torch.distributed in a worker: where the ranks meet, and how a process group ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from itertools import count
from urllib.parse import parse_qs, urlparse

from . import rendezvous

_kept: list = []  # what must live until the process ends


def prepare(handle, environment: dict[str, str]) -> None:
    """Let a plain `init_process_group("gloo")` meet the run's other ranks, whatever port the script names.

    handle       in rank 0, the socket for the store (see rendezvous.py)
    environment  this rank's variables, as torchrun would set them
    """
    import torch.distributed as dist

    if not dist.is_available():
        return
    if environment["RANK"] == "0":
        _kept.append(rendezvous.serve(handle, int(environment["MASTER_PORT"])))
    if "TORCH_DISTRIBUTED_DEBUG" not in os.environ:
        dist.set_debug_level(dist.DebugLevel.INFO)  # DDP then names the parameters that got no gradient
    _meet_at_our_store(environment)
    never_destruct()


def _meet_at_our_store(environment: dict[str, str]) -> None:
    from torch.distributed import PrefixStore, TCPStore

    # torch.distributed.rendezvous is the function of that name, not its module.
    handlers = import_module("torch.distributed.rendezvous")._rendezvous_handlers
    meetings = count()

    def meet(url: str, timeout: timedelta, **_) -> Iterator[tuple]:
        # Many a script fixes a port, as torch's tutorials do: two such runs would clash, and rank 0 would listen on
        # every address. All ranks are on this machine, so they meet at the launcher's store instead.
        given = parse_qs(urlparse(url).query)
        rank, world_size = (int(given.get(name, [environment[name.upper()]])[0]) for name in ("rank", "world_size"))
        store = TCPStore(rendezvous.HOST, int(environment["MASTER_PORT"]), world_size, False, timeout)
        # A group that is made after another was destroyed must not read what that one left in the store.
        yield PrefixStore(f"meeting {next(meetings)}", store), rank, world_size
        raise RuntimeError("a process group cannot meet a second time at the same address")

    handlers.update(env=meet, tcp=meet)


def never_destruct() -> None:
    """Keep process groups that are destroyed from now on; the process has to end by os._exit, and so never does it."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    destroy = dist.destroy_process_group

    def destroy_process_group(group=None) -> None:
        # A model may hold the last reference to its group. Gloo's destructor joins a thread that can be waiting for
        # the interpreter's lock, which we would hold: so no group is destructed before this process exits.
        _kept.extend(dist.distributed_c10d._world.pg_map)
        destroy(group)

    dist.destroy_process_group = destroy_process_group
