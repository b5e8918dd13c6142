"""What the loader processes of a rank read: random numbers, and a stream that has no indices."""

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Random(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.rand(())


class Stream(IterableDataset):
    def __init__(self, divided):
        self.divided = divided

    def __iter__(self):
        info = get_worker_info()  # which loader process of this rank am I, out of how many?
        for item in range(10):
            if not self.divided or item % info.num_workers == info.id:
                yield item


def draw(rank, world_size, *, seed_by_rank):
    """The random numbers that this rank's loader process draws."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(rank) if seed_by_rank else None
    return [float(number) for number in DataLoader(Random(), num_workers=1, generator=generator)]


def read(rank, world_size, *, divided):
    """The items that this rank gets from two loader processes."""
    return sorted(int(item) for item in DataLoader(Stream(divided), batch_size=None, num_workers=2))
