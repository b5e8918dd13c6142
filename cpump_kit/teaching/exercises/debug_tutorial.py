"""The exercise at the end of lesson 04: a tutorial with eight mistakes, each told by what the listing does.

The tutorial is run with a small model and data that keep a diary: each process writes down, in a file of its own, which
samples it read and what it found at each step.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...machine import cores
from ...running.run import known_runs
from ..exercise import Finding, NotDone, Stumbled, exercise

PATIENCE = 20  # seconds that a run may take after the tutorial has returned
TRAIN, TEST, EPOCHS = 96, 25, 3  # an odd number of test samples: no two processes can halve it
READ_SECONDS = 0.003  # a training long enough that a test which does not wait for it begins before its end


@exercise(
    first_step="run the tutorial, then read it line by line and ask of each: which process runs it, and who sees it?",
    hints=("Draw the memory: what belongs to the notebook, what to each worker, and what to all of them? Compare your "
           "drawing with each line of `worker`.",
           "scripts/hogwild.py does the same thing, and does it right. Lay it beside `worker`: two of its lines are "
           "about the samples, one about the threads, one about gradients.",
           "Three mistakes are not in the script's pattern: a seed, a wait, and the samples that the accuracy is made "
           "from. For these, print something: a random number in each rank, run.state before the test, the number of "
           "test samples."))
def debug_tutorial(answer: Callable) -> Iterator[Finding]:
    """tutorial(model, train_set, test_set, epochs): train the model in two processes, return its test accuracy."""
    import torch

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        model, train_set, test_set = _watched(folder)
        before = [weight.detach().clone() for weight in model.parameters()]
        _run(answer, model, train_set, test_set)
        events = _read(folder)
    trained = {process: notes for process, notes in events.items() if "backward" in notes}
    if not trained:
        raise NotDone("no process has trained the model that the tutorial got")
    if len(trained) < 2:
        raise NotDone("only one process has trained")
    learned = any(not torch.equal(weight, old) for weight, old in zip(model.parameters(), before))
    yield Finding(learned, "1 the notebook's model learns", "not one of its weights has changed",
                  "the workers are busy, and the accuracy is that of a model which has never been trained")
    yield from _about_samples(trained)
    yield from _about_steps(trained)
    yield from _about_the_test(events)


def _about_samples(trained: dict[str, dict]) -> Iterator[Finding]:
    reads = [[value for _, value in notes.get("train", [])] for notes in trained.values()]
    epochs = [[order[i * len(order) // EPOCHS:(i + 1) * len(order) // EPOCHS] for i in range(EPOCHS)]
              for order in reads]
    takers = Counter(index for order in epochs for index in set(order[0]))
    twice, missing = sum(times > 1 for times in takers.values()), TRAIN - len(takers)
    seen = f"{twice} of {TRAIN} samples were trained by more than one process in the first epoch" if twice else \
        f"{missing} of {TRAIN} samples were trained by no process in the first epoch"
    yield Finding(not twice and not missing, "2 the processes divide the samples among themselves", seen,
                  "with more processes an epoch takes as long as with one, or longer")
    same = any(first == second for order in epochs for first, second in zip(order, order[1:]))
    yield Finding(not same, "3 the samples come in another order in every epoch",
                  "two epochs in a row had the same order", "the batches are made of the same samples again and again")


def _about_steps(trained: dict[str, dict]) -> Iterator[Finding]:
    stale = [left for notes in trained.values() for _, left in notes["backward"]]
    yield Finding(not any(stale), "4 each step follows the gradient of its own batch",
                  f"at {sum(stale)} of {len(stale)} steps, gradients of earlier batches went in as well",
                  "the steps grow longer and longer, and the loss soon jumps about")
    draws = [tuple(value for _, value in notes.get("dropout", [])) for notes in trained.values()]
    yield Finding(len(set(draws)) == len(draws), "5 every process draws random numbers of its own",
                  "dropout left out the same values in two processes", "two processes that throw the same dice")
    threads, usable = max(value for notes in trained.values() for _, value in notes["threads"]), cores().usable
    yield Finding(threads <= max(1, usable // len(trained)), "6 the processes do not fight for the cores",
                  f"{len(trained)} processes computed with {threads} threads each, and you have {usable} usable "
                  f"core{'s' * (usable > 1)}", "the more cores the machine has, the slower each process gets")


def _about_the_test(events: dict[str, dict]) -> Iterator[Finding]:
    reads = [read for notes in events.values() for read in notes.get("test", [])]
    steps = [moment for notes in events.values() for moment, _ in notes.get("backward", [])]
    begun = min((moment for moment, _ in reads), default=0)
    done = sum(moment < begun for moment in steps)
    yield Finding(bool(reads) and done == len(steps), "7 the test sees the model at the end of its training",
                  f"{done} of {len(steps)} steps had been made when it began" if reads else "there was no test",
                  "the accuracy is much too low, and differs from one run to the next")
    times = Counter(index for _, index in reads)
    once = sum(number == 1 for number in times.values())
    yield Finding(once == TEST, "8 the accuracy is that of the whole test set",
                  f"{once} of {TEST} test samples were counted exactly once",
                  "on a small test set the accuracy differs from what you count by hand")


def _run(answer: Callable, *given) -> None:
    """Run the tutorial, and wait for every run that it has left alone."""
    earlier = known_runs()
    try:
        answer(*given, EPOCHS)
    except NotImplementedError:
        raise NotDone("it is not implemented") from None
    except Exception as error:
        raise Stumbled(f"the tutorial raised {type(error).__name__}: {str(error).partition(chr(10))[0]}") from None
    finally:
        left = known_runs() - earlier
        for run in left:
            if not run.wait(PATIENCE):
                run.stop()
                run.wait(PATIENCE)
    for run in left:
        if run.state != "done":
            raise Stumbled(run.error or f"the run had not ended {PATIENCE} s after the tutorial")


def _watched(folder: str) -> tuple:
    """A model, training and test data that write their diary into `folder`, in whatever process they are used."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, 3))
        samples, labels = torch.randn(TRAIN + TEST, 6), torch.randint(3, (TRAIN + TEST,))
    model[2].register_forward_hook(partial(_note_dropout, folder))
    model.register_forward_hook(partial(_note_step, folder))
    return (model, _Samples(folder, "train", samples[:TRAIN], labels[:TRAIN]),
            _Samples(folder, "test", samples[TRAIN:], labels[TRAIN:]))


@dataclass
class _Samples:
    """A data set that writes down which of its samples are read."""

    folder: str
    name: str
    samples: object
    labels: object

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple:
        index = int(index)
        if not 0 <= index < len(self):
            raise IndexError(index)
        _note(self.folder, self.name, index)
        if self.name == "train":
            time.sleep(READ_SECONDS)
        return self.samples[index], self.labels[index]


def _note_dropout(folder: str, layer, inputs, output) -> None:
    """Which values dropout has left out; tanh gives no zeros, so a zero is its work."""
    if layer.training and output.requires_grad:
        _note(folder, "dropout", hashlib.sha256((output != 0).numpy().tobytes()).hexdigest())


def _note_step(folder: str, model, inputs, output) -> None:
    """The threads of a forward pass; when its backward pass begins, whether a gradient lies there already."""
    import torch

    if output.requires_grad:
        _note(folder, "threads", torch.get_num_threads())

        def backward(gradient) -> None:
            left = any(weight.grad is not None and bool(weight.grad.any()) for weight in model.parameters())
            _note(folder, "backward", left)

        output.register_hook(backward)


def _note(folder: str, kind: str, value) -> None:
    with open(Path(folder) / str(os.getpid()), "a", encoding="utf-8") as diary:
        diary.write(json.dumps([kind, time.monotonic(), value]) + "\n")


def _read(folder: str) -> dict[str, dict[str, list]]:
    """For each process, what it noted: the (moment, value) of every kind, in order."""
    events: dict[str, dict[str, list]] = {}
    for diary in sorted(Path(folder).iterdir()):
        notes = events.setdefault(diary.name, {})
        for line in diary.read_text(encoding="utf-8").splitlines():
            kind, moment, value = json.loads(line)
            notes.setdefault(kind, []).append((moment, value))
    return events
