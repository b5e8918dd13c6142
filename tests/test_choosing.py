"""All approaches compared: what they train, what is kept when one fails, and what the numbers advise."""

import threading
from dataclasses import replace

import pytest

import cpump_kit as cp
from cpump_kit.choosing import approaches, comparison
from cpump_kit.choosing.advice import QUESTIONS, advise
from cpump_kit.choosing.approach_chart import alt_text, approach_figure
from cpump_kit.choosing.approaches import APPROACHES, MODELS
from cpump_kit.choosing.comparison_view import ComparisonView
from cpump_kit.choosing.tables import table
from cpump_kit.measuring import measurement

MACHINE = {"model": "Some CPU", "usable": 2, "system": "S", "python": "3", "torch": "2"}
NAMES = [approach.name for approach in APPROACHES]
ONE, THREADS, HOGWILD, DDP, HOOK, SHARED, ACCUMULATION, PIPELINE = NAMES


def measured(speedups: dict[str, float], model: str = "middle", **more) -> approaches.Comparison:
    """A comparison with these speed-ups over 1,000 samples/s; what is not named was not measured."""
    data = approaches.prepare([model], 128, 2, MACHINE, "2026-01-02T10:00:00")
    for cell in data.cells:
        if cell.approach in speedups:
            rate = 1000 * speedups[cell.approach]
            cell.rates, cell.loss, cell.memory = [0.98 * rate, 1.02 * rate], 0.25, 200 * 2**20
    return replace(data, state="done", **more)


USUAL = {ONE: 1.0, THREADS: 1.5, HOGWILD: 1.95, DDP: 1.2, HOOK: 1.4, SHARED: 1.8, ACCUMULATION: 1.6, PIPELINE: 0.9}


# -- the trainings themselves --------------------------------------------------------------------------------------


@pytest.fixture
def short(monkeypatch):
    for name in MODELS:
        monkeypatch.setitem(MODELS, name, (MODELS[name][0], 16 * 128))


def test_exact_approaches_train_the_same_and_the_others_do_not(short):
    found = cp.compare_approaches(rounds=1)
    assert found.wait(300) and found.state == "done"
    for model in MODELS:
        one = found.data.cell(ONE, model)
        for approach in APPROACHES:
            cell = found.data.cell(approach.name, model)
            assert cell.error is None and cell.rate > 0 and cell.memory > 50 * 2**20
            assert (abs(cell.loss - one.loss) < 1e-3) == approach.exact, (approach.name, model, cell.loss, one.loss)


# -- launches that only seem to be ---------------------------------------------------------------------------------


class FakeRun:
    state, error, traceback, seconds, progress = "done", None, None, 2.0, (0.5, 1.0)

    def __init__(self, nprocs):
        self.nprocs, self.ended = nprocs, threading.Event()

    def wait(self):
        assert self.ended.wait(30)

    def throughput(self, skip):
        return 1000.0 * self.nprocs

    def stop(self):
        self.state = "stopped"
        self.ended.set()

    @property
    def results(self):
        return [{"loss": None if rank + 1 < self.nprocs else 0.5, "memory": 100} for rank in range(self.nprocs)]


@pytest.fixture
def launches(monkeypatch, tmp_path):
    """[(approach, model, processes, threads)] of what was launched; `fails` names the approaches that fail."""
    monkeypatch.setenv("CPUMP_CACHE", str(tmp_path))
    asked = Launches()
    monkeypatch.setattr(measurement, "launch", asked)
    return asked


class Launches(list):
    def __init__(self):
        super().__init__()
        self.fails, self.hold_at, self.holding = set(), None, threading.Event()

    def __call__(self, what, nprocs, *, threads, show, approach, model, batch_size, steps, shared):
        assert show is False and (shared is not None) == (approach == "hogwild")
        assert steps == {"small": 600, "middle": 120, "large": 30}[model] * 128 // batch_size
        self.append((approach, model, nprocs, threads))
        run = FakeRun(nprocs)
        if approach in self.fails:
            run.state, run.error, run.traceback = "failed", f"Rank 0 failed: <b>{approach}</b>.", "Traceback ..."
        if len(self) == self.hold_at:
            self.holding.set()
        else:
            run.ended.set()
        return run


def test_everything_once_a_round_there_and_back(launches):
    cp.compare_approaches(["small", "large"], rounds=3).wait()
    first = launches[:16]
    assert list(launches) == first + first[::-1] + first
    assert [approach for approach, *_ in first[:8]] == [approach.training for approach in APPROACHES]
    assert {model for _, model, *_ in first[:8]} == {"small"}


def test_the_cores_are_divided_among_the_processes():
    def places(usable):
        data = approaches.prepare(["small"], 128, 1, {**MACHINE, "usable": usable}, "")
        return {cell.approach: (cell.processes, cell.threads) for cell in data.cells}

    assert places(4) == {ONE: (1, 1), THREADS: (1, 4), **dict.fromkeys(NAMES[2:7], (4, 1)), PIPELINE: (2, 2)}
    assert places(32)[DDP] == (8, 4)
    assert places(1)[DDP] == (2, 1)


def test_an_approach_that_fails_is_noted_and_the_others_go_on(launches):
    launches.fails = {"pipeline"}
    found = cp.compare_approaches("small", rounds=2)
    assert found.wait() and found.state == "done" and found.data.done == found.data.to_do
    assert sum(approach == "pipeline" for approach, *_ in launches) == 1
    text, html = repr(found.table()), found.table()._repr_html_()
    assert "Note: pipeline of 2 stages, small model: Rank 0 failed: <b>pipeline</b>." in text
    assert "&lt;b&gt;pipeline&lt;/b&gt;" in html and "<b>pipeline" not in html
    assert "failed" in ComparisonView(found).page(False) and found.plot().alt


def test_without_the_baseline_it_ends_in_one_sentence(launches):
    launches.fails = {"one process"}
    found = cp.compare_approaches("small", rounds=2)
    with pytest.raises(cp.WorkerError, match="(?s)the baseline.*Rank 0 failed.*its table.*Traceback"):
        found.wait()
    assert len(launches) == 1 and found.state == "failed" and "–" in repr(found.table())


def test_stop_keeps_what_was_measured(launches):
    launches.hold_at = 3
    found = cp.compare_approaches("small", rounds=2)
    assert launches.holding.wait(10)
    page = ComparisonView(found).page(True)
    assert "now: Hogwild, small model" in page and "2 of 16 measurements" in page
    found.stop()
    assert found.wait(10) and found.state == "stopped"
    assert found.data.cell(ONE, "small").rates == [1000.0] and not found.data.cell(HOGWILD, "small").rates
    assert "stopped early: 2 of 16 measurements were made" in repr(found.table())
    assert "not measured" not in found.plot().alt


def test_an_equal_comparison_is_reused_and_no_other(launches):
    cp.compare_approaches("small", rounds=1).wait()
    again = cp.compare_approaches("small", rounds=1, reuse=True)
    assert again.wait() and len(launches) == 8 and again.data.cell(DDP, "small").rates == [2000.0]
    cp.compare_approaches("small", rounds=1, batch_size=64, reuse=True).wait()
    assert len(launches) == 16


def test_a_damaged_file_is_passed_over(launches, tmp_path):
    (tmp_path / "approaches").mkdir()
    for name, text in {"a": "{", "b": "[]", "c": '{"cells": [{}]}'}.items():
        (tmp_path / "approaches" / f"{name}.json").write_text(text)
    assert comparison.newest_kept() is None
    cp.compare_approaches("small", rounds=1).wait()
    assert comparison.newest_kept().cell(SHARED, "small").loss == 0.5


@pytest.mark.parametrize("request_, words", [
    ({"models": "tiny"}, "some of small, middle, large"),
    ({"models": []}, "some of small, middle, large"),
    ({"models": ["small", "small"]}, "each once"),
    ({"rounds": 0}, "rounds"),
    ({"batch_size": 9}, "a multiple of"),
])
def test_what_cannot_work_is_refused_before_anything_is_started(launches, request_, words):
    with pytest.raises(cp.LaunchError, match=words):
        cp.compare_approaches(**request_)
    assert not launches


# -- what is shown -------------------------------------------------------------------------------------------------


def test_the_table_says_how_fast_how_efficient_and_when():
    text = repr(table(measured(USUAL)))
    assert "1,800     1.80×        90\u00a0%  200 MiB  0.250" in text
    for approach in APPROACHES:
        assert approach.goes_wrong in text and approach.use_when in text
    html = table(measured(USUAL))._repr_html_()
    assert html.count("<tr>") == 1 + len(APPROACHES) and html.count('scope="rowgroup"') == len(APPROACHES)


def test_the_chart_and_its_words_name_the_fastest():
    data = measured({**USUAL, PIPELINE: 0.0001})
    assert "The fastest for the middle model: Hogwild, 1.95× as fast as one core." in alt_text(data)
    panel = approach_figure(data).axes[0]
    assert [round(bar.get_width(), 2) for bar in panel.patches] == [1.0, 1.5, 1.95, 1.2, 1.4, 1.8, 1.6, 0.0]
    approach_figure(measured({})).draw_without_rendering()  # nothing measured yet


# -- the guide -----------------------------------------------------------------------------------------------------


def test_the_fastest_with_the_result_of_one_process():
    advice = advise(measured(USUAL))
    assert advice.headline == SHARED and "cp.share_training" in advice.begin_with
    assert "1,800 samples/s, 1.80× as fast as one core (efficiency 90\u00a0%)" in advice.because[0]
    assert "DDP, gloo 1.20×" in advice.because[1]


def test_the_fastest_of_all_where_results_may_vary():
    advice = advise(measured(USUAL), equal="no")
    assert advice.headline == HOGWILD and any("loss is 0.250" in sentence for sentence in advice.because)


def test_processes_have_to_be_clearly_faster_than_threads():
    assert advise(measured({**USUAL, THREADS: 1.75})).headline == THREADS
    assert advise(measured({ONE: 1.0, THREADS: 1.02, DDP: 0.6})).headline == ONE


@pytest.mark.parametrize("answers, headline, words", [
    ({"where": "hosts"}, "DDP, gloo, under torchrun", "1.33× as fast"),
    ({"where": "gpu"}, "DDP, a rank for each GPU", "1,950 samples/s"),
    ({"limit": "data"}, "DataLoader workers first", "1,000 samples/s"),
    ({"limit": "model"}, PIPELINE, "0.90× as fast as one core"),
    ({"limit": "batch"}, ACCUMULATION, "1,600 samples/s"),
    ({"limit": "model", "where": "hosts"}, PIPELINE, "200 MiB"),
])
def test_each_answer_has_its_advice_with_the_numbers(answers, headline, words):
    advice = advise(measured(USUAL), **answers)
    assert advice.headline == headline and words in " ".join(advice.because)


def test_every_combination_has_an_advice_also_where_little_was_measured():
    combinations = [{}]
    for name, (_, options) in QUESTIONS.items():
        combinations = [{**one, name: option} for one in combinations for option in options
                        if name != "model" or option == "middle"]
    assert len(combinations) == 3 * 4 * 2
    for answers in combinations:
        for data in (measured(USUAL), measured({ONE: 1.0})):
            advice = advise(data, **answers)
            assert advice.headline and advice.because and advice.begin_with and advice.lesson


@pytest.mark.parametrize("answers", [{"where": "mars"}, {"model": "large"}, {"how": "fast"}])
def test_an_unknown_answer_is_named(answers):
    with pytest.raises(cp.LaunchError, match="the guide has no answer"):
        advise(measured(USUAL), **answers)


def test_the_guide_takes_the_kept_numbers_or_says_what_to_do(launches, capsys):
    with pytest.raises(cp.LaunchError, match=r"run cp.compare_approaches\(\) first"):
        cp.guide()
    cp.compare_approaches("small", rounds=1).wait()
    cp.guide(where="hosts")
    assert "Use: DDP, gloo, under torchrun." in capsys.readouterr().out
