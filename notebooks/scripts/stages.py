"""One network in two stages: rank 0 has the first layers, rank 1 the rest; what lies between is sent."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from cpump_kit import digits, main, report


def train(rank, world_size, *, epochs=3, batch_size=64, lr=0.05, samples=20_000):
    # 1. set up
    if world_size != 2:
        raise ValueError(f"this network has two stages, for 2 ranks, and there are {world_size}")
    torch.manual_seed(0)
    dist.init_process_group("gloo")

    # 2. data
    train_set, test = digits(samples)
    train_set = TensorDataset(*train_set)
    order = torch.Generator()
    sampler = RandomSampler(train_set, generator=order)  # no shards: each sample passes through both ranks
    loader = DataLoader(train_set, batch_size, sampler=sampler)

    # 3. model
    first = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    second = nn.Sequential(
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10))
    stage = first if rank == 0 else second  # the other one is never used here
    optimizer = torch.optim.SGD(stage.parameters(), lr=lr, momentum=0.9)

    # 4. train
    for epoch in range(epochs):
        order.manual_seed(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            if rank == 0:
                activations = stage(images)
                dist.send(activations.detach(), 1)
                gradient = torch.empty_like(activations)
                dist.recv(gradient, 1)  # how the loss changes with what was sent
                activations.backward(gradient)
                report(samples=0, total=0)  # each sample counts once, on rank 1
            else:
                activations = torch.empty(len(images), 16, 14, 14, requires_grad=True)
                dist.recv(activations.detach(), 0)  # into the same memory
                loss = F.cross_entropy(stage(activations), labels)
                loss.backward()
                dist.send(activations.grad, 0)
                report(loss=loss.item(), samples=len(images), total=epochs * len(sampler))
            optimizer.step()

    # 5. report
    right = torch.tensor(0)
    with torch.no_grad():
        if rank == 0:
            dist.send(stage(test.images), 1)
        else:
            activations = torch.empty(len(test.images), 16, 14, 14)
            dist.recv(activations, 0)
            right = (stage(activations).argmax(1) == test.labels).sum()
    dist.all_reduce(right)
    dist.destroy_process_group()
    weights = nn.utils.parameters_to_vector(stage.parameters()).detach()
    return {"accuracy": right.item() / len(test.labels), "weights": weights}


if __name__ == "__main__":
    main(train)
