// Users' losses, and sums and maps of losses over a block of rows.
#pragma once
#include "arrays.hpp"
#include "losses.hpp"

namespace reshuffle {

// A user's loss, given by the addresses of its functions of one margin and one target. There may also be functions of whole
// arrays (margins, targets, results, how many); passes over many rows then call each of them once for a block.
struct Given {
    using Function = double (*)(double, double);
    using Block = void (*)(const double *, const double *, double *, std::int64_t);
    Function f = nullptr, df = nullptr, d2f = nullptr, fstar = nullptr;
    Block each_f = nullptr, each_df = nullptr, each_d2f = nullptr, each_fstar = nullptr;

    bool has_conjugate() const { return fstar != nullptr; }
    template <class M = InRows>
    [[gnu::always_inline]] double value(double z, double y) const { return f(z, y); }
    template <class M = InRows>
    [[gnu::always_inline]] double slope(double z, double y) const { return df(z, y); }
    template <class M = InRows>
    [[gnu::always_inline]] double bend(double z, double y) const { return d2f(z, y); }
    template <class M = InRows>
    [[gnu::always_inline]] double conjugate(double s, double y) const { return fstar(s, y); }

    // out_i = function(z_i, y_i), by one call of the function of arrays if there is one
    static void apply(Function one, Block all, const double *z, const double *y, double *out, Index n) {
        if (all) return all(z, y, out, n);
        for (Index i = 0; i < n; i++) out[i] = one(z[i], y[i]);
    }
};

static_assert(Loss<Logistic> && Loss<Squared> && Loss<Huber> && Loss<SquaredHinge> && Loss<Quantile> && Loss<Poisson> &&
              Loss<Given>);

// w v, but 0 for a row without weight, even if its loss is infinite.
inline double weighted(double w, double v) { return w > 0.0 ? w * v : 0.0; }

// Sums and maps over a block of rows. An empty w stands for weights that are all 1.

template <Loss L>
double sum_of_values(const L &loss, Span<const double> z, const double *y, Span<const double> w) {
    double total = 0.0;
    if (w) {
#pragma omp simd reduction(+ : total)
        for (Index i = 0; i < z.size; i++) total += weighted(w[i], loss.template value<InRows>(z[i], y[i]));
    } else {
#pragma omp simd reduction(+ : total)
        for (Index i = 0; i < z.size; i++) total += loss.template value<InRows>(z[i], y[i]);
    }
    return total;
}

template <Loss L>
void slopes_of(const L &loss, Span<const double> z, const double *y, double *out) {  // out may be z
#pragma omp simd
    for (Index i = 0; i < z.size; i++) out[i] = loss.template slope<InRows>(z[i], y[i]);
}

// l', l'' of a block from its margins, and sum_i w_i l_i; both are 0 for a row without weight.
template <Loss L>
double expand(const L &loss, Span<const double> z, const double *y, Span<const double> w, double *slopes, double *bends) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (Index i = 0; i < z.size; i++) {
        const double weight = w ? w[i] : 1.0;
        total += weighted(weight, loss.template value<InRows>(z[i], y[i]));
        slopes[i] = weight > 0.0 ? loss.template slope<InRows>(z[i], y[i]) : 0.0;
        bends[i] = weight > 0.0 ? loss.template bend<InRows>(z[i], y[i]) : 0.0;
    }
    return total;
}

// sum_i w_i l*(factor s_i, y_i).
template <Loss L>
double sum_of_conjugates(const L &loss, Span<const double> s, double factor, const double *y, Span<const double> w) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (Index i = 0; i < s.size; i++) {
        const double value = loss.template conjugate<InRows>(factor * s[i], y[i]);
        total += w ? weighted(w[i], value) : value;
    }
    return total;
}

// The same for a user's loss, whose calls must not be reordered.

inline double weighted_sum(const double *values, Index n, Span<const double> w) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (Index i = 0; i < n; i++) total += w ? weighted(w[i], values[i]) : values[i];
    return total;
}

inline double sum_of_values(const Given &loss, Span<const double> z, const double *y, Span<const double> w) {
    std::vector<double> found(std::size_t(z.size));
    Given::apply(loss.f, loss.each_f, z.data, y, found.data(), z.size);
    return weighted_sum(found.data(), z.size, w);
}

inline void slopes_of(const Given &loss, Span<const double> z, const double *y, double *out) {
    Given::apply(loss.df, loss.each_df, z.data, y, out, z.size);
}

inline double expand(const Given &loss, Span<const double> z, const double *y, Span<const double> w, double *slopes,
                     double *bends) {
    slopes_of(loss, z, y, slopes);
    Given::apply(loss.d2f, loss.each_d2f, z.data, y, bends, z.size);
    for (Index i = 0; w && i < z.size; i++)
        if (!(w[i] > 0.0)) slopes[i] = bends[i] = 0.0;
    return sum_of_values(loss, z, y, w);
}

inline double sum_of_conjugates(const Given &loss, Span<const double> s, double factor, const double *y,
                                Span<const double> w) {
    std::vector<double> scaled(std::size_t(s.size)), found(std::size_t(s.size));
    for (Index i = 0; i < s.size; i++) scaled[std::size_t(i)] = factor * s[i];
    Given::apply(loss.fstar, loss.each_fstar, scaled.data(), y, found.data(), s.size);
    return weighted_sum(found.data(), s.size, w);
}

}  // namespace reshuffle
