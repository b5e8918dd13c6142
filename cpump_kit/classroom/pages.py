"""What slides and book share: a lesson is run, and its notebook becomes HTML with nbconvert."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from ..teaching.lessons import MARKER

TEMPLATES = Path(__file__).parent / "templates"
CELL_SECONDS = 600  # a cell that takes longer is taken for one that hangs
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+?)\.(?:ipynb|md)(#[^)\s]*)?\)")  # a relative link to a notebook or a text


def run(source: Path) -> tuple[NotebookNode, str | None]:
    """The solved lesson `source` with its outputs, and the error in words if a cell failed: what follows is not run.

    The cells that are for the solutions' folder only are left out.
    """
    from nbclient.exceptions import CellControlSignal, DeadKernelError
    from nbconvert.preprocessors import ExecutePreprocessor

    notebook, error = nbformat.read(source, as_version=4), None
    execute = ExecutePreprocessor(timeout=CELL_SECONDS, kernel_name="python3", extra_arguments=["--log-level=ERROR"])
    try:
        execute.preprocess(notebook, {"metadata": {"path": str(source.parent)}})
    except (CellControlSignal, DeadKernelError) as failure:
        error = re.sub(r"\x1b\[[0-9;]*m", "", str(failure)).strip().splitlines()[-1]
    notebook.cells = [cell for cell in notebook.cells if "solved-copy" not in cell.metadata.get("tags", [])]
    return notebook, error


def without_markers(source: str) -> str:
    """A solved cell as one would write it: the lines that mark the solution are left out."""
    return "\n".join(line for line in source.split("\n") if not MARKER.fullmatch(line.strip()))


def with_page_links(text: str, rename: Callable[[str], str] = lambda name: name) -> str:
    """Markdown in which relative links to notebooks and texts lead to their pages."""
    return LINK.sub(lambda found: f"]({rename(found[1])}.html{found[2] or ''})", text)


def html(notebook: NotebookNode, title: str, *, slides: bool = False) -> str:
    """A whole page that needs no network."""
    from nbconvert import HTMLExporter, SlidesExporter

    kind, template = (SlidesExporter, "cpump_slides") if slides else (HTMLExporter, "cpump_book")
    exporter = kind(template_name=template, extra_template_basedirs=[str(TEMPLATES)],
                    extra_template_paths=[str(TEMPLATES)], exclude_input_prompt=True, exclude_output_prompt=True)
    return exporter.from_notebook_node(notebook, resources={"metadata": {"name": title}})[0]
