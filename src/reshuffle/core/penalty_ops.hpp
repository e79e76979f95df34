// The operations of the quadratic model that depend on the penalty, for every compiled form of it.
//
//     sweep            one round of exact minimisation, coordinate by coordinate or group by group
//     release          the one coordinate or group off the face whose move gains most, moved
//     face             where psi is smooth at u (`free`), and its slopes there
//     stiffen          the second derivative of psi on the face, added to a matrix
//     first_kink       how far a step on the face may go before psi has a kink
//     retract          a point moved back to where psi is as smooth as at u
//     unbounded        whether a coordinate without curvature would go on for ever
//     penalty_value    psi(u), for a u within its bounds
//     penalty_change   psi(to) - psi(u), without the cancellation of two large values
//     clip             a point moved within the bounds of psi
//     contains         whether it lies within them
//     excess           how far -g_j is from the subdifferential of psi_j at 0 where x_j = 0 (in a group: that of its
//                      norm), infinite elsewhere
//     hold             marks the coordinates that the penalty holds in any way
//
// Coordinates from `form.size()` on are not penalised. `size` is the number of all coordinates.
#pragma once
#include "coordinate_descent.hpp"

namespace reshuffle {

namespace faces {
inline constexpr double radial = 1.0 - 1e-10;  // a norm is straight along x_g, but a difference that small would be rounding
inline constexpr double close = 1e-12;  // Rounding leaves this share of a coordinate where a step should have ended at zero.
}  // namespace faces

// --- per coordinate ---------------------------------------------------------------------------------------------------

inline double sweep(const Coordinates &form, Matrix<const double> H, double *r, double *u, Workspace &) {
    double gain = 0.0;
    for (Index j = 0; j < form.size(); j++)
        gain += descend_coordinate(H, r, u, j, form.l1[j], form.l2[j], form.low[j], form.high[j]);
    return gain + descend_free(H, r, u, form.size());
}

inline double release(const Coordinates &form, Matrix<const double> H, double *r, double *u, Workspace &) {
    double most = 0.0, to = 0.0;
    Index which = -1;
    for (Index j = 0; j < form.size(); j++) {
        const Best best = best_coordinate(H, r, u, j, form.l1[j], form.l2[j], form.low[j], form.high[j]);
        if (best.gain > most) most = best.gain, which = j, to = best.value;
    }
    if (which >= 0) shift_coordinate(H, r, u, which, to);
    return most;
}

inline void face(const Coordinates &form, const double *u, Index size, unsigned char *free, double *slopes) {
    for (Index j = 0; j < form.size(); j++) {
        const double l1 = form.l1[j], v = u[j];
        free[j] = form.low[j] < v && v < form.high[j] && (v != 0.0 || l1 == 0.0);
        slopes[j] = form.l2[j] * v + (v > 0.0 ? l1 : -l1);
    }
    for (Index j = form.size(); j < size; j++) free[j] = true, slopes[j] = 0.0;
}

// Of the lower triangle alone, which is all that is factorised.
inline void stiffen(const Coordinates &form, const double *, Index, const Index *index, Index count, Matrix<double> M,
                    Index *) {
    for (Index k = 0; k < count; k++)
        if (index[k] < form.size()) M[k][k] += form.l2[index[k]];
}

inline double first_kink(const Coordinates &form, const double *u, const Index *index, Index count, const double *step) {
    double t = 1.0;
    for (Index k = 0; k < count; k++) {
        const Index j = index[k];
        if (j >= form.size() || step[k] == 0.0) continue;
        if (form.l1[j] > 0.0 && step[k] * u[j] < 0.0) t = std::min(t, -u[j] / step[k]);
        t = std::min(t, ((step[k] > 0.0 ? form.high[j] : form.low[j]) - u[j]) / step[k]);
    }
    return t;
}

// `kink`: the point lies on one, up to rounding.
inline void retract(const Coordinates &form, const double *u, double *to, bool kink) {
    for (Index j = 0; j < form.size(); j++) {
        const bool near = kink && std::fabs(to[j]) <= faces::close * std::fabs(u[j]);
        if (form.l1[j] > 0.0 && (to[j] * u[j] < 0.0 || near)) to[j] = 0.0;
        to[j] = to[j] < form.low[j] ? form.low[j] : to[j] > form.high[j] ? form.high[j] : to[j];
    }
}

inline bool unbounded(const Coordinates &form, Matrix<const double> H, const double *r) {
    for (Index j = 0; j < H.rows; j++) {
        if (!(H[j][j] < infinity)) return true;  // squares that overflow: nothing is known of this column
        if (H[j][j] > 0.0) continue;
        if (j >= form.size()) {
            if (r[j] != 0.0) return true;
        } else if (!(form.l2[j] > 0.0) && std::fabs(r[j]) > form.l1[j]) {
            const double end = r[j] > 0.0 ? form.low[j] : form.high[j];
            if (!(std::fabs(end) < infinity)) return true;
        }
    }
    return false;
}

inline double penalty_change(const Coordinates &form, const double *u, const double *to) {
    double total = 0.0;
    const Index size = form.size();
#pragma omp simd reduction(+ : total)
    for (Index j = 0; j < size; j++) {
        const double half = 0.5 * form.l2[j] * (to[j] + u[j]);
        total += form.l1[j] * (std::fabs(to[j]) - std::fabs(u[j])) + half * (to[j] - u[j]);
    }
    return total;
}

inline double penalty_value(const Coordinates &form, const double *u) {
    double total = 0.0;
    const Index size = form.size();
#pragma omp simd reduction(+ : total)
    for (Index j = 0; j < size; j++) total += form.l1[j] * std::fabs(u[j]) + 0.5 * form.l2[j] * u[j] * u[j];
    return total;
}

inline void clip(const Coordinates &form, double *u) {
    for (Index j = 0; j < form.size(); j++) u[j] = u[j] < form.low[j] ? form.low[j] : u[j] > form.high[j] ? form.high[j] : u[j];
}

inline bool contains(const Coordinates &form, const double *u) {
    bool inside = true;
    for (Index j = 0; j < form.size(); j++) inside = inside && form.low[j] <= u[j] && u[j] <= form.high[j];
    return inside;
}

inline void excess(const Coordinates &form, const double *x, const double *g, double *out) {
    for (Index j = 0; j < form.size(); j++) {
        const double low = form.low[j], high = form.high[j], beyond = std::fabs(g[j]) - form.l1[j];
        const double push = beyond > 0.0 ? beyond : 0.0;
        const bool blocked = g[j] < 0.0 ? high <= 0.0 : low >= 0.0;  // x_j would move against the sign of g_j
        out[j] = x[j] != 0.0 || low > 0.0 || high < 0.0 ? infinity : blocked ? 0.0 : push;
    }
}

inline void hold(const Coordinates &form, unsigned char *held) {
    for (Index j = 0; j < form.size(); j++)
        held[j] = form.l1[j] > 0.0 || form.l2[j] > 0.0 || form.low[j] > -infinity || form.high[j] < infinity;
}

// --- per group --------------------------------------------------------------------------------------------------------

inline double sweep(const Groups &form, Matrix<const double> H, double *r, double *u, Workspace &room) {
    unsigned char *inside = room.free.data();
    double gain = 0.0;
    for (Index j = 0; j < form.size(); j++) inside[j] = false;
    for (Index g = 0; g < form.count(); g++) {
        const Span<const Visit> members = form.group(g);
        for (Visit j : members) inside[j] = true;
        gain += descend_group(H, r, u, members, form.l1.data, form.l2, form.strengths[g], room);
        gain += descend_members(H, r, u, members, form.l1.data, form.l2, form.strengths[g]);
    }
    for (Index j = 0; j < form.size(); j++)
        if (!inside[j]) gain += descend_coordinate(H, r, u, j, form.l1[j], form.l2, -infinity, infinity);
    return gain + descend_free(H, r, u, form.size());
}

inline double release(const Groups &form, Matrix<const double> H, double *r, double *u, Workspace &room) {
    return sweep(form, H, r, u, room);
}

inline void face(const Groups &form, const double *u, Index size, unsigned char *free, double *slopes) {
    for (Index j = 0; j < size; j++) {
        free[j] = true, slopes[j] = 0.0;
        if (j >= form.size()) continue;
        const double l1 = form.l1[j], v = u[j];
        free[j] = v != 0.0 || l1 == 0.0;
        slopes[j] = form.l2 * v + (v > 0.0 ? l1 : v < 0.0 ? -l1 : 0.0);
    }
    for (Index g = 0; g < form.count(); g++) {
        if (!(form.strengths[g] > 0.0)) continue;
        const Span<const Visit> members = form.group(g);
        const double norm = norm_of(u, members);
        for (Visit j : members) {
            if (norm > 0.0)
                slopes[j] += form.strengths[g] * u[j] / norm;
            else
                free[j] = false;
        }
    }
}

inline void stiffen(const Groups &form, const double *u, Index size, const Index *index, Index count, Matrix<double> M,
                    Index *place) {
    for (Index j = 0; j < size; j++) place[j] = -1;
    for (Index k = 0; k < count; k++) {
        place[index[k]] = k;
        if (index[k] < form.size()) M[k][k] += form.l2;
    }
    for (Index g = 0; g < form.count(); g++) {
        const Span<const Visit> members = form.group(g);
        const double norm = norm_of(u, members);
        if (!(norm > 0.0)) continue;
        const double c = form.strengths[g] / norm, along = faces::radial * c;
        for (Visit a : members) {
            const Index k = place[a];
            if (k < 0) continue;
            M[k][k] += c;
            for (Visit b : members) {
                const Index other = place[b];
                if (0 <= other && other <= k) M[k][other] -= along * (u[a] / norm) * (u[b] / norm);
            }
        }
    }
}

inline double first_kink(const Groups &form, const double *u, const Index *index, Index count, const double *step) {
    double t = 1.0;
    for (Index k = 0; k < count; k++) {
        const Index j = index[k];
        if (j < form.size() && form.l1[j] > 0.0 && step[k] * u[j] < 0.0) t = std::min(t, -u[j] / step[k]);
    }
    return t;
}

inline void retract(const Groups &form, const double *u, double *to, bool kink) {
    for (Index j = 0; j < form.size(); j++) {
        const bool near = kink && std::fabs(to[j]) <= faces::close * std::fabs(u[j]);
        if (form.l1[j] > 0.0 && (to[j] * u[j] < 0.0 || near)) to[j] = 0.0;
    }
}

inline bool unbounded(const Groups &form, Matrix<const double> H, const double *r) {
    for (Index j = 0; j < H.rows; j++) {
        if (!(H[j][j] < infinity)) return true;  // squares that overflow: nothing is known of this column
        if (H[j][j] > 0.0) continue;
        if (j >= form.size()) {
            if (r[j] != 0.0) return true;
        } else if (!(form.l2 > 0.0) && std::fabs(r[j]) > form.l1[j]) {
            return true;  // a norm over the group might hold it: then this is too careful
        }
    }
    return false;
}

inline double penalty_change(const Groups &form, const double *u, const double *to) {
    double total = 0.0;
    for (Index j = 0; j < form.size(); j++) {
        const double half = 0.5 * form.l2 * (to[j] + u[j]);
        total += form.l1[j] * (std::fabs(to[j]) - std::fabs(u[j])) + half * (to[j] - u[j]);
    }
    for (Index g = 0; g < form.count(); g++) {
        const Span<const Visit> members = form.group(g);
        const double ends = norm_of(to, members) + norm_of(u, members);
        if (!(ends > 0.0)) continue;
        double cross = 0.0;  // |a| - |b| = <a - b, a + b> / (|a| + |b|)
        for (Visit j : members) cross += (to[j] - u[j]) * ((to[j] + u[j]) / ends);
        total += form.strengths[g] * cross;
    }
    return total;
}

inline double penalty_value(const Groups &form, const double *u) {
    double total = 0.0;
    for (Index j = 0; j < form.size(); j++) total += form.l1[j] * std::fabs(u[j]) + 0.5 * form.l2 * u[j] * u[j];
    for (Index g = 0; g < form.count(); g++) total += form.strengths[g] * norm_of(u, form.group(g));
    return total;
}

inline void clip(const Groups &, double *) {}

inline bool contains(const Groups &, const double *) { return true; }

inline void excess(const Groups &form, const double *x, const double *g, double *out) {
    for (Index j = 0; j < form.size(); j++) {
        const double beyond = std::fabs(g[j]) - form.l1[j];
        out[j] = x[j] != 0.0 ? infinity : beyond > 0.0 ? beyond : 0.0;
    }
    for (Index k = 0; k < form.count(); k++) {
        const Span<const Visit> members = form.group(k);
        const double norm = norm_of(out, members) - form.strengths[k];
        for (Visit j : members) out[j] = norm > 0.0 ? norm : 0.0;
    }
}

inline void hold(const Groups &form, unsigned char *held) {
    for (Index j = 0; j < form.size(); j++) held[j] = form.l1[j] > 0.0 || form.l2 > 0.0;
    for (Index g = 0; g < form.count(); g++)
        for (Visit j : form.group(g)) held[j] = true;
}

// --- several outputs --------------------------------------------------------------------------------------------------

// A common shift of all outputs, taken out of the rows of d that no penalty holds.
inline void take_out_shifts(const unsigned char *held, Index rows, Index outputs, double *d) {
    for (Index j = 0; j < rows; j++) {
        bool loose = true;
        double mean = 0.0;
        for (Index o = j * outputs; o < (j + 1) * outputs; o++) loose = loose && !held[o], mean += d[o];
        if (loose)
            for (Index o = j * outputs; o < (j + 1) * outputs; o++) d[o] -= mean / double(outputs);
    }
}

}  // namespace reshuffle
