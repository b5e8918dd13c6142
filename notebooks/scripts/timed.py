"""The baseline with a stopwatch: how a step divides into data, forward, backward and optimizer."""

import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from cpump_kit import digits, main, report


def train(rank, world_size, *, epochs=3, batch_size=64, lr=0.05, samples=20_000):
    # 1. set up
    torch.manual_seed(0)

    # 2. data
    train_set, test = digits(samples)
    train_set = TensorDataset(*train_set)
    order = torch.Generator()
    sampler = RandomSampler(train_set, generator=order)
    loader = DataLoader(train_set, batch_size, sampler=sampler)

    # 3. model
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    # 4. train
    for epoch in range(epochs):
        order.manual_seed(epoch)  # another order in each epoch, the same in every run
        begin = time.perf_counter()
        for images, labels in loader:
            loaded = time.perf_counter()
            loss = F.cross_entropy(model(images), labels)
            forward = time.perf_counter()
            optimizer.zero_grad()
            loss.backward()
            backward = time.perf_counter()
            optimizer.step()
            end = time.perf_counter()
            report(loss=loss.item(), samples=len(images), total=epochs * len(sampler), data=loaded - begin,
                   forward=forward - loaded, backward=backward - forward, optimizer=end - backward)
            begin = time.perf_counter()

    # 5. report
    model.eval()
    with torch.no_grad():
        right = (model(test.images).argmax(1) == test.labels).sum()
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    return {"accuracy": right.item() / len(test.labels), "weights": weights}


if __name__ == "__main__":
    main(train)
