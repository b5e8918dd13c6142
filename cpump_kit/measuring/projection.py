"""How long a training step would take on many hosts: a model, fitted to measured all-reduces. Pure numbers.

Each host computes its own batch, then all average their gradients with a ring all-reduce. In 2 (n - 1) rounds each of
n hosts sends 2 (n - 1) / n of the gradients' bytes, the least that is possible: Patarasuk and Yuan (2009), "Bandwidth
optimal all-reduce algorithms for clusters of workstations", Journal of Parallel and Distributed Computing 69(2),
pp. 117-124. Nothing overlaps here, and no host is slower than another: DDP sends while it still computes, and large
networks have ways that are shorter than a ring, so real times can lie on either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import CpumpError
from .laws import least_squares


class ProjectionError(CpumpError, ValueError):
    """Numbers from which nothing can be projected."""


@dataclass(frozen=True)
class Network:
    """What hosts are joined by.

    name       in words
    latency    seconds that a message takes however short it is
    bandwidth  bytes that a host sends in a second; 1 Gbit/s are 125e6
    """

    name: str
    latency: float
    bandwidth: float

    def __post_init__(self):
        if not (self.latency >= 0 and self.bandwidth > 0):
            raise ProjectionError(f"{self.name}: a latency from 0 on and a bandwidth above 0 are needed, "
                                  f"not {self.latency} and {self.bandwidth}")

    def all_reduce(self, size, hosts):
        """Seconds of a ring all-reduce of `size` bytes over `hosts` hosts (numbers or arrays); 0 for one host."""
        rounds = 2 * (np.asarray(hosts, dtype=float) - 1)
        return rounds * self.latency + rounds / hosts * size / self.bandwidth


@dataclass(frozen=True)
class StepTime:
    """The time of a step; call it with a number of hosts, or an array, to get seconds.

    compute             seconds that a host computes in a step, the same on each
    latency, bandwidth  see `Network`
    bytes               size of the gradients
    """

    compute: float
    latency: float
    bandwidth: float
    bytes: float

    def __call__(self, hosts):
        return self.compute + Network("", self.latency, self.bandwidth).all_reduce(self.bytes, hosts)

    def efficiency(self, hosts):
        """The share of a step in which a host computes."""
        return self.compute / self(hosts)

    def speedup(self, hosts):
        """How many times as many samples a second as one host; each host has a batch of its own."""
        return hosts * self.efficiency(hosts)


def fit_network(name: str, sizes: Sequence[float], seconds: Sequence[float], ranks) -> Network:
    """The network that fits measured all-reduces best: latency and bandwidth, neither below 0.

    sizes    bytes of each all-reduce
    seconds  how long it took
    ranks    how many took part: one number, or one for each
    Errors count in relation to the time, so that small messages have their say beside large ones.
    Raises ProjectionError where no all-reduce of two or more ranks is there.
    """
    sizes, seconds = np.asarray(sizes, dtype=float), np.asarray(seconds, dtype=float)
    ranks = np.broadcast_to(np.asarray(ranks, dtype=float), sizes.shape)
    if sizes.shape != seconds.shape:
        raise ProjectionError(f"each size needs its time: {sizes.size} sizes and {seconds.size} times were given")
    good = np.isfinite(seconds) & (seconds > 0) & (ranks > 1)
    if not good.any():
        raise ProjectionError("at least one all-reduce of two or more ranks, with the time it took, is needed")
    sizes, seconds, rounds = sizes[good], seconds[good], 2 * (ranks[good] - 1)
    columns = np.stack([rounds, rounds / ranks[good] * sizes], axis=1)
    # Columns of the same length, since seconds and seconds per byte are far apart.
    length = np.linalg.norm(columns / seconds[:, None], axis=0)
    scale = np.where(length > 0, length, 1)
    (latency, per_byte), _ = least_squares(columns / seconds[:, None] / scale, np.ones(len(seconds)))
    latency, per_byte = latency / scale[0], per_byte / scale[1]
    return Network(name, float(latency), float(1 / per_byte) if per_byte > 0 else float("inf"))
