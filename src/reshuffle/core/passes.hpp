// Passes over rows in storage order.
//
//     margins      z_i = a_i^T x + b
//     value        sum_i w_i l(z_i + o_i, y_i), and the same offsets o_i wherever a loss is read
//     combine      out <- out + factor sum_i w_i s_i a_i
//     tabulate     s_i = l'(z_i, y_i), and combine
//     linearise    z_i, l'_i, l''_i, combine, and sum_i w_i l_i
//     conjugates   sum_i w_i l*(factor s_i, y_i)
//     bent         out <- out + factor sum_i c_i a_i a_i^T v
//     walk         margins along a permutation, with slopes that stay as they are
//
// Each runs on one thread in a fixed order of additions, so that its bits depend on the data alone. Rows are taken
// `together` at a time: first margins, then losses, then the sums over rows. So losses need not wait for rows, several
// are computed at a time, and margins stay in the nearest cache. The losses of a block are summed before they are added to
// the total: two short sums instead of one long one. Loops over rows are compiled for each layout, loops over losses for
// each loss, and none for each pair of the two.
//
// Every call takes a range of rows; arrays with an entry per row (and output) begin with the first row of the range.
#pragma once
#include "samples.hpp"

namespace reshuffle {

inline constexpr Index together = 1024;  // rows: see above

struct Range {
    Index begin, end;
    Index size() const { return end - begin; }
};

template <class F>
void in_blocks(Range range, F &&f) {
    for (Index start = range.begin; start < range.end; start += together)
        f(Range{start, std::min(start + together, range.end)});
}

inline Span<const double> some(Span<const double> weights, Range r) {
    return weights ? weights.part(r.begin, r.end) : weights;
}

// --- rows -----------------------------------------------------------------------------------------------------------

// out_i = a_i^T x + shift for the rows of the range, several dense ones at a time.
template <class R>
void dots_of(const R &rows, Range range, const double *x, double shift, double *out) {
    Index i = range.begin;
    if constexpr (R::dense)
        for (; rows.width >= narrow && i + several <= range.end; i += several) {
            double *z = out + (i - range.begin);
            rows.several_dots(i, x, z);
            for (Index k = 0; k < several; k++) z[k] += shift;
        }
    for (; i < range.end; i++) out[i - range.begin] = rows.dot(i, x) + shift;
}

// out <- out + sum_i c_i a_i over rows that are given one after the other; dense ones wait until there are several.
template <class R>
class Adding {
  public:
    Adding(const R &rows, double *out) : rows_(rows), out_(out) {}
    void operator()(Index i, double c) {
        if constexpr (R::dense) {
            which_[count_] = i, c_[count_] = c;
            if (++count_ < several) return;
            rows_.add_several(which_, c_, out_);
            count_ = 0;
        } else {
            rows_.add(i, c, out_);
        }
    }
    void finish() {
        for (Index k = 0; k < count_; k++) rows_.add(which_[k], c_[k], out_);
        count_ = 0;
    }

  private:
    const R &rows_;
    double *out_;
    Index which_[several] = {}, count_ = 0;
    double c_[several] = {};
};

inline void margins(const Samples &s, Range range, const double *x, double *out) {
    const Index outputs = s.outputs;
    const double *intercept = x + s.penalised();
    with_rows(s, [&](const auto &rows) {
        if (outputs == 0) {
            dots_of(rows, range, x, s.bias ? *intercept : 0.0, out);
            return;
        }
        for (Index i = range.begin; i < range.end; i++) {
            double *z = out + (i - range.begin) * outputs;
            for (Index o = 0; o < outputs; o++) z[o] = s.bias ? intercept[o] : 0.0;
            rows.dots(i, x, outputs, 1.0, z);
        }
    });
}

inline void combine(const Samples &s, Range range, double factor, const double *table, double *out) {
    const Index outputs = s.outputs;
    double *intercept = out + s.penalised();
    with_rows(s, [&](const auto &rows) {
        double shift = 0.0;
        Adding add(rows, out);
        for (Index i = range.begin; i < range.end; i++) {
            if (s.weights && !(s.weights[i] > 0.0)) continue;  // no weight: skipped, even if its slope is infinite
            const double weight = s.weights ? s.weights[i] * factor : factor;
            if (outputs == 0) {
                const double c = weight * table[i - range.begin];
                add(i, c);
                shift += c;
            } else {
                const double *own = table + (i - range.begin) * outputs;
                rows.add_outer(i, weight, own, outputs, out);
                if (s.bias)
                    for (Index o = 0; o < outputs; o++) intercept[o] += weight * own[o];
            }
        }
        add.finish();
        if (s.bias && outputs == 0) *intercept += shift;
    });
}

// for one output, whatever the loss; empty curvatures stand for ones
inline void bent(const Samples &s, Range range, Span<const double> curvatures, const double *v, double factor, double *out) {
    with_rows(s, [&](const auto &rows) {
        double shift = 0.0, z[several];
        Adding add(rows, out);
        for (Index i = range.begin; i < range.end; i += several) {
            const Range some{i, std::min(i + several, range.end)};
            dots_of(rows, some, v, s.bias ? v[s.features] : 0.0, z);
            for (Index k = i; k < some.end; k++) {
                const double c = factor * (curvatures ? curvatures[k] * z[k - i] : z[k - i]);
                add(k, c);
                shift += c;
            }
        }
        add.finish();
        if (s.bias) out[s.features] += shift;
    });
}

// out_k = a_i^T x + b for the k-th visit i, then x <- x - step coefs_i a_i.
inline void walk(const Samples &s, Span<const Visit> visits, const double *coefs, double step, double *x, double *out) {
    const Index outputs = s.outputs, each = s.margins();
    double *intercept = x + s.penalised();
    with_rows(s, [&](const auto &rows) {
        for (Index k = 0; k < visits.size; k++) {
            const Index i = visits[k];
            const double *own = coefs + i * each;
            double *z = out + k * each;
            for (Index o = 0; o < each; o++) z[o] = s.bias ? intercept[o] : 0.0;
            if (outputs == 0) {
                *z += rows.dot(i, x);
                rows.add(i, -step * *own, x);
            } else {
                rows.dots(i, x, outputs, 1.0, z);
                rows.add_outer(i, -step, own, outputs, x);
            }
            if (s.bias)
                for (Index o = 0; o < each; o++) intercept[o] += -step * own[o];
        }
    });
}

// --- losses of the rows of a range, at their margins -------------------------------------------------------------------

// z_i + o_i, written to `room` if there are offsets.
inline const double *with_offsets(const Samples &s, Range r, const double *z, std::vector<double> &room) {
    if (!s.offsets) return z;
    room.resize(std::size_t(r.size()));
    for (Index k = 0; k < r.size(); k++) room[std::size_t(k)] = z[k] + s.offsets[r.begin + k];
    return room.data();
}

// sum_i w_i l(z_i)
inline double sum_of_values(const Samples &s, Range r, double *z) {
    return with_loss(s, [&](const auto &loss, const auto *y) {
        if constexpr (VectorLoss<std::decay_t<decltype(loss)>>) {
            double total = 0.0;
            for (Index i = r.begin; i < r.end; i++) {
                const double value = loss.value(z + (i - r.begin) * s.outputs, s.outputs, y, i);
                total += s.weights ? weighted(s.weights[i], value) : value;
            }
            return total;
        } else {
            std::vector<double> room;
            const Span<const double> at{with_offsets(s, r, z, room), r.size()};
            return sum_of_values(loss, at, y + r.begin, some(s.weights, r));
        }
    });
}

// z_i <- l'(z_i)
inline void slopes_of(const Samples &s, Range r, double *z) {
    with_loss(s, [&](const auto &loss, const auto *y) {
        if constexpr (VectorLoss<std::decay_t<decltype(loss)>>)
            for (Index i = r.begin; i < r.end; i++) loss.slope(z + (i - r.begin) * s.outputs, s.outputs, y, i);
        else {
            for (Index k = 0; s.offsets && k < r.size(); k++) z[k] += s.offsets[r.begin + k];
            slopes_of(loss, Span<const double>{z, r.size()}, y + r.begin, z);
        }
    });
}

// l'_i and l''_i (or its p), from z_i; sum_i w_i l_i
inline double expand(const Samples &s, Range r, const double *z, double *slopes, double *bends) {
    return with_loss(s, [&](const auto &loss, const auto *y) {
        const Span<const double> weights = some(s.weights, r);
        if constexpr (!VectorLoss<std::decay_t<decltype(loss)>>) {
            std::vector<double> room;
            const Span<const double> at{with_offsets(s, r, z, room), r.size()};
            return expand(loss, at, y + r.begin, weights, slopes, bends);
        } else {
            const Matrix<const double> rows{z, r.size(), s.outputs};
            if constexpr (requires { loss.expand(rows, y, weights, slopes, bends); }) {
                return loss.expand(rows, y + r.begin, weights, slopes, bends);
            } else {
                std::copy(z, z + rows.rows * s.outputs, slopes);
                const double total = sum_of_values(s, r, slopes);
                if constexpr (requires { loss.bend(bends, s.outputs, y, r.begin); }) {
                    std::copy(z, z + rows.rows * s.outputs, bends);
                    for (Index i = r.begin; i < r.end; i++) loss.bend(bends + (i - r.begin) * s.outputs, s.outputs, y, i);
                }
                slopes_of(s, r, slopes);
                return total;
            }
        }
    });
}

// total + sum_i w_i l*(factor s_i)
inline double conjugates(const Samples &s, Range range, const double *slopes, double factor, double total) {
    with_loss(s, [&](const auto &loss, const auto *y) {
        if constexpr (VectorLoss<std::decay_t<decltype(loss)>>) {
            std::vector<double> scaled(std::size_t(s.outputs));
            for (Index i = range.begin; i < range.end; i++) {
                for (Index o = 0; o < s.outputs; o++)
                    scaled[std::size_t(o)] = factor * slopes[(i - range.begin) * s.outputs + o];
                const double value = loss.conjugate(scaled.data(), s.outputs, y, i);
                total += s.weights ? weighted(s.weights[i], value) : value;
            }
        } else {
            in_blocks(range, [&](Range r) {
                const Span<const double> own{slopes + (r.begin - range.begin), r.size()};
                total += sum_of_conjugates(loss, own, factor, y + r.begin, some(s.weights, r));
                for (Index k = 0; s.offsets && k < own.size; k++)
                    total -= weighted(s.weights ? s.weights[r.begin + k] : 1.0, factor * own[k] * s.offsets[r.begin + k]);
            });
        }
    });
    return total;
}

inline bool has_bend(const Samples &s) {
    return std::visit(
        [](const auto &loss) {
            using L = std::decay_t<decltype(loss)>;
            if constexpr (VectorLoss<L>)
                return bool(loss.bends());
            else if constexpr (std::is_same_v<L, Given>)
                return loss.d2f != nullptr;
            else
                return true;
        },
        s.loss);
}

// Whether the Hessian of every row is diagonal in its several outputs.
inline bool is_separate(const Samples &s) {
    return std::visit(
        [](const auto &loss) {
            using L = std::decay_t<decltype(loss)>;
            if constexpr (VectorLoss<L>)
                return L::separate;
            else
                return false;
        },
        s.loss);
}

// Whether the loss is convex. If not, its curvatures are positive and at least l'', and no step proves a bound.
inline bool is_convex(const Samples &s) {
    return std::visit(
        [](const auto &loss) {
            if constexpr (requires { loss.is_convex(); })
                return bool(loss.is_convex());
            else
                return true;
        },
        s.loss);
}

inline bool has_conjugate(const Samples &s) {
    return std::visit([](const auto &loss) { return bool(loss.has_conjugate()); }, s.loss);
}

// --- both ---------------------------------------------------------------------------------------------------------------

inline double value(const Samples &s, Range range, const double *x, double total) {
    std::vector<double> z(std::size_t(std::min(together, range.size()) * s.margins()));
    in_blocks(range, [&](Range r) {
        margins(s, r, x, z.data());
        total += sum_of_values(s, r, z.data());
    });
    return total;
}

// Writes slopes to `table` if there is one; without a table it computes the gradient alone.
inline void tabulate(const Samples &s, Range range, const double *x, double factor, double *table, double *out) {
    std::vector<double> room(std::size_t(table ? 0 : std::min(together, range.size()) * s.margins()));
    in_blocks(range, [&](Range r) {
        double *own = table ? table + (r.begin - range.begin) * s.margins() : room.data();
        margins(s, r, x, own);
        slopes_of(s, r, own);
        combine(s, r, factor, own, out);
    });
}

inline double linearise(const Samples &s, Range range, const double *x, double factor, double *z, double *slopes,
                        double *bends, double *out, double total) {
    in_blocks(range, [&](Range r) {
        const Index at = (r.begin - range.begin) * s.margins();
        margins(s, r, x, z + at);
        total += expand(s, r, z + at, slopes + at, bends + at);
        combine(s, r, factor, slopes + at, out);
    });
    return total;
}

}  // namespace reshuffle
