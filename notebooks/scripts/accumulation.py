"""DDP with gradient accumulation: several batches make one step, and only the last one sends gradients."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from cpump_kit import digits, main, report


def train(rank, world_size, *, epochs=3, batch_size=64, window=4, lr=0.05, samples=20_000):
    # 1. set up
    torch.manual_seed(0)
    dist.init_process_group("gloo")

    # 2. data
    train_set, test = digits(samples)
    train_set = TensorDataset(*train_set)
    sampler = DistributedSampler(train_set)
    loader = DataLoader(train_set, batch_size, sampler=sampler)

    # 3. model
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(28 * 28, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    # 4. train
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        left = len(sampler)  # samples that this epoch still has for this rank
        for number, (images, labels) in enumerate(loader):
            if number % window == 0:
                size = min(window * batch_size, left)  # samples of this window; the last one may be short
                optimizer.zero_grad()
            left -= len(images)
            last = (number + 1) % window == 0 or left == 0
            # DDP decides in the forward pass whether backward will send, so the forward pass stands here too
            with nullcontext() if last else model.no_sync():
                loss = F.cross_entropy(model(images), labels, reduction="sum") / size
                loss.backward()
            if last:
                optimizer.step()
            report(loss=loss.item() * size / len(images), samples=len(images), total=epochs * len(sampler))

    # 5. report
    mine = slice(rank, None, world_size)
    with torch.no_grad():
        right = (model.module(test.images[mine]).argmax(1) == test.labels[mine]).sum()
    dist.all_reduce(right)
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    del model
    dist.destroy_process_group()
    return {"accuracy": right.item() / len(test.labels), "weights": weights}


if __name__ == "__main__":
    main(train)
