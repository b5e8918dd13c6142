"""DDP with a network that is quick to compute and has many weights: averaging gradients takes the time."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from cpump_kit import digits, main, report, shared_memory_hook


def train(rank, world_size, *, epochs=1, batch_size=64, lr=0.05, samples=20_000, shared_memory=False):
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
    if shared_memory:  # the gradients are averaged in memory that all ranks see, and no longer sent
        model.register_comm_hook(*shared_memory_hook())
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    # 4. train
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            report(loss=loss.item(), samples=len(images), total=epochs * len(sampler))

    # 5. report
    model.eval()
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
