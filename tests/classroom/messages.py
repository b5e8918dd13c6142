"""Every message that the kit's source can give, found by reading the source and never by running it.

A message is a pattern in which "…" stands for what is filled in. Looked at are: what an error of the kit is raised
with; what functions in `SAYS` return, which put sentences together; what goes into `notes`; and the cures.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "cpump_kit"
HOLE = "…"
# Modules whose functions return sentences for people: what went wrong with a run, why, where it hangs.
SAYS = {"verdict.py", "hang.py", "explain.py"}
FOR_AUTHORS = {"exercises", "exercise.py", "lessons.py", "__init__.py"}  # read by nobody who takes a lesson


@dataclass(frozen=True)
class Message:
    place: str  # "running/launch.py:40"
    text: str

    @property
    def pieces(self) -> list[str]:
        """The parts that are the same each time, those with three words or more."""
        return [piece for piece in map(plain, self.text.split(HOLE)) if piece.count(" ") > 1]


def plain(text: str) -> str:
    """Without the differences that do not matter: case, quotes, markup, white space, full stops."""
    return re.sub(r"\s+", " ", re.sub(r"[`'\"*\\]", "", text.lower())).strip(" .:;,()|")


def messages() -> list[Message]:
    found = [message for path in sorted(PACKAGE.rglob("*.py")) if not set(path.relative_to(PACKAGE).parts) & FOR_AUTHORS
             for message in _of_file(path)]
    return [message for message in found if message.pieces]


def _of_file(path: Path) -> Iterator[Message]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    errors = _errors(tree)
    constants = {target.id: text for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
                 for text in _texts(node.value) if isinstance(target, ast.Name)}

    def message(node: ast.AST, text: str) -> Message:
        return Message(f"{path.relative_to(PACKAGE).as_posix()}:{node.lineno}", text)

    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and _name(node.exc.func) in errors:
            for argument in node.exc.args[:1]:
                helper = functions.get(_name(argument.func)) if isinstance(argument, ast.Call) else None
                texts = _returned(helper) if helper else _texts(argument)
                yield from (message(node, text) for text in texts)
        elif isinstance(node, ast.Call) and _name(node.func) == "Check" and len(node.args) > 3:
            yield from (message(node, text) for text in _texts(node.args[3]))
        elif isinstance(node, ast.Call) and _is_note(node):
            yield from (message(node, constants.get(_name(node.args[0]), text)) for text in _texts(node.args[0]))
        elif isinstance(node, (ast.Assign, ast.AugAssign)) and _is_said(node):
            values = node.value.elts if isinstance(node.value, ast.List) else [getattr(node.value, "elt", node.value)]
            yield from (message(node, text) for value in values for text in _texts(value))
    if path.name in SAYS:
        for function in functions.values():
            yield from (message(function, text) for text in _returned(function, constants))


def _errors(tree: ast.Module) -> set[str]:
    """The kit's own error classes that the file imports or defines."""
    imported = {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level
                for alias in node.names}
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    ours = {name for name in imported | {node.name for node in classes} if name.endswith("Error")} | {"RunStopped"}
    return ours | {node.name for node in classes if {_name(base) for base in node.bases} & ours}


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_note(call: ast.Call) -> bool:
    return _name(call.func) == "append" and _name(call.func.value) == "notes"


def _is_said(node: ast.Assign | ast.AugAssign) -> bool:
    """`cure = ...` and `notes += [...]`."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return _name(targets[0]) in ("cure", "notes")


def _returned(function: ast.FunctionDef, constants: dict[str, str] | None = None) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield from ([constants[_name(node.value)]] if _name(node.value) in (constants or {}) else
                        _texts(node.value))


def _texts(node: ast.AST) -> list[str]:
    """The patterns of an expression, one for each branch of a choice; what is not written out is a hole."""
    if isinstance(node, ast.Constant):
        return [re.sub(r"\{.*?\}", HOLE, node.value)] if isinstance(node.value, str) else [HOLE]
    if isinstance(node, ast.JoinedStr):
        return ["".join(part.value if isinstance(part, ast.Constant) else HOLE for part in node.values)]
    if isinstance(node, ast.IfExp):
        return _texts(node.body) + _texts(node.orelse)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [left + right for left in _texts(node.left) for right in _texts(node.right)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "rstrip"):
        return _texts(node.func.value)
    return [HOLE]
