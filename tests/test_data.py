"""The digits: what they hold, that they are the same everywhere, and that no file can spoil them."""

import os
import subprocess
import sys
import threading

import pytest
import torch
from torch.utils.data import TensorDataset

import cpump_kit as cp
from cpump_kit.teaching import data


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CPUMP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "digits"


def same(one, other) -> bool:
    return all(torch.equal(a, b) for x, y in zip(one, other) for a, b in zip(x, y))


def test_shapes_and_values():
    train, test = cp.digits(n=300)
    assert train.images.shape == (300, 1, 28, 28) and train.labels.shape == (300,)
    assert test.images.shape == (364, 1, 28, 28) and test.labels.shape == (364,)
    for images in (train, test):
        assert images.images.dtype == torch.float32 and images.labels.dtype == torch.int64
        assert images.images.min() == 0 and 0.9 < images.images.max() <= 1
        assert set(images.labels.tolist()) == set(range(10))
    image, label = TensorDataset(*train)[7]
    assert image.shape == (1, 28, 28) and label == train.labels[7]


def test_every_original_is_used_equally_often_and_none_is_for_both():
    originals, labels = data._originals()
    for_test = data._every_fifth_of_each_class(labels)
    assert len(labels) == 1797 and len(originals.flatten(1).unique(dim=0)) == 1797
    for label in range(10):
        share = for_test[labels == label].float().mean()
        assert 0.19 < share < 0.21
    n = int((~for_test).sum())
    train, test = cp.digits(n=2 * n)
    assert (train.labels.bincount() == 2 * labels[~for_test].bincount()).all()
    assert (train.labels[:n].bincount() == labels[~for_test].bincount()).all()
    assert torch.equal(test.labels, labels[for_test])


def test_the_test_images_are_untouched_originals():
    originals, labels = data._originals()
    means = torch.nn.functional.avg_pool2d(originals[data._every_fifth_of_each_class(labels)], 2)
    assert torch.allclose(cp.digits(n=1).test.images, means, atol=1e-5)


def test_margins_are_empty_in_test_images():
    images = cp.digits(n=1).test.images
    assert images[..., :2, :].max() == 0 and images[..., :2].max() == 0


def test_training_images_differ_and_seeds_differ():
    train, test = cp.digits(n=500)
    assert len(train.images.flatten(1).unique(dim=0)) == 500
    other_train, other_test = cp.digits(n=500, seed=1)
    assert not torch.equal(train.images, other_train.images)
    assert same([test], [other_test])


def test_a_smaller_n_is_the_start_of_a_larger_one():
    small, large = cp.digits(n=100).train, cp.digits(n=1600).train
    assert torch.equal(small.images, large.images[:100]) and torch.equal(small.labels, large.labels[:100])


def test_a_training_image_is_a_small_change_of_its_original():
    train, _ = cp.digits(n=1433)
    ink = train.images.mean(dim=(1, 2, 3))
    assert ink.min() > 0.02 and ink.max() < 0.45  # none lost over the edge, none filled
    assert train.images[:, :, 0].max(dim=-1).values.gt(0.5).float().mean() < 0.05  # few touch the upper edge


def test_random_numbers_of_the_caller_are_left_alone():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    made = cp.digits(n=50)
    assert torch.equal(torch.rand(3), wanted)
    torch.manual_seed(6)
    assert same(made, data._make(50, 0))


def test_the_number_of_threads_changes_nothing():
    code = ("import torch, sys; torch.set_num_threads(int(sys.argv[1]));"
            "from cpump_kit.teaching import data; d = data._make(700, 3); import hashlib;"
            "print(hashlib.sha256(d.train.images.numpy().tobytes() + d.test.images.numpy().tobytes()).hexdigest())")
    found = {subprocess.run([sys.executable, "-c", code, n], capture_output=True, text=True, check=True).stdout
             for n in ("1", "2")}
    assert len(found) == 1


@pytest.mark.parametrize("n", [0, -1, 2.5, "100", None, True, 2**63])
def test_bad_n_is_one_sentence(n):
    with pytest.raises(ValueError, match="n is the number of training images, a positive whole number, not "):
        cp.digits(n=n)


@pytest.mark.parametrize("seed", [-1, 0.5, "a", None, 2**64])
def test_bad_seed_is_one_sentence(seed):
    with pytest.raises(ValueError, match="seed is a whole number from 0 on, not "):
        cp.digits(n=10, seed=seed)


# --- the file ----------------------------------------------------------------------------------------------------


def test_the_second_load_comes_from_a_private_file(cache, monkeypatch):
    made = cp.digits(n=40)
    (file,) = cache.glob("*")
    if os.name != "nt":
        assert file.stat().st_mode & 0o077 == 0 and cache.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(data, "_make", lambda n, seed: pytest.fail("made again"))
    assert same(cp.digits(n=40), made)


def test_writing_to_the_images_spoils_nothing_for_others():
    before = [tensor.clone() for images in cp.digits(n=40) for tensor in images]
    mine = cp.digits(n=40)
    mine.train.images.zero_()
    mine.test.labels.fill_(3)
    assert all(torch.equal(a, b) for a, b in zip(before, [t for images in cp.digits(n=40) for t in images]))


@pytest.mark.parametrize("damage", [
    lambda file: file.write_bytes(b""),
    lambda file: file.write_bytes(file.read_bytes()[:1000]),
    lambda file: file.write_bytes(file.read_bytes()[:-1000]),
    lambda file: file.write_bytes(b"\0" * file.stat().st_size),
    lambda file: torch.save({"train": (torch.zeros(3), torch.zeros(3))}, file),
    lambda file: torch.save([1, 2], file),
    lambda file: torch.save({name: (torch.zeros(40, 1, 28, 28).double(), torch.zeros(40).long())
                             for name in ("train", "test")}, file),
    lambda file: torch.save({name: (torch.zeros(39, 1, 28, 28), torch.zeros(39).long())
                             for name in ("train", "test")}, file)])
def test_a_damaged_file_is_made_anew(cache, damage):
    whole = [[tensor.clone() for tensor in images] for images in cp.digits(n=40)]
    (file,) = cache.glob("*")
    damage(file)
    assert same(cp.digits(n=40), whole)
    assert same(data._load(file, 40), whole)


def test_without_a_folder_the_images_are_made_in_memory(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("CPUMP_CACHE", str(tmp_path / "file" / "below"))
    assert same(cp.digits(n=30), data._make(30, 0))


def test_a_full_disk_leaves_no_file_and_no_error(cache, monkeypatch):
    def full(tensors, file):
        file.write(b"half")
        raise RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed")

    monkeypatch.setattr(data.torch, "save", full)
    assert same(cp.digits(n=30), data._make(30, 0))
    assert list(cache.iterdir()) == []


def test_only_the_files_used_last_are_kept(cache):
    for n in range(1, data.FILES_KEPT + 3):
        cp.digits(n=n)
        for file in cache.glob("*.pt"):  # as if used one after the other, also where a file's time is coarse
            stamp = 1e9 + int(file.name.split("-n")[1].split("-")[0])
            os.utime(file, (stamp, stamp))
    assert len(list(cache.glob("*"))) == data.FILES_KEPT
    assert not list(cache.glob("*-n1-*"))


def test_what_an_interrupted_process_left_is_removed(cache):
    cp.digits(n=3)
    old, new = cache / "new-old.tmp", cache / "new-new.tmp"
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (1e9, 1e9))
    cp.digits(n=4)
    assert new.exists() and not old.exists()


def test_the_cache_folder_follows_xdg(tmp_path, monkeypatch):
    monkeypatch.delenv("CPUMP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    cp.digits(n=3)
    if sys.platform == "linux":
        assert list((tmp_path / "xdg" / "cpump" / "digits").glob("*.pt"))


def test_many_threads_and_processes_may_ask_at_once(cache):
    code = "import cpump_kit as cp; print(float(cp.digits(n=200).train.images.double().sum()))"
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    sums = set()
    threads = [threading.Thread(target=lambda: sums.add(float(cp.digits(n=200).train.images.double().sum())))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sums |= {float(process.communicate()[0]) for process in processes}
    assert len(sums) == 1
    assert len(list(cache.glob("*"))) == 1
