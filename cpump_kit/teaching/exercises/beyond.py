"""Exercises of lesson 11, beyond one machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ..exercise import Finding, NotDone, Stumbled, calling, exercise, for_all, tried


@exercise(
    first_step="draw 2 hosts with a vector of 2 halves each, and count what each sends until both know both sums",
    hints=("The vector is cut into as many pieces as there are hosts. In each round each host sends one piece on.",
           "hosts - 1 rounds add the pieces up, and another hosts - 1 rounds hand the sums on.",
           "So each host sends 2 * (hosts - 1) pieces of size / hosts bytes."))
def ring_bytes(answer: Callable) -> Iterator[Finding]:
    """ring_bytes(size, hosts): how many bytes each host sends in a ring all-reduce of `size` bytes."""
    cases = {(1000, 1): 0, (1000, 2): 1000, (1000, 4): 1500, (4000, 4): 6000, (1000, 100): 1980}
    given = {case: tried(answer, *case) for case in cases}

    def seen(where: Callable) -> list[str]:
        return [f"{calling(answer, *case)} gave {value!r}" for case, value in given.items() if where(case, value)]

    wrong_kind = seen(lambda case, value: isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0)
    yield for_all("a number of bytes", "from 0 on", wrong_kind)
    if wrong_kind:
        return
    yield for_all("one host alone sends nothing", "there is nobody to send to",
                  seen(lambda case, value: case[1] == 1 and value))
    yield for_all("two hosts send as many bytes as the vector has",
                  "half of it on its way to the sum, and half of the sum on its way back",
                  seen(lambda case, value: case[1] == 2 and abs(value - cases[case]) > 1e-6))
    yield for_all("many hosts send hardly more: never twice the vector", "pieces get smaller as there are more hosts",
                  seen(lambda case, value: abs(value - cases[case]) > 1e-6))


@exercise(
    first_step="return 0 where Path(path).exists() is False",
    hints=("Without a file the training begins with epoch 0, and nothing is loaded.",
           "kept = torch.load(path) gives back the dictionary; kept['model'] and kept['optimizer'] are state dicts.",
           "load_state_dict on both; then return kept['epoch'], which is the first epoch not yet done."))
def resume(answer: Callable) -> Iterator[Finding]:
    """resume(path, model, optimizer): load the checkpoint if there is one, and return the epoch to continue with."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "checkpoint.pt")
        model, optimizer = _trained(steps=0)
        before = model.weight.detach().clone()
        none = _resumed(answer, path, model, optimizer, "where there is no file")
        yield Finding(none == 0 and not isinstance(none, bool), "without a file, it begins with epoch 0",
                      f"it gave {none!r}", "ask first whether the file is there")
        yield Finding(torch.equal(model.weight, before), "without a file, the model stays as it is",
                      "its weights changed", "load only what is there")

        kept_model, kept_optimizer = _trained(steps=3)
        torch.save({"model": kept_model.state_dict(), "optimizer": kept_optimizer.state_dict(), "epoch": 3}, path)
        model, optimizer = _trained(steps=0)
        epoch = _resumed(answer, path, model, optimizer, "where there is a checkpoint")
        yield Finding(torch.equal(model.weight, kept_model.weight), "the model has the weights that were kept",
                      "they are others", "model.load_state_dict")
        kept_steps, steps = (list(each.state.values()) for each in (kept_optimizer, optimizer))
        yield Finding(len(steps) == len(kept_steps) and all(
            torch.equal(mine["momentum_buffer"], kept["momentum_buffer"]) for mine, kept in zip(steps, kept_steps)),
            "the optimizer has its momentum back", "it begins anew, and the next step is another one",
            "the optimizer has a state too")
        yield Finding(epoch == 3, "it goes on with the first epoch that is not yet done",
                      f"the checkpoint says 'epoch': 3, and it gave {epoch!r}", "epochs 0, 1 and 2 are done: three")


def _trained(steps: int):
    """A small model and its optimizer after some steps, with momentum."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(steps)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).square().mean().backward()
            optimizer.step()
    return model, optimizer


def _resumed(answer: Callable, path: str, model, optimizer, when: str):
    """What the answer gives, with errors in words that are short: a model's own take several lines."""
    try:
        value = answer(path, model, optimizer)
    except NotImplementedError:
        raise NotDone("it is not implemented") from None
    except Exception as error:
        raise Stumbled(f"{when} it raised {type(error).__name__}: {error}") from None
    if value is None or value is ...:
        raise NotDone(f"{when} it gives {'nothing' if value is None else '...'} so far")
    return value
