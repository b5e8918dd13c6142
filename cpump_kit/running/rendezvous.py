"""Where the ranks of one machine meet: a store on loopback, on a port that nobody can take in between."""

from __future__ import annotations

import os
import socket
import sys
from multiprocessing import reduction

from ..machine import loopback_interface

HOST = "127.0.0.1"


class Meeting:
    """A listening socket on a free loopback port, bound from now on, for rank 0 to put the store on."""

    def __init__(self) -> None:
        self._socket = socket.create_server((HOST, 0))
        self.port = self._socket.getsockname()[1]
        if sys.platform == "win32":
            self._socket.close()  # its TCPStore takes no open socket, so for a moment the port is free for others

    def handle(self):
        """The socket, to be sent to rank 0; None on Windows."""
        return None if sys.platform == "win32" else reduction.DupFd(self._socket.fileno())

    def environment(self, rank: int, world_size: int) -> dict[str, str]:
        """What torchrun would set for this rank.

        Gloo is kept to the loopback interface, unless the reader has named another.
        """
        interface = os.environ.get("GLOO_SOCKET_IFNAME") or (loopback_interface() if sys.platform != "win32" else None)
        return {
            "MASTER_ADDR": HOST, "MASTER_PORT": str(self.port), "GROUP_RANK": "0",
            "RANK": str(rank), "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world_size), "LOCAL_WORLD_SIZE": str(world_size),
            **({"GLOO_SOCKET_IFNAME": interface} if interface else {})}

    def close(self) -> None:
        self._socket.close()


def serve(handle, port: int):
    """In rank 0: put torch's store on the socket, where ranks that came first are waiting. Keep what is returned."""
    from torch.distributed import TCPStore

    # Not the libuv store: torch 2.6's takes no open socket.
    socket_of_ours = {} if handle is None else {"master_listen_fd": handle.detach()}
    return TCPStore(HOST, port, is_master=True, wait_for_workers=False, use_libuv=False, **socket_of_ours)
