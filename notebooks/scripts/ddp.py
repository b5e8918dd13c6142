"""Each process trains a replica of the network on its share of the digits; DDP averages their gradients."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from cpump_kit import digits, main, report


def train(rank, world_size, *, epochs=3, batch_size=64, lr=0.05, samples=20_000):
    # 1. set up
    torch.manual_seed(0)
    dist.init_process_group("gloo")  # the ranks meet; gloo carries tensors between CPUs

    # 2. data
    train_set, test = digits(samples)
    train_set = TensorDataset(*train_set)
    sampler = DistributedSampler(train_set)  # each rank takes every world_size-th sample
    # batch_size is that of one rank: together they make a step with batch_size * world_size samples
    loader = DataLoader(train_set, batch_size, sampler=sampler)

    # 3. model
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10))
    model = DDP(model)  # every replica starts with the weights of rank 0
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    # 4. train
    for epoch in range(epochs):
        sampler.set_epoch(epoch)  # another order in each epoch, the same in every run
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            # meanwhile DDP averages the gradients over all ranks
            loss.backward()
            optimizer.step()
            report(loss=loss.item(), samples=len(images), total=epochs * len(sampler))

    # 5. report
    model.eval()
    mine = slice(rank, None, world_size)  # each test image is counted on one rank
    with torch.no_grad():
        right = (model.module(test.images[mine]).argmax(1) == test.labels[mine]).sum()
    dist.all_reduce(right)  # the sum over all ranks
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    del model  # before the process group that it uses
    dist.destroy_process_group()
    return {"accuracy": right.item() / len(test.labels), "weights": weights}


if __name__ == "__main__":
    main(train)
