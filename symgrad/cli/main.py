"""``symgrad``: the commands and their options."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import click

import symgrad
from symgrad.api.step.step import Step
from symgrad.cli import arguments, terminal
from symgrad.emit import WHATS
from symgrad.errors import GradientCheckError
from symgrad.pipeline import NAMES
from symgrad.trace.signature import signature_of

INTERRUPTED, PIPE_CLOSED, REFUSED = 130, 141, 2

_TARGET = click.argument("target", metavar="FILE.py:FUNCTION")
_WRT = click.option(
    "--wrt", metavar="NAMES", help="What to differentiate by: arguments, or entries such as params.w, with "
    "commas; else the first argument.",
)
_ARG = click.option(
    "--arg", "words", multiple=True, metavar="NAME=SPEC",
    callback=lambda _context, _option, words: arguments.specs(words),
    help="Shape and dtype of an argument: X=f64[n,d], i=i64[5], b=f64[], params.w=f64[d] for an entry of a dict. "
    "Arguments not given keep their defaults.",
)


@click.group(invoke_without_command=True)
@click.version_option(symgrad.__version__, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show Python's traceback with an error (anywhere on the line).")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:  # noqa: ARG001 - main() looks for it anywhere on the line
    """From a loss in NumPy to the C of its gradient."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cli.command()
@_TARGET
@_ARG
@click.option("--stage", type=click.Choice([*NAMES, "report"]), default="c", show_default=True, help="What to print.")
@click.option("--value", "kind", flag_value="jit", help="The function itself.")
@click.option("--grad", "kind", flag_value="grad", help="Its gradient.")
@click.option("--value-and-grad", "kind", flag_value="value_and_grad", help="Both (the default).")
@click.option("--jacfwd", "kind", flag_value="jacfwd", help="Its Jacobian, in forward mode.")
@click.option("--jacrev", "kind", flag_value="jacrev", help="Its Jacobian, in reverse mode.")
@click.option("--hessian", "kind", flag_value="hessian", help="Its Hessian.")
@_WRT
def show(target: str, words: dict[str, Any], stage: str, kind: str | None, wrt: str | None) -> None:
    """Print what a function becomes: programs as Python, loops as a picture, C; or a report in words.

    Example: symgrad show loss.py:loss --arg w=f64[d] --arg X=f64[n,d] --stage optimized
    """
    with terminal.working(f"compiling {target}"):
        fun = arguments.function(target)
        call = arguments.call(fun, words)
        if isinstance(fun, symgrad.Function) and kind is None and wrt is None:
            made = fun
        elif kind == "jit":
            if wrt is not None:
                raise terminal.Refused("--wrt says what to differentiate by, and --value differentiates nothing")
            made = symgrad.jit(fun, static_argnames=call.static)
        else:
            mode = getattr(symgrad, kind or "value_and_grad")
            made = mode(fun, arguments.argnums(wrt, call), static_argnames=call.static)
        with contextlib.redirect_stdout(sys.stderr):  # what the function prints while it is traced
            lowered = made.lower(*call.args, **call.kwargs)
        text = lowered.report() if stage == "report" else lowered.as_text(stage)
    terminal.code(text, {"c": "c", "loops": "text", "report": "text"}.get(stage, "python"))


@cli.command()
@click.argument("targets", metavar="FILE.py:FUNCTION...", nargs=-1)
@_ARG
@_WRT
@click.option("--what", "whats", multiple=True, type=click.Choice(WHATS), default=["value_and_grad"], show_default=True,
              help="What to compute; once for each.")
@click.option("--out", required=True, metavar="FOLDER", help="The folder to make; its name is the module's.")
@click.option("--name", help="The module's name, where it is not the folder's.")
@click.option("--profile", type=click.Choice(["embedded", "fast"]), default="embedded", show_default=True,
              help="Plain C99 in one thread, or vectors and threads.")
@click.option("--blas", is_flag=True, help="With --profile fast: large products call CBLAS where a build asks for it.")
@click.option("--python", is_flag=True, help="Add a Python package, which needs cffi and NumPy alone.")
@click.option("--line-directives", is_flag=True, help="Add #line: debuggers then name the lines of the Python file.")
@click.option("--cc", metavar="COMMAND", help='For the Makefile: "zig cc -target aarch64-linux-musl".')
@click.option("--unit", "units", multiple=True, metavar="NAME=UNIT", help="The unit of an array, for the header.",
              callback=lambda _context, _option, words: arguments.units(words))
@click.option("--size", "sizes", multiple=True, metavar="NAME=NUMBER", help="An extent of the recorded calls.",
              callback=lambda _context, _option, words: arguments.sizes(words))
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the recorded calls' arguments.")
@click.option("--example", "files", multiple=True, metavar="FILE.npz", help="Values for the arguments, by their names: "
              "where conditions on values decide, the package has the paths that these take; once for each.")
@click.option("--captured", type=click.Choice(["constants", "parameters"]), default="constants", show_default=True,
              help="What arrays become that the function reads without taking them.")
def emit(
    targets: tuple[str, ...], words: dict[str, Any], wrt: str | None, whats: tuple[str, ...], out: str,
    files: tuple[str, ...], captured: str, **options: Any,
) -> None:
    """Write a package of C: value and gradient as functions that need no Python, with their tests.

    Example: symgrad emit loss.py:loss --arg w=f64[d] --arg X=f64[n,d] --arg y=f64[n] --out build/loss_grad

    A step of compile_step becomes a function that reads parameters, state and batch, and writes the new ones.
    """
    from symgrad.emit.derive import Specialization, examples_for
    from symgrad.emit.package import emit_calls, request

    if not targets:
        raise terminal.Refused("no function is named: write FILE.py:function")
    if not out.strip():
        raise terminal.Refused("--out names no folder: write build/loss_grad, for example")
    with terminal.working(f"emitting {' '.join(targets)}"):
        asked = request(Path(out).absolute(), cli=True, **options)
        calls, by = [], []
        used: set[str] = set()
        for target in targets:
            fun = arguments.function(target)
            known = getattr(signature_of(fun), "parameters", ())  # of several functions each has some
            if isinstance(fun, Step):
                if "params" not in words:
                    raise terminal.Refused(
                        "argument params has no spec and no default: --arg params.W=f64[5,3], for example"
                    )
                words.setdefault("state", fun.state_of(words["params"]))
                fun, whats = fun.as_function(), ("value",)
            own = words if len(targets) == 1 else {name: spec for name, spec in words.items() if name in known}
            used.update(own)
            found = arguments.call(fun, own)
            call = Specialization(fun, found.args, found.kwargs, found.static)
            examples = [arguments.example(file, found) for file in files]
            call = examples_for(call, examples, several=len(targets) > 1)
            calls.append(call.taking_arrays() if captured == "parameters" else call)
            by.append(arguments.argnums(wrt, found))
        for name in words:
            if name not in used:
                raise terminal.Refused(f"--arg {name}: no function has such an argument")
        with contextlib.redirect_stdout(sys.stderr):  # what the functions print while they are traced
            package = emit_calls(calls, whats, by, asked)
    click.echo(f"{', '.join(package.functions)} in {out}: make -C {shlex.quote(out)} check")


@cli.command()
@_TARGET
@_ARG
@click.option("--order", type=click.IntRange(1, 2), default=2, show_default=True, help="Second derivatives too.")
@click.option("--mode", type=click.Choice(["complex-step", "central"]), help="What to compare with; else the better.")
@click.option("--size", "extents", multiple=True, metavar="NAME=NUMBER", help="A named extent; else a small one.",
              callback=lambda _context, _option, words: arguments.sizes(words))
@click.option("--rtol", type=float, help="Allow this much, relative to the derivative.")
@click.option("--atol", type=float, help="Allow this much more, absolutely.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random arguments.")
def check(target: str, words: dict[str, Any], extents: dict[str, int], seed: int, **options: Any) -> int:
    """Compare compiled gradients with numerical ones at random arguments; exit code 1 where they differ.

    Example: symgrad check loss.py:loss --arg w=f64[d] --arg X=f64[n,d] --size n=100
    """
    with terminal.working(f"checking {target}"), contextlib.redirect_stdout(sys.stderr):
        fun = arguments.function(target)
        call = arguments.call(fun, words)
        drawn, note = arguments.data(call, extents, seed), ""
        try:
            finite = arguments.is_finite(fun, drawn)
        except ValueError as error:
            raise arguments.shapes_named(fun, call, error) from None
        if not finite:
            drawn = arguments.data(call, extents, seed, positive=True)
            note = " (at positive arguments: elsewhere the value is no finite number)"
        settings = {"kwargs": drawn.kwargs, "seed": seed, "static_argnames": drawn.static, **options}
        try:
            text, code = str(symgrad.check_grads(fun, drawn.args, **settings)), 0
        except GradientCheckError as error:
            text, code = str(error), 1
    click.echo(f"{text}{note}")
    return code


@cli.command()
def doctor() -> None:
    """Print the compiler, what it can do, the cache and the versions: what a report of a problem should hold."""
    from symgrad.cli.doctor import findings

    with terminal.working("asking the compiler"):
        rows = findings()
    terminal.table(["", ""], rows)


@cli.group(invoke_without_command=True)
@click.pass_context
def cache(context: click.Context) -> None:
    """The compiled libraries on disk."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cache.command()
def info() -> None:
    """Print where they are and how large."""
    from symgrad.cli.doctor import cached

    terminal.table(["", ""], cached())


@cache.command()
def clear() -> None:
    """Delete them."""
    from symgrad.build.cache.store import clear as delete
    from symgrad.build.cache.store import location
    from symgrad.cli.doctor import bytes_shown

    click.echo(f"{bytes_shown(delete())} freed in {location()}")


@cli.command()
@click.option("--stats", is_flag=True, help="Count them.")
@click.option("--markdown", is_flag=True, help="Print a Markdown table, for the documentation.")
def ops(stats: bool, markdown: bool) -> None:
    """Print the declared operations: what they answer, their derivatives, their C."""
    from symgrad.cli.ops import COLUMNS, counted, declared

    if stats:
        terminal.table(["", ""], counted(), markdown=markdown)
    else:
        terminal.table(COLUMNS, declared(), markdown=markdown)


def main(argv: list[str] | None = None) -> int:
    """Run the program and return its exit code: 0; 1 where a check fails; 2 for what cannot be done; 130 by Ctrl-C."""
    words = sys.argv[1:] if argv is None else argv
    debug = "--debug" in words
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: terminal.complain(f"warning: {message}")
        try:
            with cli.make_context("symgrad", [w for w in words if w != "--debug"]) as context:
                result = cli.invoke(context)
            sys.stdout.flush()
        except click.exceptions.Exit as done:  # --help and --version
            return done.exit_code
        except KeyboardInterrupt:
            terminal.complain("interrupted")
            return INTERRUPTED
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at exit
            return PIPE_CLOSED
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code, and ours: said in one line
            if debug:
                traceback.print_exc()
            terminal.complain(terminal.explained(error))
            return REFUSED
    return int(result or 0)
