"""`cpump reset LESSON`: a lesson as it was at first, beside the learner's own copy of it, which is kept."""

from __future__ import annotations

import difflib
import re
import shutil
from pathlib import Path

from .. import bootstrap
from ..errors import CpumpError
from ..teaching.lessons import learners_copy
from .progress import lessons_folder

SCRIPT = re.compile(r"scripts/\w+\.py")


class ResetError(CpumpError, ValueError):
    """A lesson that cannot be brought back."""


def main(arguments: list[str]) -> int:
    """`cpump reset LESSON [DIR]`."""
    if not 1 <= len(arguments) <= 2 or arguments[0] in ("-h", "--help"):
        print("usage: cpump reset LESSON [DIR]     (LESSON: 07, ddp or 07_ddp; DIR: the folder of your lessons)")
        return 0 if set(arguments) & {"-h", "--help"} else 2
    try:
        kept = reset(arguments[0], lessons_folder(*arguments[1:]))
    except (CpumpError, OSError) as error:
        print(f"cpump: {error}")
        return 1
    if not kept:
        print("It is as it was at first: nothing had to be done.")
    for fresh, mine in kept.items():
        print(f"{fresh} is as it was at first; your copy of it is {mine}.")
    return 0


def reset(lesson: str, folder: Path, kit: Path | None = None) -> dict[str, str]:
    """Bring back the notebook and the scripts that it runs. What differs is renamed first and named in the result.

    kit   the folder of the kit's own lessons; by default the checkout's or the installed one
    Raises ResetError for a lesson that there is not.
    """
    kit = kit or (bootstrap.CHECKOUT or bootstrap.PACKAGE) / "notebooks"
    source = find_lesson(lesson, kit)
    text = learners_copy(source)
    wanted = {source.name: text.encode()}
    if folder.resolve() != kit.resolve():  # else there is no second copy of a script to bring back
        wanted |= {name: (kit / name).read_bytes() for name in sorted(set(SCRIPT.findall(text)))
                   if (kit / name).exists()}
    kept = {}
    for name, content in wanted.items():
        path = folder / name
        if path.exists() and path.read_bytes() == content:
            continue
        if path.exists():
            mine = _free(path)
            shutil.move(path, mine)
            kept[name] = mine.relative_to(folder).as_posix()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return kept


def find_lesson(lesson: str, kit: Path) -> Path:
    """The solved notebook of "07", "7", "ddp", "07_ddp" or "07_ddp.ipynb". Raises ResetError with the nearest name."""
    sources = {path.stem: path for path in sorted((kit / "solutions").glob("*.ipynb"))}
    asked = Path(lesson).name.removesuffix(".ipynb")
    for name, path in sources.items():
        number, _, word = name.partition("_")
        if asked in (name, word) or asked.isdecimal() and int(asked) == int(number):
            return path
    near = difflib.get_close_matches(asked, [*sources, *(name.partition("_")[2] for name in sources)], n=1)
    rest = f"did you mean {near[0]}?" if near else f"there are {', '.join(sources)}"
    raise ResetError(f"there is no lesson {lesson!r}; {rest}")


def _free(path: Path) -> Path:
    """A name beside `path` that is not taken: 07_ddp-mine.ipynb, 07_ddp-mine-2.ipynb, ..."""
    names = (path.with_name(f"{path.stem}-mine{f'-{n}' if n > 1 else ''}{path.suffix}") for n in range(1, 10_000))
    return next(name for name in names if not name.exists())
