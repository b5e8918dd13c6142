"""One process trains a small network on handwritten digits: the baseline for every script that follows."""

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
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            report(loss=loss.item(), samples=len(images), total=epochs * len(sampler))

    # 5. report
    model.eval()
    with torch.no_grad():
        right = (model(test.images).argmax(1) == test.labels).sum()
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    return {"accuracy": right.item() / len(test.labels), "weights": weights}


if __name__ == "__main__":
    main(train)
