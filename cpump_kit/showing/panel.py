"""A place under a notebook cell: a live view with a Stop button while work goes on, then a picture that stays.

While the work goes on nothing but a widget's text changes, which the browser draws. At the end the widget's output
is replaced by a PNG, so that the saved notebook needs no widget, no kernel and no trust to show it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ..notebook import in_notebook
from .picture import Picture, drawing

if TYPE_CHECKING:
    from ..notebook import Shown

EVERY = 0.24  # seconds between two looks
SHARE = 0.02  # of one core that drawing may take: the cores belong to what is measured


class Work(Protocol):
    """What a panel follows: a run or a sweep."""

    blocking: bool  # True while the kernel waits for it, and so takes no messages

    def stop(self) -> None: ...
    def when_ended(self, call: Callable[[], None]) -> None: ...


class View(Protocol):
    """What a panel shows of it. All methods are called from one thread."""

    name: str

    def look(self) -> None:
        """Called a few times a second, watched or not: take what the final picture needs."""

    def page(self, blocked: bool) -> str:
        """The live view as HTML. `blocked`: the Stop button cannot be heard."""

    def picture(self) -> Picture | None:
        """What stays at the end, or None."""

    def words(self) -> Shown:
        """What stands below the picture, or alone if there is none."""

    def ask_where(self) -> None:
        """Let the page say where the work is now. Optional: with it there is a button. May take a second."""


def follow(work: Work, view: View) -> None:
    """Show `view` under the current cell and keep it up to date until `work` has ended. Returns at once.

    Outside a notebook nothing happens. Where a program runs the notebook (nbclient, nbval) nothing is drawn until
    the end.
    """
    if in_notebook():
        panel = Panel(work, view)
        threading.Thread(target=panel.follow, name=f"cpump view of {view.name}", daemon=True).start()


class Panel:
    """The outputs that a view has under its cell: the widget, later the picture, and the words below it."""

    def __init__(self, work: Work, view: View):
        from IPython.display import display

        from ..notebook import has_page

        self._work, self._view = work, view
        self._box = self._make_widgets() if has_page() else None
        first = {"text/plain": f"{view.name}: started"}
        self._above = display(self._box or first, raw=self._box is None, display_id=True)
        self._below = display({"text/plain": "", "text/html": ""}, raw=True, display_id=True)

    def _make_widgets(self):
        from ipywidgets import HTML, Button, GridBox, HBox

        self._html = HTML(self._view.page(False), layout={"grid_area": "1/1", "width": "100%", "margin": "0"})
        self._stop = Button(description="Stop", icon="stop", tooltip="End the worker processes now",
                            layout={"width": "104px", "margin": "10px 12px 0 6px"})
        self._stop.on_click(self._on_stop)
        buttons = [self._stop]
        if hasattr(self._view, "ask_where"):
            where = Button(description="Where is it?", tooltip="Show the line at which each rank is now",
                           layout={"width": "118px", "margin": "10px 0 0"})
            where.on_click(self._on_where)
            buttons.insert(0, where)
        self._buttons = HBox(buttons, layout={"grid_area": "1/1"})
        box = GridBox([self._html, self._buttons], layout={
            "max_width": "1000px", "padding": "0 2px", "grid_template_columns": "100%",
            "justify_items": "flex-end", "align_items": "flex-start"})
        # From 0 on the front end counts the box's views there, and tells when a page is opened or closed.
        box._view_count = 0
        box.observe(self._on_views, "_view_count")
        self._watched = True  # until it has told
        return box

    def _on_stop(self, _) -> None:
        self._stop.disabled, self._stop.description = True, "Stopping"
        self._work.stop()

    def _on_where(self, _) -> None:
        # In a thread of its own: the answers take a moment, and the kernel has other messages to hear.
        threading.Thread(target=self._view.ask_where, name="cpump where", daemon=True).start()

    def _on_views(self, change) -> None:
        self._watched = change["new"] > 0

    def follow(self) -> None:
        """Look, and draw if anybody can see it, until the work has ended; then leave the picture."""
        ended = threading.Event()
        self._work.when_ended(ended.set)
        pause = EVERY
        try:
            while not ended.wait(pause):
                spent = time.thread_time()
                self._view.look()
                # While the kernel waits for the work it cannot hear of a page that has been opened.
                if self._box is not None and (self._watched or self._work.blocking):
                    self._draw()
                pause = max(EVERY, (time.thread_time() - spent) / SHARE)
        finally:
            with drawing:
                self._leave_picture()

    def _draw(self) -> None:
        blocked = self._work.blocking
        self._html.value = self._view.page(blocked)
        if self._stop.description == "Stop":
            self._stop.disabled = blocked

    def _leave_picture(self) -> None:
        picture, words = self._view.picture(), self._view.words()
        html = {"text/html": words.html, "text/plain": words.text}
        if picture is None:
            self._above.update(html, raw=True)
        else:
            data, metadata = picture.bundle()
            self._above.update(data, metadata=metadata, raw=True)
            self._below.update({**html, "text/html": words.html + picture.in_words()}, raw=True)
        if self._box is not None:
            for widget in (self._box, self._html, self._buttons, *self._buttons.children):
                for part in (widget, widget.layout, getattr(widget, "style", None)):
                    if part is not None:
                        part.close()
