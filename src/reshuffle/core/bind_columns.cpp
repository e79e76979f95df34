// Bindings of orders and of CSR rows seen by columns.
//
// `design.check_rows` names a user's mistake. The loops read and write where pointers, indices and visits point, so it is
// checked here again that pointers rise and end within the stored entries, that indices are columns, and that visits are rows.
// A check reads numbers in order and costs less than the pass that follows it.
#include "bound.hpp"
#include "columns.hpp"
#include "shuffle.hpp"

namespace reshuffle {

using Visits = Array<const Visit>;
using Out = Array<double>;

// Whether there are pointers, they do not fall, and they end within the stored entries.
template <class Pointer>
static bool ends_within(const Array<const Pointer> &indptr, size_t stored) {
    const Span<const Pointer> p = view(indptr);
    if (p.size < 1 || size_t(p[p.size - 1]) > stored) return false;
    bool good = true;
    for (Index i = 1; i < p.size; ++i) good &= p[i - 1] <= p[i];
    return good;
}

// Whether every index is below the number of columns.
template <class Column>
static bool within(Span<const Column> indices, Index columns) {
    Column largest = 0;
    for (Column j : indices) largest = std::max(largest, j);
    return indices.size == 0 || std::uint64_t(largest) < std::uint64_t(columns);
}

// The indices that the pointers lead to: others may lie before and after them.
template <class Column, class Pointer>
static Span<const Column> reached(const Array<const Column> &indices, const Array<const Pointer> &indptr) {
    const Span<const Pointer> p = view(indptr);
    return view(indices).part(Index(p[0]), Index(p[p.size - 1]));
}

template <class Value, class Column, class Pointer>
static Rows<Value, Column, Pointer> rows_of(const Array<const Value> &values, const Array<const Column> &indices,
                                            const Array<const Pointer> &indptr) {
    require(ends_within(indptr, indices.size()) && (std::is_same_v<Value, bool> || values.size() == indices.size()),
            "indptr must rise and end within the indices, and values must be as many as these");
    return {view(values), view(indices), view(indptr)};
}

template <class Column, class Pointer>
static Rows<bool, Column, Pointer> pattern_of(const Array<const Column> &indices, const Array<const Pointer> &indptr) {
    return rows_of(Array<const bool>(), indices, indptr);
}

static void bind_shuffle(nb::module_ &m) {
    m.def(
        "shuffle",
        [](Array<Visit> visits, Array<const double> uniforms, Index last) {
            bool good = true;
            for (double uniform : view(uniforms)) good &= uniform >= 0.0 && uniform < 1.0;
            require(good && (last <= 0 || size_t(last) < visits.size()),
                    "uniforms must lie in [0, 1), and last must be a position of the visits");
            Free free;
            shuffle(view(visits), view(uniforms), last);
        },
        nb::arg("visits").noconvert(), nb::arg("uniforms").noconvert(), nb::arg("last"));
}

template <class T, class Pointer>
static void bind_gather(nb::module_ &m) {
    m.def(
        "gather",
        [](Array<const T> values, Array<const Pointer> indptr, Visits order, Array<T> gathered) {
            require(ends_within(indptr, values.size()), "indptr must end within the values");
            bool good = true;
            for (Visit i : view(order)) good &= size_t(i) + 1 < indptr.size();
            require(good, "the order must name rows");
            require(stored_in(view(indptr), view(order)) == Index(gathered.size()),
                    "what is gathered must be as large as the rows of the order");
            Free free;
            gather(view(values), view(indptr), view(order), view(gathered));
        },
        nb::arg("values").noconvert(), nb::arg("indptr").noconvert(), nb::arg("order").noconvert(),
        nb::arg("gathered").noconvert());
}

template <class Column>
static void bind_counts(nb::module_ &m) {
    m.def(
        "count_columns",
        [](Array<const Column> indices, Array<Index> counts) {
            require(within(view(indices), Index(counts.size())), "a column index lies beyond the counts");
            Free free;
            count_columns(view(indices), view(counts));
        },
        nb::arg("indices").noconvert(), nb::arg("counts").noconvert());
}

template <class Value, class Column, class Pointer>
static void bind_sums(nb::module_ &m) {
    m.def(
        "add_squares",
        [](Array<const Value> values, Array<const Column> indices, Array<const Pointer> indptr,
           Array<const double> weights, Out out) {
            const auto rows = rows_of(values, indices, indptr);
            require(weights.size() + 1 == indptr.size(), "there must be a weight for each row");
            require(within(reached(indices, indptr), Index(out.size())), "a column index lies beyond out");
            Free free;
            add_squares(rows, view(weights), view(out));
        },
        nb::arg("values").noconvert(), nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(),
        nb::arg("weights").noconvert(), nb::arg("out").noconvert());
    m.def(
        "add_entries",
        [](Array<const Value> values, Array<const Column> indices, Array<const Pointer> indptr,
           Array2<double> columns) {
            const auto rows = rows_of(values, indices, indptr);
            require(columns.shape(1) + 1 == indptr.size(), "columns must be as long as there are rows");
            require(within(reached(indices, indptr), Index(columns.shape(0))), "a column index lies beyond the columns");
            Free free;
            add_entries(rows, view(columns));
        },
        nb::arg("values").noconvert(), nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(),
        nb::arg("columns").noconvert());
}

template <class Column, class Pointer>
static void bind_kept(nb::module_ &m) {
    m.def(
        "count_kept",
        [](Array<const Column> indices, Array<const Pointer> indptr, Visits place, Array<Pointer> lengths) {
            const auto rows = pattern_of(indices, indptr);
            require(lengths.size() == indptr.size(), "lengths must be as many as pointers");
            require(within(reached(indices, indptr), Index(place.size())), "a column index lies beyond the places");
            Free free;
            count_kept(rows, view(place), view(lengths));
        },
        nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(), nb::arg("place").noconvert(),
        nb::arg("lengths").noconvert());
    m.def(
        "keep_indices",
        [](Array<const Column> indices, Array<const Pointer> indptr, Visits place, Array<Column> new_indices,
           Array<const Pointer> new_indptr) {
            const auto rows = pattern_of(indices, indptr);
            require(new_indptr.size() == indptr.size() && ends_within(new_indptr, new_indices.size()) &&
                        size_t(new_indptr.data()[new_indptr.size() - 1]) < new_indices.size(),
                    "the new arrays need room for one entry more than the new pointers say");
            require(within(reached(indices, indptr), Index(place.size())), "a column index lies beyond the places");
            Free free;
            keep_columns(rows, view(place), Span<bool>{}, view(new_indices), view(new_indptr));
        },
        nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(), nb::arg("place").noconvert(),
        nb::arg("new_indices").noconvert(), nb::arg("new_indptr").noconvert());
}

template <class Value, class Column, class Pointer>
static void bind_keep(nb::module_ &m) {
    m.def(
        "keep_columns",
        [](Array<const Value> values, Array<const Column> indices, Array<const Pointer> indptr, Visits place,
           Array<Value> new_values, Array<Column> new_indices, Array<const Pointer> new_indptr) {
            const auto rows = rows_of(values, indices, indptr);
            require(new_indptr.size() == indptr.size() && new_values.size() == new_indices.size() &&
                        ends_within(new_indptr, new_indices.size()) &&
                        size_t(new_indptr.data()[new_indptr.size() - 1]) < new_indices.size(),
                    "the new arrays need room for one entry more than the new pointers say");
            require(within(reached(indices, indptr), Index(place.size())), "a column index lies beyond the places");
            Free free;
            keep_columns(rows, view(place), view(new_values), view(new_indices), view(new_indptr));
        },
        nb::arg("values").noconvert(), nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(),
        nb::arg("place").noconvert(), nb::arg("new_values").noconvert(), nb::arg("new_indices").noconvert(),
        nb::arg("new_indptr").noconvert());
}

template <class Value>
static void bind_dense_norms(nb::module_ &m) {
    m.def(
        "dense_squared_norms",
        [](Array2<const Value> values, Out out) {
            require(values.shape(0) == out.size(), "there must be a place for each row");
            Free free;
            dense_squared_norms(view(values), view(out));
        },
        nb::arg("values").noconvert(), nb::arg("out").noconvert());
}

template <class Value, class Pointer>
static void bind_csr_norms(nb::module_ &m) {
    m.def(
        "csr_squared_norms",
        [](Array<const Value> values, Array<const Pointer> indptr, Out out) {
            require(indptr.size() == out.size() + 1 && ends_within(indptr, values.size()),
                    "there must be a place for each row, and indptr must end within the values");
            Free free;
            csr_squared_norms(view(values), view(indptr), view(out));
        },
        nb::arg("values").noconvert(), nb::arg("indptr").noconvert(), nb::arg("out").noconvert());
}

using Narrow = std::uint32_t;  // the view of scipy's int32, and the type to which int64 is converted if it fits
using Wide = std::uint64_t;    // the view of scipy's int64 if it does not fit

template <class Column, class Pointer>
static void bind_layout(nb::module_ &m) {
    bind_kept<Column, Pointer>(m);
    bind_sums<double, Column, Pointer>(m);
    bind_sums<float, Column, Pointer>(m);
    bind_sums<bool, Column, Pointer>(m);
    bind_keep<double, Column, Pointer>(m);
    bind_keep<float, Column, Pointer>(m);
}

template <class Pointer>
static void bind_pointers(nb::module_ &m) {
    bind_gather<double, Pointer>(m);
    bind_gather<float, Pointer>(m);
    bind_gather<Narrow, Pointer>(m);
    bind_gather<Wide, Pointer>(m);
    bind_csr_norms<double, Pointer>(m);
    bind_csr_norms<float, Pointer>(m);
    bind_layout<Narrow, Pointer>(m);
    bind_layout<Wide, Pointer>(m);
}

void bind_columns(nb::module_ &m) {
    bind_shuffle(m);
    bind_counts<Narrow>(m);
    bind_counts<Wide>(m);
    bind_dense_norms<double>(m);
    bind_dense_norms<float>(m);
    bind_pointers<Narrow>(m);
    bind_pointers<Wide>(m);
}

}  // namespace reshuffle
