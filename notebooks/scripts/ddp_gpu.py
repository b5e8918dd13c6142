"""The DDP script on GPUs, one process for each; without a GPU it runs on the cores, as before."""

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
    if torch.cuda.is_available():
        device, backend = torch.device("cuda", rank % torch.cuda.device_count()), "nccl"
        torch.cuda.set_device(device)  # nccl wants one GPU for each rank
    else:
        device, backend = torch.device("mps" if torch.backends.mps.is_available() else "cpu"), "gloo"
    dist.init_process_group(backend)

    # 2. data
    train_set, test = digits(samples)
    train_set = TensorDataset(*train_set)
    sampler = DistributedSampler(train_set)
    loader = DataLoader(train_set, batch_size, sampler=sampler)

    # 3. model
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10)).to(device)
    if world_size > 1:  # a Mac has one GPU, and nobody to average with
        model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    # 4. train
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            report(loss=loss.item(), samples=len(images), total=epochs * len(sampler))

    # 5. report
    model.eval()
    mine = slice(rank, None, world_size)
    with torch.no_grad():
        right = (model(test.images[mine].to(device)).argmax(1) == test.labels[mine].to(device)).sum()
    if world_size > 1:
        dist.all_reduce(right)
    weights = nn.utils.parameters_to_vector(model.parameters()).detach().cpu()
    del model
    dist.destroy_process_group()
    return {"accuracy": right.item() / len(test.labels), "weights": weights, "device": device.type}


if __name__ == "__main__":
    main(train)
