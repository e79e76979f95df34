// Curvatures of the rows for the quadratic model: exact ones, or lower bounds, so that the model lies below P.
//
// A curvature low_i from below satisfies l(z_i + v) >= l + l' v + low_i v^2 / 2 for |v| <= radius_i, where the radius is larger
// than any change that a model whose decrease is at most `cap` can reach. For such a model
//
//     (change of the margins of row i)^2 <= 2 (decrease of the model's quadratic) / shares_i.
//
// Rows with curvature 0 need no radius (it is infinite): convexity suffices for them.
//
// Why the decrease of such a model bounds P(x) - P*. Let
//
//     q(v) = <grad f(x), v> + v^T H v / 2 + psi(x + v) - psi(x),        H = (1/n) sum_i w_i c_i a_i a_i^T,
//
// with curvatures c_i from below, of radius r_i, and let D = -min q, at v = d. Where |a_i^T v| <= r_i in all rows with
// c_i > 0, P(x + v) - P(x) >= q(v) >= -D. Convexity carries this to all v: if P(x + v) < P(x) for a v with a larger
// |a_i^T v|, then the segment to it leaves the region at some v' with q(v') <= P(x + v') - P(x) <= 0. But q(v') <= 0 means
// (v' - d)^T H (v' - d) / 2 <= D, and (a_i^T w)^2 <= w^T H w n / (w_i c_i), so that
// |a_i^T v'| <= |a_i^T d| + sqrt(2 D n / (w_i c_i)). Where the right side is below r_i in every row (`stays_inside`), there is
// no such v', and P(x) - P* <= D. After the step, D minus the decrease of P bounds what is left.
//
// The curvature of a row is c_i factor_i + extra, and for several outputs factor_i G(p) + extra (I - 11^T / K), where
// G(p) = (sum p) diag(p) - p p^T is the Laplacian of the weights p_k p_l. Where the outputs are `separate` (a sum of squares
// over them), it is diag(c_i) factor_i + extra I.
#pragma once
#include "passes.hpp"
#include "samples.hpp"

namespace reshuffle {

namespace lower {
inline constexpr double tiny = 1e-250;  // Smaller curvatures count as zero; the square root and inverse of this one are finite.
inline constexpr double wide = 1.0;     // Beyond this change of its margins softmax has hardly any curvature left.
inline constexpr double reach = 2.1;    // A radius is this many times the reach of a model of that decrease; 2 is needed, 2.1 leaves room.
inline constexpr int turns = 4;         // Fixed-point iterations for radius and curvature; unconverged rows get curvature 0.
}  // namespace lower

// Bounds on the curvature of the loss that hold everywhere.
struct Curvature {
    double bound = infinity;        // on l''
    double concordance = infinity;  // M with |l'''| <= M l''
    bool quadratic = false;         // l'' is the same everywhere: the model is f itself
};

// f at a point, as needed for Newton's model. Arrays have one entry per row and output.
struct Point {
    std::vector<double> margins, slopes, curvatures, gradient;
    double value = 0.0;
};

// The curvatures of a model.
struct Bends {
    std::vector<double> low;                     // c_i, or p_ik
    std::vector<double> factors, radius, shares; // one for each row
    double extra = 0.0;
    bool separate = false;  // whether the curvature of a row is diagonal in its several outputs

    void fit(const Samples &s) {
        const Index n = s.n, margins = s.margins();
        separate = is_separate(s);
        low.resize(std::size_t(n * margins));
        factors.resize(std::size_t(n)), radius.resize(std::size_t(n)), shares.resize(std::size_t(n));
    }
};

struct Kept {
    double share, radius;
};

// The share of a curvature that is left within a radius that no model of this decrease leaves, and that radius.
//
// Where |l'''| <= M l'', a step v takes l up by l' v and at least 2 (e^-t + t - 1) / t^2 of l'' v^2 / 2, t = M |v|. That
// share falls in t, and is at least 1 / (1 + t/6)^2: the difference, times t^2 (1 + t/6)^2, is zero with its first two
// derivatives at t = 0, and its third is (1 - e^-t (1 + t + t^2/6)) / 3 >= 0. For a radius of
// reach sqrt(2 cap / (share curvature)), with a = M reach sqrt(2 cap / curvature), so t = a / sqrt(share), this asks for
// sqrt(share) = 1 - a/6.
inline Kept kept_within(double curvature, double cap, double concordance) {
    const double a = concordance * lower::reach * std::sqrt(2.0 * cap / larger(curvature, lower::tiny));
    const double root = 1.0 - a / 6.0;
    const bool some = (root > 0.0) & (curvature * root * root > lower::tiny);
    return {some ? root * root : 0.0, some ? a / (concordance * root) : infinity};
}

// A curvature from below and its radius for an l'' with one peak.
//
// The mean curvature over [z, z + v] is then least at an end, so the least of l''(z) and (l'(z +- r) - l'(z)) / (+- r)
// suffices. The radius is large enough for the difference of slopes to have six digits.
template <Loss L>
Kept least_secant(const L &loss, double y, double weight, double z, double slope, double curvature, double cap) {
    double c = curvature;
    for (int turn = 0; turn < lower::turns; turn++) {  // the radius grows as the curvature falls
        if (!(c * weight > lower::tiny)) break;
        const double r = lower::reach * std::sqrt(2.0 * cap / (weight * c)) + 1e-10 * std::fabs(slope) / c;
        const double up = (loss.template slope<InRows>(z + r, y) - slope) / r;
        const double down = (slope - loss.template slope<InRows>(z - r, y)) / r;
        c = smaller(curvature, smaller(up, down));
        if (c * weight > lower::tiny && 2.0 * std::sqrt(2.0 * cap / (weight * c)) <= r) return {c, r};
    }
    return {0.0, infinity};  // too little to matter: convexity alone
}

inline void lower_one_output(const Samples &s, double concordance, const Point &at, double cap, Bends &out) {
    const Index n = s.n;
    const double *curvatures = at.curvatures.data();
    double *low = out.low.data(), *radius = out.radius.data(), *shares = out.shares.data();
    for (Index i = 0; i < n; i++) out.factors[std::size_t(i)] = 1.0, shares[i] = s.weights ? s.weights[i] : 1.0;
    if (cap == infinity) {  // the curvature is the same everywhere
        for (Index i = 0; i < n; i++) low[i] = curvatures[i], radius[i] = infinity;
    } else if (concordance < infinity) {
        const double all = cap * double(n);
#pragma omp simd
        for (Index i = 0; i < n; i++) {
            const Kept kept = kept_within(shares[i] * curvatures[i], all, concordance);
            low[i] = kept.share * curvatures[i], radius[i] = kept.radius;
        }
    } else {
        with_loss(s, [&](const auto &loss, const auto *y) {
            using L = std::decay_t<decltype(loss)>;
            if constexpr (!VectorLoss<L>)
                for (Index i = 0; i < n; i++) {
                    const std::size_t k = std::size_t(i);
                    const Kept kept = least_secant(loss, y[i], shares[i], at.margins[k] + s.offset(i), at.slopes[k],
                                                   curvatures[i], cap * double(n));
                    low[i] = kept.share, radius[i] = kept.radius;
                }
        });
    }
    for (Index i = 0; i < n; i++) shares[i] *= low[i] / double(n);
}

// Softmax; S are the outputs whose p is not too small. Jensen: log sum_k p_k e^{v_k} >= s log sum_S (p_k/s) e^{v_k} +
// sum_{not S} p_k v_k with s = sum_S p, with the same slope at v = 0. The first term has a third cumulant of at most the
// range of v on S times its variance, and its curvature at v = 0 is the Laplacian of p_k p_l / s; range^2 <= 2 curvature /
// min_S p.
inline void lower_several_outputs(const Samples &s, double concordance, const Point &at, double cap, Bends &out) {
    const Index n = s.n, outputs = s.outputs;
    for (Index i = 0; i < n; i++) {
        const double weight = s.weights ? s.weights[i] : 1.0, all = cap * double(n);
        const double need = weight > 0.0 ? 4.0 * all / weight : infinity, *p = at.curvatures.data() + i * outputs;
        double total = 0.0, least = infinity, *low = out.low.data() + i * outputs;
        Index count = 0;
        for (Index k = 0; k < outputs; k++) {
            const bool inside = p[k] * (lower::wide / lower::reach) * (lower::wide / lower::reach) >= need;
            low[k] = inside ? p[k] : 0.0;
            if (inside) total += p[k], least = smaller(least, p[k]), count++;
        }
        Kept kept{0.0, infinity};
        if (count >= 2) kept = kept_within(0.5 * weight * least, all, concordance);
        const bool some = kept.share > 0.0;
        if (!some) least = 0.0, total = 1.0;
        for (Index k = 0; k < outputs; k++) low[k] = some ? low[k] / std::sqrt(total) : 0.0;
        const auto row = std::size_t(i);
        out.factors[row] = kept.share, out.radius[row] = kept.radius;
        out.shares[row] = 0.5 * weight * least * kept.share / double(n);
    }
}

// For squares over several outputs: the curvature is constant, and no row has a radius.
inline void lower_separate_outputs(const Point &at, Bends &out) {
    out.low = at.curvatures;
    std::fill(out.factors.begin(), out.factors.end(), 1.0);
    std::fill(out.radius.begin(), out.radius.end(), infinity);
    std::fill(out.shares.begin(), out.shares.end(), 1.0);
}

inline void bends_from_below(const Samples &s, double concordance, const Point &at, double cap, Bends &out) {
    out.fit(s);
    out.extra = 0.0;
    if (out.separate)
        lower_separate_outputs(at, out);
    else if (s.outputs > 0)
        lower_several_outputs(s, concordance, at, cap, out);
    else
        lower_one_output(s, concordance, at, cap, out);
}

// f >= -(1/n) sum_i w_i l*(0), if the loss has a conjugate. This is also a lower bound on P if psi >= 0.
inline double least_value(const Samples &s) {
    if (!has_conjugate(s)) return -infinity;
    const std::vector<double> zeros(std::size_t(s.n * s.margins()), 0.0);
    return -conjugates(s, {0, s.n}, zeros.data(), 1.0, 0.0) / double(s.n);
}

// A bound on the curvature of the rows: the loss's, or if it has none, the largest curvature at the point.
inline double largest_curvature(const Point &at, double bound) {
    if (bound < infinity) return bound;
    double most = 0.0;
    for (double c : at.curvatures) most = larger(most, c);
    return most;
}

// The exact curvatures, plus the share `damping` of their bound in every row.
inline void damped_bends(const Samples &s, const Point &at, double damping, double bound, Bends &out) {
    out.fit(s);
    out.low = at.curvatures;
    std::fill(out.factors.begin(), out.factors.end(), 1.0);
    out.extra = damping > 0.0 ? damping * largest_curvature(at, bound) : 0.0;
}

// (1/n) sum_i w_i change_i^T (curvature of row i) change_i; with softmax a common shift of all outputs counts for nothing.
inline double bend_along(const Samples &s, const Bends &bends, double extra, const double *change) {
    double total = 0.0;
    if (s.outputs == 0) {
        const double *low = bends.low.data(), *factors = bends.factors.data();
#pragma omp simd reduction(+ : total)
        for (Index i = 0; i < s.n; i++) {
            const double weight = s.weights ? s.weights[i] : 1.0;
            total += weight * (low[i] * factors[i] + extra) * change[i] * change[i];
        }
        return total / double(s.n);
    }
    for (Index i = 0; i < s.n; i++) {
        const double *p = bends.low.data() + i * s.outputs, *v = change + i * s.outputs;
        double part = 0.0;
        for (Index k = 0; bends.separate && k < s.outputs; k++)
            part += (bends.factors[std::size_t(i)] * p[k] + extra) * v[k] * v[k];
        for (Index k = 0; !bends.separate && k < s.outputs; k++)
            for (Index o = 0; o < k; o++) {
                const double both = bends.factors[std::size_t(i)] * p[k] * p[o] + extra / double(s.outputs);
                part += both * (v[k] - v[o]) * (v[k] - v[o]);
            }
        total += (s.weights ? s.weights[i] : 1.0) * part;
    }
    return total / double(s.n);
}

// The distance that the margins of row i move, if the row has curvature.
inline double reaches(const Samples &s, const Bends &bends, const double *change, Index i) {
    if (s.outputs == 0) return std::fabs(change[i]);
    double most = -infinity, least = infinity;
    for (Index k = 0; k < s.outputs; k++)
        if (bends.low[std::size_t(i * s.outputs + k)] > 0.0) {
            most = larger(most, change[i * s.outputs + k]);
            least = smaller(least, change[i * s.outputs + k]);
        }
    return most - least;
}

// Whether the lower model's sublevel set stays within the radius of every row, where its curvatures are valid.
inline bool stays_inside(const Samples &s, const Bends &bends, const double *change, double decrease) {
    for (Index i = 0; i < s.n; i++) {
        const double radius = bends.radius[std::size_t(i)];
        if (!(radius < infinity)) continue;
        const double further = std::sqrt(2.0 * decrease / bends.shares[std::size_t(i)]);
        if (!(reaches(s, bends, change, i) + further <= radius)) return false;
    }
    return true;
}

}  // namespace reshuffle
