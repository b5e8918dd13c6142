"""Synchronous training by hand: in each step all processes average their gradients in a shared table."""

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from cpump_kit import digits, report

SIZE = 20_490  # weights of the network


def train(rank, world_size, table, barriers, epochs=3, batch_size=64, lr=0.05, samples=20_000):
    # 1. set up
    torch.manual_seed(0)  # the same weights in every process
    torch.set_num_threads(1)
    barrier = barriers[world_size]

    # 2. data
    train_set, test = digits(samples)
    train_set = TensorDataset(*train_set)
    sampler = DistributedSampler(train_set, world_size, rank)
    loader = DataLoader(train_set, batch_size, sampler=sampler)

    # 3. model
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    # 4. train
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            gradients = [parameter.grad for parameter in model.parameters()]
            table[rank] = nn.utils.parameters_to_vector(gradients)
            barrier.wait()  # every row is written
            mean = table[:world_size].mean(0)
            barrier.wait()  # every process has read, and the rows may be written again
            nn.utils.vector_to_parameters(mean, gradients)
            optimizer.step()
            report(loss=loss.item(), samples=len(images), total=epochs * len(sampler))

    # 5. report
    with torch.no_grad():
        right = (model(test.images).argmax(1) == test.labels).sum()
    accuracy = right.item() / len(test.labels)
    print(f"rank {rank} of {world_size}: accuracy {accuracy:.1%}")
    return {"accuracy": accuracy, "weights": nn.utils.parameters_to_vector(model.parameters()).detach()}


if __name__ == "__main__":
    rows = torch.zeros(2, SIZE).share_memory_()
    mp.spawn(train, args=(2, rows, {2: mp.get_context("spawn").Barrier(2)}), nprocs=2)
