"""A finished figure as a notebook keeps it: a PNG, and the same in words for those who cannot see it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

drawing = threading.Lock()  # held while a picture is drawn in the background, so that no measurement starts beside it
SHARPNESS = 1.6  # pixels of the file for each pixel on the page, so that a projector shows clean letters


@dataclass(frozen=True)
class Picture:
    """A chart with its description. In a notebook it shows itself; `figure` is the matplotlib figure.

    alt   the picture in words
    """

    figure: Figure
    alt: str

    def png(self) -> bytes:
        # Straight to the Agg canvas: pyplot would keep global state, which a thread must not touch.
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        buffer = BytesIO()
        FigureCanvasAgg(self.figure).print_png(buffer, metadata={"Description": self.alt})
        return buffer.getvalue()

    def bundle(self) -> tuple[dict, dict]:
        """(data, metadata) of a Jupyter output. The text stands where a picture cannot."""
        width = round(self.figure.get_figwidth() * self.figure.dpi / SHARPNESS)
        data = {"image/png": self.png(), "text/plain": self.alt}
        return data, {"image/png": {"alt": self.alt, "width": width}}

    def in_words(self) -> str:
        """The description as HTML. JupyterLab 4 and nbconvert give a PNG no alt attribute, so it goes beside it."""
        return ('<details><summary>This picture in words</summary>'
                f'<p style="max-width:60em">{escape(self.alt)}</p></details>')

    def save(self, path: str | Path) -> None:
        """Write the picture to a file; its ending says in which format (png, pdf, svg)."""
        self.figure.savefig(path)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        data, metadata = self.bundle()
        display(data, metadata=metadata, raw=True)
        display({"text/html": self.in_words(), "text/plain": ""}, raw=True)

    def __repr__(self) -> str:
        return self.alt
