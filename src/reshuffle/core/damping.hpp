// Numbers that one Newton step hands to the next: damping, and the expected decrease.
//
// If a model promises too much, curvature is added to every row. Damping is that curvature as a share of the loss's bound.
// These are plain functions of numbers, for the loop in newton.hpp and for a server that makes its own loop.
#pragma once
#include "arrays.hpp"

namespace reshuffle {

namespace damping {
inline constexpr double least = 1e-3;      // The first damping, as a share of the largest curvature of the loss.
inline constexpr double short_step = 0.2;  // A step shorter than this share of the model's step shows that the model promised too much.
inline constexpr double no_more = 0.01;    // Damping ends when it costs at most this share of the model's decrease.
inline constexpr double near = 0.1;        // Models are made to lie below P, and prove a bound, once the decrease is below this share of the tolerance.
inline constexpr double sure = 100.0;      // Lower models are as good as others if the decrease is below this many times the tolerance
inline constexpr double sure_share = 1e-5; // and below this share of f(0).
inline constexpr double close = 1e-8;      // The decrease is not expected to be smaller than this share of the tolerance.
}  // namespace damping

struct Progress {
    double damping = 0.0;         // of the largest curvature of the loss, added to every row
    double expected = infinity;   // the expected decrease of the next model; -infinity if the model is f itself
    double seen = 0.0;            // 1 if a lower model was made at this point and did not help
    double bound = infinity;      // on P(x) - P*; infinite if nothing was proved at this x
};

// The decrease for which a lower model is made: 0 far from the minimum, infinite if the model is f itself.
inline double from_below(double damping, double expected, double target, double at_zero, Index n) {
    if (expected < 0.0) return infinity;
    const double sure = std::min(damping::sure * target, damping::sure_share * at_zero / double(n));
    if (damping > 0.0 || !(expected <= std::max(damping::near * target, sure))) return 0.0;
    return std::min(target, std::max(4.0 * expected, damping::close * target));
}

struct Adapted {
    double damping, expected;
};

// Damping after a step of length t, and the expected decrease of the next model.
// `spent` is the part of the model's decrease that damping cost, `gained` the decrease of P.
inline Adapted adapted(double damping, double decrease, double t, double gained, bool lowered, double spent) {
    const bool bounded = decrease < infinity;  // a model without a minimum promises too much, however long its step
    if ((t < damping::short_step || !bounded) && !lowered)
        damping = std::min(std::max(4.0 * damping, damping::least), 1.0);
    else if (t >= 1.0)
        damping = spent <= damping::no_more * decrease ? 0.0 : damping / (10.0 * t);
    const bool known = 0.0 < decrease && bounded;
    const double off = known ? std::min(std::fabs(gained - decrease) / decrease, 1.0) : 1.0;
    return {damping, t >= 1.0 ? off * off * decrease : infinity};
}

struct Another {
    bool again;
    double damping, expected, seen;
};

// Whether and how to make another model at a point where the last one did not help: first a lower model for the decrease
// that was found (`seen` says that this was tried), then models with more and more damping.
inline Another another(double damping, double expected, double seen, double decrease) {
    if (damping == 0.0 && seen == 0.0 && decrease < infinity) return {true, damping, decrease, 1.0};
    if (damping < 1.0) return {true, std::min(std::max(30.0 * damping, damping::least), 1.0), expected, seen};
    return {false, damping, expected, seen};
}

}  // namespace reshuffle
