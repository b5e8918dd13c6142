"""What a comparison advises for a training: answers to four questions in, sentences with the measured numbers out."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import LaunchError
from ..style import memory, number, percent, times
from .approaches import APPROACHES, MODELS, Approach, Comparison, Measured

WORTH_IT = 1.1  # how much faster processes have to be than threads, which ask for no change of the script

QUESTIONS = {
    "where": ("Where will it run?", {
        "cores": "on the cores of this machine", "hosts": "on several hosts", "gpu": "on a GPU or several"}),
    "limit": ("What holds it up?", {
        "compute": "the computing", "data": "reading and preparing the samples",
        "model": "the model does not fit into memory", "batch": "the batch does not fit into memory"}),
    "model": ("Which model is it most like?", {
        name: f"{name}: {what}" for name, (what, _) in MODELS.items()}),
    "equal": ("Must the result be that of one process?", {"yes": "yes, to rounding", "no": "no, it may vary"}),
}


@dataclass(frozen=True)
class Advice:
    """`headline` names what to use; `because` are sentences; `begin_with` is a line of code or a script."""

    headline: str
    because: list[str]
    begin_with: str
    lesson: str


def advise(data: Comparison, **answers: str) -> Advice:
    """The advice for `answers`: one for each of QUESTIONS, the first by default. Raises LaunchError for others."""
    chosen = {name: next(iter(options)) for name, (_, options) in QUESTIONS.items()}
    chosen["model"] = data.models[0]
    for name, answer in answers.items():
        options = data.models if name == "model" else QUESTIONS.get(name, ("", ()))[1]
        if answer not in options:
            known = f"{name} takes {', '.join(options)}" if options else f"it asks for {', '.join(QUESTIONS)}"
            raise LaunchError(f"the guide has no answer {name}={answer!r}: {known}")
    chosen.update(answers)
    model = chosen["model"]
    if chosen["limit"] == "data":
        return _load(data, model)
    if chosen["where"] == "gpu":
        return _gpu(data, model)
    if chosen["limit"] == "model":
        return _split(data, model)
    if chosen["limit"] == "batch":
        return _accumulate(data, model)
    if chosen["where"] == "hosts":
        return _hosts(data, model)
    return _cores(data, model, chosen["equal"] == "yes")


ONE, THREADS, HOGWILD, DDP, _, _, ACCUMULATION, PIPELINE = APPROACHES


def _cores(data: Comparison, model: str, equal: bool) -> Advice:
    one, threads = data.cell(ONE.name, model), data.cell(THREADS.name, model)
    best = data.fastest(model, exact=equal)
    if best is None or best.rate <= WORTH_IT * one.rate:
        return _advice(ONE, [f"For the {model} model nothing was clearly faster than its "
                             f"{number(one.rate, 'samples/s')}.",
                             "More cores help if you have several trainings: run them side by side."])
    if threads.rates and best.rate <= WORTH_IT * threads.rate:
        because = [f"For the {model} model it gave {_told(data, threads)}."]
        if best is not threads:
            because.append(f"The fastest was {best.approach} with {times(data.speedup(best))}: not enough more to "
                           "change a script for it.")
        return _advice(THREADS, because)
    approach = next(approach for approach in APPROACHES if approach.name == best.approach)
    because = [f"For the {model} model it gave {_told(data, best)}: the fastest of those that "
               f"{'train what one process trains' if equal else 'were measured'}."]
    others = [data.cell(other.name, model) for other in (THREADS, DDP) if other is not approach]
    told = [f"{other.approach} {times(data.speedup(other))}" for other in others if other.rates]
    because += [f"Beside it: {', '.join(told)}."] if told else []
    if not approach.exact and best.loss is not None and one.loss is not None:
        because.append(f"After the same samples the loss is {best.loss:.3f}, with one process {one.loss:.3f}.")
    return _advice(approach, because)


def _hosts(data: Comparison, model: str) -> Advice:
    cell, fewer = data.cell(DDP.name, model), data.cell(ACCUMULATION.name, model)
    because = [f"On this machine alone it gave {_told(data, cell)} for the {model} model; a network between hosts is "
               "slower than the memory here."]
    if cell.rates and fewer.rates and fewer.rate > WORTH_IT * cell.rate:
        because.append(f"With 4 batches a step it was {times(fewer.rate / cell.rate)} as fast, since it sends a "
                       "quarter of the messages: think of accumulation, or of larger batches.")
    return Advice("DDP, gloo, under torchrun", because, "torchrun --nnodes=2 ... scripts/ddp.py", "11")


def _split(data: Comparison, model: str) -> Advice:
    one, cell = data.cell(ONE.name, model), data.cell(PIPELINE.name, model)
    because = [f"It is for memory and not for speed: for the {model} model it gave {_told(data, cell)}."]
    if one.memory and cell.memory:
        because.append(f"Here one process took {memory(one.memory)}, the two stages together {memory(cell.memory)}; "
                       "most of that is PyTorch itself, which a large model dwarfs.")
    return _advice(PIPELINE, because)


def _accumulate(data: Comparison, model: str) -> Advice:
    cell = data.cell(ACCUMULATION.name, model)
    because = ["Several batches that fit make one step: its gradient is that of the large batch."]
    if cell.rates:
        because.append(f"Under DDP, with 4 batches a step, the {model} model gave {_told(data, cell)}.")
    return _advice(ACCUMULATION, because)


def _load(data: Comparison, model: str) -> Advice:
    one, best = data.cell(ONE.name, model), data.fastest(model)
    because = [f"The {model} model computes {number(one.rate, 'samples/s')} in one process, and its loader has to "
               "bring as many."]
    if best is not None and best is not one:
        because.append(f"What is fastest here, {best.approach} with {number(best.rate, 'samples/s')}, would only wait "
                       "longer.")
    return Advice("DataLoader workers first", because, "DataLoader(..., num_workers=1)", "06")


def _gpu(data: Comparison, model: str) -> Advice:
    because = ["One process for each GPU, and the cores prepare its samples. Nothing else in the script changes."]
    best = data.fastest(model)
    if best is not None:
        because.append(f"The number to beat: {number(best.rate, 'samples/s')} for the {model} model on these cores, "
                       f"with {best.approach}.")
    return Advice("DDP, a rank for each GPU", because, "scripts/ddp_gpu.py", "10")


def _advice(approach: Approach, because: list[str]) -> Advice:
    return Advice(approach.name, [*because, f"What can go wrong: {approach.goes_wrong}."], approach.begin_with,
                  approach.lesson)


def _told(data: Comparison, cell: Measured) -> str:
    speedup = data.speedup(cell)
    if speedup is None:
        return "no measurement"
    share = percent(speedup / (cell.processes * cell.threads))
    return f"{number(cell.rate, 'samples/s')}, {times(speedup)} as fast as one core (efficiency {share})"
