"""The errors that a reader meets: each one clear text, with nothing of the kit's insides around it."""

from __future__ import annotations


class CpumpError(Exception):
    """The base of the kit's own errors."""

    def _render_traceback_(self) -> list[str]:
        # IPython asks for this in place of a traceback: the frames of the kit would only hide the sentence.
        return [f"{type(self).__name__}: {self}"]


class LaunchError(CpumpError, ValueError):
    """A request that cannot work. Raised before any process is started."""


class WorkerError(CpumpError, RuntimeError):
    """A rank failed. The text names the rank, the script and the line, then shows that rank's own traceback."""


class RunStopped(CpumpError, RuntimeError):
    """The run was stopped before it ended. What was reported until then is in `run.history`."""
