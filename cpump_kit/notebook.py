"""What a notebook's page can show, and plain text wherever there is no page."""

from __future__ import annotations

import sys
from dataclasses import dataclass


def in_notebook() -> bool:
    """True inside a Jupyter kernel."""
    return getattr(_shell(), "kernel", None) is not None


def has_page() -> bool:
    """True if a person's browser shows this cell, so that widgets and buttons make sense.

    JupyterLab, Notebook and VS Code say in each request which cell they run; nbclient and nbval, which run
    notebooks without a page, say nothing, and neither does a terminal.
    """
    if "google.colab" in sys.modules:
        return True
    kernel = getattr(_shell(), "kernel", None)
    return kernel is not None and bool(kernel.get_parent("shell").get("metadata"))


def cell_name(file: str) -> str:
    """"cell [12]" for the file name under which IPython compiled that cell; another name comes back as it is."""
    names = getattr(getattr(_shell(), "compile", None), "_filename_map", {})
    return f"cell [{names[file]}]" if file in names else file


def show_both(text: str, html: str) -> None:
    """Display at this place of the output: HTML in a notebook, text elsewhere."""
    if _shell() is None:
        print(text)
    else:
        from IPython.display import display

        display(Shown(text, html))


def _shell():
    """IPython's shell, or None. IPython is looked up and never imported: where it is not loaded, it shows nothing."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


@dataclass(frozen=True)
class Shown:
    """Something to display: `html` (escaped by whoever wrote it) on a page, `text` in a terminal."""

    text: str
    html: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html
