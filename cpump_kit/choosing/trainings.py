"""What the comparison runs: one training in every approach. The workers load this file as a script.

In each the model, the order of the samples and the samples of a step are the same, unless that is just what the
approach changes: Hogwild's processes make a step each, and accumulation makes one step where the others make four.
"""

import os
from contextlib import nullcontext

import psutil
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

from cpump_kit import digits, report, share_training, shared_memory_hook

LEARNING_RATE = 0.001
WINDOW = 4  # batches that accumulation makes a step of
MICROBATCHES = 4


def network(model: str) -> list[nn.Sequential]:
    """The model in two stages, about equally long to compute; on digits [batch, 1, 28, 28] to logits [batch, 10]."""
    torch.manual_seed(0)
    if model == "small":
        return [nn.Sequential(nn.Flatten(), nn.Linear(784, 64)),
                nn.Sequential(nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))]
    if model == "middle":
        return [nn.Sequential(nn.Flatten(), nn.Linear(784, 512)),
                nn.Sequential(nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))]
    return [nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(16, 64, 3, padding=1)),
            nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Flatten(),
                          nn.Linear(64 * 7 * 7, 256), nn.ReLU(), nn.Linear(256, 10))]


def train(rank, world_size, *, approach, model, batch_size, steps, shared=None):
    """Train for `steps` batches of `batch_size` samples of all ranks; {"loss": on held-out digits, "memory": bytes}."""
    dist.init_process_group("gloo")
    train_set, test = digits(10_000)
    order = torch.Generator().manual_seed(0)
    epochs = -(-steps * batch_size // len(train_set.images))
    order = torch.cat([torch.randperm(len(train_set.images), generator=order) for _ in range(epochs)])
    batches = order[:steps * batch_size].split(batch_size)
    loss = APPROACHES[approach](rank, world_size, network(model), batches, train_set, test, shared)
    memory = psutil.Process(os.getpid()).memory_full_info()
    dist.barrier()  # nobody's shared memory goes before all have measured it
    return {"loss": loss, "memory": getattr(memory, "pss", memory.uss)}  # shared pages count in parts, on Linux


def one_process(rank, world_size, stages, batches, train_set, test, shared):
    model = nn.Sequential(*stages)
    optimizer = _optimizer(model)
    for places in batches:
        optimizer.zero_grad()
        _backward(model, train_set, places)
        optimizer.step()
    return _held_out(model, test)


def hogwild(rank, world_size, stages, batches, train_set, test, shared):
    optimizer = _optimizer(shared)
    for places in batches[rank::world_size]:
        optimizer.zero_grad()
        _backward(shared, train_set, places)
        optimizer.step()  # waits for nobody
    dist.barrier()
    return _held_out(shared, test)


def ddp(rank, world_size, stages, batches, train_set, test, shared, hook=False):
    model = DDP(nn.Sequential(*stages))
    if hook:
        model.register_comm_hook(*shared_memory_hook())
    optimizer = _optimizer(model)
    for places in batches:
        optimizer.zero_grad()
        _backward(model, train_set, places[rank::world_size])
        optimizer.step()
    return _held_out(model.module, test)


def ddp_hook(*arguments):
    return ddp(*arguments, hook=True)


def ddp_accumulation(rank, world_size, stages, batches, train_set, test, shared):
    model = DDP(nn.Sequential(*stages))
    optimizer = _optimizer(model)
    for number, places in enumerate(batches, 1):
        last = number % WINDOW == 0 or number == len(batches)
        with nullcontext() if last else model.no_sync():
            _backward(model, train_set, places[rank::world_size], share=1 / WINDOW)
        if last:
            optimizer.step()
            optimizer.zero_grad()
    return _held_out(model.module, test)


def shared_training(rank, world_size, stages, batches, train_set, test, shared):
    model = nn.Sequential(*stages)
    optimizer = share_training(model, _optimizer(model))
    for places in batches:
        optimizer.zero_grad()
        _backward(model, train_set, places[rank::world_size])
        optimizer.step()
    return _held_out(model, test)


def pipeline(rank, world_size, stages, batches, train_set, test, shared):
    model, last = stages[rank], rank == world_size - 1
    optimizer = _optimizer(model)
    stage = pipelining.PipelineStage(model, rank, world_size, torch.device("cpu"))
    schedule = pipelining.ScheduleGPipe(stage, MICROBATCHES, loss_fn=cross_entropy)
    for places in batches:
        optimizer.zero_grad()
        schedule.step(*([train_set.images[places]] if rank == 0 else []), target=train_set.labels[places], losses=[])
        optimizer.step()
        report(samples=len(places) if last else 0)  # each sample counts once
    with torch.no_grad():
        if rank == 0:
            dist.send(model(test.images), 1)
            return None
        activations = torch.empty(len(test.images), *_shape_between(stages, test))
        dist.recv(activations, 0)
        return cross_entropy(model(activations), test.labels).item()


APPROACHES = {"one process": one_process, "hogwild": hogwild, "ddp": ddp, "hook": ddp_hook,
              "share_training": shared_training, "accumulation": ddp_accumulation, "pipeline": pipeline}


def _optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)


def _backward(model, train_set, places, share=1.0):
    loss = cross_entropy(model(train_set.images[places]), train_set.labels[places]) * share
    loss.backward()
    report(samples=len(places))


def _held_out(model, test):
    with torch.no_grad():
        return cross_entropy(model(test.images), test.labels).item()


def _shape_between(stages, test):
    return stages[0](test.images[:1]).shape[1:]
