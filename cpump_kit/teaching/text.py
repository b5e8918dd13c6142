"""A book to learn writing from, offline.

Source: Lewis Carroll, "Alice's Adventures in Wonderland", London 1865, which is in the public domain.
The file text.txt.gz holds the novel's text alone, in ASCII. Changes made here: a paragraph is one line, the lines of
verse stay; rows of asterisks and the notes of later editors are left out; all single quotation marks are straight.
"""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path


@cache
def text() -> str:
    """The novel "Alice's Adventures in Wonderland" by Lewis Carroll (1865, public domain), about 143,000 characters.

    Read from the kit's own file when it is first asked for, and kept.
    """
    return gzip.decompress(Path(__file__).with_name("text.txt.gz").read_bytes()).decode("ascii")
