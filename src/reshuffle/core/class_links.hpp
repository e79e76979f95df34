// Losses of classes y = -1 or 1 with other link functions than the logistic one.
//
// Neither has a conjugate in elementary functions. The curvature of each has a single peak as a function of z, as Newton's
// bound requires.
#pragma once
#include "losses.hpp"

namespace reshuffle {

// l = -log Phi(y z), with the distribution function Phi of the normal distribution. With m = y z and r = phi(m) / Phi(m),
// the slope is -y r and the curvature r (r + m), which falls in m from 1 to 0 (Sampford 1953: r is convex).
//
// For x = -m >= 6, r = x + 1/(x + 2/(x + 3/(x + ...))), truncated when the next term is below rounding.
struct Probit {
    static constexpr double far = 6.0;         // From here on the fraction is used: `terms` terms suffice.
    static constexpr int terms = 40;           // of the fraction: with these it is exact to rounding at x = 6.
    static constexpr double root_half = 0.70710678118654752440, log_root_2pi = 0.91893853320467274178;
    static constexpr double per_root_2pi = 0.39894228040143267794;
    static constexpr bool has_conjugate() { return false; }

    static double beyond(double x) {  // r - x
        double found = x;
        for (int k = terms; k > 1; k--) found = x + k / found;
        return 1.0 / found;
    }
    static double ratio(double m) {  // r
        if (m < -far) return -m + beyond(-m);
        return per_root_2pi * std::exp(-0.5 * m * m) / (0.5 * std::erfc(-m * root_half));
    }
    template <class M = InRows>
    double value(double z, double y) const {
        const double m = y * z;
        if (m < -far) return 0.5 * m * m + log_root_2pi + std::log(ratio(m));
        return m > 0.0 ? -std::log1p(-0.5 * std::erfc(m * root_half)) : -std::log(0.5 * std::erfc(-m * root_half));
    }
    template <class M = InRows>
    double slope(double z, double y) const { return -y * ratio(y * z); }
    template <class M = InRows>
    double bend(double z, double y) const {
        const double m = y * z, r = ratio(m);
        if (m < -far) return r * beyond(-m);
        return r > 0.0 ? smaller(r * (r + m), 1.0) : 0.0;
    }
    template <class M = InRows>
    double conjugate(double, double) const { return infinity; }
};

// l = -log(1 - exp(-exp(z))) for y = 1, and exp(z) for y = -1. With u = exp(z) and g = u / (exp(u) - 1), slope and curvature
// for y = 1 are -g and g (g + u - 1). For small u, g + u - 1 = u/2 + u^2/12 - u^4/720 + u^6/30240 - ...
struct ComplementaryLogLog {
    static constexpr double small = 0.1;  // Below this the series is exact to rounding, above it little is lost in g + u - 1.
    static constexpr double low = -40.0;  // Below this exp(z) is lost beside 1.
    static constexpr double large = 700.0;  // Beyond this exp(-u) underflows to 0.
    static constexpr bool has_conjugate() { return false; }

    static double share(double u) { return u > large ? 0.0 : u / std::expm1(u); }  // g, for u > 0
    template <class M = InRows>
    double value(double z, double y) const {
        const double u = std::exp(z);
        if (y < 0.0) return u;
        if (z < low) return -z;
        return u < 1.0 ? -std::log(-std::expm1(-u)) : -std::log1p(-std::exp(-u));
    }
    template <class M = InRows>
    double slope(double z, double y) const {
        const double u = std::exp(z);
        if (y < 0.0) return u;
        return z < low ? -1.0 : -share(u);
    }
    template <class M = InRows>
    double bend(double z, double y) const {
        const double u = std::exp(z);
        if (y < 0.0) return u;
        if (z < low) return 0.5 * u;
        if (u > large) return 0.0;
        const double g = share(u), q = u * u;
        if (u < small) return g * (u * (1.0 / 2 + u * (1.0 / 12 - q * (1.0 / 720 - q * (1.0 / 30240)))));
        return g * (g + u - 1.0);
    }
    template <class M = InRows>
    double conjugate(double, double) const { return infinity; }
};

static_assert(Loss<Probit> && Loss<ComplementaryLogLog>);

}  // namespace reshuffle
