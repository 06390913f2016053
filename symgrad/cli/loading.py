"""``FILE.py:fn``: the user's own file, imported from the path that was written, and a function in it."""

from __future__ import annotations

import contextlib
import importlib.util
import keyword
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symgrad.cli.terminal import Refused
from symgrad.trace.source.lines import error_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def function(target: str) -> Callable[..., Any]:
    """Import a file and return the function that is named in it.

    The file is the user's trusted Python and runs with all rights; what it prints goes to the error stream.

    Raises:
        Refused: there is no such file or function, or the file does not import.
    """
    path, colon, name = target.rpartition(":")
    if not colon or not path:
        raise Refused(f"{target!r} names no function: write FILE.py:function")
    if not all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split(".")):
        raise Refused(f"{name!r} is no name of a function: write FILE.py:function")
    file = Path(path)
    if not file.is_file():
        raise Refused(f"there is no file {path}")
    if file.suffix != ".py":
        raise Refused(f"{path} is no Python file: its name must end in .py")
    return _found(_imported(file), name, path)


def _imported(file: Path) -> ModuleType:
    """Run a file as a module, with its folder on the path as Python does for a script."""
    name = f"symgrad_cli_{file.stem}"  # of no package, as a script is of none
    spec = importlib.util.spec_from_file_location(name, file.absolute())
    if spec is None or spec.loader is None:
        raise Refused(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and typing look there
    folder = str(file.absolute().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise Refused(f"{file} does not import: {_reason(error)}") from error
    return module


def _reason(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} (line {error.lineno})"
    line = error_line(error)
    where = f" (line {line.number} of {Path(line.file).name}: {line.text})" if line else ""
    return f"{type(error).__name__}: {error}{where}"


def _found(module: ModuleType, name: str, path: str) -> Callable[..., Any]:
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            mine = [(k, v) for k, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
            own = [k for k, v in mine if callable(v)]
            there = f"; it has {', '.join(own[:8])}" if own else ""
            raise Refused(f"{path} has no function {name!r}{there}")
        value = getattr(value, part)
    if not callable(value) or isinstance(value, type):
        raise Refused(f"{name} in {path} is {type(value).__name__}, not a function")
    return value  # type: ignore[no-any-return]
