"""A deep network with a stage on each rank, and micro-batches on their way through them: a pipeline."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed import pipelining
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from cpump_kit import digits, main, report


def train(rank, world_size, *, epochs=1, batch_size=256, microbatches=8, schedule="GPipe", lr=0.01,
          samples=10_000, width=512):
    # 1. set up
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    last = rank == world_size - 1

    # 2. data
    train_set, test = digits(samples)
    train_set = TensorDataset(*train_set)
    order = torch.Generator()
    sampler = RandomSampler(train_set, generator=order)
    loader = DataLoader(train_set, batch_size, sampler=sampler, drop_last=True)  # all are equally long

    # 3. model
    layers = [nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, width))]
    layers += [nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, width)) for _ in range(6)]
    layers += [nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 10))]
    mine = layers[rank * len(layers) // world_size:(rank + 1) * len(layers) // world_size]
    model = nn.Sequential(*mine)  # this rank's stage; the other layers are dropped
    del layers
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    stage = pipelining.PipelineStage(model, rank, world_size, torch.device("cpu"))
    kinds = {"GPipe": pipelining.ScheduleGPipe, "1F1B": pipelining.Schedule1F1B}
    steps = kinds[schedule](stage, microbatches, loss_fn=F.cross_entropy)

    # 4. train
    for epoch in range(epochs):
        order.manual_seed(epoch)
        for images, labels in loader:
            losses = []  # of each micro-batch; the last stage fills it
            optimizer.zero_grad()
            # forward and backward of all micro-batches, and what is sent between the stages
            steps.step(*([images] if rank == 0 else []), target=labels, losses=losses)
            optimizer.step()
            if last:
                loss = sum(losses).item() / microbatches
                report(loss=loss, samples=len(images), total=epochs * len(loader) * batch_size)
            else:
                report(samples=0, total=0)  # each sample counts once, on the last rank

    # 5. report
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    dist.destroy_process_group()
    return {"weights": weights}


if __name__ == "__main__":
    main(train)
