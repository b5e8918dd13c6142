"""What the workers print: each rank writes to a file of the run, from which whole lines are read here."""

from __future__ import annotations

from collections import deque
from pathlib import Path

KEPT = 200  # lines kept in memory; the files keep all
AT_ONCE = 2**16  # bytes read from one file at a time, so that a rank that prints without end holds up nobody
LINE = 2000  # characters shown of one line


class Output:
    """Lines by rank, in the order in which they were read."""

    def __init__(self, folder: Path, nprocs: int):
        self.files = [folder / f"rank{rank}.log" for rank in range(nprocs)]
        self.lines: deque[tuple[int, str]] = deque(maxlen=KEPT)
        self.count = 0  # lines so far, those no longer kept included
        self._read = [0] * nprocs
        self._begun = [b""] * nprocs

    def poll(self, final: bool = False) -> None:
        """Read what is new. `final` also takes a last line without its end."""
        for rank, file in enumerate(self.files):
            data = self._new_bytes(rank, file)
            *whole, rest = (self._begun[rank] + data).split(b"\n")
            self._begun[rank] = rest[-4 * LINE:]
            if final and rest:
                whole.append(rest)
                self._begun[rank] = b""
            for line in whole:
                self._add(rank, line)

    def _new_bytes(self, rank: int, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                # Far behind a rank that prints faster than anybody reads: go on near the end.
                start = max(self._read[rank], size - AT_ONCE)
                file.seek(start)
                data = file.read(AT_ONCE)
        except OSError:
            return b""  # not made yet
        self._read[rank] = start + len(data)
        return data

    def _add(self, rank: int, line: bytes) -> None:
        self.lines.append((rank, _as_seen(line)))
        self.count += 1

    def unfinished(self) -> list[tuple[int, str]]:
        """The lines that have not ended yet, as a progress bar's has not while it moves."""
        return [(rank, shown) for rank, begun in enumerate(self._begun) if (shown := _as_seen(begun))]

    def since(self, count: int) -> list[tuple[int, str]]:
        """The lines after the first `count`, as far as they are kept."""
        new = min(self.count - count, len(self.lines))
        return list(self.lines)[len(self.lines) - new:] if new > 0 else []

    def last_words(self, rank: int) -> str:
        """The end of what the rank printed, in full."""
        try:
            with self.files[rank].open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - AT_ONCE))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""


def _as_seen(line: bytes) -> str:
    """A progress bar rewrites its line after each carriage return: what counts is how it looks last."""
    return line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2][:LINE]
