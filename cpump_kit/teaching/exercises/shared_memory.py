"""Exercises of lesson 04, shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..exercise import Finding, NotDone, Stumbled, exercise


@exercise(
    first_step="loop over model.parameters() and change each parameter in place",
    hints=("Plain gradient descent: each weight goes a little way against its gradient.",
           "The weights are shared because they are the same memory. An assignment such as `p = p - ...` makes a new "
           "tensor; methods that end in an underscore change the old one.",
           "with torch.no_grad(): for p in model.parameters(): p.sub_(p.grad, alpha=lr)"))
def hogwild_step(answer: Callable) -> Iterator[Finding]:
    """hogwild_step(model, lr): change the shared weights in place, by plain gradient descent with the gradients."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).share_memory()
    model(torch.randn(5, 4)).square().sum().backward()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    addresses = [parameter.data_ptr() for parameter in model.parameters()]
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    try:
        answer(model, 0.1)
    except NotImplementedError:
        raise NotDone("it is not implemented") from None
    except Exception as error:
        raise Stumbled(f"hogwild_step(model, 0.1) raised {type(error).__name__}: {error}") from None
    after = list(model.parameters())
    same_memory = all(parameter.data_ptr() == address for parameter, address in zip(after, addresses))
    if same_memory and all(torch.equal(parameter, old) for parameter, old in zip(after, before)):
        raise NotDone("the weights are as they were")
    yield Finding(same_memory, "the weights stay where they were in memory", "some of them lie elsewhere now",
                  "other processes still look at the old place: change the tensor, do not make a new one")
    yield Finding(all(parameter.is_shared() for parameter in after), "the weights are still shared", "some are not",
                  "change the tensor itself")
    steps = [(parameter.detach() - old, gradient) for parameter, old, gradient in zip(after, before, gradients)]
    yield Finding(not any(torch.allclose(step, 0.1 * gradient) for step, gradient in steps),
                  "downhill", "the weights went uphill", "against the gradient, so subtract")
    yield Finding(all(torch.allclose(step, -0.1 * gradient, atol=1e-6) for step, gradient in steps),
                  "every weight goes lr times its gradient", "the steps have another size",
                  "is it lr times the gradient, once, for each parameter?")


@exercise(
    first_step="find the address of the storage of `b`, as the line that is given does for `a`",
    hints=("Which of these three shares memory with what it was made from: a deep copy, a slice, a sum?",
           "A slice of a tensor, such as t[:], is a view of the same memory; the others are new tensors.",
           "A view has the same storage: a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()."))
def shares_memory(answer: Callable) -> Iterator[Finding]:
    """shares_memory(a, b): True if a change of the tensor a can be seen in the tensor b, because they share memory."""
    import copy

    import torch

    whole = torch.arange(6.0)
    shared = [("a tensor and itself", whole, whole), ("a slice", whole, whole[2:]), ("a view", whole, whole.view(2, 3)),
              ("a parameter and its data", (p := torch.nn.Parameter(whole)), p.data)]
    apart = [("a clone", whole, whole.clone()), ("a deep copy", whole, copy.deepcopy(whole)),
             ("an equal tensor", whole, torch.arange(6.0)), ("a sum", whole, whole + 0)]
    given = []
    for wanted, pairs in ((True, shared), (False, apart)):
        for name, one, other in pairs:
            try:
                given.append((name, wanted, answer(one, other)))
            except Exception as error:
                raise Stumbled(f"for {name} it raised {type(error).__name__}: {error}") from None
    if all(value is None or value is ... for _, _, value in given):
        raise NotDone("it gives nothing so far")
    yield Finding(all(isinstance(value, bool) for _, _, value in given), "True or False", "something else came",
                  "compare two addresses with ==")
    missed = [name for name, wanted, value in given if wanted and value is not True]
    yield Finding(not missed, "True where they share memory", f"False for {', '.join(missed)}",
                  "a slice begins at another address of the same storage")
    wrong = [name for name, wanted, value in given if not wanted and value]
    yield Finding(not wrong, "False where they do not", f"True for {', '.join(wrong)}",
                  "equal numbers are not the same memory")
