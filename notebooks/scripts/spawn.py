"""Several processes, each with a model of its own. They never meet, and nothing is gained: a beginning."""

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from cpump_kit import digits, report


def train(rank, world_size, epochs=1, batch_size=64, lr=0.05, samples=4_000):
    # 1. set up
    torch.manual_seed(rank)  # another seed in each process, so another model
    torch.set_num_threads(1)

    # 2. data
    train_set, test = digits(samples)
    loader = DataLoader(TensorDataset(*train_set), batch_size, shuffle=True)

    # 3. model
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    # 4. train
    for epoch in range(epochs):
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            report(loss=loss.item(), samples=len(images), total=epochs * samples)

    # 5. report
    model.eval()
    with torch.no_grad():
        right = (model(test.images).argmax(1) == test.labels).sum()
    accuracy = right.item() / len(test.labels)
    print(f"rank {rank} of {world_size}: accuracy {accuracy:.1%}")
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    return {"accuracy": accuracy, "weights": weights}


if __name__ == "__main__":
    # Each process imports this file, finds train in it, and calls train(rank, 4).
    mp.spawn(train, args=(4,), nprocs=4)
