// A small set as one dense matrix, and f on it.
//
// Each row of T is a column of the set, so that all loops run along the samples, of which there are many. If there is an
// intercept, columns are centred by their weighted means, with a column of ones at the end; u is the unknown for these columns:
//
//     a_i^T x + b = (a_i - m)^T x + b',        b' = b + m^T x.
//
// A loss that is a sum over several outputs is treated as a loss of one output on n K rows, with every row
// once for each output. f is a mean over n rows, but the loop's mean is over n K, so weights are multiplied by K.
#pragma once
#include "line_search.hpp"
#include "lower_model.hpp"
#include "quadratic_model.hpp"

namespace reshuffle {

namespace small {
inline constexpr double constant = 1e-14;  // Rounding explains a deviation of this share of the mean.
inline constexpr Index packed = 256;       // This many rows are multiplied at a time; with 500 columns they fill a second-level cache.
}  // namespace small

class ColumnMajor {
  public:
    Samples losses;       // of all rows; the rows themselves are in T
    Curvature curvature;
    Point at;
    std::vector<double> d, change;  // a step, and the change of the margins by it
    double at_zero = 0.0;           // f(0)
    double floor = -infinity;       // a bound from below on all losses, so on P
    Index passes = 0;

    // each: the loss of one output, if that of the samples is a sum over several outputs; otherwise null.
    ColumnMajor(const Samples &s, const AnyLoss *each, const Curvature &c) : losses(s), curvature(c), n_(s.n), width_(s.width()) {
        T_.resize(std::size_t(width_ * n_));
        with_rows(s, [&](const auto &rows) {
            for (Index i = 0; i < n_; i++) rows.for_each(i, [&](Index j, double a) { T_[std::size_t(j * n_ + i)] += a; });
        });
        if (s.bias) take_means();
        if (each != nullptr) side_by_side(*each);
        fit();
        at_zero = value_along(losses, at.margins.data(), at.margins.data(), 0.0);  // margins that are zero
        floor = least_value(losses);
    }
    ColumnMajor(const ColumnMajor &) = delete;

    Index size() const { return width_ * losses.margins(); }  // unknowns
    static constexpr bool has_worked_enough() { return false; }  // the set is small: the number of steps is bound enough

    Index centred_columns() const { return Index(centre_.size()); }

    // u <- x in the coordinates of centred columns, in place; x has a row for each feature, and one for the intercept.
    void centred(Matrix<double> x) const {
        for (Index j = 0; j < Index(centre_.size()); j++)
            for (Index o = 0; o < x.columns; o++) x[x.rows - 1][o] += centre_[std::size_t(j)] * x[j][o];
    }

    // z, l'(z), l''(z) of every row and the gradient.
    void linearise(const double *u) {
        const Index n = n_, outputs = losses.margins();
        double total = 0.0;
        std::fill(at.gradient.begin(), at.gradient.end(), 0.0);
        in_blocks({0, n}, [&](Range r) {
            const Index start = r.begin * outputs;
            double *z = at.margins.data() + start, *s = at.slopes.data() + start;
            margins_of(u, r, z);
            total += expand(losses, r, z, s, at.curvatures.data() + start);
            gather(s, r);
        });
        at.value = total / double(n);
        passes++;
    }

    // The minimiser of the model at u; the step to it is left in d, and the change of the margins in `change`.
    template <class Form>
    Minimum model(const Form &form, const double *u, const Bends &bends, double accuracy, double least, bool /*complete*/) {
        hessian(bends);
        const auto last = u + size();
        best_.assign(u, last);
        const Minimum found = minimise(form, {H_.data(), size(), size()}, at.gradient.data(), u, best_.data(), accuracy, least,
                                       room_);
        for (Index j = 0; j < size(); j++) d[std::size_t(j)] = best_[std::size_t(j)] - u[j];
        still(form);
        move(d.data(), change.data());
        passes += 2;
        return found;
    }

    // The change of the margins along the direction in which the last model had no curvature.
    void move_along_null(double *out) {
        move(room_.null.data(), out);
        passes++;
    }

    // x for the columns as they were given, and the gradient there; how far f(x) may lie above f at u.
    //
    // The intercept b = b' - m^T x is rounded. One that is off by e shifts all margins, so that f grows by at most
    // |slope of b| e + c e^2 / 2.
    double put_back(const double *u, double *x, double *g) const {
        const Index all = size(), features = Index(centre_.size());
        std::copy(u, u + all, x);
        std::copy(at.gradient.begin(), at.gradient.end(), g);
        if (features == 0) return 0.0;
        const Index outputs = all / (features + 1), last = features * outputs;
        const double bend = largest_curvature(at, curvature.bound);
        double lost = 0.0;
        for (Index o = 0; o < outputs; o++) {
            double terms = 0.0;
            for (Index j = 0; j < features; j++) {
                const double part = centre_[std::size_t(j)] * u[j * outputs + o];
                x[last + o] -= part;
                g[j * outputs + o] += centre_[std::size_t(j)] * g[last + o];
                terms += std::fabs(part);
            }
            terms += std::fabs(x[last + o]);
            const double shift = double(features + 2) * epsilon * terms;
            lost += std::fabs(g[last + o]) * shift + 0.5 * bend * shift * shift;
        }
        return lost;
    }

  private:
    Index n_, width_;  // of T: it has width_ rows of n_ entries
    std::vector<double> T_, centre_, weights_;
    std::vector<double> planes_, scales_, scaled_, gram_, H_, best_;
    std::vector<unsigned char> held_;
    Workspace room_;

    double *row(Index j) { return T_.data() + j * n_; }
    const double *row(Index j) const { return T_.data() + j * n_; }

    // The columns less their means, and ones in the last one. What is left of a column that is a second intercept is the
    // dust of rounding, and is taken away.
    void take_means() {
        const Span<const double> w = losses.weights;
        const Index features = width_ - 1;
        centre_.resize(std::size_t(features));
        for (Index j = 0; j < features; j++) {
            double *column = row(j), total = 0.0, most = 0.0;
#pragma omp simd reduction(+ : total)
            for (Index i = 0; i < n_; i++) total += w ? w[i] * column[i] : column[i];
            const double mean = centre_[std::size_t(j)] = total / double(n_);
#pragma omp simd reduction(max : most)
            for (Index i = 0; i < n_; i++) {
                column[i] -= mean;
                most = larger(std::fabs(column[i]), most);
            }
            if (most <= small::constant * std::fabs(mean)) std::fill(column, column + n_, 0.0);
        }
        std::fill(row(features), row(features) + n_, 1.0);
    }

    void side_by_side(const AnyLoss &each) {
        const Index outputs = losses.outputs, n = n_, width = width_;
        std::vector<double> whole(std::size_t(width * outputs * n * outputs));
        for (Index j = 0; j < width; j++)
            for (Index o = 0; o < outputs; o++)
                for (Index i = 0; i < n; i++)
                    whole[std::size_t((j * outputs + o) * n * outputs + i * outputs + o)] = T_[std::size_t(j * n + i)];
        weights_.resize(std::size_t(n * outputs));
        for (Index i = 0; i < n * outputs; i++)
            weights_[std::size_t(i)] = double(outputs) * (losses.weights ? losses.weights[i / outputs] : 1.0);
        T_ = std::move(whole);
        n_ = n * outputs, width_ = width * outputs;
        losses.loss = each, losses.weights = span(weights_), losses.n = n_, losses.outputs = 0;
        losses.features *= outputs;
    }

    void fit() {
        const auto each = std::size_t(n_ * losses.margins()), all = std::size_t(size());
        at.margins.resize(each), at.slopes.resize(each), at.curvatures.resize(each), change.resize(each);
        at.gradient.resize(all), d.resize(all), H_.resize(all * all), scales_.resize(std::size_t(n_));
        scaled_.resize(std::size_t(width_ * std::min(small::packed, n_)));
        planes_.resize(std::size_t(losses.margins() * std::min(together, n_)));
        if (losses.outputs > 0) gram_.resize(std::size_t(width_ * width_));
    }

    // out = sum_j factors_j (entries of column j in the range), with factors `stride` apart; four columns at a time.
    void add_columns(const double *factors, Index stride, Range r, double *out) const {
        const Index count = r.end - r.begin, fours = width_ - width_ % 4;
        std::fill(out, out + count, 0.0);
        for (Index j = 0; j < fours; j += 4) {
            const double a = factors[j * stride], b = factors[(j + 1) * stride], c = factors[(j + 2) * stride],
                         e = factors[(j + 3) * stride];
            if (a == 0.0 && b == 0.0 && c == 0.0 && e == 0.0) continue;
            const double *p = row(j) + r.begin, *q = row(j + 1) + r.begin, *s = row(j + 2) + r.begin,
                         *t = row(j + 3) + r.begin;
#pragma omp simd
            for (Index i = 0; i < count; i++) out[i] += (a * p[i] + b * q[i]) + (c * s[i] + e * t[i]);
        }
        for (Index j = fours; j < width_; j++) {
            const double c = factors[j * stride], *p = row(j) + r.begin;
#pragma omp simd
            for (Index i = 0; i < count; i++) out[i] += c * p[i];
        }
    }

    // out_i = u^T a_i of the rows of the range.
    void margins_of(const double *u, Range r, double *out) {
        if (losses.outputs == 0) return add_columns(u, 1, r, out);
        const Index outputs = losses.outputs, count = r.end - r.begin;
        for (Index o = 0; o < outputs; o++) {
            add_columns(u + o, outputs, r, planes_.data());
            for (Index i = 0; i < count; i++) out[i * outputs + o] = planes_[std::size_t(i)];
        }
    }

    void move(const double *u, double *out) {
        in_blocks({0, n_}, [&](Range r) { margins_of(u, r, out + r.begin * losses.margins()); });
    }

    // gradient += (1/n) sum_i w_i slopes_i a_i over the rows of the range.
    void gather(const double *slopes, Range r) {
        const Index outputs = losses.margins(), count = r.end - r.begin;
        for (Index i = 0; i < count; i++) {
            const double weight = (losses.weights ? losses.weights[r.begin + i] : 1.0) / double(n_);
            for (Index o = 0; o < outputs; o++) planes_[std::size_t(o * count + i)] = weight * slopes[i * outputs + o];
        }
        if (outputs == 1) return add_dots(planes_.data(), r);
        add_products([&](Index j) { return static_cast<const double *>(row(j) + r.begin); },
                     [&](Index o) { return static_cast<const double *>(planes_.data() + o * count); }, count, 0, width_, 0,
                     outputs, false, 1.0, [&](Index j) { return at.gradient.data() + j * outputs; });
    }

    // gradient_j += (entries of column j in the range)^T s; four columns at a time.
    void add_dots(const double *s, Range r) {
        const Index count = r.size();
        for (Index j = 0; j < width_; j += 4) {
            const Index last = width_ - 1;
            const double *p = row(j) + r.begin, *q = row(std::min(j + 1, last)) + r.begin;
            const double *t = row(std::min(j + 2, last)) + r.begin, *v = row(std::min(j + 3, last)) + r.begin;
            double a = 0.0, b = 0.0, c = 0.0, e = 0.0;
#pragma omp simd reduction(+ : a, b, c, e)
            for (Index i = 0; i < count; i++) {
                a += s[i] * p[i];
                b += s[i] * q[i];
                c += s[i] * t[i];
                e += s[i] * v[i];
            }
            const double found[4] = {a, b, c, e};
            for (Index k = j; k < std::min(j + 4, width_); k++) at.gradient[std::size_t(k)] += found[k - j];
        }
    }

    // out = T diag(scales) T^T, the upper triangle: of columns times the roots of the scales, some rows at a time.
    void gram(Matrix<double> out) {
        std::fill(out.data, out.data + out.rows * out.columns, 0.0);
        for (Index start = 0; start < n_; start += small::packed) {
            const Index count = std::min(small::packed, n_ - start);
            double roots[small::packed];
            for (Index i = 0; i < count; i++) roots[i] = root_of(scales_[std::size_t(start + i)]);
            for (Index j = 0; j < width_; j++) {
                const double *column = row(j) + start;
                double *to = scaled_.data() + j * count;
#pragma omp simd
                for (Index i = 0; i < count; i++) to[i] = roots[i] * column[i];
            }
            add_upper_products({scaled_.data(), width_, count}, count, out);
        }
    }

    // H = (1/n) sum_i w_i (curvature of row i) a_i a_i^T, both triangles, flat over features and outputs.
    void hessian(const Bends &bends) {
        const Index n = n_, outputs = losses.outputs;
        const Matrix<double> H{H_.data(), size(), size()};
        auto weight = [&](Index i) { return (losses.weights ? losses.weights[i] : 1.0) / double(n); };
        if (outputs == 0) {
            for (Index i = 0; i < n; i++) {
                const auto k = std::size_t(i);
                scales_[k] = weight(i) * (bends.low[k] * bends.factors[k] + bends.extra);
            }
            gram(H);
            mirror(H);
            return;
        }
        const Matrix<double> G{gram_.data(), width_, width_};
        std::fill(H_.begin(), H_.end(), 0.0);
        for (Index k = 0; k < outputs; k++)
            for (Index o = 0; o < k; o++) {
                for (Index i = 0; i < n; i++) {
                    const double *p = bends.low.data() + i * outputs;
                    const double both = bends.factors[std::size_t(i)] * p[k] * p[o] + bends.extra / double(outputs);
                    scales_[std::size_t(i)] = weight(i) * both;
                }
                gram(G);
                for (Index a = 0; a < width_; a++)
                    for (Index b = 0; b < width_; b++) {
                        const double entry = a <= b ? G[a][b] : G[b][a];
                        H[a * outputs + k][b * outputs + o] = -entry;
                        H[a * outputs + o][b * outputs + k] = -entry;
                        H[a * outputs + k][b * outputs + k] += entry;
                        H[a * outputs + o][b * outputs + o] += entry;
                    }
            }
    }

    // A common shift of all outputs is taken out of the rows of d that no penalty holds: it changes nothing. Softmax is
    // flat along it, and rounding would carry x away.
    template <class Form>
    void still(const Form &form) {
        const Index outputs = losses.outputs;
        if (outputs == 0) return;
        held_.assign(std::size_t(size()), 0);
        hold(form, held_.data());
        take_out_shifts(held_.data(), width_, outputs, d.data());
    }
};

}  // namespace reshuffle
