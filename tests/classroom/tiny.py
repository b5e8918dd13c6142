"""A script that reports at once, for tests that need a real sweep."""

from cpump_kit import report


def train(rank, world_size, *, steps=20):
    for _ in range(steps):
        report(loss=1.0, samples=8, total=8 * steps)
