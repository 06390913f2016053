"""Sums of products to views: where each operand begins, and how far its neighbours are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symgrad.ir.notation import Axis, parts, substitute
from symgrad.loops.products import step
from symgrad.ops.spelling import ctype, suffix
from symgrad.render.printer import index, offset
from symgrad.render.views import ProductView

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.ir.notation import Access
    from symgrad.loops.products import Product
    from symgrad.loops.program import Array, Loop

    Bounds = dict[Loop, tuple[str, str]]


def product_view(
    made: Product, names: dict[Array, str], name: Callable[[Any], str], bounds: Bounds,
) -> tuple[ProductView, set[tuple[str, str, str]]]:
    """Print a call of a product, and name the functions it needs."""
    statement = made.statement
    value: Any = statement.value
    loops = made[:3]

    def operand(access: Access, *walked: Loop) -> str:
        steps = [index(stride(access, loop), name) for loop in walked]
        return ", ".join([begin(access, loops, names, name, bounds), *steps])

    def count(loop: Loop) -> str:
        if loop.window is None:
            return index(loop.extent, name)
        start, stop = bounds[loop.window]
        return f"{stop} - {start}"

    left, right = value.args[made.left], value.args[1 - made.left]
    dtype, part = value.dtype, made.part
    function = ("sg_gemm" if made.whole else "sg_product") if part is None else "sg_product_part"
    counts = [count(loop) for loop in loops]
    if part is not None:
        counts += [str(int(part.rows)), str(int(part.after)), str(part.least)]
    view = ProductView(
        f"{function}{suffix(dtype)}", ", ".join(counts), operand(left, made.rows, made.depth),
        operand(right, made.depth, made.lanes), operand(statement.target, made.rows, made.lanes),
    )
    return view, {(name, ctype(dtype), suffix(dtype)) for name in ("sg_product", function)}


def kept(array: Array) -> list[int]:
    """List the dimensions that are stored."""
    return list(range(len(array.shape)) if array.kept is None else array.kept)


def stride(access: Access, loop: Loop) -> Any:
    """Return by how many elements an access moves on with a loop's variable."""
    array = access.array
    steps = step(access, loop) or {}
    if access.flat:
        return steps.get(0, 0)
    total: Any = 0
    size: Any = 1
    for d, dim in zip(reversed(kept(array)), reversed(array.stored), strict=True):
        total = total + steps.get(d, 0) * size
        size = size * dim
    return total


def begin(
    access: Access, loops: tuple[Loop, ...], names: dict[Array, str], name: Callable[[Any], str], bounds: Bounds,
) -> str:
    """Print the address of the first element."""
    array = access.array
    positions: list[Any] = []
    starts: list[str | None] = []
    first = {member: loop for loop in loops for member in loop.members}
    for d in [0] if access.flat else kept(array):
        at = access.indices[d]
        window = None if access.flat else array.windows.get(d)
        own = {part: first[part] for part in parts(at) if isinstance(part, Axis) and part in first}
        here = window is not None and any(loop.window is window for loop in own.values())
        zero: dict[Axis, Any] = {part: 0 for part, loop in own.items() if here or loop.window is None}
        positions.append(substitute(at, zero))
        starts.append(bounds[window][0] if window is not None and not here else None)

    def named(part: Any) -> str:
        loop = first.get(getattr(part, "index", part))  # in a reckoned index an axis is a symbol that knows it
        return name(part) if loop is None else bounds[loop.window][0]  # type: ignore[index]  # the others are 0

    text = offset(positions, (1,) if access.flat else array.stored, named, starts)
    return names[array] if text == "0" else f"{names[array]} + {text}"
