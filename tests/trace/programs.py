"""Trace a program of a test and run it by the interpreter."""

from __future__ import annotations

import numpy as np
import optree
import pytest

from symgrad.ir.evaluate import evaluate
from symgrad.ir.verify import verify
from symgrad.trace.signature import Signature, leaf_spec, spec
from symgrad.trace.trace import trace


def traced(fun, *args, specs=None, **options):
    """Trace a function of positional arrays and numbers; `specs` gives texts of specs instead."""
    found = tuple([spec(s) for s in specs] if specs else [leaf_spec(a, f"a{k}") for k, a in enumerate(args)])
    names = tuple([f"a{k}" for k in range(len(found))])
    signature = Signature(None, found, names, names, (), tuple(range(len(found))))
    made = trace(fun, signature, lambda leaves: fun(*leaves), name="program", **options)
    verify(made.program)
    return made


def run(fun, *args, specs=None, **options):
    """Trace a function and evaluate its program: a list of arrays, one for each leaf of its result."""
    return evaluate(traced(fun, *args, specs=specs, **options).program, [np.asarray(a) for a in args])


def copies(args):
    """Copy the arrays, so that plain NumPy may not change a test's constants."""
    return [np.array(a) if isinstance(a, np.ndarray) else a for a in args]


def agree(fun, *args, rtol=1e-13, specs=None):
    """Check that the traced function gives what it gives in plain NumPy: values, shapes and dtypes."""
    want, tree = optree.tree_flatten(fun(*copies(args)))
    got = run(fun, *args, specs=specs)
    assert len(got) == len(want) == tree.num_leaves
    for g, w in zip(got, want, strict=True):
        assert (g.shape, g.dtype) == (np.shape(w), np.asarray(w).dtype)
        np.testing.assert_allclose(g, w, rtol=1e-6 if g.dtype == np.float32 else rtol, atol=0)


def entering(table):
    """Make the decorator that enters a program, with its arguments, in a table of what must give what NumPy gives."""

    def program(*args):
        def enter(fun):
            table.append(pytest.param(fun, args, id=fun.__name__))
            return fun

        return enter

    return program
