// Losses with a log link, mu = exp(z): half the deviance of the Gamma, Tweedie and negative binomial distributions.
//
// The loss with exponent p (Tweedie's variance mu^p) is
//
//     l = y^(2-p) / ((1-p)(2-p)) - y mu^(1-p) / (1-p) + mu^(2-p) / (2-p),      l' = mu^(2-p) - y mu^(1-p),
//
// and Gamma's loss is its limit for p -> 2. All are at least 0, and equal 0 at mu = y.
#pragma once
#include "losses.hpp"

namespace reshuffle {

// l = y exp(-z) + z - log(y) - 1, y > 0. With u = 1 - s, l* = u log(u) - u + 1 + s log(y).
struct Gamma {
    static constexpr bool has_conjugate() { return true; }
    template <class M = InRows>
    [[gnu::always_inline]] double value(double z, double y) const { return y * M::exp(-z) + z - M::log(y) - 1.0; }
    template <class M = InRows>
    [[gnu::always_inline]] double slope(double z, double y) const { return 1.0 - y * M::exp(-z); }
    template <class M = InRows>
    [[gnu::always_inline]] double bend(double z, double y) const { return y * M::exp(-z); }
    template <class M = InRows>
    [[gnu::always_inline]] double conjugate(double s, double y) const {
        const double u = larger(1.0 - s, 0.0);
        return (u > 0.0 ? u * M::log(u) : 0.0) + s + s * M::log(y);
    }
};

// Exponents 1 < p < 2, with y >= 0, and p > 2, with y > 0. For p > 2 the loss is not convex: beyond mu = y (p-1) / (p-2) it
// bends down. There mu^(2-p), the curvature at y = mu, replaces its curvature; it is larger, so that steps stay short.
struct Tweedie {
    double p;
    static constexpr bool has_conjugate() { return false; }  // it would be the root of an equation
    bool is_convex() const { return p < 2.0; }
    template <class M>
    [[gnu::always_inline]] double high(double z) const { return M::exp((2.0 - p) * z); }
    template <class M>
    [[gnu::always_inline]] double low(double z, double y) const { return y > 0.0 ? y * M::exp((1.0 - p) * z) : 0.0; }
    template <class M = InRows>
    [[gnu::always_inline]] double value(double z, double y) const {
        const double a = low<M>(z, y), b = high<M>(z);
        const double own = y > 0.0 ? M::exp((2.0 - p) * M::log(y)) / ((1.0 - p) * (2.0 - p)) : 0.0;
        const double found = (a / (p - 1.0) + b / (2.0 - p)) + own;
        return a < infinity ? found : infinity;  // for p > 2 both terms are infinite far below, and the first one wins
    }
    template <class M = InRows>
    [[gnu::always_inline]] double slope(double z, double y) const {
        const double a = low<M>(z, y);
        return a < infinity ? high<M>(z) - a : -infinity;
    }
    template <class M = InRows>
    [[gnu::always_inline]] double bend(double z, double y) const {
        const double a = low<M>(z, y);
        const double b = high<M>(z), found = (2.0 - p) * b + (p - 1.0) * a;
        return a < infinity ? (found > 0.0 ? found : b) : infinity;
    }
    template <class M = InRows>
    [[gnu::always_inline]] double conjugate(double, double) const { return infinity; }
};

// Counts y >= 0 with variance mu + alpha mu^2, k = 1 / alpha and t = z + log(alpha):
//
//     l = (y + k) log(1 + exp(t)) - y z + y log(y) - (y + k) log(1 + alpha y).
//
// Slope and curvature are (mu - y) / (1 + alpha mu) and (1 + alpha y) mu / (1 + alpha mu)^2. With P = (s + y) / (y + k),
// l* = (y + k) (P log(P) + (1 - P) log(1 - P)) - (s + y) log(alpha) - (what l has beside its first two terms).
struct NegativeBinomial {
    double alpha, log_alpha;
    explicit NegativeBinomial(double dispersion) : alpha(dispersion), log_alpha(std::log(dispersion)) {}
    static constexpr bool has_conjugate() { return true; }
    template <class M>
    [[gnu::always_inline]] static double log_of_one_and(double x) {  // log(1 + x), x >= 0
        return x <= 1.0 ? M::log1p(smaller(x, 1.0)) : M::log(x) + M::log1p(1.0 / larger(x, 1.0));
    }
    template <class M>
    [[gnu::always_inline]] double own(double y) const {
        return y > 0.0 ? y * M::log(y) - (y + 1.0 / alpha) * log_of_one_and<M>(alpha * y) : 0.0;
    }
    template <class M = InRows>
    [[gnu::always_inline]] double value(double z, double y) const {
        const double t = z + log_alpha, grown = M::log1p(M::exp(-std::fabs(t))) + larger(t, 0.0);
        return (y + 1.0 / alpha) * grown - y * z + own<M>(y);
    }
    template <class M = InRows>
    [[gnu::always_inline]] double slope(double z, double y) const {
        const double e = M::exp(-std::fabs(z));
        return z > 0.0 ? (1.0 - y * e) / (e + alpha) : (e - y) / (1.0 + alpha * e);
    }
    template <class M = InRows>
    [[gnu::always_inline]] double bend(double z, double y) const {
        const double e = M::exp(-std::fabs(z)), below = z > 0.0 ? e + alpha : 1.0 + alpha * e;
        return (1.0 + alpha * y) * e / (below * below);
    }
    template <class M = InRows>
    [[gnu::always_inline]] double conjugate(double s, double y) const {
        const double whole = y + 1.0 / alpha, share = between((s + y) / whole, 0.0, 1.0), rest = 1.0 - share;
        double entropy = share > 0.0 ? share * M::log(share) : 0.0;
        if (rest > 0.0) entropy -= rest * log_of_one_and<M>(share / rest);
        return whole * entropy - (s + y) * log_alpha - own<M>(y);
    }
};

static_assert(Loss<Gamma> && Loss<Tweedie> && Loss<NegativeBinomial>);

}  // namespace reshuffle
