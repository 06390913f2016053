"""NumPy's functions of traced arrays give what NumPy gives: values, shapes, dtypes, and errors of the same type."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import optree
import pytest
import scipy.special

import symgrad as sg
import symgrad.api.answers.unknown_extents
from symgrad.errors import ConcretizationError, NoGradient, ShapeError, SymgradError
from symgrad.ir.evaluate import evaluate
from symgrad.ir.verify import verify
from symgrad.ops import load
from symgrad.ops.declare.forms import ANSWERS
from symgrad.trace.numpy.answers import WRITERS
from symgrad.trace.signature import Signature, Spec, spec
from symgrad.trace.trace import trace
from tests.ops.calls import Call, function, quiet, read
from tests.surface import INTERPRETED
from tests.table import richardson

if TYPE_CHECKING:
    from collections.abc import Iterator

load()
CALLS = read("calls.txt")
OURS = (
    "indexing", "copies", "manipulation", "creation", "products", "convolution",
    "composites", "own", "reductions", "exponential_sums", "sorting", "quantiles",
)
SHORT = {"d": "f64", "f": "f32", "i": "i64", "?": "bool"}


def draw(shapes: tuple[tuple[int, ...], ...], kind: str) -> list[Any]:
    """Draw arrays of a dtype: numbers of either sign, integers with zeros among them."""
    rng = np.random.default_rng(7)
    if kind == "?":
        return [rng.integers(0, 2, shape).astype(bool) for shape in shapes]
    if kind == "i":
        return [np.asarray(rng.integers(-3, 4, shape), np.int64) for shape in shapes]
    return [np.asarray(rng.uniform(-2.5, 2.5, shape), kind) for shape in shapes]


def program(call: Any, specs: list[Spec]) -> Any:
    """Trace a call."""
    names = tuple([f"a{k}" for k in range(len(specs))])
    signature = Signature(None, tuple(specs), names, names, (), tuple(range(len(specs))))
    return verify(trace(call, signature, lambda leaves: quiet(call, *leaves), name="f").program)


def agree(found: list[Any], expected: Any, tolerance: float) -> None:
    """Compare the leaves of a result."""
    leaves = [np.asarray(leaf) for leaf in optree.tree_leaves(expected)]
    assert [x.shape for x in found] == [x.shape for x in leaves]
    assert [x.dtype for x in found] == [x.dtype for x in leaves]
    for x, leaf in zip(found, leaves, strict=True):
        np.testing.assert_allclose(x, leaf, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("call", "kind"), [
    pytest.param(call, kind, id=f"{call.text}-{kind}") for call in CALLS for kind in call.kinds])
def test_as_numpy(call: Call, kind: str) -> None:
    """A call on traced arrays of known extents."""
    arrays = draw(call.shapes, kind)
    traced = program(call.call, [Spec(a.shape, a.dtype) for a in arrays])
    agree(evaluate(traced, arrays), quiet(call.call, *arrays), 2e-5 if kind == "f" else 2e-14)


@pytest.mark.parametrize("call", [
    pytest.param(call, id=call.text) for call in CALLS if not call.known and not any(0 in s for s in call.shapes)])
def test_unknown_extents(call: Call) -> None:
    """One trace with a symbol for each extent serves other sizes; extents of 1 stay known."""
    kind = call.kinds[0]
    specs = [spec(f"{SHORT[kind]}[{','.join(str(d) if d == 1 else f'n{d}' for d in shape)}]") for shape in call.shapes]
    traced = program(call.call, specs)
    for more in (0, 3):
        arrays = draw(tuple([tuple([d if d == 1 else d + more for d in shape]) for shape in call.shapes]), kind)
        agree(evaluate(traced, arrays), quiet(call.call, *arrays), 2e-14)


def test_gradients_of_unknown_extents() -> None:
    """Derived with a symbol for each extent, a call's gradient is what it is for numbers."""
    for call in CALLS:
        if call.known or "d" not in call.kinds or any(0 in s for s in call.shapes):
            continue

        def gradient(*arrays: Any, call: Any = call) -> Any:
            def loss(*a: Any) -> Any:
                leaves = optree.tree_leaves(quiet(call.call, *a))  # noqa: B023 - called in its round
                floats = [x for x in leaves if getattr(x, "dtype", None) in (np.float32, np.float64)]
                return sum([np.sum(x * x) for x in floats], np.float64(0))

            return sg.grad(loss, argnums=tuple(range(len(arrays))))(*arrays)

        arrays = draw(tuple([tuple([d if d == 1 else d + 3 for d in shape]) for shape in call.shapes]), "d")
        names = [",".join(str(d) if d == 1 else f"n{d}" for d in shape) for shape in call.shapes]
        try:
            alone = program(gradient, [Spec(a.shape, a.dtype) for a in arrays])
        except NoGradient:
            continue
        found = evaluate(program(gradient, [spec(f"f64[{name}]") for name in names]), arrays)
        for x, expected in zip(found, evaluate(alone, arrays), strict=True):
            np.testing.assert_allclose(x, expected, rtol=1e-12, atol=1e-12, err_msg=call.text)


# -- the table's calls with other arguments: lists, constants, traced numbers, sequences that are no list


class Other(NamedTuple):
    """A call, and what stands for its arrays in it: ``take(arrays)`` gives its arguments."""

    text: str
    call: Any
    arrays: list[Any]
    take: Any


def nested(x: Any) -> Any:
    """Return the nested lists of an array's numbers."""
    return [nested(x[k]) for k in range(x.shape[0])] if getattr(x, "ndim", 0) else x


def others(call: Call) -> Iterator[Other]:
    """Write a call with each array as lists or as a constant, with numbers for arrays, and its own numbers traced."""
    arrays = draw(call.shapes, "d")
    for k, array in enumerate(arrays):
        if array.ndim and not (call.name in ASK_NO_LIST or call.text in AS_LIST_IS_ELSE):
            yield Other(f"list {k}", call.call, arrays, lambda given, k=k: [
                nested(x) if j == k else x for j, x in enumerate(given)])
        if len(arrays) > 1:
            yield Other(f"plain {k}", call.call, arrays, lambda given, k=k, array=array: [
                array if j == k else x for j, x in enumerate(given)])
    if "axis" not in call.text and call.name not in NUMBER_HAS_AXES:
        yield Other("numbers", call.call, [np.asarray(1.5 + k) for k in range(len(arrays))], lambda given: given)
    letter = "abcd"[len(arrays)]
    traced = re.sub(r"(?<![\w.])(\d+\.\d+)(?![\w)]*\))", rf"(\1 * {letter})", call.text, count=1)
    if traced != call.text and letter != "d" and "arange" not in call.text and "norm(" not in call.text:
        yield Other(traced, function(traced), [np.ones(())], lambda given: [*arrays, *given])
    sequence = re.sub(r"\[([ab], [^\[\]]*)\]", r"deque([\1])", call.text)
    if sequence != call.text and call.name not in {"block", "shape"}:
        yield Other(sequence, function(sequence), arrays, lambda given: given)


ASK_NO_LIST = {"divmod", "sliding_window_view", "reduce"}
"""Python's own, functions of ``np.lib.stride_tricks`` and methods of ufuncs."""

AS_LIST_IS_ELSE = {"np.array_split(a, 3, 1)", "np.dsplit(a, [1, 3])", "np.diff(a, n=0)"}
"""NumPy asks the list's len(), or gives it back."""

NUMBER_HAS_AXES = {"squeeze", "repeat", "take", "multi_dot", "log_softmax", "count_nonzero"}
"""NumPy takes an axis 0 of a number there."""


@pytest.mark.parametrize("call", [
    pytest.param(call, id=call.text) for call in CALLS if "d" in call.kinds and not any(0 in s for s in call.shapes)])
def test_other_arguments_as_numpy(call: Call) -> None:
    """What NumPy answers of lists, of constants beside traced arrays and of numbers, traced arrays answer, too."""
    for other in others(call):
        try:
            expected = quiet(other.call, *other.take(other.arrays))
        except Exception:  # noqa: BLE001, S112 - a call NumPy does not take so
            continue
        traced = program(lambda *a, o=other: o.call(*o.take(a)), [Spec(a.shape, a.dtype) for a in other.arrays])
        agree(evaluate(traced, other.arrays), expected, 2e-14)


SETTING = re.compile(r"(?<=\w=)(True|False|[0-9])(?=[,)])")


@pytest.mark.parametrize("call", [
    pytest.param(call, id=call.text) for call in CALLS if SETTING.search(call.text) and "d" in call.kinds])
def test_a_traced_setting_counts_or_is_refused(call: Call) -> None:
    """No condition on a setting that is traced is taken to be either way, as conditions on arrays are."""
    for found in SETTING.finditer(call.text):
        text = call.text[: found.start()] + "abcd"[len(call.shapes)] + call.text[found.end() :]
        setting: bool | int = {"True": True, "False": False}[found[0]] if found[0].isalpha() else int(found[0])
        arrays = [*draw(call.shapes, "d"), np.asarray(setting)]
        try:
            traced = program(function(text), [Spec(a.shape, a.dtype) for a in arrays])
        except (SymgradError, TypeError, ValueError):
            continue
        agree(evaluate(traced, arrays), quiet(call.call, *arrays[:-1]), 2e-14)


@pytest.mark.parametrize("call", [pytest.param(call, id=call.text) for call in read("refused.txt")])
def test_refused_as_numpy_refuses(call: Call) -> None:
    """What NumPy refuses is refused while tracing, by an error of the type NumPy has."""
    arrays = draw(call.shapes, "d")
    with pytest.raises(Exception) as expected:  # noqa: PT011 - any error of NumPy's
        quiet(call.call, *arrays)
    with pytest.raises(expected.type):
        program(call.call, [Spec(a.shape, a.dtype) for a in arrays])


COMPLEX = """
np.interp(a, [0, 1.0, 2], [1, 2j, 3])|np.interp(a, [0, 1.0, 2], [1, 2j, 3], period=2)|np.interp(a, [0, 1], [1, 2], 1j)
np.sum(a, initial=1j)|np.prod(a, initial=1j)|np.max(a, initial=1j)|np.add.reduce(a, initial=1j)|a.sum(initial=1j)
np.nanmax(a, initial=1j)|np.polyfit(a, [1, 1j, 0, 2], 1)|np.polyval([1, 1j], a)
np.polyfit(a, a, 1, w=[1, 1j, 2, 3])|np.histogram2d(a, a, weights=[1, 1j, 0, 0])|np.full_like(a, 1j)
np.histogramdd([a, a], weights=np.array([1, 1j, 0, 0]))|np.bincount((a > 0) * 1, weights=[1, 1j, 0, 0], minlength=4)
np.pad(a, 1, constant_values=1j)|np.diff(a, prepend=1j)|np.select([a > 1], [a], default=1j)
np.trapezoid(a, dx=1j)|np.gradient(a, 1j)|np.linspace(a, 1j, 3)|np.where(a > 1, a, 1j)
scipy.special.logsumexp(a, 0, [1, 1j, 2, 3])|scipy.special.hyp2f1(a, 1.0, 2.0, 0.3j)
"""
"""Calls that would be complex."""


@pytest.mark.parametrize("text", [text for line in COMPLEX.strip().splitlines() for text in line.split("|")])
def test_a_complex_constant_is_refused(text: str) -> None:
    with pytest.raises(SymgradError, match=r"complex numbers \(complex128\) meet a traced array"):
        program(function(text), [Spec((4,), np.dtype(float))])


@pytest.mark.parametrize("kind", [complex, object, "m8[s]"])
def test_constants_of_no_real_numbers_are_refused_or_what_numpy_makes_of_them(kind: Any) -> None:
    """No cast drops an imaginary part, or takes objects and dates as numbers."""
    for call in CALLS:
        for k, array in enumerate(draw(call.shapes, "d") if len(call.shapes) > 1 and "d" in call.kinds else ()):
            rest = [a for j, a in enumerate(draw(call.shapes, "d")) if j != k]
            plain = (array + 0.5j if kind is complex else np.asarray(10 * array)).astype(kind)

            def held(*given: Any, call: Any = call.call, k: int = k, plain: Any = plain) -> Any:
                return call(*given[:k], plain, *given[k:])

            try:
                traced = program(held, [Spec(a.shape, a.dtype) for a in rest])
            except (SymgradError, TypeError):  # the latter NumPy's own, of the constant alone
                continue
            agree(evaluate(traced, rest), quiet(held, *rest), 2e-14)


@pytest.mark.parametrize("ufunc", [np.power, np.arctan2])
def test_folds_from_the_front(ufunc: np.ufunc) -> None:
    """NumPy's `reduce` and `reduceat` of these depend on the machine, `accumulate` does not."""
    x = np.array([1.5, 1.2, 0.7, 1.1, 0.9])
    total, parts = sg.jit(lambda x: (ufunc.reduce(x), ufunc.reduceat(x, [0, 3])))(x)
    np.testing.assert_allclose(total, ufunc.accumulate(x)[-1], rtol=1e-14)
    np.testing.assert_allclose(parts, [ufunc.accumulate(x)[2], ufunc(x[3], x[4])], rtol=1e-14)
    slope = richardson(lambda h: ufunc.accumulate(x + h * x)[-1], 1e-3)
    np.testing.assert_allclose(sg.grad(ufunc.reduce)(x) @ x, slope, rtol=1e-9)


@pytest.mark.parametrize("ufunc", [
    np.add, np.multiply, np.maximum, np.fmin, np.subtract, np.divide, np.hypot, np.logaddexp, np.logaddexp2,
    np.heaviside, np.copysign, np.logical_and, np.logical_or, np.logical_xor, np.bitwise_and, np.bitwise_or,
    np.gcd, np.lcm, np.equal, scipy.special.owens_t, scipy.special.pseudo_huber,
])
def test_reduce_of_few_elements(ufunc: np.ufunc) -> None:
    """From the identity, `initial` or the first element, of those in `where`: as NumPy does, or refuses, each call."""
    x = np.array([-3.0, 0.25, 2.5, -1.25])
    for shape in ((), (0,), (1,), (4,), (0, 2), (1, 2), (2, 2)):
        a = x[: math.prod(shape)].reshape(shape)
        a = (a * 4).astype(int) if "d" not in "".join(ufunc.types) else a
        keywords: list[dict[str, Any]] = [
            {**one, "axis": axis} for axis in (0, None, (), *[1, (0, 1)] * (len(shape) > 1)) for one in (
                {}, {"initial": 2}, {"initial": None, "keepdims": True}, {"dtype": float}, {"where": a > 0},
                {"where": a > 9, "initial": 3}, {"where": a < 0, "initial": 3},
            )]
        calls = [partial(ufunc.reduce, **one) for one in keywords]
        expected = [quiet(called, call, a) for call in calls]
        kept = [(call, y) for call, y in zip(calls, expected, strict=True) if not isinstance(y, type)]
        found = sg.jit(lambda x: [call(x) for call, _ in kept], options=INTERPRETED)(a)  # noqa: B023
        for one, (call, y) in zip(found, kept, strict=True):
            np.testing.assert_allclose(one, y, rtol=1e-13, err_msg=str(call))
            assert np.shape(one) == np.shape(y), call
            assert np.asarray(one).dtype == y.dtype, call
        for call, y in zip(calls, expected, strict=True):
            if isinstance(y, type):
                with pytest.raises(y, match=r"test_answers.py"):
                    sg.jit(call, options=INTERPRETED)(a)
    if ufunc is np.hypot:
        assert sg.grad(ufunc.reduce)(x[:1]) == -1


def test_all_bits_are_the_identity_of_unsigned_integers() -> None:
    u = np.array([200, 100], np.uint8)
    calls = [
        lambda u: np.bitwise_and.reduce(u, axis=()), lambda u: np.bitwise_and.reduce(u[:0]),
        lambda u: np.bitwise_and.reduce(u, where=u > 150), lambda u: np.multiply.reduce(u[:0]),
    ]
    for call in calls:
        found, wanted = sg.jit(call)(u), call(u)
        np.testing.assert_array_equal(found, wanted)
        assert np.asarray(found).dtype == np.asarray(wanted).dtype


def called(call: Any, *args: Any) -> Any:
    """Return what a call returns, or the type of its error."""
    try:
        return call(*args)
    except (TypeError, ValueError) as error:
        return TypeError if isinstance(error, TypeError) else ValueError


@pytest.mark.parametrize("ufunc", [np.add, np.maximum, np.subtract, np.logaddexp])
def test_reduceat_of_traced_indices(ufunc: np.ufunc) -> None:
    """Parts of vectors and along axes; of one element each where the indices fall or are equal; others are refused."""
    def parts(x: Any, indices: Any) -> Any:
        return ufunc.reduceat(x, indices), ufunc.reduceat(np.outer(x[:3], x), indices, axis=1)

    x = np.linspace(0.2, 2, 9) ** 2
    compiled = [sg.jit(parts), sg.jit(parts, specs=("f64[n]", "i64[k]"), options=sg.Options(compiler="none"))]
    for indices in ([0, 3, 3, 7], [2, 2], [8], [4, 5, 8], [3, 1], [0, 4, 1, 5, 2, 6]):
        given = np.array(indices)
        for each in compiled:
            for found, wanted in zip(each(x, given), parts(x, given), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-14)
        slope = richardson(lambda h: ufunc.reduceat(x + h * x, given), 1e-3)  # noqa: B023
        np.testing.assert_allclose(sg.jacfwd(lambda x: ufunc.reduceat(x, given))(x) @ x, slope, rtol=1e-8, atol=1e-9)  # noqa: B023
    for indices in ([9, 1], [0, 9], [-1, 2]):
        with pytest.raises(IndexError, match=r"test_answers.py"):
            compiled[0](x, np.array(indices))


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum])
def test_reduceat_of_small_integers(ufunc: np.ufunc) -> None:
    for given in (np.array([200, 100, 7], np.uint8), np.array([1, 1, 0]) > 0):
        wanted = ufunc.reduceat(given, [0, 2])
        known = sg.jit(lambda x: ufunc.reduceat(x, [0, 2]))(given)
        for found in (known, sg.jit(ufunc.reduceat)(given, np.array([0, 2]))):
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == wanted.dtype


def test_every_function_is_tried() -> None:
    """The table has a call of every function these modules answer."""
    modules = {function: getattr(answer, "__module__", "").split(".") for function, answer in ANSWERS.items()}
    assert {module[-1] for module in modules.values()} >= set(OURS)
    names = {f.__name__ for f, module in modules.items() if module[-1] in OURS and not isinstance(f, str | np.ufunc)}
    written = {f.__name__ for f in WRITERS}  # which return nothing, and are tested where writes are
    assert names - written - {call.name for call in CALLS} == set()


def in_python() -> list[Any]:
    """List the calls of what NumPy's own Python answers, all but the first of each function for the night."""
    own = [f for f, answer in ANSWERS.items() if answer.__module__ == "symgrad.trace.numpy.own"]
    names = {getattr(f, "__name__", "") for f in own}
    names |= {"r_", "c_"}
    calls = [c for c in CALLS if c.name in names and "d" in c.kinds and not any(0 in s for s in c.shapes)]
    first = {call.name: call for call in reversed(calls)}
    return [pytest.param(c, id=c.text, marks=() if first[c.name] is c else pytest.mark.nightly) for c in calls]


@pytest.mark.parametrize("call", in_python())
def test_derivatives_of_numpys_own_python(call: Call) -> None:
    """First and second derivatives, forward and reverse, beside differences of NumPy's values."""
    arrays = [a + 0.01 for a in draw(call.shapes, "d")]

    def floats(*given: Any) -> list[Any]:
        return [y for y in optree.tree_leaves(call.call(*given)) if getattr(y, "dtype", np.dtype(bool)).kind == "f"]

    if quiet(floats, *arrays):
        with np.errstate(all="ignore"):
            sg.check_grads(floats, tuple(arrays), atol=1e-12, options=sg.Options(compiler="none"))


BOUND = np.full_like, np.zeros_like  # by other names than NumPy's, so that the protocol is asked
MAKERS = {
    "bound full_like": lambda x: BOUND[0](x, x[:1]), "bound zeros_like": BOUND[1],
    "copy": np.copy, "zeros_like": np.zeros_like, "ones_like": np.ones_like, "tile": lambda x: np.tile(x, 2),
    "repeat": lambda x: np.repeat(x, 2), "roll": lambda x: np.roll(x, 0), "astype": lambda x: x.astype(x.dtype),
    "round": np.round, "clip": lambda x: np.clip(x, None, 9.0), "pad": lambda x: np.pad(x, 0), "conj": np.conj,
    "meshgrid": lambda x: np.meshgrid(x)[0], "full_like": lambda x: np.full_like(x, x[:1]),
    "delete": lambda x: np.delete(x, 0),
    "select": lambda x: np.select([x > 0], [x]), "nan_to_num": np.nan_to_num, "block": lambda x: np.block([x]),
    "concatenate": lambda x: np.concatenate([x]), "tril": np.tril, "take": lambda x: np.take(x, [0, 1, 2]),
}


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in MAKERS.items()])
def test_a_new_array_can_be_written_and_stays_apart(make: Any) -> None:
    """What NumPy returns as a new array can be written, and neither it nor its source sees the other's writes."""

    def both(a: Any) -> list[Any]:
        own = a.copy()
        made = make(own)
        own[0] = 100.0
        made[1] = 7.0
        return [own, made]

    array = np.arange(4.0) + 1
    agree(evaluate(program(both, [spec("f64[4]")]), [array]), both(array), 0)


def test_views_follow_writes() -> None:
    """What NumPy returns as a view sees later writes to its source."""

    def views(a: Any) -> list[Any]:
        own = a.copy()
        found = [np.flip(own), np.split(own, 2)[1], np.squeeze(own), np.atleast_1d(own), np.real(own), np.ravel(own)]
        own[3] = 100.0
        return found

    array = np.arange(4.0)
    agree(evaluate(program(views, [spec("f64[4]")]), [array]), views(array), 0)


def test_a_reshape_that_may_be_a_copy_is_not_read_after_a_write() -> None:
    """Whether NumPy copies in a reshape of a transpose depends on the layout: reading it after a write is refused."""

    def stale(a: Any) -> Any:
        own = a.copy()
        flat = own.T.reshape(-1)
        own[0, 0] = 5.0
        return flat

    with pytest.raises(SymgradError, match="memory layout"):
        program(stale, [spec("f64[2,3]")])


def test_a_function_of_scipy_bound_by_name_is_refused_with_the_line() -> None:
    """A Python function of SciPy asks no protocol: in a list it cannot be replaced."""
    from scipy.special import logsumexp

    bound = [logsumexp]
    with pytest.raises(ConcretizationError, match=r"test_answers\.py") as error:
        program(lambda a: bound[0](a + 0), [spec("f64[4]")])
    assert "scipy.special.logsumexp(...): a plain NumPy array" in str(error.value)
    assert "by its module's name" in str(error.value)


@pytest.mark.parametrize(("call", "words"), [
    (lambda a: np.linalg.cross(a, a[:, :2]),
     "np.linalg.cross of float64(3, 3) and float64(3, 2): Both input arrays must be (arrays of) 3-dimensional"),
    (lambda a: np.split(a, 2), "array split does not result in an equal division"),
    (lambda a: np.linalg.matrix_power(a[:2], 3), "np.linalg.matrix_power of float64(2, 3): Last 2 dimensions"),
    (lambda a: np.gradient(a, edge_order=3), "np.gradient of float64(3, 3): 'edge_order' greater than 2"),  # type: ignore[call-overload]
    (lambda a: np.trapezoid(a, a[0, 0]), "np.trapezoid of float64(3, 3) and float64(): diff requires input that is at"),
])
def test_what_numpy_refuses_names_the_arrays_and_the_line(call: Any, words: str) -> None:
    with pytest.raises(SymgradError, match=r"test_answers\.py:") as error:
        program(call, [spec("f64[3,3]")])
    assert str(error.value).startswith(words)


@pytest.mark.parametrize(("given", "call", "words"), [
    ("f64[n,m]", lambda a: np.linalg.matrix_power(a, 2), "np.linalg.matrix_power of float64(n, m): Last 2 dimensions"),
    ("f64[n,k]", lambda a: np.cross(a, a), "np.cross of float64(n, k) and float64(n, k): the extent k is not known"),
    ("f64[n,3]", lambda a: np.vsplit(a, 2), "the unknown extent n does not split into 2 equal parts"),
    ("f64[n,3]", lambda a: a[:: a.shape[0] + 1], "the extent n + 1 is not known while f()"),
    ("f64[n,3]", lambda a: np.fill_diagonal(a * 1.0, 0), "np.fill_diagonal into an array of unknown extents"),
    ("f64[n]", lambda a: np.polyval(a, a), "np.polyval of float64(n,) and float64(n,): the extent n is not known"),
    ("f64[3,3]", lambda a: np.linalg.matrix_power(a[0], 2), "np.linalg.matrix_power of float64(3,): 1-dimensional"),
    ("f64[4]", lambda a: np.split(a, a[0]), "np.split: sections is traced"),
    ("f64[4]", lambda a: np.take_along_axis(a, a, 0), "np.take_along_axis of float64(4,) and float64(4,): `indices`"),
    ("f64[4]", lambda a: np.ix_(a > 0), "np.ix_ of a traced mask"),
])
def test_the_function_that_was_called_says_what_it_cannot(given: str, call: Any, words: str) -> None:
    with pytest.raises(SymgradError, match=r"test_answers\.py:") as error:
        program(call, [spec(given)])
    assert str(error.value).startswith(words)


def test_numpys_python_is_refused_the_truth_of_a_value() -> None:
    with pytest.raises(ConcretizationError, match=r"a condition .*bool\[\].*\n.*test_answers\.py:"):
        program(lambda a: np.rot90(a, a[0, 0]), [spec("f64[3,3]")])


def test_distances_that_are_traced_may_or_may_not_be_equal() -> None:
    """NumPy asks whether they are, and goes a shorter way to the same numbers."""
    traced = program(lambda a, x: np.gradient(a, x, edge_order=2), [spec("f64[5]"), spec("f64[5]")])
    for x in (np.arange(5.0) * 2, np.array([0, 1, 3, 3.5, 7])):
        agree(evaluate(traced, [x**3, x]), np.gradient(x**3, x, edge_order=2), 1e-13)


def test_conditions_of_numpys_own_are_no_branches() -> None:
    """Equal distances and others are one compilation; what only a value could tell is refused, at the user's line."""
    plain = sg.Options(compiler="none")
    slope = sg.jit(lambda a, x: np.gradient(a, x) * 1.0, options=plain)
    for x in (np.arange(5.0) * 2, np.array([0, 1, 3, 3.5, 7])):
        agree([slope(x**3, x)], np.gradient(x**3, x), 1e-13)
    assert slope.cache_info().compilations == 1
    with pytest.raises(ConcretizationError, match=r"np\.rot90 of(?s:.*)test_answers\.py:"):
        sg.jit(lambda a, k: np.rot90(a, k[0, 0]), options=plain)(np.eye(3), np.eye(3))


def test_open_extents_are_large_for_numpys_own() -> None:
    """One program for all sizes but the small ones, for which NumPy does something else: these have their own."""
    plain = sg.Options(compiler="none")
    slope: Any = sg.jit(np.gradient, options=plain)
    twice = sg.jit(lambda a: np.tile(a, 2), options=plain)
    for n in (5, 7, 9, 2, 0, 1):
        agree([twice(np.ones(n))], np.ones(2 * n), 0)
        if n > 1:
            agree([slope(np.arange(n) ** 2.0)], np.gradient(np.arange(n) ** 2.0), 0)
    assert slope.cache_info().compilations == 2
    with pytest.raises(SymgradError, match="too small to calculate a numerical gradient"):
        slope(np.ones(1))
    fixed = sg.jit(lambda a: +np.gradient(a), specs=(sg.spec("f64[n]"),), options=plain)
    with pytest.raises(SymgradError, match=r"gradient\(\) goes another way unless n >= 2(?s:.*)test_answers\.py:"):
        fixed(np.ones(1))


def test_an_error_of_a_function_that_numpy_calls_is_its_own() -> None:
    def fails(row: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        program(lambda a: np.apply_along_axis(fails, 0, a), [spec("f64[3,3]")])


def test_numpy_itself_is_as_it_was() -> None:
    """Its own Python is made again for traced arrays: nothing of it is replaced, in no thread and no trace."""
    import numpy.lib._function_base_impl as module

    before = dict(vars(module))
    program(lambda a: np.diff(a) + np.gradient(a)[1:], [spec("f64[3]")])
    assert dict(vars(module)) == before


def test_nan_to_num_in_place() -> None:
    def both(a: Any) -> Any:
        own = a / a
        np.nan_to_num(own, copy=False, nan=5.0)
        return own

    array = np.array([0.0, 2.0])
    agree(evaluate(program(both, [spec("f64[2]")]), [array]), quiet(both, array), 0)


@pytest.mark.parametrize(("shapes", "axes", "words"), [
    (((3,), (3, 3)), 2, "tensordot: axes=2 of shapes (3,) and (3, 3), which have not so many axes"),
    (((3, 3), (3, 3)), ([0, 0], [0, 1]), "tensordot: axes [0, 0] and [0, 1]: as many of each, and none twice"),
    (((3, 3), (3, 3)), ([0, 1], [0]), "tensordot: axes [0, 1] and [0]: as many of each"),
])
def test_axes_that_tensordot_cannot_sum_over(shapes: Any, axes: Any, words: str) -> None:
    one, other = map(np.ones, shapes)
    with pytest.raises(ShapeError, match=re.escape(words)):
        sg.jit(lambda a: np.tensordot(a, other, axes=axes))(one)
