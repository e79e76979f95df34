// Proximal Newton steps with a proved bound P(x) - P* <= bound.
//
// Each step minimises the quadratic model of f plus the exact psi, and searches along the line to the minimiser, for which P
// needs only the margins. Far from the minimum models are solved roughly; near it their curvatures lie below those of P, and a
// step proves how far P can still fall (lower_model.hpp has the proof). If the model promises too much,
// curvature is added to every row: damping in the metric of the rows, which does not depend on the scales of columns.
//
// The loop is written once, over a System that knows how the set lies in memory:
//
//     losses, curvature       the losses of all rows, and how they are curved
//     at                      f at the last point: margins, slopes, curvatures, gradient, value
//     size()                  the number of unknowns
//     floor                   a bound from below on all losses
//     linearise(u)            f at u, left in `at`
//     model(form, u, ...)     the minimiser of a model; the step to it is left in d, the change of the margins in `change`
//     move_along_null(out)    the change of the margins along a direction in which the last model had no curvature
//     passes                  over the rows, so far
//     has_worked_enough()     whether the next step is left to another call, so that no call does much
#pragma once
#include "damping.hpp"
#include "line_search.hpp"
#include "lower_model.hpp"
#include "quadratic_model.hpp"

namespace reshuffle {

namespace newton {
inline constexpr double rough = 1e-3;       // Far from the minimum the last round of a model may gain this share of the model's decrease.
inline constexpr double fine = 1e-10;       // The same share for a model that must prove a bound.
inline constexpr double trace = 0.01;       // Gains under this share of the rounding of P cannot be measured.
inline constexpr double solved = 1e-3;      // A model is solved when its last round gained at most this share of the decrease (or tolerance).
inline constexpr double spare = 10.0;       // The rounds left out are assumed to gain at most this many times what the last round gained.
inline constexpr double dependent = 1e-11;  // A sum that is zero but for rounding is at most this share of its terms.
}  // namespace newton

struct Ended {
    double value = 0.0, psi = 0.0;  // f and psi at the last point
    Progress progress;
    bool stuck = false;             // whether no model at this point has a step that lowers P
    Index steps = 0, rounds = 0;
};

// Whether a direction is truly without curvature: the margins do not change along it, except for a common shift of all outputs.
//
// The curvature along it is a sum of squares, which is lost in rounding below 1e-16 of its terms; the margins themselves
// resolve it down to the square of that.
template <class System>
bool is_regular(System &system, const Bends &bends, const Minimum &found) {
    if (found.length == 0.0) return true;
    std::vector<double> change(system.change.size());
    system.move_along_null(change.data());
    const double bent = bend_along(system.losses, bends, bends.extra, change.data());
    return std::sqrt(larger(bent, 0.0)) <= newton::dependent * found.length && found.length < infinity;
}

// At most `most` steps from u, in place, until P(u) - P* <= target is proved or no step lowers P. `at_zero` is f(0).
template <class System, class Form>
Ended newton_steps(System &system, const Form &form, double *u, Progress progress, double target, double at_zero, Index most) {
    const Samples &losses = system.losses;
    const Index size = system.size();
    std::vector<double> to(static_cast<std::size_t>(size));
    Bends bends;
    Ended end;
    if (system.curvature.quadratic) progress.expected = -infinity;
    progress.bound = infinity;
    clip(form, u);
    system.linearise(u);
    end.psi = penalty_value(form, u);
    while (true) {
        const double before = system.at.value + end.psi;
        double cap = 0.0;
        if (is_convex(losses)) cap = from_below(progress.damping, progress.expected, target, at_zero, losses.n);
        const bool lowered = cap > 0.0;
        if (lowered)
            bends_from_below(losses, system.curvature.concordance, system.at, cap, bends);
        else
            damped_bends(losses, system.at, progress.damping, system.curvature.bound, bends);
        const Minimum found = system.model(form, u, bends, lowered ? newton::fine : newton::rough,
                                           newton::trace * epsilon * std::fabs(before), lowered);
        end.rounds += found.rounds;
        const double *change = system.change.data(), *d = system.d.data();
        const bool proved = lowered && found.decrease < infinity &&
                            found.left <= newton::solved * std::max(found.decrease, target) &&
                            is_regular(system, bends, found) && stays_inside(losses, bends, change, found.decrease);
        double slope = 0.0;
        for (Index j = 0; j < size; j++) slope += system.at.gradient[std::size_t(j)] * d[j];
        const double t = search_along(form, size, u, d, slope, system.at.value, end.psi, to.data(), [&](double length) {
            return value_along(losses, system.at.margins.data(), change, length);
        });
        const bool moved = t > 0.0;
        double gained = 0.0;
        if (moved) {
            double spent = 0.0;  // by damping, of the model's decrease
            if (bends.extra > 0.0)
                spent = 0.5 * (bend_along(losses, bends, bends.extra, change) - bend_along(losses, bends, 0.0, change));
            std::copy(to.begin(), to.end(), u);
            system.linearise(u);
            end.psi = penalty_value(form, u);
            end.steps++;
            gained = before - (system.at.value + end.psi);
            const Adapted next = adapted(progress.damping, found.decrease, t, gained, lowered, spent);
            progress = {next.damping, next.expected, 0.0, infinity};
            if (system.curvature.quadratic) progress.expected = -infinity;
        }
        const double now = system.at.value + end.psi;
        progress.bound = std::max(now - system.floor, 0.0) + search::rounding * std::fabs(now);
        if (proved) {
            const double left = std::max(found.decrease - gained, 0.0) + newton::spare * found.left;
            progress.bound = std::min(progress.bound, left + search::rounding * std::fabs(before));
        }
        if (progress.bound <= target || (moved && (end.steps == most || system.has_worked_enough()))) break;
        if (!moved) {
            const Another next = another(progress.damping, progress.expected, progress.seen, found.decrease);
            end.stuck = !next.again;
            if (end.stuck) break;
            progress.damping = next.damping, progress.expected = next.expected, progress.seen = next.seen;
        }
    }
    end.value = system.at.value;
    end.progress = progress;
    return end;
}

}  // namespace reshuffle
