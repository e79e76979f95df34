"""One row of the data matrix against the unknown, whatever the layout of one and the shape of the other.

numba picks the implementation of these operations by the types:

    margin           z = scale * a_i^T x + intercept         (a number, or one per output)
    drifted_margin   the same at x - drift * q, which is never formed
    add_row          x <- x + factor * a_i coefs[k]^T
    add_bias         intercept <- intercept + factor * coefs[k]

A row lies in ``values, indices, indptr``: the arrays of a CSR matrix, or a C-ordered matrix and two
empty arrays. An array of booleans for ``values`` says that all of them are 1; it is not read. ``x`` is a
vector (one output) or a matrix with one column per output, its last row the intercept where there is one.
Indices are unsigned, so that no wrap-around test stands in the inner loop, and sums run in float64 for
float32 data too. With several outputs, a margin is left in ``coefs[k]``.
"""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

from numba import types
from numba.extending import overload

from reshuffle.kernels.options import OPTIONS


def margin(values, indices, indptr, i, x, scale, bias, coefs, k): ...
def drifted_margin(values, indices, indptr, i, x, q, drift, bias, coefs, k): ...
def add_row(values, indices, indptr, i, factor, coefs, k, x): ...
def add_bias(factor, coefs, k, x): ...


def is_dense(values):
    return values.ndim == 2


def is_unit(values):
    return values.dtype == types.boolean


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
        last, outputs, width = x.shape[0] - 1, x.shape[1], values.shape[1]
        for o in range(outputs):
            coefs[k, o] = x[last, o] - drift * q[last, o] if bias else 0.0
        fours = width - width % 4
        for j in range(0, fours, 4):  # as above
            a, b, c, d = values[i, j], values[i, j + 1], values[i, j + 2], values[i, j + 3]
            for o in range(outputs):
                here = a * x[j, o] + b * x[j + 1, o] + c * x[j + 2, o] + d * x[j + 3, o]
                along = a * q[j, o] + b * q[j + 1, o] + c * q[j + 2, o] + d * q[j + 3, o]
                coefs[k, o] += here - drift * along
        for j in range(fours, width):
            for o in range(outputs):
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
