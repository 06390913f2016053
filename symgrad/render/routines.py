"""The C functions of whole matrices: which there are, and what each calls."""

from __future__ import annotations

FUNCTIONS = {
    "sg_blas": (), "sg_product": (), "sg_gemm": ("sg_product",), "sg_product_part": ("sg_product",),
    "sg_solve_strip": ("sg_product",),
    "sg_solve": ("sg_product", "sg_solve_strip"), "sg_cholesky": ("sg_product", "sg_solve_strip"),
    "sg_cholesky_pullback": ("sg_product", "sg_solve_strip"),
    "sg_cholesky_pushforward": ("sg_product", "sg_solve_strip"), "sg_symmetric_product": ("sg_product",),
    "sg_lu": ("sg_product", "sg_solve_strip", "sg_solve"),
    "sg_lu_solve": ("sg_product", "sg_solve_strip", "sg_solve", "sg_lu"),
    "sg_pivots": ("sg_product", "sg_solve_strip", "sg_solve", "sg_lu"),
    "sg_cofactors": ("sg_product", "sg_solve_strip", "sg_solve", "sg_lu", "sg_lu_solve"),
}
"""The functions of whole matrices, in the order in which they stand in C, each with those that it calls."""

BLAS = frozenset({"sg_gemm", "sg_solve", "sg_cholesky", "sg_lu"})
"""Those that a BLAS does where it is asked for (`sg_blas` says where it is)."""
