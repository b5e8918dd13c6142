"""Synchronous training on one copy of the parameters, which all ranks of a machine share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from .meeting import Meeting
from .segment import SharingError, share

# What these do to one number of a parameter depends on no other number, so a parameter can be divided anywhere.
ELEMENTWISE = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad,
               torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam)


def share_training(model: nn.Module, optimizer: Optimizer, max_norm: float | None = None) -> SharedOptimizer:
    """Let all ranks train one copy of `model`; returns the optimizer to use from now on, in every rank.

        optimizer = share_training(model, torch.optim.SGD(model.parameters(), lr=0.1))

    Then train as in one process, each rank with its own samples: `optimizer.step()` averages the gradients over the
    ranks, as DDP would, and makes the step together. Each rank updates its own part of the parameters and keeps the
    optimizer's state for that part alone (as ZeRO stage 1 does, Rajbhandari et al. 2020).

    max_norm   clip the averaged gradient to this norm, over all parameters together, as clip_grad_norm_ would

    All ranks begin with rank 0's parameters and buffers. Buffers (BatchNorm's running means) stay each rank's own
    after that; save rank 0's. To accumulate, call backward several times before a step: nothing is exchanged before.
    A parameter without a gradient counts as one whose gradient is zero. For ranks of one machine, without DDP.

    Raises SharingError for an optimizer that does not work number by number, for ranks whose models differ, for ranks
    on several machines, and if there is not enough shared memory.
    """
    if type(optimizer) not in ELEMENTWISE:
        names = ", ".join(kind.__name__ for kind in ELEMENTWISE)
        raise SharingError(f"share_training divides each parameter among the ranks, which {type(optimizer).__name__} "
                           f"cannot be trusted to allow; it works with {names}")
    if isinstance(model, nn.parallel.DistributedDataParallel):
        raise SharingError("share_training takes the place of DDP: give it the model inside, model.module")
    _check_equal(model)
    _begin_as_rank_0(model)
    return SharedOptimizer(optimizer, max_norm)


def _check_equal(model: nn.Module) -> None:
    mine = {name: (tuple(value.shape), str(value.dtype)) for name, value in model.named_parameters()}
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, mine)
    for rank, theirs in enumerate(ranks):
        for name in [*ranks[0], *theirs]:
            if ranks[0].get(name) != theirs.get(name):
                one, other = _described(ranks[0].get(name)), _described(theirs.get(name))
                raise SharingError(f"the ranks' models differ: {name} is {one} in rank 0 and {other} in rank {rank}")


def _described(found: tuple | None) -> str:
    return "missing" if found is None else f"{' x '.join(map(str, found[0])) or 'a single number'} ({found[1]})"


def _begin_as_rank_0(model: nn.Module) -> None:
    for value in [*model.parameters(), *model.buffers()]:
        dist.broadcast(value.detach(), 0)


@dataclass
class _Flat:
    """The parameters of one group and dtype, one after another in shared memory.

    whole      all of them; each parameter of the model is a view of a stretch of it
    gradients  one row a rank
    part       the rank's own stretch
    mine       that stretch as a parameter, for the inner optimizer
    """

    parameters: list[nn.Parameter]
    whole: torch.Tensor
    gradients: torch.Tensor
    part: slice
    mine: nn.Parameter

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """`flat` in the parameters' shapes."""
        pieces = flat.split([parameter.numel() for parameter in self.parameters])
        return [piece.view_as(parameter) for piece, parameter in zip(pieces, self.parameters)]


class SharedOptimizer(Optimizer):
    """What `share_training` returns: an optimizer whose step is one of all ranks. Learning-rate schedulers work on it.

    `state_dict` and `load_state_dict` are called in every rank together, and speak the format of the plain optimizer:
    a training can be resumed with another number of ranks, or without this class.
    """

    def __init__(self, optimizer: Optimizer, max_norm: float | None):
        self._rank, self._world_size = dist.get_rank(), dist.get_world_size()
        self._max_norm, self._meet = max_norm, Meeting()
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self._flats = [self._flatten_group(group["params"]) for group in self.param_groups]
        self._inner = type(optimizer)(  # every option stands in its groups
            [{**self._options(group), "params": [flat.mine for flat in flats]}
             for group, flats in zip(self.param_groups, self._flats)])
        self._norms = share(8 * self._world_size).view(torch.float64)
        if optimizer.state:  # it has trained already
            self.load_state_dict(optimizer.state_dict())
        self._meet()  # the parameters are in place before anybody trains

    def _flatten_group(self, parameters: list[nn.Parameter]) -> list[_Flat]:
        return [self._flatten(parameters, dtype) for dtype in dict.fromkeys(p.dtype for p in parameters)]

    def _flatten(self, parameters: list[nn.Parameter], dtype: torch.dtype) -> _Flat:
        """Move the parameters of a dtype into shared memory."""
        parameters = [parameter for parameter in parameters if parameter.dtype == dtype]
        size = sum(parameter.numel() for parameter in parameters)
        rows = share((self._world_size + 1) * size * dtype.itemsize).view(dtype).view(-1, size)
        part = slice(self._rank * size // self._world_size, (self._rank + 1) * size // self._world_size)
        mine = nn.Parameter(rows[-1][part])
        mine.grad = torch.zeros_like(mine)
        flat = _Flat(parameters, rows[-1], rows[:-1], part, mine)
        for parameter, view in zip(parameters, flat.views(flat.whole)):
            if self._rank == 0:
                view.copy_(parameter.detach())
            parameter.data = view
        return flat

    @staticmethod
    def _options(group: dict) -> dict:
        return {name: value for name, value in group.items() if name != "params"}

    @torch.no_grad()
    def step(self, closure=None) -> None:
        """Average the gradients over the ranks and update the parameters, each rank its part."""
        if closure is not None:
            raise SharingError("a shared step takes no closure: call backward before it")
        flats = [flat for flats in self._flats for flat in flats]
        for flat in flats:
            for parameter, view in zip(flat.parameters, flat.views(flat.gradients[self._rank])):
                view.zero_() if parameter.grad is None else view.copy_(parameter.grad)
        self._meet()  # every row of gradients is written, and nobody computes with the parameters any more
        for flat in flats:
            torch.mean(flat.gradients[:, flat.part], 0, out=flat.mine.grad)
        if self._max_norm is not None:
            self._clip([flat.mine.grad for flat in flats])
        for inner, group in zip(self._inner.param_groups, self.param_groups):
            inner.update(self._options(group))  # a scheduler may have changed them
        self._inner.step()
        self._meet()  # every part of the parameters is written, and nobody reads the gradients any more

    def _clip(self, gradients: list[torch.Tensor]) -> None:
        """As torch.nn.utils.clip_grad_norm_ does, for a gradient of which every rank has a part."""
        self._norms[self._rank] = sum(float(gradient.double().square().sum()) for gradient in gradients)
        self._meet()
        norm = float(self._norms.sum().sqrt())
        for gradient in gradients:
            gradient.mul_(min(1.0, self._max_norm / (norm + 1e-6)))

    def state_dict(self) -> dict:
        """The plain optimizer's state_dict, put together from all ranks. To be called in every rank."""
        found, first = {"state": {}, "param_groups": []}, 0
        for group, flats in zip(self.param_groups, self._flats):
            numbers = {id(parameter): first + i for i, parameter in enumerate(group["params"])}
            found["param_groups"].append({**self._options(group), "params": list(numbers.values())})
            first += len(numbers)
            for flat in flats:
                for key, values in self._gathered(flat).items():
                    for parameter, value in zip(flat.parameters, values):
                        found["state"].setdefault(numbers[id(parameter)], {})[key] = value
        return found

    def _gathered(self, flat: _Flat) -> dict[str, list]:
        """The inner state of a stretch by key: a value for each parameter."""
        ranks, found = [None] * self._world_size, {}
        dist.all_gather_object(ranks, dict(self._inner.state.get(flat.mine, {})))
        for key, value in ranks[self._rank].items():
            if isinstance(value, torch.Tensor) and value.shape == flat.mine.shape and value.dim():
                found[key] = [view.clone() for view in flat.views(torch.cat([rank[key] for rank in ranks]))]
            else:  # the number of steps, or nothing
                found[key] = [value.clone() if isinstance(value, torch.Tensor) else value for _ in flat.parameters]
        return found

    @torch.no_grad()
    def load_state_dict(self, state: dict) -> None:
        """Take up what `state_dict` of this or of the plain optimizer gave. To be called in every rank."""
        first = 0
        for saved, group, flats in zip(state["param_groups"], self.param_groups, self._flats):
            group.update(self._options(saved))
            numbers = {id(parameter): first + i for i, parameter in enumerate(group["params"])}
            first += len(numbers)
            for flat in flats:
                kept = [state["state"].get(numbers[id(parameter)], {}) for parameter in flat.parameters]
                self._inner.state[flat.mine] = {key: self._own_part(flat, [one[key] for one in kept])
                                                for key in kept[0]} if kept else {}

    @staticmethod
    def _own_part(flat: _Flat, values: list):
        if isinstance(values[0], torch.Tensor) and values[0].shape == flat.parameters[0].shape and values[0].dim():
            return torch.cat([value.flatten() for value in values])[flat.part].clone()
        return values[0].clone() if isinstance(values[0], torch.Tensor) else values[0]
