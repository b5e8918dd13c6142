"""Synchronous training on one copy of the parameters, which all ranks of a machine share."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, zip_longest

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from . import averaging
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

    - All ranks begin with rank 0's parameters and buffers. Buffers (BatchNorm's running means) stay each rank's own
      after that; save rank 0's.
    - To accumulate, call backward several times before a step: nothing is exchanged before.
    - A parameter that has a gradient in some ranks only counts as zero in the others. One that has none in any rank
      (frozen, or not used in this step) is left alone, as in one process.
    - Every rank makes the same number of steps. What else changes a parameter (load_state_dict, clamping weights)
      changes it for all ranks: rank 0 alone does it, or all of them write the same.
    - `state_dict` and `load_state_dict` of the model and of the optimizer speak the plain format: a training can be
      resumed with another number of ranks, or without this function. The optimizer's `state_dict` puts together what
      the ranks have, so every rank calls it, not rank 0 alone.

    For ranks of one machine, without DDP. Raises SharingError for an optimizer that does not work number by number,
    for ranks whose models differ, for ranks on several machines, and if there is not enough shared memory.
    """
    if type(optimizer) not in ELEMENTWISE:
        names = ", ".join(kind.__name__ for kind in ELEMENTWISE)
        raise SharingError(f"share_training divides each parameter among the ranks, which {type(optimizer).__name__} "
                           f"cannot be trusted to allow; it works with {names}")
    if isinstance(model, nn.parallel.DistributedDataParallel):
        raise SharingError("share_training takes the place of DDP: give it the model inside, model.module")
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, value in named.items():
        if value.device.type != "cpu":
            raise SharingError(f"share_training is for CPU cores, and {name} is on {value.device}; use model.cpu()")
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    _check_equal(named, trained)
    _begin_as_rank_0([value for value in named.values() if all(value is not one for one in trained)])
    return SharedOptimizer(optimizer, max_norm)


def _check_equal(named: dict[str, torch.Tensor], trained: list[nn.Parameter]) -> None:
    """Raise SharingError, which names the first difference, unless all ranks have the same to share, in one order."""
    names = {id(value): name for name, value in named.items()}
    mine = [f"{names.get(id(value), 'a parameter from elsewhere')} ({_described(value)})"
            for value in [*trained, *named.values()]]
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, mine)
    for rank, theirs in enumerate(ranks):
        for first, other in zip_longest(ranks[0], theirs, fillvalue="nothing more"):
            if first != other:
                raise SharingError(f"the ranks' models differ: rank 0 has {first} where rank {rank} has {other}")


def _described(value: torch.Tensor) -> str:
    return f"{' x '.join(map(str, value.shape)) or 'one number'}, {value.dtype}"


def _begin_as_rank_0(values: list[torch.Tensor]) -> None:
    offer = [[value.detach() for value in values]]
    dist.broadcast_object_list(offer)  # pickled, since gloo itself does not know every dtype and memory format
    for value, first in zip(values, offer[0]):
        value.detach().copy_(first)


@dataclass
class _Place:
    """Where one parameter lies in shared memory. What has one dimension here has the parameter's order in memory.

    value   its numbers, in one dimension
    rows    for its gradients, in one dimension: a row a rank
    own     the stretch of it that this rank averages and updates; it may be empty
    mine    that stretch as a parameter of its own, for the inner optimizer
    mean    that stretch of the averaged gradient
    """

    parameter: nn.Parameter
    value: torch.Tensor
    rows: list[torch.Tensor]
    own: slice
    mine: nn.Parameter
    mean: torch.Tensor

    def flat(self, value: torch.Tensor) -> torch.Tensor:
        """`value`, which has the parameter's shape, in one dimension."""
        if value.stride() != self.parameter.stride():
            value = torch.empty_like(self.parameter).copy_(value)
        return value.as_strided((value.numel(),), (1,))

    def cut(self, value):
        """The own stretch of a part of an optimizer's state, if it has the parameter's shape; else all of it."""
        if not isinstance(value, torch.Tensor):
            return value
        return (self.flat(value)[self.own] if value.shape == self.parameter.shape else value).clone()

    def joined(self, stretches: list):
        """The inverse of `cut`, given what each rank has."""
        whole = not isinstance(stretches[0], torch.Tensor) or stretches[0].dim() == 0
        return stretches[0] if whole else torch.cat(stretches).as_strided(self.parameter.shape, self.parameter.stride())


def _move(parameters: list[nn.Parameter], rank: int, world_size: int) -> dict[nn.Parameter, _Place]:
    """Move parameters of one dtype into shared memory, rank 0's values with them."""
    dtype = parameters[0].dtype
    line = 64 // dtype.itemsize  # numbers in a cache line; each parameter begins with one
    *starts, size = accumulate((-(-parameter.numel() // line) * line for parameter in parameters), initial=0)
    # Apart from the gradients, so that a saved model has nothing but its parameters.
    values = share(size * dtype.itemsize).view(dtype)
    rows = share(world_size * size * dtype.itemsize).view(dtype).view(world_size, size)
    part, places = averaging.part(rank, world_size, size), {}
    for parameter, start in zip(parameters, starts):
        here = slice(start, start + parameter.numel())
        value = values[here]
        own = slice(*(min(max(edge - start, 0), len(value)) for edge in (part.start, part.stop)))
        mine = nn.Parameter(value[own])
        places[parameter] = _Place(parameter, value, [row[here] for row in rows], own, mine,
                                   torch.empty_like(mine))
        moved = value.as_strided(parameter.shape, torch.empty_like(parameter).stride())
        if rank == 0:
            moved.copy_(parameter.detach())
        parameter.data = moved
    return places


class SharedOptimizer(Optimizer):
    """What `share_training` returns: an optimizer whose step is one of all ranks. Learning-rate schedulers work on it.

    The state of the own stretches is kept by an inner optimizer of the kind that was given.
    """

    def __init__(self, optimizer: Optimizer, max_norm: float | None):
        self._rank, self._world_size, self._max_norm = dist.get_rank(), dist.get_world_size(), max_norm
        super().__init__(optimizer.param_groups, optimizer.defaults)
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        places = {}
        for dtype in dict.fromkeys(parameter.dtype for parameter in parameters):
            places |= _move([parameter for parameter in parameters if parameter.dtype == dtype], self._rank,
                            self._world_size)
        self._places = [places[parameter] for parameter in parameters]
        # Which ranks have a gradient of which parameter, and each rank's share of the squared norm.
        self._given = share(self._world_size * len(parameters)).view(self._world_size, -1)
        self._squares = share(8 * self._world_size).view(torch.float64)
        self._meet = Meeting()
        self._inner = type(optimizer)([
            {**_options(group), "params": [places[parameter].mine for parameter in group["params"]]}
            for group in self.param_groups])
        if optimizer.state:  # it has trained already
            self.load_state_dict(optimizer.state_dict())
        self._meet()  # rank 0's parameters are in place before anybody trains

    def add_param_group(self, group: dict) -> None:
        if hasattr(self, "_inner"):
            raise SharingError("the parameters are shared already: give them all to the optimizer, the frozen ones "
                               "too, before share_training")
        super().add_param_group(group)

    @torch.no_grad()
    def step(self, closure=None) -> None:
        """Average the gradients over the ranks and update the parameters, each rank its part."""
        if closure is not None:
            raise SharingError("a shared step takes no closure: call backward before it")
        gradients = [self._publish(place) for place in self._places]
        self._given[self._rank] = torch.tensor([gradient is not None for gradient in gradients])
        self._meet()  # every rank has published its gradients, and nobody computes with the parameters any more
        for place, gradient, given in zip(self._places, gradients, self._given.T.tolist()):
            self._average(place, gradient, given)
        if self._max_norm is not None:
            self._clip([place.mine.grad for place in self._places if place.mine.grad is not None])
        for inner, group in zip(self._inner.param_groups, self.param_groups):
            inner.update(_options(group))  # a scheduler may have changed them
        self._inner.step()
        self._meet()  # every part of the parameters is written, and nobody reads the gradients any more

    def _publish(self, place: _Place) -> torch.Tensor | None:
        """This rank's gradient in one dimension, after the others' stretches of it are in this rank's row."""
        if place.parameter.data_ptr() != place.value.data_ptr():
            raise SharingError("a parameter was moved out of the shared memory; call model.to() before share_training")
        gradient = place.parameter.grad
        if gradient is None:
            return None
        if gradient.layout != torch.strided:
            raise SharingError("share_training averages dense gradients; use sparse=False")
        gradient = place.flat(gradient)
        averaging.publish(gradient, place.rows[self._rank], place.own, self._world_size)
        return gradient

    def _average(self, place: _Place, gradient: torch.Tensor | None, given: list[int]) -> None:
        """Give the inner optimizer the mean of the own stretch, or no gradient if no rank has one."""
        place.mine.grad = place.mean if any(given) and len(place.mine) else None
        if place.mine.grad is not None:
            others = [row for rank, row in enumerate(place.rows) if given[rank] and rank != self._rank]
            averaging.average(gradient, others, place.own, self._world_size, out=place.mean)

    def _clip(self, gradients: list[torch.Tensor]) -> None:
        """As torch.nn.utils.clip_grad_norm_ does, for a gradient of which every rank has a part."""
        norms = [torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients]
        self._squares[self._rank] = sum(norm.square() for norm in norms)
        self._meet()
        scale = (self._max_norm / (self._squares.sum().sqrt() + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(scale)

    def state_dict(self) -> dict:
        """The plain optimizer's state_dict, put together from all ranks. To be called in every rank."""
        ranks = [None] * self._world_size
        dist.all_gather_object(ranks, [dict(self._inner.state.get(place.mine, {})) for place in self._places])
        for place, found in zip(self._places, zip(*ranks)):
            stretches = [state for state in found if state]  # a rank without a part of it has none
            if stretches:
                self.state[place.parameter] = {key: place.joined([state[key] for state in stretches])
                                               for key in stretches[0]}
        whole = super().state_dict()
        self.state.clear()
        return whole

    def load_state_dict(self, state_dict: dict) -> None:
        """Take up what `state_dict` of this or of the plain optimizer gave. To be called in every rank."""
        super().load_state_dict(state_dict)
        self._inner.state.clear()
        for place in self._places:
            if len(place.mine) and place.parameter in self.state:
                self._inner.state[place.mine] = {key: place.cut(value)
                                                 for key, value in self.state[place.parameter].items()}
        self.state.clear()


def _options(group: dict) -> dict:
    return {name: value for name, value in group.items() if name not in ("params", "param_names")}
