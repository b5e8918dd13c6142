"""The live view: what it shows, when it draws, and what it leaves. The browser's part is in tests/browser."""

import re
import threading
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from ipywidgets.widgets import widget
from nbclient import NotebookClient

from cpump_kit import notebook
from cpump_kit.notebook import Shown
from cpump_kit.showing import live, live_page, panel
from cpump_kit.showing.live import RunView

EVIL = "<script>alert(1)</script>"


class FakeRun:
    """What a Run shows to its reader, with nothing behind it."""

    script, nprocs, threads, state = "ddp.py", 2, 1, "training"
    seconds, samples_per_second, progress = 6.2, 12400.0, (0.43, 8.2)
    error = traceback = standstill = None
    notes = ()
    blocking = False
    output = [(0, "hello"), (1, "world")]
    folder, core, parts = Path("/tmp/cpump-x"), None, {}

    def __init__(self, **changes):
        self.stopped, self._call = threading.Event(), None
        for name, value in changes.items():
            setattr(self, name, value)

    @property
    def ranks(self):
        return [SimpleNamespace(rank=rank, state=self.state, core=self.core, parts=self.parts, steps=100, samples=430,
                                total=1000, samples_per_second=6200.0, loss=0.5) for rank in range(self.nprocs)]

    def series(self, name, points=200):
        return {rank: ([64.0, 128.0, 192.0], [2.0, 1.0, 0.5]) for rank in range(self.nprocs)}

    def output_since(self, count):
        return len(self.output), self.output[count:]

    def where(self):
        return "rank 0: ddp.py, line 30, in train: <b>"

    def stop(self):
        self.stopped.set()

    def when_ended(self, call):
        self._call = call

    def end(self, state="done"):
        self.state = state
        self._call()


def page(**changes):
    view = RunView(FakeRun(**changes))
    view.look()
    return view.page(changes.get("blocking", False))


# -- the page -----------------------------------------------------------------------------------------------------


def test_one_glance_says_how_it_goes():
    shown = page()
    for part in ("training: ddp.py on 2 processes with 1 thread each", "43\u00a0%", "12,400 samples/s", "6.2 s so far",
                 "about 8 s left", "rank 0", "rank 1", "mean", "samples of each rank", "6,200", "core 0",
                 "[rank 0] hello\n[rank 1] world", 'aria-valuenow="43"'):
        assert part in shown, part


def test_where_a_steps_time_goes_and_the_core_of_each_rank_are_shown_where_they_are_known():
    shown = page(core=3, parts={"compute": 1.5, "communication": 0.5})
    for part in ("where a step's time goes", "compute 75\u00a0%", "communication 25\u00a0%", '<td class="n">3</td>'):
        assert part in shown, part
    assert "step's time" not in page() and '<th class="n">core</th>' not in page()


def test_the_use_of_each_core_is_a_strip_over_time():
    view = RunView(FakeRun())
    for _ in range(300):
        view.look()
    strips = re.findall(r'<polygon points="([^"]+)"', view.page(False))
    assert len(strips) >= 1 and all(len(points.split()) <= 202 for points in strips)


def test_where_it_is_stands_on_the_page_when_asked():
    view = RunView(FakeRun())
    view.look()
    assert "line 30" not in view.page(False)
    view.ask_where()
    assert "rank 0: ddp.py, line 30, in train: &lt;b&gt;" in view.page(False)


def test_the_words_say_where_the_rest_of_the_printed_lines_is():
    few, many = (RunView(FakeRun(output=[(0, "x")] * n)).words().html for n in (5, 60))
    assert "rank0.log" not in few and "cpump-x" in many and "rank0.log" in many


def test_each_state_is_a_word():
    for state in ("starting", "training", "done", "failed", "stopped"):
        assert f"<b>{state}: ddp.py" in page(state=state)


def test_what_is_not_known_is_left_out():
    shown = page(progress=(None, None), samples_per_second=None, state="starting", output=[],
                 series=lambda *_: {0: ([], []), 1: ([], [])})
    assert "left" not in shown.split("</style>")[1] and "samples/s  ·" not in shown and "<pre>" not in shown
    assert "aria-valuenow" not in shown and "no loss has been reported yet" in shown


def test_what_workers_print_and_are_called_cannot_become_html():
    shown = page(script=EVIL, output=[(0, EVIL)], standstill=EVIL, notes=(EVIL,))
    assert EVIL not in shown and shown.count("&lt;script&gt;") == 4
    said = RunView(FakeRun(error=EVIL, traceback=EVIL, output=[(1, EVIL)], notes=(EVIL,))).words()
    assert EVIL not in said.html and said.html.count("&lt;script&gt;") == 4


def test_what_workers_print_is_bounded():
    shown = page(output=[(0, "x" * 10_000)] * 100)
    assert shown.count("[rank 0]") == live_page.LINES and len(shown) < 10_000


def test_many_ranks_and_cores_stay_small():
    many = page(nprocs=64)
    assert "and 48 more" not in many and "and 48 ranks more" in many
    assert "mean of 64 ranks (thin: each)" in many and "rank 1<" not in many
    assert "16.0 of 32" in live_page.core_table([50.0] * 32)


@pytest.mark.parametrize("losses", [{0: ([64.0], [2.0])}, {0: ([0.0], [0.0])}, {0: ([1.0, 2.0], [-3.0, -3.0])},
                                    {0: ([1.0], [1e9]), 1: ([], [])}])
def test_any_losses_can_be_drawn(losses):
    drawn = live_page.loss_plot(losses, None)
    assert "<polyline" in drawn and "nan" not in drawn and "inf" not in drawn


def test_the_axis_ends_at_the_total_only_when_that_is_near():
    assert "1,000<" in live_page.loss_plot({0: ([900.0], [1.0])}, 1000)
    assert "1,000<" not in live_page.loss_plot({0: ([10.0], [1.0])}, 1000)


def test_when_the_kernel_cannot_hear_the_button_another_way_is_named():
    assert "Interrupt" in page(blocking=True)
    assert "Interrupt" not in page()


# -- what stays ---------------------------------------------------------------------------------------------------


def test_the_sentence_the_traceback_and_the_lines_stay_as_text():
    said = RunView(FakeRun(state="failed", error="Rank 1 failed: ValueError: boom", traceback="Traceback ...")).words()
    assert said.text == "Rank 1 failed: ValueError: boom"
    assert "<p>Rank 1 failed: ValueError: boom</p>" in said.html
    assert "Traceback ..." in said.html and "[rank 1] world" in said.html


def test_the_picture_has_the_same_content():
    view = RunView(FakeRun(state="done"))
    view.look()
    picture = view.picture()
    assert "ddp.py on 2 processes with 1 thread each: done in 6.2 s, 12,400 samples/s" in picture.alt
    assert len(picture.figure.axes) == 3


def test_core_use_is_thinned_evenly_and_never_lost():
    run = FakeRun()
    view = RunView(run)
    for second in range(5000):
        run.seconds = second
        view.look()
    times = [t for t, _ in view._cores]
    assert len(times) <= live.KEPT and times[-1] > 4900
    assert max(b - a for a, b in zip(times, times[1:])) <= 2 * min(b - a for a, b in zip(times[1:], times[2:]))


# -- the panel ----------------------------------------------------------------------------------------------------


class FakeView:
    name = "work"

    def __init__(self, run):
        self.run, self.pages, self.looked = run, 0, threading.Semaphore(0)

    def look(self):
        self.looked.release()

    def page(self, blocked):
        self.pages += 1
        return f"page {self.pages}"

    def picture(self):
        return None

    def words(self):
        return Shown("the end", "<p>the end</p>")

    def wait_for_looks(self, n):
        """Wait for `n` more looks from now on."""
        while self.looked.acquire(blocking=False):
            pass
        for _ in range(n):
            assert self.looked.acquire(timeout=30)


class Outputs:
    """Stands for the notebook's outputs: each has what was displayed there last."""

    def __init__(self):
        self.shown = []

    def display(self, thing, raw=False, metadata=None, display_id=False):
        place = len(self.shown)
        self.shown.append(thing)

        def update(new, raw=False, metadata=None):
            self.shown[place] = new

        return SimpleNamespace(update=update)


@pytest.fixture
def outputs(monkeypatch):
    found = Outputs()
    monkeypatch.setattr("IPython.display.display", found.display)
    monkeypatch.setattr(panel, "EVERY", 0.001)
    return found


@pytest.fixture
def following(outputs, monkeypatch):
    """Start a panel in its thread; end it, whatever happens."""
    started = []

    def start(page=True, **changes):
        monkeypatch.setattr(notebook, "has_page", lambda: page)
        run = FakeRun(**changes)
        view = FakeView(run)
        found = panel.Panel(run, view)
        thread = threading.Thread(target=found.follow)
        started.append((run, thread))
        thread.start()
        return run, view, found, thread

    yield start
    for run, thread in started:
        while run._call is None:
            assert thread.is_alive()
        run._call()
        thread.join(30)
        assert not thread.is_alive()


def end(run, thread):
    run.end()
    thread.join(30)


def test_it_draws_while_somebody_looks(following, outputs):
    run, view, found, thread = following()
    view.wait_for_looks(3)
    assert view.pages > 1 and outputs.shown[0] is found._box
    found._box._view_count = 1  # so says the front end
    found._box._view_count = 0  # the last page was closed
    view.wait_for_looks(2)
    before = view.pages
    view.wait_for_looks(5)
    assert view.pages == before
    found._box._view_count = 1
    view.wait_for_looks(3)
    assert view.pages > before


def test_it_draws_while_the_kernel_is_blocked_and_hears_of_no_page(following):
    run, view, found, thread = following(blocking=True)
    found._box._view_count = 1
    found._box._view_count = 0
    view.wait_for_looks(2)
    before = view.pages
    view.wait_for_looks(4)
    assert view.pages > before and found._stop.disabled
    run.blocking = False
    found._box._view_count = 1
    view.wait_for_looks(4)
    assert not found._stop.disabled


def test_without_a_page_it_never_draws_and_still_looks(following, outputs):
    run, view, found, thread = following(page=False)
    view.wait_for_looks(5)
    assert view.pages == 0
    assert outputs.shown[0] == {"text/plain": "work: started"}
    end(run, thread)
    assert outputs.shown[0] == {"text/html": "<p>the end</p>", "text/plain": "the end"}


def test_the_button_stops_and_says_so(following):
    run, view, found, thread = following()
    found._stop.click()
    assert run.stopped.is_set()
    view.wait_for_looks(3)
    assert found._stop.disabled and found._stop.description == "Stopping"


def test_no_widget_is_left(following, outputs):
    before = set(widget._instances)
    run, view, found, thread = following()
    assert set(widget._instances) > before
    end(run, thread)
    assert outputs.shown[0]["text/plain"] == "the end"
    assert set(widget._instances) == before


def test_a_costly_view_is_drawn_less_often(following, monkeypatch):
    monkeypatch.setattr(panel, "SHARE", 1e-9)  # any drawing is costly now
    run, view, found, thread = following()
    assert view.looked.acquire(timeout=30)
    assert not view.looked.acquire(timeout=0.2)
    end(run, thread)
    assert not thread.is_alive()


def test_outside_a_notebook_nothing_happens(capsys):
    live.show(FakeRun())
    assert capsys.readouterr().out == ""


SCRIPT = """
from cpump_kit import report

def train(rank, world_size):
    for step in range(20):
        report(loss=1 / (1 + step), samples=8, total=160)
    print("hello")
    return rank
"""


def test_a_notebook_run_by_a_program_keeps_a_picture_and_no_widget(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(live.__file__).parents[2]))
    (tmp_path / "lesson.py").write_text(SCRIPT)
    cells = ["import cpump_kit as cp", "run = cp.launch('lesson.py', nprocs=2)", "run.results",
             # The kernel goes at the notebook's end, so wait for the picture.
             "import threading\nfor thread in threading.enumerate():\n"
             "    if thread.name.startswith('cpump view'):\n        thread.join(60)",
             "import sys\nassert 'ipywidgets' not in sys.modules"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    picture, words = book.cells[1].outputs
    assert picture.data["image/png"] and picture.metadata["image/png"]["alt"] == picture.data["text/plain"]
    assert "lesson.py on 2 processes" in picture.data["text/plain"]
    assert "[rank 0] hello" in words.data["text/html"] and "This picture in words" in words.data["text/html"]
    assert not book.metadata.get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {}).get("state")
