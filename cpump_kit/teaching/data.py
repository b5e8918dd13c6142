"""Real handwritten digits, offline, in any number.

Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository,
1998, https://doi.org/10.24432/C50P49, licence CC BY 4.0. The file digits.npz holds the 1,797 images of its test
part, as scikit-learn ships them too: 8x8 pixels, each the count (0 to 16) of dark points in a 4x4 block.
Changes made here: brought to 28x28 pixels; the training images are turned, scaled, sheared and shifted at random.
"""

from __future__ import annotations

import operator
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from ..errors import CpumpError
from ..folders import kept_folder, write_whole

FORMAT = 1  # raise it whenever the same (n, seed) gives other images, so that older files are not used
FILES_KEPT = 4  # a file of 20,000 images takes 64 MB


class Images(NamedTuple):
    """`images` is float32 [N, 1, 28, 28] from 0 (paper) to 1 (ink), `labels` is int64 [N] from 0 to 9."""

    images: torch.Tensor
    labels: torch.Tensor


class Digits(NamedTuple):
    train: Images
    test: Images


class DigitsError(CpumpError, ValueError):
    """A number of images or a seed that cannot be."""


def digits(n: int = 20_000, seed: int = 0) -> Digits:
    """Handwritten digits: `train, test = digits()`, each with `images` and `labels`; see `Images` for the shapes.

    n     how many training images, each a randomly turned, scaled, sheared and shifted copy of one of 1,433
          originals. All originals are used equally often, and a smaller n gives the first images of a larger one.
    seed  another seed gives other training images.

    The 364 test images are untouched originals that no training image came from, the same for every n and seed.
    The result depends on n and seed alone, and PyTorch's own random numbers are left as they are.

    The images lie in a file in the user's cache folder (CPUMP_CACHE moves it), which every process maps into its
    memory: loading takes milliseconds and all workers share one copy. Writing to the tensors changes a private
    copy. Where no file can be kept the images are made anew in memory.

    Raises DigitsError for an n that is not a positive whole number or a seed that is not a whole number from 0 on.
    """
    n = _whole(n, 1, "n is the number of training images, a positive whole number")
    seed = _whole(seed, 0, "seed is a whole number from 0 on")
    try:
        path = kept_folder("digits", cache=True) / f"digits-v{FORMAT}-n{n}-seed{seed}.pt"
    except OSError:
        return _make(n, seed)
    kept = _load(path, n)
    if kept is None:
        made = _make(n, seed)
        _save(path, made)
        kept = _load(path, n) or made
    return kept


def _whole(number: int, least: int, rule: str) -> int:
    """`number` as an int that torch can take."""
    try:
        whole = operator.index(number)
    except TypeError:
        whole = None
    if whole is None or isinstance(number, bool) or not least <= whole < 2**63:
        raise DigitsError(f"{rule}, not {number!r}")
    return whole


# --- making the images -------------------------------------------------------------------------------------------


def _make(n: int, seed: int) -> Digits:
    originals, labels = _originals()
    for_test = _every_fifth_of_each_class(labels)
    untouched = torch.eye(2, 3).expand(int(for_test.sum()), 2, 3)
    test = Images(_draw(originals[for_test], untouched), labels[for_test])
    originals, labels = originals[~for_test], labels[~for_test]

    images, order = torch.empty(n, 1, 28, 28), torch.empty(n, dtype=torch.int64)
    random = torch.Generator().manual_seed(seed)
    for start in range(0, n, len(labels)):  # each round uses every original once
        part = slice(start, min(n, start + len(labels)))
        chosen = torch.randperm(len(labels), generator=random)[: part.stop - start]
        changes = _random_changes(len(labels), random)[: part.stop - start]
        images[part], order[part] = _draw(originals[chosen], changes), chosen
    return Digits(Images(images, labels[order]), test)


def _originals() -> tuple[torch.Tensor, torch.Tensor]:
    """All originals as [1797, 1, 56, 56], twice the final size so that warping them keeps the strokes crisp."""
    with np.load(Path(__file__).with_name("digits.npz")) as file:
        small, labels = torch.from_numpy(file["images"]), torch.from_numpy(file["labels"]).long()
    # 5 points for a pixel, 8 x 5 = 40, and paper around: the digit fills the middle 20 of 28 pixels, as in MNIST.
    small = F.pad(small[:, None] / 16.0, (1, 1, 1, 1))
    large = F.pad(F.interpolate(small, size=(50, 50), mode="bicubic"), (3, 3, 3, 3))
    return ((large - 0.55) * 2 + 0.5).clamp(0, 1), labels  # more contrast: ink is ink and paper is paper


def _every_fifth_of_each_class(labels: torch.Tensor) -> torch.Tensor:
    """A mask with one image in five of each class, without random numbers, so that it never changes."""
    mask = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        mask[(labels == label).nonzero().squeeze(1)[::5]] = True
    return mask


def _draw(images: torch.Tensor, changes: torch.Tensor) -> torch.Tensor:
    """[N, 1, 56, 56] seen through the affine `changes` [N, 2, 3] as [N, 1, 28, 28].

    Without a change each new pixel is the mean of the four that it covers.
    """
    grid = F.affine_grid(changes, [len(images), 1, 28, 28], align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", align_corners=False)


def _random_changes(n: int, random: torch.Generator) -> torch.Tensor:
    """[n, 2, 3]: rotation up to 15 degrees, scale within 15 %, shear up to 0.2, shift up to 2 pixels."""
    rotation, scale_x, scale_y, shear, shift_x, shift_y = (torch.rand(n, 6, generator=random) * 2 - 1).unbind(1)
    angle = rotation * torch.pi / 12
    cos, sin, shear = angle.cos(), angle.sin(), shear * 0.2
    scale_x, scale_y = 1 + 0.15 * scale_x, 1 + 0.15 * scale_y
    shift_x, shift_y = shift_x * 2 / 14, shift_y * 2 / 14  # affine_grid measures from -1 to 1 over 28 pixels
    rows = [cos * scale_x, (cos * shear - sin) * scale_y, shift_x,
            sin * scale_x, (sin * shear + cos) * scale_y, shift_y]
    return torch.stack(rows, dim=1).view(n, 2, 3)


# --- keeping them in a file --------------------------------------------------------------------------------------


def _load(path: Path, n: int) -> Digits | None:
    """The digits in the file, mapped into memory copy-on-write; None if there is no such file or it is damaged."""
    try:
        tensors = torch.load(path, mmap=True, weights_only=True)
        kept = Digits(Images(*tensors["train"]), Images(*tensors["test"]))
        for images, count in ((kept.train, n), (kept.test, len(kept.test.labels))):
            right = images.images.shape == (count, 1, 28, 28) and images.labels.shape == (count,)
            if not right or images.images.dtype != torch.float32 or images.labels.dtype != torch.int64:
                return None
    except Exception:  # a damaged file fails in many ways (zip, pickle, mmap), and it is made anew after each
        return None
    with suppress(OSError):
        os.utime(path)  # the files used last are those that are kept
    return kept


def _save(path: Path, made: Digits) -> None:
    tensors = {"train": tuple(made.train), "test": tuple(made.test)}
    with suppress(OSError, RuntimeError):  # RuntimeError: torch's word for a full disk. Then memory has to do.
        write_whole(path, lambda file: torch.save(tensors, file))
    _tidy(path.parent)


def _tidy(folder: Path) -> None:
    """Keep the files used last; remove also what an interrupted process left half written an hour ago."""
    with suppress(OSError):
        files = sorted(folder.glob("digits-*.pt"), key=lambda file: file.stat().st_mtime, reverse=True)
        stale = [file for file in folder.glob("new-*.tmp") if time.time() - file.stat().st_mtime > 3600]
        for file in files[FILES_KEPT:] + stale:
            with suppress(OSError):  # another process may be at it, and Windows keeps files that are in use
                file.unlink()
