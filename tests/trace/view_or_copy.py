"""Every function and method that symgrad answers: whether NumPy's result is a view, a copy, either, or no array.

``{a}`` is a matrix of 3 x 3, ``i`` the integer 1, ``k`` an array without axes of it.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import scipy.special

VIEW = """
{a}[np.int64(1)]|{a}[:, np.int8(-1)]|{a}[i]|{a}[:, i]|{a}[..., i]|{a}[i, ...]|{a}[i, 1:]|{a}[1:, i]|{a}[i, None]
{a}[None, i]|{a}[i, 0, ...]|{a}[i, i, ...]|{a}[i][1:]|{a}[i][::-1]|{a}[1:][i]|{a}[::-1, i]|{a}.T[i]|{a}[i].T[None]
{a}[i].reshape(3, 1)|{a}[None][0, i]|{a}[-i]|{a}[i].reshape(1, 3)[0]|{a}[i][i, ...]|{a}[i, :][..., 0]
{a}[None, :, None][0, i]|{a}[:, i][::-1]|{a}[np.argmax({a}[0])]|{a}[:, np.argmin({a}[0])]|{a}[np.arange(2)[i]]
{a}[np.array([i, 2])[0]]|{a}[k[()]]|{a}[i + 1]|{a}[np.sum({a}[0] > 1) - 1]|[{a}[q] for q in np.array([i, 0])][0]
np.swapaxes({a}, 0, 1)[i]|{a}[k + 0]|{a}[i % 2]|{a}[np.array([i])[0], 1:][1:]|(lambda m, n: m[n])({a}, i)
np.moveaxis({a}[None], 0, 1)[i]|np.real({a})|np.expand_dims({a}, 0)|np.squeeze({a}[None])
np.lib.stride_tricks.sliding_window_view({a}, 2, 0)
np.broadcast_to({a}, (2, 3, 3))|np.atleast_3d({a})|np.broadcast_arrays({a}, {a}[0])[0]
np.broadcast_arrays({a}, {a}[0])[1]|np.atleast_1d({a})|np.atleast_2d({a})|np.transpose({a})|np.matrix_transpose({a})
np.linalg.matrix_transpose({a})|np.swapaxes({a}, 0, 1)|np.rot90({a})|np.moveaxis({a}, 0, 1)|np.rollaxis({a}, 1)
np.flip({a})|np.fliplr({a})|np.flipud({a})|np.rot90({a}, 2)|np.rot90({a}, 0)|np.split({a}, 3)[1]
np.array_split({a}, 2)[0]|np.hsplit({a}, 3)[1]|np.vsplit({a}, 3)[1]|np.dsplit({a}[None], 3)[1]|np.unstack({a})[1]
np.diagonal({a})|np.linalg.diagonal({a})|np.real_if_close({a})|np.meshgrid({a}, {a}, copy=False)[0]
np.real_if_close({a}[i])|np.real({a}[i])|np.split({a}[i], 3)[1]|np.expand_dims({a}[:, i], 1)|np.flip({a}[i])|{a}.T
{a}.mT|{a}.real|{a}.conj()|{a}.conjugate()|{a}[i].conj()|{a}.diagonal()|{a}.squeeze()|{a}.swapaxes(0, 1)
{a}.transpose()|{a}.transpose(0, 1)|{a}[i].T|{a}[:, i].reshape(1, 3)|{a}[i, ::2].reshape(2, 1)
np.reshape({a}[i][::-1], (3, 1))|np.reshape({a}[1:, 0], (2, 1), "F")
"""

COPY = """
{a}[np.array(1)]|{a}[:, np.array(0)]|{a}[np.array(0), 1:]|{a}[i, np.array(0), ...]|{a}[k]|{a}[:, k]|{a}[..., k]
{a}[k, 1:]|{a}[i, k, ...]|{a}[k, None]|{a}[None, k]|{a}[k][1:]|{a}[[i]]|{a}[[i]][0]|{a}[k, ...]|{a}[i, [0, 1]]
{a}[[0, 1], i]|{a}[i, np.array([0, 2])]|{a}[np.array([i, 0])]|{a}[np.array(i)]|{a}[:, np.array(i)]|{a}[np.asarray(i)]
{a}[np.array([i, 2])[..., 0]]|{a}[k.copy()]|{a}[k.astype(np.int32)]|{a}[np.reshape(i, ())]|{a}[[[i]]]
{a}[k.reshape(())]|{a}[np.where(True, i, 0)]|{a}[np.full((), i)]|{a}[np.squeeze(np.array([i]))]|{a}[np.copy(i)]
{a}[np.array([i, 2]).T[0, ...]]|{a}[i][[0, 1]]|{a}[i][k, None]|{a}[{a} > 1]|{a}[:, [True, False, True]]
{a}[i][{a}[i] > 1]|np.concatenate([{a}])|np.stack([{a}])|np.dot({a}, {a})|np.inner({a}, {a})|np.outer({a}, {a})
np.copy({a})|np.copy({a}[i])|np.tensordot({a}, {a}, 1)|np.zeros_like({a})|np.empty_like({a}) * 0|np.ones_like({a})
np.full_like({a}, 2.0)|np.conjugate({a})|np.iscomplex({a})|np.isreal({a})|np.take({a}, 0, axis=0)
np.take({a}, i, axis=0)|np.take({a}, [0, 1], axis=0)|np.take({a}, k, axis=1)|np.take({a}, i, 0, mode="wrap")
np.sort({a}, 0)|np.argsort({a}, 1)|np.partition({a}, 1)|np.argpartition({a}, 1)|np.lexsort({a})|np.isin({a}, [1.0])
np.searchsorted({a}[0], {a})|np.digitize({a}, [0.0, 1.0])|np.interp({a}, [0.0, 1.0], [2.0, 3.0])|np.median({a}, 0)
np.nanmedian({a}, 0)|np.quantile({a}, 0.5, axis=0)|np.nanquantile({a}, 0.5, axis=0)|np.percentile({a}, 5, axis=0)
np.nanpercentile({a}, 5, axis=0)|np.histogram({a})[0]|np.histogram_bin_edges({a})|np.bincount([0, 1], {a}[0, :2], 3)
{a}.argsort(0)|{a}.argpartition(1)|{a}[0].searchsorted({a})|np.median({a}, ())
np.take({a}, 1, axis=1, mode="clip")|np.take({a}[0], [0])|np.ix_({a}[0] > 1)[0]
np.take_along_axis({a}, np.array([[0], [1], [2]]), 1)|np.linspace({a}[0], {a}[1], 3)|np.linspace({a}[0], {a}[1], 1)[0]
np.where({a} > 9, {a}, {a})|np.where(True, {a}, {a})|np.cumsum({a}, 0)|np.cumprod({a}, 0)|np.sum({a}, axis=())
np.sum({a}, 0)|np.prod({a}, ())|np.max({a}, ())|np.amax({a}, ())|np.max({a}, 0)|np.min({a}, ())|np.amin({a}, ())
np.any({a}, ())|np.all({a}, ())|np.mean({a}, ())|np.var({a}, 0)|np.std({a}, 0)|np.argmax({a}, 0)|np.argmin({a}, 0)
np.roll({a}, 3)|np.roll({a}, 0)|np.roll({a}, 3, 0)|np.tile({a}, 1)|np.repeat({a}, 1)|np.tile({a}, (1, 1))
np.repeat({a}, 1, 0)|np.vstack([{a}])|np.hstack([{a}])|np.dstack([{a}])|np.column_stack([{a}])|np.block([{a}])
np.block({a})|np.append({a}, [])|np.append({a}, {a}[:0], 0)|np.delete({a}, [], 0)|np.delete({a}, 0, 0)
np.meshgrid({a}, {a})[0]|np.meshgrid({a}[0])[0]|np.meshgrid({a}[0], {a}[1], sparse=True)[0]|np.diag({a}[0])
np.tri({a}.shape[0])|np.indices({a}.shape)[0]|np.diagflat({a})
np.tril({a}, 5)|np.triu({a}, -5)|np.pad({a}, 0)|np.convolve({a}[0], [1.0])
np.correlate({a}[0], [1.0])|np.linalg.norm({a}, axis=0)|np.linalg.vector_norm({a}, axis=0)
np.linalg.matrix_norm({a}[None])|np.cross({a}, {a})|np.linalg.cross({a}, {a})|np.kron({a}, np.ones((1, 1)))
np.kron(1.0, {a})|np.linalg.multi_dot([{a}, {a}])|np.linalg.matrix_power({a}, 2)|np.linalg.matrix_power({a}, 0)
np.linalg.vecdot({a}, {a})|np.linalg.outer({a}[0], {a}[1])|np.linalg.matmul({a}, {a})
np.linalg.tensordot({a}, {a}, axes=1)|np.vander({a}[0], 3)|np.clip({a}, None, 99)|np.clip({a}, -99, 99)
np.round({a}, 9)|np.around({a}, 9)|np.fix({a})|np.nan_to_num({a})|np.isposinf({a})|np.isneginf({a})|np.sinc({a})
np.diff({a})|np.cumulative_sum({a}, axis=0)|np.cumulative_prod({a}, axis=0)|np.ediff1d({a})|np.gradient({a})[0]
np.gradient({a}[0])|np.trapezoid({a}, axis=0)|np.polyval([1.0, 0.0], {a})|np.polyval([{a}], 0.0)
np.select([{a} > -99], [{a}])|np.isclose({a}, {a})|np.ptp({a}, 0)|np.count_nonzero({a}, 0)|np.average({a}, 0)
np.cov({a})|np.corrcoef({a})|np.nansum({a}, ())|np.nanprod({a}, ())|np.nancumsum({a}, 0)|np.nancumprod({a}, 0)
np.angle({a})|np.apply_along_axis(np.cumsum, 0, {a})|np.apply_over_axes(np.sum, {a}, 0)|np.choose([0, 0, 0], [{a}])
np.compress([True, True, True], {a}, 0)|np.extract([True] * 9, {a})|np.geomspace(1, {a}[0] + 9, 1)[0]|np.i0({a})
np.insert({a}, 0, 1, 0)|np.insert({a}[0], [], [])|np.logspace({a}[0], 1, 2)|np.piecewise({a}, [{a} < 0], [1, 2])
np.nanargmax({a}, 0)|np.nanargmin({a}, 0)|np.poly({a}[0])|np.polyadd({a}[0], [1])|np.polysub({a}[0], [1])
np.polyder({a}[0])|np.polyint({a}[0])|np.resize({a}, (3, 3))|np.unwrap({a})|np.triu_indices_from({a})[0]
np.tril_indices_from({a})[0]|np.diag_indices_from({a})[0]|np.linalg.tensorsolve({a} + 9 * np.eye(3), {a}[0])
np.linalg.tensorinv({a} + 9 * np.eye(3), ind=1)|np.divmod({a}, 2)[0]|np.modf({a})[0]|np.ix_({a}[0] > 1)[0]
np.nanmax({a}, 0)|np.nanmin({a}, 0)|np.nanmean({a}, 0)|np.nanvar({a}, 0)|np.nanstd({a}, 0)|np.nanmax({a}[None], 0)
np.linalg.cholesky({a}[1:2, 1:2])|np.linalg.inv({a}[1:2, 1:2])|np.linalg.solve(np.eye(3), {a})
np.frexp({a})[0]|np.kaiser(3, {a}[0, 0])|np.linalg.cond({a}[None])|np.linalg.eigh({a})[0]|np.linalg.eigvalsh({a})
np.linalg.lstsq({a}, {a}[0])[0]|np.linalg.matrix_rank({a}[None])|np.linalg.pinv({a})|np.linalg.qr({a}[:2])[1]
np.polyfit({a}[0], {a}, 1)|np.polydiv({a}[0], [1.0, 2.0])[0]|np.histogramdd({a}, 2)[1][0]|np.union1d({a}, 1.0)
np.histogram2d({a}[0], {a}[1])[1]|np.unique_inverse({a}).inverse_indices|np.unique_all({a}).inverse_indices
np.unique({a}, return_inverse=True)[1]|np.nonzero({a})[0]|np.flatnonzero({a})|np.argwhere({a})|{a}.nonzero()[0]
np.unique_values({a})|np.unique_counts({a})[1]|np.intersect1d({a}, {a}[0])|np.setdiff1d({a}, {a}[0])
np.setxor1d({a}, {a}[0])|np.trim_zeros({a}[0] + 9)|np.linalg.svd({a})[1]|np.linalg.svdvals({a})
np.polymul({a}[0], [1.0, 2.0])|np.linalg.slogdet({a}[None, 1:2, 1:2])[1]|np.linalg.det({a}[None, 1:2, 1:2])
np.trace({a}[None].T, axis1=0, axis2=1)|np.linalg.trace({a}[None])|np.real_if_close({a} * 1)
scipy.special.logsumexp({a}, axis=0)|scipy.special.softmax({a}, axis=0)|scipy.special.log_softmax({a}, axis=0)
np.einsum("ij->i", {a})|np.einsum("ij,ij->ij", {a}, {a})
np.unravel_index(np.argsort({a}, 0), (3, 3))[0]|np.ravel_multi_index(np.argsort({a}[:2], 0), (3, 3))
np.imag({a})|+{a}|-{a}|{a} + 0|{a} * 1|{a} ** 1|abs({a})|{a} @ np.eye(3)|{a}.all(0)
{a}.any(0)|{a}.argmax(0)|{a}.argmin(0)|{a}.astype(float)|{a}.clip(-99, 99)|{a}.copy()|{a}[i].copy()|{a}.cumprod(0)
{a}.cumsum(0)|{a}.compress([True, True, True], 0)
{a}.dot(np.eye(3))|{a}.flatten()|{a}[i].flatten()|{a}.imag|{a}.max(0)|{a}.mean(0)|{a}.min(0)|{a}.prod(0)
{a}.repeat(1)|{a}.round(9)|{a}.std(0)|{a}.sum(0)|{a}.take(0, axis=0)|{a}.take(i, 0)|{a}.take([0, 1], 0)|{a}.var(0)
{a}[None].trace()|{a}.flat[:]|{a}.flat[[0, 1]]|np.take({a}[:, :], i, 1)|{a}.sum(())|{a}.take(k, 0)
"""

EITHER = """
np.reshape({a}, 9)|np.reshape({a}.T, 9)|np.reshape({a}, 9, copy=True)|np.reshape({a}, 9, "F")
np.reshape({a}, {a}.shape)|np.ravel({a})|np.ravel({a}.T)|np.ravel({a}, "F")|np.ravel({a}[i])|np.ravel({a}[:, i])
np.reshape({a}[i], (3, 1))|np.astype({a}, float, copy=False)|np.astype({a}, float)|np.diag({a})|np.diag({a}[0])
np.diff({a}, 0)|np.diff({a})|np.einsum("ij->ji", {a})|np.einsum("ij->j", {a})|np.einsum("ii->i", {a})
np.einsum("j->j", {a}[i])|np.nan_to_num({a}, copy=False)|np.nan_to_num({a})|np.linalg.matrix_power({a}, 1)
np.linalg.matrix_power({a}, 2)|{a}.reshape(9)|{a}.reshape(9, copy=True)|{a}.ravel()|{a}.ravel("F")
{a}.astype(float, copy=False)|{a}.astype(float, copy=True)|{a}.astype(np.float32, copy=False)|np.array({a}, copy=None)
np.array({a})|np.asarray({a})|np.asarray({a}, float)|np.asarray({a}, np.float32)|np.array({a}, ndmin=3)
np.array({a}, ndmin=3, copy=None)|np.asarray({a}[i])|np.array({a}[i])|np.array({a}[i], copy=None)
np.asanyarray({a}[i])|np.asanyarray({a}, np.float32)|np.ascontiguousarray({a})|np.ascontiguousarray({a}.T)
np.asfortranarray({a})|np.asfortranarray({a}.T)
"""

NUMBER = """
np.shape({a})|np.result_type({a})|np.ndim({a})|np.size({a})|np.iscomplexobj({a})|np.isrealobj({a})|np.vdot({a}, {a})
np.sum({a})|np.einsum("j->", {a}[i])|np.trace({a})|np.linalg.norm({a})|np.linalg.det({a}[1:2, 1:2])
np.allclose({a}, {a})|np.array_equal({a}, {a})|np.array_equiv({a}, {a})|np.linalg.slogdet({a}[1:2, 1:2])|{a}[0, 0]
{a}[i, 0]|{a}[i, i]|{a}[k, k]|{a}[i][0]|{a}[0][i]|{a}.shape|{a}.ndim|{a}.size|{a}.dtype|{a}.itemsize|{a}.nbytes
{a}.ptp() if hasattr({a}, "ptp") else 0.0|{a}.flat[i]|{a}.flat[0]|np.copyto({a}, {a}[0])|np.put({a}, [0], [1.0])
np.putmask({a}, {a} > 1, 0.0)|np.place({a}, {a} > 1, [0.0])|np.put_along_axis({a}, np.array([[0], [1], [2]]), 0.0, 1)
np.fill_diagonal({a}, 0.0)|{a}.fill(0.0)|{a}.put([0], [1.0])|np.take({a}, 0)|np.take({a}, i)|{a}.take(i)|{a}.sort()
{a}.partition(1)|np.take({a}[0], i)|{a}.argmax()|{a}[i].sum()|{a}[(i, i)]|{a}[i, -1]|np.common_type({a})
"""

def entries(text: str) -> list[str]:
    """List the calls of a table."""
    return [entry for line in text.strip().splitlines() for entry in line.split("|")]


def ufunc_call(ufunc: np.ufunc) -> str:
    """Write the call of a ufunc, of integers where it takes no floats."""
    loops = [loop.split("->")[0] for loop in ufunc.types]
    loops = [loop for loop in loops if set(loop) == {"d"}] or [loop for loop in loops if loop[0] == "d"] or loops
    given = ["{a}" if any(loop[k] == "d" for loop in loops) else "{a}.astype(np.int64)" for k in range(ufunc.nin)]
    name = ufunc.__name__.removeprefix("_")  # as of zeta, whose function calls the ufunc
    module = "np" if hasattr(np, name) else "scipy.special"
    return f"{module}.{name}({', '.join(given)})"


def of(call: str) -> Any:
    """Return what a call is of: the function, or the name of the method or attribute of ``{a}``; None for others."""
    found = re.match(r"((?:np|scipy)(?:\.\w+)+)\(", call)
    if found:
        return eval(found[1], {"np": np, "scipy": scipy})  # noqa: S307 - text written here
    found = re.match(r"\{a\}(?:\[\w+\])?\.(\w+)", call)
    return found[1] if found else None


TABLE = {"view": entries(VIEW), "copy": entries(COPY), "either": entries(EITHER), "number": entries(NUMBER)}
