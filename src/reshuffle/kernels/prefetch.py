"""Asking the memory for what a shuffled pass reads next."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from reshuffle.kernels.options import OPTIONS
from reshuffle.kernels.rows import is_dense, is_unit


def prefetch(values, indices, indptr, i): ...
def prefetch_pointer(values, indices, indptr, i): ...
def prefetch_entry(array, i): ...
def prefetch_span(array, start, stop): ...


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
