"""DDP with images that are turned as they are fetched, by the trainer itself or by loaders beside it."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from cpump_kit import digits, main, report


class Turned(Dataset):
    """Each image turned by a random angle, anew each time: work for whoever fetches it."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        angle = 0.3 * torch.randn(())
        cos, sin = angle.cos().item(), angle.sin().item()
        turn = torch.tensor([[[cos, -sin, 0.0], [sin, cos, 0.0]]])
        grid = F.affine_grid(turn, (1, 1, 28, 28), align_corners=False)
        return F.grid_sample(self.images[index:index + 1], grid, align_corners=False)[0], self.labels[index]


def train(rank, world_size, *, epochs=3, batch_size=64, lr=0.05, samples=20_000, loaders=0):
    # 1. set up
    torch.manual_seed(0)
    dist.init_process_group("gloo")

    # 2. data
    train_set, test = digits(samples)
    train_set = Turned(*train_set)
    sampler = DistributedSampler(train_set)
    seeds = torch.Generator().manual_seed(rank)  # each rank's loader workers turn the images in another way
    loader = DataLoader(train_set, batch_size, sampler=sampler, num_workers=loaders, generator=seeds,
                        persistent_workers=loaders > 0)

    # 3. model
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10))
    model = DDP(model)
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
    mine = slice(rank, None, world_size)
    with torch.no_grad():
        right = (model.module(test.images[mine]).argmax(1) == test.labels[mine]).sum()
    dist.all_reduce(right)
    del model
    dist.destroy_process_group()
    return {"accuracy": right.item() / len(test.labels)}


if __name__ == "__main__":
    main(train)
