"""``FILE.py:FUNCTION --arg NAME=SPEC``: from the command line to a function and the arguments of a call."""

from __future__ import annotations

import contextlib
import importlib.util
import keyword
import re
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import optree

import symgrad
from symgrad.api.call.arguments import annotated_specs
from symgrad.cli.terminal import Refused
from symgrad.errors import ShapeError, SymgradError
from symgrad.ir.evaluate import SIZES, concrete
from symgrad.ir.index.shapes import symbol, symbols
from symgrad.trace.lines import error_line
from symgrad.trace.signature import Spec, flatten, signature_of, spec


def function(target: str) -> Callable[..., Any]:
    """Import a file and return the function that is named in it.

    The file is the user's trusted Python and runs with all rights; what it prints goes to the error stream.
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
    module = _imported(file)
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            mine = [(k, v) for k, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
            named = [k for k, v in mine if callable(v)]
            there = f"; it has {', '.join(named[:8])}" if named else ""
            raise Refused(f"{path} has no function {name!r}{there}")
        holder, value = value, getattr(value, part)
        if isinstance(holder, type) and isinstance(vars(holder).get(part), FunctionType):
            raise Refused(f"{name} in {path} takes an object: write a function, or a name of an object's method")
    if not callable(value) or isinstance(value, type):
        raise Refused(f"{name} in {path} is {type(value).__name__}, not a function")
    return value  # type: ignore[no-any-return]


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
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, SyntaxError):
            said = f"SyntaxError: {error.msg} (line {error.lineno})"
        elif line := error_line(error):
            said += f" (line {line.number} of {Path(line.file).name}: {line.text})"
        raise Refused(f"{file} does not import: {said}") from error
    return module


# -- its arguments


class Given(NamedTuple):
    """Arguments of a call, and which of them are settings."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    static: tuple[str, ...]
    names: tuple[str, ...]


def specs(words: Sequence[str]) -> dict[str, Any]:
    """Read ``w=f64[d]``, and ``params.w=f64[d]`` for an entry of a dict."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        parts = name.strip().split(".")
        if not equals or not parts[0].isidentifier() or not all(parts):
            raise Refused(f"--arg {word!r}: write NAME=SPEC, such as X=f64[n,d]")
        at = found
        for part in parts[:-1]:
            at = at.setdefault(part, {})
            if not isinstance(at, dict):
                raise Refused(f"--arg {word!r}: {part} has a spec of its own")
        if parts[-1] in at:
            raise Refused(f"--arg {word!r}: {name} has a spec already")
        try:
            at[parts[-1]] = spec(text)
        except SymgradError as error:
            raise Refused(f"--arg {word!r}: {error.what}; write {error.instead or 'a smaller one'}") from error
    return found


def call(fun: Callable[..., Any], given: dict[str, Any]) -> Given:
    """Put specs in the places of a function's arguments; those not given are read from annotations of jaxtyping's.

    Arguments with defaults keep these, as settings.
    """
    signature = signature_of(fun)
    if signature is None:
        raise Refused(f"{getattr(fun, '__name__', fun)} tells no signature")
    parameters = signature.parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    plain = [p for p in parameters.values() if p.kind not in {p.VAR_KEYWORD, p.VAR_POSITIONAL}]
    known = {p.name for p in plain}
    for name in given:
        if name not in known and not open_ended:
            raise Refused(f"--arg {name}: the function's arguments are {', '.join(p.name for p in plain) or 'none'}")
    try:
        given = {**annotated_specs(fun, given), **given}
    except SymgradError as error:
        raise Refused(f"{error.what}: write {error.instead}, or --arg") from error
    missing = [p.name for p in plain if p.name not in given and p.default is p.empty]
    if missing:
        raise Refused(f"argument {missing[0]} has no spec and no default: --arg {missing[0]}=f64[n], for example")
    positional = [p for p in plain if p.kind is not p.KEYWORD_ONLY]
    last = max([k for k, p in enumerate(positional) if p.name in given], default=-1)
    args = tuple([given.get(p.name, p.default) for p in positional[: last + 1]])
    placed = [p.name for p in positional[: last + 1]]
    kwargs = {name: value for name, value in given.items() if name not in placed}
    return Given(args, kwargs, tuple([name for name in placed if name not in given]), tuple(placed))


def argnums(wrt: str | None, found: Given) -> int | str | tuple[str, ...]:
    """Read ``w``, ``w,b``, ``params.w`` (the path of an entry); without it, take the first argument with a spec."""
    usable = [name for name in (*found.names, *found.kwargs) if name not in found.static]
    if wrt is None:
        return usable[0] if usable else 0
    names = [name.strip() for name in wrt.split(",")]
    for name in names:
        root = re.match(r"\w*", name)
        if root is None or root[0] not in usable:
            known = ", ".join(usable) or "none"
            raise Refused(f"--wrt {name or repr(name)}: the arguments with a spec are {known}")
        if not re.fullmatch(r"\w+(\.\w+|\[('\w+'|\"\w+\"|\d+)\])*", name):
            raise Refused(f"--wrt {name}: write an argument's name, or the path of an entry, such as params.w")
    paths = tuple([_path(name, found) for name in names])
    return paths[0] if len(paths) == 1 else paths


def _path(name: str, found: Given) -> str:
    """Write ``params.w`` as Python does: ``params['w']`` of a dict, ``params.w`` of a NamedTuple."""
    root, *words = re.findall(r"\w+", name)
    at = found.kwargs[root] if root in found.kwargs else found.args[found.names.index(root)]
    path: str = root
    for word in words:
        if hasattr(at, "_fields") and word in at._fields:
            path, at = f"{path}.{word}", getattr(at, word)
            continue
        path += f"[{word}]" if word.isdecimal() else f"['{word}']"
        keyed = at.get(word) if isinstance(at, dict) else None
        placed = at[int(word)] if isinstance(at, (tuple, list)) and word.isdecimal() and int(word) < len(at) else None
        at = keyed if keyed is not None else placed
    return path


def sizes(words: Sequence[str]) -> dict[str, int]:
    """Read ``n=100``."""
    found = {}
    for word in words:
        name, _, text = word.partition("=")
        if not name.isidentifier() or not text.isdecimal():
            raise Refused(f"--size {word!r}: write NAME=NUMBER, such as n=100")
        if len(text) > 9:
            raise Refused(f"--size {word!r}: the arguments of so large a call cannot be made; write a smaller one")
        found[name] = int(text)
    return found


def units(words: Sequence[str]) -> dict[str, str]:
    """Read ``speed=m/s``."""
    found = {}
    for word in words:
        name, equals, unit = word.partition("=")
        if not equals or not name.isidentifier() or not unit.strip():
            raise Refused(f"--unit {word!r}: write NAME=UNIT, such as speed=m/s")
        found[name] = unit.strip()
    return found


def example(file: str, found: Given) -> dict[str, Any]:
    """Read the values of arguments from a file of NumPy's, by names as those of ``--arg``: ``w``, ``params.w``."""
    try:
        with np.load(file, allow_pickle=False) as opened:
            arrays = {name: opened[name][()] for name in opened.files}
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        why = f": {error}" if isinstance(error, OSError) else ""
        raise Refused(f"--example {file}: it cannot be read as a file of numpy.savez{why}") from error

    def value(name: str, at: Any) -> Any:
        """Return an argument, or an entry of one; of what is in no file, nothing."""
        if isinstance(at, Spec):
            return arrays.pop(name, None)
        named = at if isinstance(at, dict) else at._asdict() if hasattr(at, "_fields") else dict(enumerate(at))
        made = {key: value(f"{name}.{key}", part) for key, part in named.items()}
        if any(one is None for one in made.values()):
            return None
        if isinstance(at, dict):
            return made
        return type(at)(*made.values()) if hasattr(at, "_fields") else type(at)(made.values())

    specs = {**dict(zip(found.names, found.args, strict=False)), **found.kwargs}
    values = {name: value(name, spec) for name, spec in specs.items() if name not in found.static}
    return {name: one for name, one in values.items() if one is not None} | arrays


def data(found: Given, extents: dict[str, int], seed: int, *, positive: bool = False) -> Given:
    """Draw arrays for specs: normal numbers (or positive ones), integers 0 and 1, which any extent takes as indices."""
    known, rng = dict(extents), np.random.default_rng(seed)

    def extent(dim: Any) -> int:
        for one in getattr(dim, "free_symbols", ()):
            known.setdefault(one.name, SIZES[len(known) % len(SIZES)])
        return int(concrete((dim,), {symbol(name): size for name, size in known.items()})[0])

    def draw(leaf: Any) -> Any:
        if not isinstance(leaf, Spec):
            return leaf
        shape = tuple([extent(d) for d in leaf.shape])
        if leaf.dtype.kind == "f":
            values = rng.uniform(0.3, 1.7, shape) if positive else rng.normal(size=shape)
            return np.asarray(values, leaf.dtype)
        return np.asarray(rng.integers(0, 2, shape), leaf.dtype)

    leaves, tree = flatten((found.args, found.kwargs))
    names = {one.name for leaf in leaves if isinstance(leaf, Spec) for one in symbols([leaf.shape])}
    for name, size in extents.items():
        if name not in names:
            others = ", ".join(sorted(names)) or "none, for all are numbers"
            raise Refused(f"--size {name}={size}: {name} is no open extent of the arguments; instead: {others}")
    args, kwargs = optree.tree_unflatten(tree, [draw(leaf) for leaf in leaves])
    return found._replace(args=tuple(args), kwargs=dict(kwargs))


def shapes_named(fun: Callable[..., Any], call: Given, error: ValueError) -> ValueError:
    """Return what names the extents that disagree, where NumPy's error has the numbers that were drawn for them."""
    try:
        symgrad.jit(fun, static_argnames=call.static).lower(*call.args, **call.kwargs)
    except ShapeError as named:
        return named
    except SymgradError:
        pass
    return error


def is_finite(fun: Callable[..., Any], call: Given) -> bool:
    """Whether the values of a call are finite; the function gets copies, as it may write into its arguments."""
    leaves, tree = flatten((call.args, call.kwargs))
    copies = [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
    args, kwargs = optree.tree_unflatten(tree, copies)
    with np.errstate(all="ignore"):
        results, _ = flatten(fun(*args, **kwargs))
    return all(np.all(np.isfinite(leaf)) for leaf in map(np.asarray, results) if leaf.dtype.kind == "f")
