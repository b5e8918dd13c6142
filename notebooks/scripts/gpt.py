"""A small GPT learns to write from a book, letter by letter: DDP with all that the lessons have shown."""

import os
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from tiny_gpt import GPT, loss_of, write
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from cpump_kit import main, report, shared_memory_hook, text


def train(rank, world_size, *, seconds=60.0, steps=1_000_000, goal=0.0, batch_size=16, window=1, length=64,
          lr=0.002, shared_memory=False, checkpoint="", every=20):
    # 1. set up
    torch.manual_seed(0)
    dist.init_process_group("gloo")

    # 2. data
    letters = sorted(set(text()))
    tokens = torch.tensor([letters.index(letter) for letter in text()])
    end = int(0.9 * len(tokens))  # the last tenth of the book is held out
    pieces = tokens[:end].unfold(0, length + 1, 1)  # one from each letter on: a view, nothing is copied
    unseen = tokens[end:].unfold(0, length + 1, length)[rank::world_size]

    # 3. model
    model = DDP(GPT(letters, length))
    if shared_memory:
        model.register_comm_hook(*shared_memory_hook())
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    step, elapsed, held_out = 0, 0.0, float("inf")
    if os.path.exists(checkpoint):
        kept = torch.load(checkpoint)
        model.module.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        step = kept["step"]

    # 4. train
    begun = time.perf_counter()
    while step < steps and elapsed < seconds and held_out > goal:
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / 30)  # a warm-up: the first steps are short
        # all ranks draw the same places, by the number of the step, and each takes its share of them
        draw = torch.Generator().manual_seed(step)
        places = torch.randint(len(pieces), (window * batch_size * world_size,), generator=draw)
        optimizer.zero_grad()
        for number, some in enumerate(places[rank::world_size].split(batch_size), 1):
            with nullcontext() if number == window else model.no_sync():
                loss = loss_of(model, pieces[some])
                (loss / window).backward()
            report(loss=loss.item(), samples=len(some) * length)  # a sample is a letter to be guessed
        optimizer.step()
        step += 1
        if step % every == 0 or step == steps:
            with torch.no_grad():
                mine = loss_of(model.module, unseen) * len(unseen)
            sums = torch.tensor([mine, len(unseen), time.perf_counter() - begun])
            dist.all_reduce(sums)  # all ranks have the same numbers now, and so stop together
            held_out, elapsed = (sums[0] / sums[1]).item(), sums[2].item() / world_size
            report(held_out=held_out)
            if rank == 0:
                print(f"step {step}, held-out loss {held_out:.2f}: {write(model.module, 'Alice', 90)}")
            if rank == 0 and checkpoint:  # written beside and then moved: nobody ever finds half a file
                now = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                torch.save(now, checkpoint + ".new")
                os.replace(checkpoint + ".new", checkpoint)

    # 5. report
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    del model
    dist.destroy_process_group()
    return {"held_out": held_out, "steps": step, "seconds": elapsed, "weights": weights}


if __name__ == "__main__":
    main(train)
