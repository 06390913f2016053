"""`whole`: products that stand alone are one call each, without tiles and threads around it, for a BLAS to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.loops.program import Loop
from symgrad.loops.store import paths

if TYPE_CHECKING:
    from symgrad.loops.program import Array, Item


def whole(items: list[Item], arrays: list[Array]) -> list[Item]:
    """Take the loops over tiles and threads away from products of which nothing lives for a tile."""
    held = {loop for array in arrays for loop in array.windows.values()}
    made: list[Item] = []
    for item in items:
        tiles = item.body[0] if isinstance(item, Loop) and item.threads and len(item.body) == 1 else item
        if isinstance(tiles, Loop) and tiles.tile > 1 and tiles not in held and _alone(tiles):
            for loop in {loop for _, around in paths(tiles.body) for loop in around if loop.window is tiles}:
                loop.window = None
            made.extend(tiles.body)
        else:
            made.append(item)
    for item in made:
        if isinstance(item, Loop) and item.product is not None:
            item.product = item.product._replace(whole=True)
    return made


def _alone(tiles: Loop) -> bool:
    """Tell that a loop does products, and sets their sums to zero, and nothing else."""
    nests = [item for item in tiles.body if isinstance(item, Loop)]
    products = [nest for nest in nests if nest.product is not None]
    others = [s for s, around in paths(tiles.body) if not around or around[0].product is None]
    return bool(products) and not any(s.reads for s in others)
