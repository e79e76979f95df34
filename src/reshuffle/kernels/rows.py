"""Rows of the data matrix, whatever its layout and whatever the shape of the unknown.

Seven operations are all that the loops above need. numba picks the implementation by the types:

    margin     z = scale * a_i^T x + intercept         (a number, or one per output)
    drifted_margin   the same at x - drift * q, which is never formed
    loss_at    l(z, y)
    slope      l'(z, y)
    keep       coefs[k] = weight * l'
    add_row    x <- x + factor * a_i coefs[k]^T
    add_bias   intercept <- intercept + factor * coefs[k]

A row lies in ``values, indices, indptr``: the arrays of a CSR matrix, or a C-ordered matrix and two
empty arrays. An array of booleans for ``values`` says that all of them are 1; it is not read. ``x`` is a vector (one output) or a matrix with one column per output, its last row the
intercept where there is one. Indices are unsigned, so that no wrap-around test stands in the inner
loop, and sums run in float64 for float32 data too.
"""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

FAST: Any = {"reassoc", "contract", "nsz", "arcp"}  # NaN and infinity keep their meaning
OPTIONS: Any = {"fastmath": FAST, "error_model": "numpy", "forceinline": True}
"""Of the operations. A call instead would pass some thirty words that describe its arrays."""

LOSSES: dict[int, tuple[Any, ...]] = {}
"""Stamp of a loss -> its compiled ``value``, ``derivative`` and (where it has one) ``conjugate``."""


def register(stamp: int, *functions: Any) -> None:
    """Make the functions of a loss known to the kernels under their stamp."""
    if stamp not in LOSSES:
        LOSSES[stamp] = tuple(njit(fastmath=FAST, error_model="numpy")(f) for f in functions)


def margin(values, indices, indptr, i, x, scale, bias, coefs, k): ...
def drifted_margin(values, indices, indptr, i, x, q, drift, bias, coefs, k): ...
def loss_at(stamp, params, z, y): ...
def slope(stamp, params, z, y): ...
def conjugate_at(stamp, params, table, c, factor, y, coefs): ...
def keep(coefs, k, weight, g): ...
def exchange(table, c, coefs, k, weight, g): ...
def add_row(values, indices, indptr, i, factor, coefs, k, x): ...
def add_bias(factor, coefs, k, x): ...
def prefetch(values, indices, indptr, i): ...
def prefetch_pointer(values, indices, indptr, i): ...
def prefetch_entry(array, i): ...
def prefetch_span(array, start, stop): ...


def is_dense(values):
    return values.ndim == 2


def is_unit(values):
    return values.dtype == types.boolean


# --- one row against the unknown -------------------------------------------------------------
# Elements are reached by full indices: a view of a row would count a reference in the inner loop.


@overload(margin, jit_options=OPTIONS)
def _margin(values, indices, indptr, i, x, scale, bias, coefs, k):
    def dense_vector(values, indices, indptr, i, x, scale, bias, coefs, k):
        z = 0.0
        for j in range(values.shape[1]):
            z += values[i, j] * x[j]
        return scale * z + x[x.size - 1] if bias else scale * z

    def csr_vector(values, indices, indptr, i, x, scale, bias, coefs, k):
        z = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            z += values[p] * x[indices[p]]
        return scale * z + x[x.size - 1] if bias else scale * z

    def dense_matrix(values, indices, indptr, i, x, scale, bias, coefs, k):
        outputs = x.shape[1]
        for o in range(outputs):
            coefs[k, o] = x[x.shape[0] - 1, o] if bias else 0.0
        width = values.shape[1]
        fours = width - width % 4
        for j in range(0, fours, 4):  # four features for each time that coefs is read and written
            a, b = scale * values[i, j], scale * values[i, j + 1]
            c, d = scale * values[i, j + 2], scale * values[i, j + 3]
            for o in range(outputs):
                coefs[k, o] += a * x[j, o] + b * x[j + 1, o] + c * x[j + 2, o] + d * x[j + 3, o]
        for j in range(fours, width):
            a = scale * values[i, j]
            for o in range(outputs):
                coefs[k, o] += a * x[j, o]
        return coefs[k]

    def csr_matrix(values, indices, indptr, i, x, scale, bias, coefs, k):
        outputs = x.shape[1]
        for o in range(outputs):
            coefs[k, o] = x[x.shape[0] - 1, o] if bias else 0.0
        for p in range(indptr[i], indptr[i + 1]):
            a, j = scale * values[p], indices[p]
            for o in range(outputs):
                coefs[k, o] += a * x[j, o]
        return coefs[k]

    def unit_vector(values, indices, indptr, i, x, scale, bias, coefs, k):
        z = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            z += x[indices[p]]
        return scale * z + x[x.size - 1] if bias else scale * z

    def unit_matrix(values, indices, indptr, i, x, scale, bias, coefs, k):
        outputs = x.shape[1]
        for o in range(outputs):
            coefs[k, o] = x[x.shape[0] - 1, o] if bias else 0.0
        for p in range(indptr[i], indptr[i + 1]):
            for o in range(outputs):
                coefs[k, o] += scale * x[indices[p], o]
        return coefs[k]

    if is_dense(values):
        return dense_vector if x.ndim == 1 else dense_matrix
    if is_unit(values):
        return unit_vector if x.ndim == 1 else unit_matrix
    return csr_vector if x.ndim == 1 else csr_matrix


@overload(drifted_margin, jit_options=OPTIONS)
def _drifted_margin(values, indices, indptr, i, x, q, drift, bias, coefs, k):
    def dense_vector(values, indices, indptr, i, x, q, drift, bias, coefs, k):
        z = 0.0
        for j in range(values.shape[1]):
            z += values[i, j] * (x[j] - drift * q[j])
        return z + (x[x.size - 1] - drift * q[x.size - 1]) if bias else z

    def csr_vector(values, indices, indptr, i, x, q, drift, bias, coefs, k):
        z = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            z += values[p] * (x[indices[p]] - drift * q[indices[p]])
        return z + (x[x.size - 1] - drift * q[x.size - 1]) if bias else z

    def dense_matrix(values, indices, indptr, i, x, q, drift, bias, coefs, k):
        last = x.shape[0] - 1
        for o in range(x.shape[1]):
            coefs[k, o] = x[last, o] - drift * q[last, o] if bias else 0.0
        for j in range(values.shape[1]):
            for o in range(x.shape[1]):
                coefs[k, o] += values[i, j] * (x[j, o] - drift * q[j, o])
        return coefs[k]

    def csr_matrix(values, indices, indptr, i, x, q, drift, bias, coefs, k):
        last = x.shape[0] - 1
        for o in range(x.shape[1]):
            coefs[k, o] = x[last, o] - drift * q[last, o] if bias else 0.0
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            for o in range(x.shape[1]):
                coefs[k, o] += values[p] * (x[j, o] - drift * q[j, o])
        return coefs[k]

    def unit_vector(values, indices, indptr, i, x, q, drift, bias, coefs, k):
        z = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            z += x[indices[p]] - drift * q[indices[p]]
        return z + (x[x.size - 1] - drift * q[x.size - 1]) if bias else z

    def unit_matrix(values, indices, indptr, i, x, q, drift, bias, coefs, k):
        last = x.shape[0] - 1
        for o in range(x.shape[1]):
            coefs[k, o] = x[last, o] - drift * q[last, o] if bias else 0.0
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            for o in range(x.shape[1]):
                coefs[k, o] += x[j, o] - drift * q[j, o]
        return coefs[k]

    if is_dense(values):
        return dense_vector if x.ndim == 1 else dense_matrix
    if is_unit(values):
        return unit_vector if x.ndim == 1 else unit_matrix
    return csr_vector if x.ndim == 1 else csr_matrix


@overload(add_row, jit_options=OPTIONS)
def _add_row(values, indices, indptr, i, factor, coefs, k, x):
    def dense_vector(values, indices, indptr, i, factor, coefs, k, x):
        c = factor * coefs[k]
        for j in range(values.shape[1]):
            x[j] += c * values[i, j]

    def csr_vector(values, indices, indptr, i, factor, coefs, k, x):
        c = factor * coefs[k]
        for p in range(indptr[i], indptr[i + 1]):
            x[indices[p]] += c * values[p]

    def dense_matrix(values, indices, indptr, i, factor, coefs, k, x):
        for j in range(values.shape[1]):
            a = factor * values[i, j]
            for o in range(x.shape[1]):
                x[j, o] += a * coefs[k, o]

    def csr_matrix(values, indices, indptr, i, factor, coefs, k, x):
        for p in range(indptr[i], indptr[i + 1]):
            a, j = factor * values[p], indices[p]
            for o in range(x.shape[1]):
                x[j, o] += a * coefs[k, o]

    def unit_vector(values, indices, indptr, i, factor, coefs, k, x):
        c = factor * coefs[k]
        for p in range(indptr[i], indptr[i + 1]):
            x[indices[p]] += c

    def unit_matrix(values, indices, indptr, i, factor, coefs, k, x):
        for p in range(indptr[i], indptr[i + 1]):
            for o in range(x.shape[1]):
                x[indices[p], o] += factor * coefs[k, o]

    if is_dense(values):
        return dense_vector if x.ndim == 1 else dense_matrix
    if is_unit(values):
        return unit_vector if x.ndim == 1 else unit_matrix
    return csr_vector if x.ndim == 1 else csr_matrix


@overload(add_bias, jit_options=OPTIONS)
def _add_bias(factor, coefs, k, x):
    def vector(factor, coefs, k, x):
        x[x.size - 1] += factor * coefs[k]

    def matrix(factor, coefs, k, x):
        for o in range(x.shape[1]):
            x[x.shape[0] - 1, o] += factor * coefs[k, o]

    return vector if x.ndim == 1 else matrix


# --- the loss of one row ---------------------------------------------------------------------


@overload(loss_at, jit_options=OPTIONS, prefer_literal=True)
def _loss_at(stamp, params, z, y):
    value = LOSSES[stamp.literal_value][0]
    return lambda stamp, params, z, y: value(z, y, *params)


@overload(slope, jit_options=OPTIONS, prefer_literal=True)
def _slope(stamp, params, z, y):
    derivative = LOSSES[stamp.literal_value][1]
    return lambda stamp, params, z, y: derivative(z, y, *params)


@overload(conjugate_at, jit_options=OPTIONS, prefer_literal=True)
def _conjugate_at(stamp, params, table, c, factor, y, coefs):
    """l*(factor * table[c], y)."""
    conjugate = LOSSES[stamp.literal_value][2]

    def vector(stamp, params, table, c, factor, y, coefs):
        return conjugate(factor * table[c], y, *params)

    def matrix(stamp, params, table, c, factor, y, coefs):
        for o in range(table.shape[1]):
            coefs[0, o] = factor * table[c, o]
        return conjugate(coefs[0], y, *params)

    return vector if table.ndim == 1 else matrix


@overload(keep, jit_options=OPTIONS)
def _keep(coefs, k, weight, g):
    def vector(coefs, k, weight, g):
        coefs[k] = weight * g

    def matrix(coefs, k, weight, g):  # a vector loss leaves its derivative in coefs[k]
        for o in range(coefs.shape[1]):
            coefs[k, o] *= weight

    return vector if coefs.ndim == 1 else matrix


@overload(exchange, jit_options=OPTIONS)
def _exchange(table, c, coefs, k, weight, g):
    """coefs[k] = weight * (g - table[c]); table[c] = g."""

    def vector(table, c, coefs, k, weight, g):
        coefs[k] = weight * (g - table[c])
        table[c] = g

    def matrix(table, c, coefs, k, weight, g):  # a vector loss leaves its derivative in coefs[k]
        for o in range(coefs.shape[1]):
            new = coefs[k, o]
            coefs[k, o] = weight * (new - table[c, o])
            table[c, o] = new

    return vector if coefs.ndim == 1 else matrix


# --- memory ----------------------------------------------------------------------------------


@intrinsic
def _prefetch(typingctx, array, index):
    """llvm.prefetch of the cache line that holds element ``index`` of a contiguous array."""

    def codegen(context, builder, signature, args):
        i8, i32 = ir.IntType(8), ir.IntType(32)
        view = context.make_array(array)(context, builder, args[0])
        pointer = builder.bitcast(builder.gep(view.data, [args[1]]), i8.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, keep_it, data = i32(0), i32(3), i32(1)
        builder.call(function, [pointer, read, keep_it, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@overload(prefetch_entry, jit_options=OPTIONS)
def _prefetch_entry(array, i):
    """The line in which array[i] begins."""
    if array.ndim == 1:
        return lambda array, i: _prefetch(array, i)
    return lambda array, i: _prefetch(array, i * array.shape[1])


@overload(prefetch_span, jit_options=OPTIONS)
def _prefetch_span(array, start, stop):
    """The lines of elements start, ..., stop - 1; the hardware follows a long row by itself."""
    line = 64 // (array.dtype.bitwidth // 8)
    most = 8 * line

    def span(array, start, stop):
        for p in range(start, min(stop, start + most), line):
            _prefetch(array, p)
        _prefetch(array, stop - 1)  # a row may begin in the middle of a line

    return span


@overload(prefetch_pointer, jit_options=OPTIONS)
def _prefetch_pointer(values, indices, indptr, i):
    if is_dense(values):
        return lambda values, indices, indptr, i: None
    return lambda values, indices, indptr, i: _prefetch(indptr, i)


@overload(prefetch, jit_options=OPTIONS)
def _prefetch_row(values, indices, indptr, i):
    def dense(values, indices, indptr, i):
        start = i * values.shape[1]
        prefetch_span(values, start, start + values.shape[1])

    def csr(values, indices, indptr, i):
        prefetch_span(values, indptr[i], indptr[i + 1])
        prefetch_span(indices, indptr[i], indptr[i + 1])

    def unit(values, indices, indptr, i):
        prefetch_span(indices, indptr[i], indptr[i + 1])

    return dense if is_dense(values) else unit if is_unit(values) else csr
