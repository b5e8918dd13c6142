"""Where the reader is: in a notebook, which shows widgets and pictures, or elsewhere."""

from __future__ import annotations

import sys


def in_notebook() -> bool:
    """True inside a Jupyter kernel. IPython is looked up, never imported: where it is not loaded, nobody shows."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
