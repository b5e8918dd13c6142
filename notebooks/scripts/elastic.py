"""DDP with a checkpoint: a training that was killed goes on after the last epoch that was kept."""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from cpump_kit import digits, main, report


def train(rank, world_size, *, epochs=3, batch_size=64, lr=0.05, samples=20_000, checkpoint=""):
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
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10))
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    first = 0
    if checkpoint and os.path.exists(checkpoint):  # read by every rank: all hosts must see it
        kept = torch.load(checkpoint)
        model.module.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        first = kept["epoch"]
    print(f"rank {rank} of {world_size} is process {os.getpid()} and begins with epoch {first}", flush=True)

    # 4. train
    for epoch in range(first, epochs):
        sampler.set_epoch(epoch)  # the order of this epoch, whichever process it is that trains it
        for number, (images, labels) in enumerate(loader):
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            report(loss=loss.item(), samples=len(images), total=(epochs - first) * len(sampler))
            if rank == 0 and number % 10 == 0:
                print(f"epoch {epoch} step {epoch * len(loader) + number} loss {loss.item():.4f}", flush=True)
        if checkpoint and rank == 0:  # written beside and then moved: nobody ever finds half a file
            weights, state = model.module.state_dict(), optimizer.state_dict()
            kept = {"model": weights, "optimizer": state, "epoch": epoch + 1}
            torch.save(kept, checkpoint + ".new")
            os.replace(checkpoint + ".new", checkpoint)

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
