"""The C functions of a program: the entry, and the parts that are cut out of a body too long for one."""

from __future__ import annotations

import re
from dataclasses import is_dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from symgrad.ir.notation import Apply
from symgrad.loops.store import paths, teams, touched
from symgrad.ops.spelling import stored
from symgrad.render.block import Block
from symgrad.render.memory import counts, memory_views, shares
from symgrad.render.source import PARAMETERS
from symgrad.render.stems import stems
from symgrad.render.views import (
    CallView,
    CheckView,
    FunctionView,
    LetView,
    LocalView,
    LookupView,
    NoteView,
    PointerView,
    PollView,
    ThreadsView,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.loops.program import Array, Item, LoopProgram, Part
    from symgrad.options import Target
    from symgrad.render.views import ItemView


class Functions:
    """What printing one program has made so far.

    Attributes:
        declared: the parameters of the entry, as type and name.
        parts: the parts, each after those that it calls.
        helpers, used: the helper functions and functions of math.h that are called.
    """

    def __init__(
        self, entry: str, loops: LoopProgram, names: dict[Array, str], arguments: list[tuple[str, str]], target: Target,
    ) -> None:
        """Name what stands on the stack and in the workspace, a slot for all arrays that hold it, as its first line.

        Of many arrays their addresses are one parameter, of which each function takes those that it uses.
        """
        self.entry, self.arguments, self.target = entry, arguments, target
        self.taken = {name for _, name in arguments} | {self.entry} | foreign(loops.body)
        self.stored = [array for array in loops.temporaries if array.slot is not None]
        self.stems = stems(s.line for s, _ in paths(loops.body) if s.line is not None) if target.package else {}
        self.names = dict(names)
        slots: dict[Any, str] = {}
        counts: dict[str, count[int]] = {}
        for array in self.stored:
            if array.slot not in slots:
                start = f"{self.stems.get(array.line, '')}w"
                numbered = (f"{start}{k}" for k in counts.setdefault(start, count(1)))
                slots[array.slot] = next(name for name in numbered if name not in self.taken)
            self.names[array] = slots[array.slot]
        self.shares = {a: a.parts for s, _ in paths(loops.body) for access in touched(s) if (a := access.array).parts}
        for array, (first, _) in self.shares.items():
            start = f"{self.names[first]}_share"
            others = {*self.taken, *self.names.values()}
            self.names[array] = next(n for n in (start, *[f"{start}{k}" for k in range(2, 1000)]) if n not in others)
        many = next((k for k, (kind, _) in enumerate(arguments) if "*" not in kind), 0)
        self.gathered = arguments[:many] if many > PARAMETERS and not target.package else []
        self.gather = next(n for n in (f"arrays{'_' * k}" for k in count()) if n not in self.taken)
        self.taken |= {self.gather} if self.gathered else set()
        self.declared = [*[("void *const *", self.gather)] * bool(self.gathered), *arguments[len(self.gathered) :]]
        self.given = [*self.declared, *[("const int32_t ", str(team)) for team in teams(loops.body)]]
        self.parts: list[FunctionView] = []
        self.helpers: set[tuple[str, str, str]] = set()
        self.used: set[str] = set()

    def whole(self, body: list[Item]) -> FunctionView:
        """Print the entry, and on the way the parts that it calls."""
        block = Block(body, self.names, self.taken, self.target, self.outlined, self.apart, self.stems)
        view = replace(self.function(self.entry, body, block), first=counts(body, block))
        said, pointers = self.used_by(view)
        parameters = tuple([f"{kind}{name}" for kind, name in self.declared])
        return FunctionView(
            self.entry, parameters, tuple([name for _, name in self.declared if name not in said]), view.body,
            view.stack, view.workspace, fails=True, first=view.first, pointers=pointers,
        )

    def used_by(self, view: FunctionView | ThreadsView) -> tuple[set[str], tuple[PointerView, ...]]:
        """List the words of a function, and which of many arrays it uses."""
        said = words(view)
        if not self.gathered:
            return said, ()
        pointers = tuple([
            PointerView(kind.replace("*", "*const "), name, self.gather, place)
            for place, (kind, name) in enumerate(self.gathered) if name in said
        ])
        return said | ({self.gather} if pointers else set()), pointers

    def outlined(self, part: Part, around: Block) -> CallView:
        """Print a part as a function of what it uses, the variables of the loops around it included."""
        block = Block(part.body, self.names, self.taken, self.target, self.outlined, self.apart, self.stems)
        block.inside(around)
        view = self.function("", part.body, block)
        said, pointers = self.used_by(view)
        variables = dict.fromkeys([*around.env.values(), *[name for pair in around.bounds.values() for name in pair]])
        passed = [(kind, name) for kind, name in self.given if name in said]
        passed += [("const int64_t ", name) for name in variables if name in said]
        name = f"{self.entry}_part{len(self.parts) + 1}"
        parameters = tuple([f"{kind}{name}" for kind, name in passed])
        self.parts.append(
            FunctionView(name, parameters, (), view.body, view.stack, view.workspace, view.fails, pointers=pointers)
        )
        return CallView(name, ", ".join(name for _, name in passed), view.fails, around.leave, around.failed)

    def apart(self, view: ThreadsView, made: Sequence[ItemView]) -> ThreadsView:
        """Print a thread's share that may be a serial call's as a function of what it uses of what was made before."""
        if not view.condition or view.failed:
            return view
        said, pointers = self.used_by(view)
        said -= {array.name for array in (*view.stack, *view.workspace)}
        memory = {self.names[a]: f"{stored(a.dtype)} *{self.target.restrict}" for a in self.stored}
        lets = [v for v in made if isinstance(v, (LetView, LocalView))]
        values = {v.name: f"const {v.ctype.removeprefix('const ')} " for v in lets}
        values |= {v.name: "const int64_t " for v in made if isinstance(v, LookupView)}
        passed = [("const int64_t ", view.index), *[(kind, name) for kind, name in self.given if name in said]]
        passed += [(kind, name) for name, kind in (memory | values).items() if name in said]
        name = f"{self.entry}_part{len(self.parts) + 1}"
        parameters = tuple([f"{kind}{name}" for kind, name in passed])
        self.parts.append(
            FunctionView(
                name, parameters, (), view.body, view.stack, view.workspace, fails=False, leave=view.leave,
                pointers=pointers,
            )
        )
        call = f"{name}({', '.join(name for _, name in passed)})"
        return replace(view, call=call, body=(), stack=(), workspace=(), leave="")

    def function(self, name: str, items: list[Item], block: Block) -> FunctionView:
        """Print a body with the memory that it uses; a thread's own is described where the thread starts."""
        mine = {access.array for statement, _ in paths(items, parts=False) for access in touched(statement)}
        mine.update(*[self.shares[array] for array in mine if array in self.shares])
        here = [a for a in self.stored if a in mine and (block.thread or not a.private)]
        stack, workspace = memory_views(here, block, block.thread)
        body = (*(shares(items, block, block.thread) if block.thread else ()), *block.views(items))
        self.helpers |= block.helpers
        self.used |= block.used
        return FunctionView(name, (), (), body, stack, workspace, fails(body))


def applied(body: list[Item]) -> list[Apply]:
    """List the operations that are applied."""
    found: list[Apply] = []
    stack: list[Any] = [statement.value for statement, _ in paths(body)]
    while stack:
        value = stack.pop()
        if isinstance(value, Apply):
            stack.extend(value.args)
            found.append(value)
    return found


def foreign(body: list[Item]) -> set[str]:
    """Name the C functions of the user's that a body calls, which no variable may hide."""
    return {value.op.c["f"].partition("(")[0] for value in applied(body) if value.op.source}


def fails(views: tuple[Any, ...]) -> bool:
    """Tell a body that checks an index or polls, or calls a part that does."""
    stack = list(views)
    while stack:
        view = stack.pop()
        if (isinstance(view, LookupView) and view.code) or (isinstance(view, CallView) and view.fails):
            return True
        if isinstance(view, (PollView, CheckView)):
            return True
        stack.extend(getattr(view, "body", ()))
    return False


def words(view: Any) -> set[str]:
    """List the words a view prints, comments left out, and the parameters its template names."""
    texts: list[str] = []
    stack = [view]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, tuple):
            stack.extend(item)
        elif is_dataclass(item) and not isinstance(item, NoteView):
            if getattr(item, "workspace", ()):
                texts.append("workspace")
            if isinstance(item, PollView):
                texts.append("stop")
            stack.extend(value for name, value in vars(item).items() if name != "kind")
    return set(re.findall(r"[A-Za-z_]\w*", " ".join(texts)))
