"""Which function a run calls: found and checked without running anything of the reader's."""

from __future__ import annotations

import ast
import difflib
import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import LaunchError

Parameter = inspect.Parameter


@dataclass(frozen=True)
class Target:
    """A function to run in workers: `function` of the file `script`, or `call` itself when it came as an object."""

    name: str  # for people: "ddp.py", or "train" for a function
    function: str
    script: str | None = None
    call: Callable | None = None
    signature: inspect.Signature | None = None  # None where it cannot be read without running the script


def find(what: str | Path | Callable) -> Target:
    """The target for a script's path, "path.py:function", or a function.

    Raises LaunchError, before anything of it runs, for a missing file, a syntax error, or a missing function.
    """
    if callable(what):
        return _of_function(what)
    if not isinstance(what, (str, Path)):
        raise LaunchError(f"launch takes a script's path or a function, not {type(what).__name__}")
    path, _, function = str(what).partition(".py:")
    path = Path(path + ".py" if function else path).expanduser()
    return _of_script(path, function or "train")


def _of_function(function: Callable) -> Target:
    name = getattr(function, "__name__", type(function).__name__)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        signature = None
    return Target(name, name, call=function, signature=signature)


def _of_script(path: Path, function: str) -> Target:
    if not path.is_file():
        raise LaunchError(_no_such_file(path))
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        shown = f": {error.text.strip()}" if error.text else ""
        raise LaunchError(f"{path.name}, line {error.lineno}: {error.msg}{shown}") from None
    except ValueError as error:  # a null byte, for example
        raise LaunchError(f"{path.name} is not a Python script: {error}") from None
    return Target(path.name, function, script=str(path.resolve()), signature=_read_signature(tree, path, function))


def _no_such_file(path: Path) -> str:
    folder = path.parent if path.parent.is_dir() else Path()
    near = difflib.get_close_matches(path.name, [other.name for other in folder.glob("*.py")], n=1)
    hint = f"; did you mean {folder / near[0]}?" if near else f" (looked from {Path.cwd()})"
    return f"there is no script {path}{hint}"


def _read_signature(tree: ast.Module, path: Path, function: str) -> inspect.Signature | None:
    names = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.append(node.name)
            if node.name == function:
                # A decorator may change the signature; then only the worker can tell.
                return None if node.decorator_list else _signature(node.args)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, (ast.Assign, ast.If, ast.Try, ast.With, ast.AnnAssign)):
            names += [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)]
            names += [inner.name for inner in ast.walk(node) if isinstance(inner, ast.FunctionDef)]
    if function in names or "*" in names:
        return None
    near = difflib.get_close_matches(function, names, n=1)
    hint = f"; did you mean {path.name}:{near[0]}?" if near else ": write def train(rank, world_size, ...)"
    raise LaunchError(f"{path.name} has no function {function}{hint}")


def _signature(args: ast.arguments) -> inspect.Signature:
    """The signature as written. Defaults that are not literals stand as `...`."""
    def value(node):
        try:
            return ast.literal_eval(node)
        except ValueError:
            return ...

    plain = [(arg, Parameter.POSITIONAL_ONLY) for arg in args.posonlyargs]
    plain += [(arg, Parameter.POSITIONAL_OR_KEYWORD) for arg in args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    found = [(arg, kind, default) for (arg, kind), default in zip(plain, defaults)]
    if args.vararg:
        found.append((args.vararg, Parameter.VAR_POSITIONAL, None))
    found += [(arg, Parameter.KEYWORD_ONLY, default) for arg, default in zip(args.kwonlyargs, args.kw_defaults)]
    if args.kwarg:
        found.append((args.kwarg, Parameter.VAR_KEYWORD, None))
    return inspect.Signature([
        Parameter(arg.arg, kind, default=Parameter.empty if default is None else value(default))
        for arg, kind, default in found])


def check_arguments(target: Target, arguments: dict) -> None:
    """Raise LaunchError unless `function(rank, world_size, **arguments)` fits the signature."""
    if target.signature is None:
        return
    where = f"{target.function}() in {target.name}" if target.script else f"{target.function}()"
    parameters = list(target.signature.parameters.values())
    kinds = [parameter.kind for parameter in parameters]
    positional = [p for p in parameters if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2 and Parameter.VAR_POSITIONAL not in kinds:
        raise LaunchError(f"{where} must take rank and world_size first: def {target.function}(rank, world_size, ...)")
    taken = {p.name: p for p in parameters if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)}
    for given in positional[:2]:
        taken.pop(given.name, None)
    for name in arguments:
        if name not in taken and Parameter.VAR_KEYWORD not in kinds:
            raise LaunchError(f"{where} has no argument {name!r}{_nearest(name, taken)}")
    for name, parameter in taken.items():
        if parameter.default is Parameter.empty and name not in arguments:
            raise LaunchError(f"{where} needs a value for {name}: add {name}=... to the call")


def _nearest(name: str, taken: dict) -> str:
    near = difflib.get_close_matches(name, taken, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(taken) or 'no others'}"


def whole_number(name: str, value, least: int = 1) -> int:
    """`value` as an int, or LaunchError in words."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < least:
        raise LaunchError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return number
