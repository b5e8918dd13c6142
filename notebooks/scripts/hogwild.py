"""Hogwild (Niu and others, 2011): processes train one model in shared memory, and wait for nobody."""

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from cpump_kit import digits, report


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10))


def train(rank, world_size, model, epochs=3, batch_size=64, lr=0.05, samples=20_000):
    # 1. set up
    torch.set_num_threads(1)

    # 2. data
    train_set, test = digits(samples)
    train_set = TensorDataset(*train_set)
    sampler = DistributedSampler(train_set, world_size, rank)  # each process takes its own part
    loader = DataLoader(train_set, batch_size, sampler=sampler)

    # 3. model
    # it came as an argument, and its weights are the same memory in every process
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    # 4. train
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()  # this process's own gradient
            optimizer.step()  # changes the weights of all, at once
            report(loss=loss.item(), samples=len(images), total=epochs * len(sampler))

    # 5. report
    with torch.no_grad():
        right = (model(test.images).argmax(1) == test.labels).sum()
    accuracy = right.item() / len(test.labels)
    print(f"rank {rank} of {world_size}: accuracy {accuracy:.1%}")
    return {"accuracy": accuracy}


if __name__ == "__main__":
    torch.manual_seed(0)
    shared = network().share_memory()
    mp.spawn(train, args=(2, shared), nprocs=2)
