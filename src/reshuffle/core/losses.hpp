// Losses l(z, y) of one margin z = a^T x + b and one target y.
//
//     value       l(z, y)
//     slope       l'(z, y)
//     bend        l''(z, y); at a kink of l' either side will do
//     conjugate   l*(s, y) = sup_z s z - l(z, y), for slopes s that the loss can have (and those scaled towards zero)
//
// Each takes the elementary functions that suit its loop (InRows, Alone or Library, see elementary.hpp) and numbers T,
// float64 or float32. This header and those that it includes compile for a GPU too. Users' losses, and sums of
// losses over rows, are in loss_sums.hpp.
#pragma once
#include "elementary.hpp"

namespace reshuffle {

template <class L>
concept Loss = requires(const L l, double z, double y) {
    { l.template value<InRows>(z, y) } -> std::same_as<double>;
    { l.template slope<InRows>(z, y) } -> std::same_as<double>;
    { l.template bend<InRows>(z, y) } -> std::same_as<double>;
    { l.template conjugate<InRows>(z, y) } -> std::same_as<double>;
    { l.has_conjugate() } -> std::same_as<bool>;
};

template <class T>
RESHUFFLE_DEVICE T larger(T a, T b) { return a > b ? a : b; }
template <class T>
RESHUFFLE_DEVICE T smaller(T a, T b) { return a < b ? a : b; }
template <class T>
RESHUFFLE_DEVICE T between(T x, T low, T high) { return smaller(larger(x, low), high); }

// l = log(1 + exp(-y z)), y = -1 or 1. The value exponentiates a negative number, so that no margin overflows.
struct Logistic {
    RESHUFFLE_DEVICE static constexpr bool has_conjugate() { return true; }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T value(T z, T y) const {
        const T m = y * z;
        return M::log1p(M::exp(-std::fabs(m))) + larger(-m, T(0.0));
    }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T slope(T z, T y) const {
        return -y / (T(1.0) + M::exp(y * z));  // an infinite exp gives 0, the limit of the slope
    }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T bend(T z, T y) const {
        const T e = M::exp(-std::fabs(y * z));
        return e / ((T(1.0) + e) * (T(1.0) + e));
    }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T conjugate(T s, T y) const {
        const T p = between(-s * y, T(0.0), T(1.0)), r = T(1.0) - p;
        return (p > T(0.0) ? p * M::log(p) : T(0.0)) + (r > T(0.0) ? r * M::log(r) : T(0.0));
    }
};

// l = (z - y)^2 / 2.
struct Squared {
    RESHUFFLE_DEVICE static constexpr bool has_conjugate() { return true; }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T value(T z, T y) const { return T(0.5) * (z - y) * (z - y); }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T slope(T z, T y) const { return z - y; }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T bend(T, T) const { return T(1.0); }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T conjugate(T s, T y) const { return T(0.5) * s * s + s * y; }
};

// l = r^2 / 2 where |r| <= delta, and delta (|r| - delta / 2) beyond, with r = z - y.
struct Huber {
    double delta;
    RESHUFFLE_DEVICE static constexpr bool has_conjugate() { return true; }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T value(T z, T y) const {
        const T r = std::fabs(z - y);
        return r <= T(delta) ? T(0.5) * r * r : T(delta) * (r - T(0.5) * T(delta));
    }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T slope(T z, T y) const { return between(z - y, -T(delta), T(delta)); }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T bend(T z, T y) const { return std::fabs(z - y) <= T(delta) ? T(1.0) : T(0.0); }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T conjugate(T s, T y) const { return T(0.5) * s * s + s * y; }
};

// l = max(0, 1 - y z)^2 / 2, y = -1 or 1.
struct SquaredHinge {
    RESHUFFLE_DEVICE static constexpr bool has_conjugate() { return true; }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T value(T z, T y) const {
        const T slack = larger(T(1.0) - y * z, T(0.0));
        return T(0.5) * slack * slack;
    }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T slope(T z, T y) const { return -y * larger(T(1.0) - y * z, T(0.0)); }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T bend(T z, T y) const { return y * z < T(1.0) ? T(1.0) : T(0.0); }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T conjugate(T s, T y) const { return T(0.5) * s * s + s * y; }
};

// l = max_s { s (z - y) - (width / 2) s^2 : -level <= s <= 1 - level }.
struct Quantile {
    double level, width;
    RESHUFFLE_DEVICE static constexpr bool has_conjugate() { return true; }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T slope(T z, T y) const { return between((z - y) / T(width), -T(level), T(1.0) - T(level)); }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T value(T z, T y) const {
        const T s = slope<M>(z, y);
        return s * (z - y) - T(0.5) * T(width) * s * s;
    }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T bend(T z, T y) const {
        return (-T(level) * T(width) <= z - y) & (z - y <= (T(1.0) - T(level)) * T(width)) ? T(1.0) / T(width) : T(0.0);
    }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T conjugate(T s, T y) const { return s * y + T(0.5) * T(width) * s * s; }
};

// l = exp(z) - y z + y log(y) - y, y >= 0: half the deviance of counts with mean exp(z).
struct Poisson {
    RESHUFFLE_DEVICE static constexpr bool has_conjugate() { return true; }
    template <class M, class T>
    RESHUFFLE_DEVICE static T own(T y) { return y > T(0.0) ? y * M::log(y) - y : T(0.0); }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T value(T z, T y) const { return M::exp(z) - y * z + own<M>(y); }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T slope(T z, T y) const { return M::exp(z) - y; }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T bend(T z, T) const { return M::exp(z); }
    template <class M = InRows, class T>
    RESHUFFLE_DEVICE T conjugate(T s, T y) const { return own<M>(larger(s + y, T(0.0))) - own<M>(y); }
};

}  // namespace reshuffle
