"""The scaling measurement: what is run in which order, what is kept, drawn, saved; and once for real."""

import asyncio
import json
import os
import signal
import threading
from collections import Counter

import pytest

import cpump_kit as cp
from cpump_kit.measuring import measurement
from cpump_kit.measuring import sweep as scaling
from cpump_kit.measuring.laws import amdahl
from cpump_kit.measuring.sweep_data import Setting, SweepData, SweepError
from cpump_kit.measuring.sweep_view import SweepView
from cpump_kit.teaching.predict import Prediction

SPACE = "\u00a0"
LESSON = """
import time
from cpump_kit import main, report

def train(rank, world_size, *, steps=12, fail=False, quiet=False):
    for step in range(steps):
        time.sleep(0.005)
        if not quiet:
            report(loss=1.0, samples=8, total=8 * steps)
        if fail and world_size == 2 and step == 5:
            raise ValueError("boom")
    return world_size

if __name__ == "__main__":
    main(train)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "lesson.py"
    path.write_text(LESSON)
    return path


class FakeRun:
    state, error, traceback, seconds, progress = "done", None, None, 2.0, (0.5, 1.0)

    def __init__(self, rate):
        self._rate, self.ended, self.stopped = rate, threading.Event(), False

    def wait(self):
        assert self.ended.wait(30)

    def throughput(self, skip):
        assert skip == 0.2
        return self._rate

    def stop(self):
        self.stopped, self.state = True, "stopped"
        self.ended.set()


class Launches:
    """Stands for `launch`: notes what was asked, and gives runs that end at once, or when told to."""

    def __init__(self):
        self.asked, self.runs, self.hold, self.change = [], [], False, lambda run, n: None
        self.new = threading.Semaphore(0)

    def __call__(self, what, nprocs, *, threads, show, **arguments):
        assert show is False
        self.asked.append((os.path.basename(what), nprocs, threads))
        run = FakeRun(1000.0 * float(amdahl(nprocs, 0.1)) * (1.4 if threads > 1 else 1) + len(self.runs))
        self.change(run, len(self.runs))
        self.runs.append(run)
        if not self.hold:
            run.ended.set()
        self.new.release()
        return run


@pytest.fixture
def launches(monkeypatch):
    found = Launches()
    monkeypatch.setattr(measurement, "launch", found)
    monkeypatch.setattr(scaling, "cores", lambda: type("Cores", (), {"usable": 4}))
    return found


# -- what is measured ---------------------------------------------------------------------------------------------


def test_every_setting_once_a_round_there_and_back(launches, script):
    cp.sweep(script, nprocs=(2, 1, 4, 2), repeats=3).wait()
    forwards = [("lesson.py", 1, 1), ("lesson.py", 1, 4), ("lesson.py", 2, 1), ("lesson.py", 4, 1)]
    assert launches.asked == forwards + forwards[::-1] + forwards


def test_another_script_as_baseline_is_measured_beside_it(launches, script):
    plain = script.with_name("single.py")
    plain.write_text(LESSON)
    found = cp.sweep(script, nprocs=(1, 2), repeats=1, baseline=plain)
    found.wait()
    assert launches.asked == [("single.py", 1, 1), ("single.py", 1, 4), ("lesson.py", 1, 1), ("lesson.py", 2, 1)]
    assert "single.py with one thread being 1" in found.plot().alt


def test_threads_of_each_process_are_the_same_at_every_count(launches, script):
    found = cp.sweep(script, nprocs=(1, 2), repeats=1, threads=2)
    found.wait()
    assert launches.asked == [("lesson.py", 1, 1), ("lesson.py", 1, 4), ("lesson.py", 1, 2), ("lesson.py", 2, 2)]
    assert found.table().rows[3][6].startswith(str(round(100 * 1.4 * amdahl(2, 0.1) / 4)))


def test_one_usable_core_needs_no_line_for_its_threads(launches, script, monkeypatch):
    monkeypatch.setattr(scaling, "cores", lambda: type("Cores", (), {"usable": 1}))
    found = cp.sweep(script, nprocs=1, repeats=2)
    assert found.wait() and launches.asked == [("lesson.py", 1, 1)] * 2
    assert "only one process was measured" in found.plot().alt


@pytest.mark.parametrize("request_, words", [
    ({"nprocs": ()}, "nprocs is empty"), ({"nprocs": (1, 0)}, "each of nprocs must be a whole number of at least 1"),
    ({"nprocs": (1, 1.5)}, "not 1.5"), ({"nprocs": "12"}, "nprocs takes whole numbers"),
    ({"nprocs": None}, "nprocs takes whole numbers"), ({"repeats": 0}, "repeats must be"),
    ({"threads": 0}, "each of threads must be"),
    ({"nprocs": (1, 2), "threads": (1, 2)}, "vary either nprocs or threads"),
    ({"step": 3}, "has no argument 'step'; did you mean 'steps'?"),
    ({"baseline": "nothing.py"}, "no script nothing.py")])
def test_bad_requests_are_refused_before_anything_starts(launches, script, request_, words):
    with pytest.raises(cp.LaunchError, match=words.replace("?", r"\?")):
        cp.sweep(script, **request_)
    assert not launches.asked


def test_a_baseline_that_does_not_take_the_arguments_is_refused(launches, script):
    plain = script.with_name("single.py")
    plain.write_text("def train(rank, world_size): ...")
    with pytest.raises(cp.LaunchError, match="single.py has no argument 'steps'"):
        cp.sweep(script, baseline=plain, steps=3)


def test_what_is_for_launch_goes_there(launches, script):
    cp.sweep(script, repeats=1, start_method="spawn", timeout=60).wait()
    assert launches.asked


# -- how it ends --------------------------------------------------------------------------------------------------


def test_a_failed_run_ends_the_sweep_and_what_was_measured_is_kept(launches, script):
    def fail(run, n):
        if n == 5:
            run.state, run.error, run.traceback = "failed", "Rank 1 failed: ValueError: boom", "Traceback ..."

    launches.change = fail
    found = cp.sweep(script, nprocs=(1, 2), repeats=3)
    with pytest.raises(cp.WorkerError, match="(?s)Rank 1 failed: ValueError: boom.*its table.*Traceback") as caught:
        found.wait()
    assert "_render_traceback_" in dir(caught.value)
    with pytest.raises(cp.WorkerError):
        found.plot()
    assert (found.state, found.error, len(launches.asked)) == ("failed", "Rank 1 failed: ValueError: boom", 6)
    assert "Note: ended early: Rank 1 failed: ValueError: boom." in repr(found.table())
    assert found.data.done == 5


def test_a_script_that_reports_no_samples_is_named(launches, script):
    launches.change = lambda run, n: setattr(run, "_rate", None)
    with pytest.raises(cp.WorkerError, match=r"lesson.py reported too few samples .* report\(samples=...\)"):
        cp.sweep(script).wait()


def test_stop_ends_the_going_run_and_keeps_what_is_there(launches, script):
    launches.hold = True
    found = cp.sweep(script, nprocs=(1, 2), repeats=2)
    for _ in range(3):
        assert launches.new.acquire(timeout=30)
        going = launches.runs[-1]
        going.ended.set()
    assert launches.new.acquire(timeout=30)
    found.stop()
    assert found.wait(30)
    assert launches.runs[-1].stopped and found.state == "stopped" and found.data.done == 3
    assert "stopped early: 3 of 6 measurements were made" in found.plot().alt


def test_a_sweep_stopped_before_the_first_result_has_nothing_to_draw(launches, script):
    launches.hold = True
    found = cp.sweep(script)
    found.stop()
    assert found.wait(30)
    with pytest.raises(SweepError, match="nothing to draw"):
        found.plot()
    assert "–" in repr(found.table())


def test_waiting_has_an_end(launches, script):
    launches.hold = True
    found = cp.sweep(script)
    assert not found.wait(0) and not found.wait(0.05)
    found.stop()
    assert found.wait(30)


@pytest.mark.skipif(os.name == "nt", reason="signals are not delivered to a thread there")
def test_an_interrupt_while_waiting_stops_the_sweep(launches, script):
    launches.hold = True
    found = cp.sweep(script, repeats=1)
    assert launches.new.acquire(timeout=30)
    launches.runs[0].ended.set()
    assert launches.new.acquire(timeout=30)

    def interrupt():
        while not found.blocking:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    assert "1 of 3 measurements" in found.plot().alt
    assert found.state == "stopped" and not found.blocking


def test_it_can_be_awaited(launches, script):
    async def main():
        return await cp.sweep(script, repeats=1)

    assert asyncio.run(main()).state == "done"


def test_whoever_asks_after_the_end_is_told_at_once(launches, script):
    found, told = cp.sweep(script, repeats=1), []
    found.wait()
    found.when_ended(lambda: told.append(1))
    assert told


# -- the data -----------------------------------------------------------------------------------------------------


def data(one=(100.0, 98.0, 102.0), two=(180.0, 175.0, 185.0), repeats=3, usable=2, state="done", threads=(140.0,)):
    baseline = Setting("ddp.py", 1, 1, list(one))
    return SweepData("ddp.py", baseline, Setting("ddp.py", 1, 2, list(threads)),
                     [baseline, Setting("ddp.py", 2, 1, list(two))], repeats, {"epochs": "1"},
                     {"model": "AMD EPYC", "usable": usable, "torch": "2.13.0"}, "2026-12-01T10:00:00+00:00", state)


def test_the_table_has_medians_spread_speedup_and_efficiency():
    table = data().table()
    assert table.rows == [("ddp.py", "1", "1", "100", "98 to 102", "1.00×", f"100{SPACE}%"),
                          ("ddp.py", "1", "2", "140", "140 to 140", "1.40×", f"70{SPACE}%"),
                          ("ddp.py", "2", "1", "180", "175 to 185", "1.80×", f"90{SPACE}%")]
    text = repr(table).splitlines()
    assert len({len(line) for line in text}) == 1
    assert "<td" in table._repr_html_() and "98 to 102" in table._repr_html_()


def test_names_cannot_become_html():
    found = data()
    found.settings[1].script = "<b>ddp</b>.py"
    found.error, found.state = "<b>boom</b>", "failed"
    assert "<b>ddp</b>" not in found.table()._repr_html_() and "<b>boom" not in found.table()._repr_html_()
    assert "<b>ddp</b>" not in SweepView(scaling.Sweep(found)).page(False)


def test_noise_is_named():
    assert not data().notes()
    same = "2 processes of ddp.py and 1 process of ddp.py overlap in their repeats, so their difference may be noise"
    assert data(two=(101.0, 103.0, 99.0)).notes() == [same]
    rivals = "2 processes of ddp.py and 1 process of ddp.py with 2 threads overlap in their repeats"
    assert any(note.startswith(rivals) for note in data(threads=(140.0, 182.0)).notes())
    assert any("measured once" in note for note in data(repeats=1).notes())


def test_more_processes_than_cores_are_named():
    assert "2 processes of ddp.py share 1 usable core, so they take turns" in data(usable=1).notes()


def test_the_chart_has_the_guess_of_cp_predict():
    sweep = scaling.Sweep(data())
    for guess in (1.5, Prediction("speed-up?", "x", 1.5), {2: 1.5}):
        assert "Your guess for 2 processes: 1.50." in sweep.plot(guess).alt
    for none in (None, Prediction("speed-up?")):
        assert "guess" not in sweep.plot(none).alt
    with pytest.raises(SweepError, match="a prediction is a speed-up"):
        sweep.plot("much")


def test_the_view_shows_how_far_it_is():
    sweep = scaling.Sweep(data(two=(180.0,), state="measuring"))
    shown = SweepView(sweep).page(True)
    for part in ("measuring: how ddp.py scales", "5 of 9 measurements", "●○○", "●●●", "1.80×", "Interrupt"):
        assert part in shown, part
    sweep.going = sweep.data.settings[1]
    assert "●◐○" in SweepView(sweep).page(False)
    assert "1.80×" in SweepView(sweep).words().html and SweepView(sweep).picture() is None


# -- several sweeps -----------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CPUMP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sweeps"


def done(*asked, **options):
    found = cp.sweep(*asked, **options)
    found.wait()
    return found


def test_threads_of_one_process_can_be_swept(launches, script, cache):
    found = done(script, nprocs=1, threads=(4, 1, 2), repeats=2)
    assert launches.asked[:3] == [("lesson.py", 1, 1), ("lesson.py", 1, 2), ("lesson.py", 1, 4)]
    assert len(launches.asked) == 6  # one process with all 4 threads is one of the points
    picture = found.plot(prediction=2.5)
    assert "Speed-up over threads" in picture.alt and "4 threads: 1.40" in picture.alt
    assert "Your guess for 4 threads: 2.50." in picture.alt
    assert "threads of one process" in [axes.get_xlabel() for axes in picture.figure.axes]


def test_an_equal_sweep_is_reused_only_where_everything_is_equal(launches, script, cache):
    first = done(script, nprocs=(1, 2), repeats=1, steps=20)
    made = len(launches.asked)
    again = done(script, nprocs=(1, 2), repeats=1, steps=20, reuse=True)
    assert len(launches.asked) == made and again.data.settings == first.data.settings
    assert f"measured on {first.data.date[:10]}, and not again now" in again.table().notes
    done(script, nprocs=(1, 2), repeats=1, steps=20)  # without reuse
    done(script, nprocs=(1, 2), repeats=1, steps=21, reuse=True)
    done(script, nprocs=(1, 2), repeats=2, steps=20, reuse=True)
    assert len(launches.asked) == 5 * made
    script.write_text(LESSON + "# changed\n")
    done(script, nprocs=(1, 2), repeats=1, steps=20, reuse=True)
    assert len(launches.asked) == 6 * made


def test_kept_sweeps_of_this_machine_the_newest_of_each_label(launches, script, cache, monkeypatch):
    dates = iter(f"2026-01-0{day}T10:00:00+00:00" for day in range(1, 6))
    monkeypatch.setattr(scaling, "now", lambda: next(dates))
    for label, steps in [("threads", 20), ("Hogwild", 20), ("threads", 30)]:
        done(script, repeats=1, label=label, steps=steps)
    monkeypatch.setattr(scaling, "this_machine", lambda: {"model": "another", "usable": 2})
    done(script, repeats=1, label="elsewhere")
    monkeypatch.undo()
    monkeypatch.setenv("CPUMP_CACHE", str(cache.parent))
    (cache / "broken.json").write_text("{")
    assert [(past.data.label, past.data.date[:10]) for past in cp.past_sweeps()] == [
        ("threads", "2026-01-03"), ("Hogwild", "2026-01-02")]


def test_a_stopped_or_failed_sweep_is_not_kept(launches, script, cache):
    launches.change = lambda run, n: setattr(run, "state", "stopped")
    done(script, repeats=1)
    assert cp.past_sweeps() == []


def test_other_sweeps_are_drawn_beside_with_name_and_date_and_their_own_baseline(launches, script, cache):
    others = [done(script, nprocs=(1, 2), repeats=1, label=f"way {n}", steps=10 + n) for n in range(7)]
    ours = done(script, nprocs=(1, 2, 4), repeats=1, label="way 3")
    picture = ours.plot(beside=others)
    axes = picture.figure.axes[0]
    beside = [line for line in axes.lines if "against its own baseline" in str(line.get_label()).replace("\n", " ")]
    assert len(beside) == 5 and not any("way 3" in line.get_label() for line in beside)
    x, y = beside[0].get_data()
    assert list(x) == [1, 2] and list(y) == pytest.approx([1.0, others[0].data.curve()[2][0]])
    assert len({(line.get_color(), line.get_marker(), str(line.get_linestyle())) for line in beside}) == 5
    assert f"Beside it, way 0, {others[0].data.date[:10]}: 1.00 on 1 core" in picture.alt


# -- the file -----------------------------------------------------------------------------------------------------


def test_saved_and_loaded_it_is_the_same(tmp_path):
    sweep, path = scaling.Sweep(data()), tmp_path / "sweep.json"
    sweep.save(path)
    again = cp.load_sweep(str(path))
    assert again.data == sweep.data and again.data.baseline is again.data.settings[0]
    assert (again.state, again.wait(), repr(again)) == ("done", True, "<Sweep of ddp.py: done, 7 of 9 measurements>")
    assert again.plot().alt == sweep.plot().alt
    again.save(path)  # a sweep may take the place of a sweep
    content = json.loads(path.read_text())
    assert content["format"] == "cpump sweep" and content["machine"]["model"] == "AMD EPYC" and content["date"]


def test_a_sweep_saved_on_its_way_is_a_stopped_one(tmp_path):
    scaling.Sweep(data(state="measuring")).save(tmp_path / "sweep.json")
    assert cp.load_sweep(tmp_path / "sweep.json").state == "stopped"


def test_a_failed_sweep_that_was_saved_can_be_drawn(tmp_path):
    failed = data(state="failed")
    failed.error = "Rank 1 failed."
    scaling.Sweep(failed).save(tmp_path / "sweep.json")
    assert "ended early: Rank 1 failed." in cp.load_sweep(tmp_path / "sweep.json").plot().alt


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "other"}', "\x00\x01", "null"])
def test_a_file_that_is_no_sweep_is_refused_and_never_overwritten(tmp_path, text):
    path = tmp_path / "notes.json"
    path.write_text(text)
    with pytest.raises(SweepError, match="not a saved sweep"):
        cp.load_sweep(path)
    with pytest.raises(SweepError, match="left alone"):
        scaling.Sweep(data()).save(path)
    assert path.read_text() == text


@pytest.mark.parametrize("change", [
    lambda c: c.pop("baseline"), lambda c: c["settings"].clear(), lambda c: c["settings"][0].update(rates=["fast"]),
    lambda c: c["settings"][0].update(rates=[float("nan")]), lambda c: c["settings"][0].update(processes=0),
    lambda c: c["settings"][0].update(rates=None), lambda c: c.update(unknown=1), lambda c: c.update(machine=[]),
    lambda c: c.update(settings=5), lambda c: c.update(repeats="3")])
def test_a_damaged_sweep_is_refused_in_one_sentence(tmp_path, change):
    path = tmp_path / "sweep.json"
    scaling.Sweep(data()).save(path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(SweepError, match="damaged sweep") as caught:
        cp.load_sweep(path)
    assert "\n" not in str(caught.value)


def test_another_version_and_a_missing_file_are_named(tmp_path):
    path = tmp_path / "sweep.json"
    path.write_text('{"format": "cpump sweep", "version": 99}')
    with pytest.raises(SweepError, match="another version"):
        cp.load_sweep(path)
    with pytest.raises(SweepError, match="cannot be read: No such file"):
        cp.load_sweep(tmp_path / "nothing.json")
    with pytest.raises(SweepError, match="cannot be written"):
        scaling.Sweep(data()).save(tmp_path / "no folder" / "sweep.json")


# -- for real -----------------------------------------------------------------------------------------------------


def test_for_real(script):
    found = cp.sweep(script, nprocs=(1, 2), repeats=2)
    picture = found.plot(prediction=2)
    assert found.state == "done"
    counts = Counter(len(setting.rates) for setting in found.data.all_settings)
    assert counts == {2: len(found.data.all_settings)}
    assert picture.png()[:4] == b"\x89PNG" and found.data.machine["usable"] >= 1


def test_for_real_with_a_failing_script(script):
    found = cp.sweep(script, nprocs=(1, 2), repeats=1, fail=True)
    with pytest.raises(cp.WorkerError, match="ValueError: boom"):
        found.wait()
    assert found.data.baseline.rates and "lesson.py" in found.traceback


def test_for_real_stopped(script):
    found = cp.sweep(script, nprocs=(2,), repeats=1, steps=100_000)
    while found.going is None:
        assert not found.wait(0.01)
    found.stop()
    assert found.wait(30) and found.state == "stopped"


def test_the_view_draws_the_chart_as_it_is_measured(launches, script, cache):
    found = done(script, nprocs=(1, 2, 4), repeats=2, threads=2, label="a <b> label")
    shown = SweepView(found).page(False)
    assert shown.count("<circle") == 1 + 3 and "processes, 2 threads each" in shown and "all threads" in shown
    assert "a &lt;b&gt; label" in shown and "<b> label" not in shown
