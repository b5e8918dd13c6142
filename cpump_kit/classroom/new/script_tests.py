"""The script of lesson NUMBER trains, and two runs of it give the same weights."""

from pathlib import Path

import torch

import cpump_kit as cp

SCRIPT = Path(__file__).parents[2] / "notebooks" / "scripts" / "NAME.py"


def test_it_trains_and_repeats():
    first, second = (cp.launch(SCRIPT, threads=1, epochs=1, samples=640, show=False).results[0] for _ in range(2))
    assert torch.equal(first["weights"], second["weights"])
    assert 0 < first["accuracy"] <= 1
