// Minimises the quadratic model in one coordinate, or one group, at a time: exactly, whatever its scale.
//
//     m(u) = g^T (u - x) + (u - x)^T H (u - x) / 2 + psi(u),        r = g + H (u - x).
//
// H is symmetric, and r is kept up to date. Each function returns the decrease of the model.
#pragma once
#include "workspace.hpp"
#include "penalties.hpp"

namespace reshuffle {

namespace descent {
inline constexpr int steps = 60;        // The most steps of the search for a group's norm; bisection alone would find it to rounding.
inline constexpr double close = 1e-13;  // The relative accuracy of the search: a few digits more than a sweep needs.
inline constexpr int proxes = 30;       // The most steps of the majorised solve of a group with l1 > 0; steps on the face do the rest.
}  // namespace descent

struct Best {
    double gain, value;
};

// u_j <- value, and r with it.
inline void shift_coordinate(Matrix<const double> H, double *r, double *u, Index j, double value) {
    const double change = value - u[j];
    if (change == 0.0) return;
    u[j] = value;
    const double *row = H[j];
    const Index size = H.columns;
#pragma omp simd
    for (Index k = 0; k < size; k++) r[k] += change * row[k];
}

// The decrease of the model by the best u_j alone, and that u_j; h = H_jj, r = r_j, u = u_j.
inline Best best_coordinate(double h, double r, double u, double l1, double l2, double low, double high) {
    const double bend = h + l2, b = h * u - r;
    double value;
    if (bend > 0.0) {
        const double pull = std::fabs(b) - l1;
        value = pull > 0.0 ? (b > 0.0 ? pull : -pull) / bend : 0.0;
    } else if (std::fabs(r) > l1) {  // a slope without curvature: go to the bound
        value = r > 0.0 ? low : high;
        value = std::fabs(value) < infinity ? value : u;
    } else {  // a column of zeros: only the penalty moves it
        value = l1 > 0.0 ? 0.0 : u;
    }
    value = value < low ? low : value > high ? high : value;
    const double step = value - u;
    double gain = -step * (r + 0.5 * h * step + 0.5 * l2 * (value + u));
    gain -= l1 * (std::fabs(value) - std::fabs(u));
    return {gain > 0.0 ? gain : 0.0, value};
}

inline Best best_coordinate(Matrix<const double> H, const double *r, const double *u, Index j, double l1, double l2,
                            double low, double high) {
    return best_coordinate(H[j][j], r[j], u[j], l1, l2, low, high);
}

inline double descend_coordinate(Matrix<const double> H, double *r, double *u, Index j, double l1, double l2, double low,
                                 double high) {
    const Best best = best_coordinate(H, r, u, j, l1, l2, low, high);
    shift_coordinate(H, r, u, j, best.value);
    return best.gain;
}

// The coordinates without a penalty.
inline double descend_free(Matrix<const double> H, double *r, double *u, Index start) {
    double gain = 0.0;
    for (Index j = start; j < H.rows; j++) gain += descend_coordinate(H, r, u, j, 0.0, 0.0, -infinity, infinity);
    return gain;
}

inline double norm_of(const double *u, Span<const Visit> members) {
    double total = 0.0;
    for (Visit j : members) total += u[j] * u[j];
    return std::sqrt(total);
}

inline double soft(double value, double l1) {
    const double pull = std::fabs(value) - l1;
    return !(pull > 0.0) ? 0.0 : value > 0.0 ? pull : -pull;
}

// v = (B + shift I)^{-1} b for the block B of H, by Cholesky with pivots kept above the shift; returns ||v||.
inline double solve_shifted(Matrix<const double> H, Span<const Visit> members, double shift, const double *b,
                            Matrix<double> L, double *v) {
    const Index size = members.size;
    for (Index i = 0; i < size; i++) {
        for (Index j = 0; j <= i; j++) {
            double total = H[members[i]][members[j]] + (i == j ? shift : 0.0);
            for (Index k = 0; k < j; k++) total -= L[i][k] * L[j][k];
            L[i][j] = j < i ? total / L[j][j] : std::sqrt(total > shift ? total : shift);
        }
    }
    for (Index i = 0; i < size; i++) {
        double total = b[i];
        for (Index k = 0; k < i; k++) total -= L[i][k] * v[k];
        v[i] = total / L[i][i];
    }
    double square = 0.0;
    for (Index i = size - 1; i >= 0; i--) {
        v[i] /= L[i][i];
        for (Index k = 0; k < i; k++) v[k] -= L[i][k] * v[i];
        square += v[i] * v[i];
    }
    return std::sqrt(square);
}

// u_g <- v if that lowers the model.
inline double move_group(Matrix<const double> H, double *r, double *u, Span<const Visit> members, const double *l1,
                         double l2, double strength, const double *v) {
    double change = 0.0, before = 0.0, after = 0.0, cross = 0.0;
    for (Index a = 0; a < members.size; a++) {
        const Index j = members[a];
        const double step = v[a] - u[j], both = v[a] + u[j];
        change += step * (r[j] + 0.5 * l2 * both) + l1[j] * (std::fabs(v[a]) - std::fabs(u[j]));
        for (Index c = 0; c < members.size; c++)
            change += 0.5 * step * H[j][members[c]] * (v[c] - u[members[c]]);
        before += u[j] * u[j], after += v[a] * v[a], cross += step * both;
    }
    const double ends = std::sqrt(before) + std::sqrt(after);
    change += ends > 0.0 ? strength * cross / ends : 0.0;
    if (!(change < 0.0)) return 0.0;
    for (Index a = 0; a < members.size; a++) shift_coordinate(H, r, u, members[a], v[a]);
    return -change;
}

// The best u_g alone: exact without l1, by majorised steps with it.
inline double descend_group(Matrix<const double> H, double *r, double *u, Span<const Visit> members, const double *l1,
                            double l2, double strength, Workspace &room) {
    const Index size = members.size;
    double *b = room.b.data(), *v = room.v.data(), *w = room.w.data(), trace = 0.0, pull = 0.0;
    const Matrix<double> L = room.matrix();
    bool flat = true;
    for (Index a = 0; a < size; a++) {
        const Index j = members[a];
        b[a] = -r[j], v[a] = u[j];
        for (Visit c : members) b[a] += H[j][c] * u[c];
        trace += H[j][j];
        flat = flat && l1[j] == 0.0;
        const double beyond = soft(b[a], l1[j]);
        pull += beyond * beyond;
    }
    pull = std::sqrt(pull);
    if (pull <= strength || !(trace + l2 > 0.0)) {
        if (!(strength > 0.0 || pull == 0.0)) return 0.0;
        for (Index a = 0; a < size; a++) v[a] = 0.0;
    } else if (flat) {
        // sigma ||(B + (l2 + sigma) I)^{-1} b|| = strength; the left side rises with sigma, from 0 to ||b||. Newton's
        // steps for 1 / ||...|| = sigma / strength, whose two sides are nearly linear, begin with the sigma of the
        // present u_g and stay within the known bracket of the root.
        double low = 0.0, high = strength * (trace + l2) / (pull - strength), norm = norm_of(u, members);
        double sigma = norm > 0.0 ? std::min(strength / norm, high) : high;
        for (int turn = 0; turn < descent::steps; turn++) {
            norm = solve_shifted(H, members, l2 + sigma, b, L, v);
            const double over = sigma * norm - strength;
            (over > 0.0 ? high : low) = sigma;
            if (std::fabs(over) <= descent::close * strength || high - low <= descent::close * high) break;
            double bent = 0.0;  // ||L^{-1} v||^2
            for (Index i = 0; i < size; i++) {
                double total = v[i];
                for (Index k = 0; k < i; k++) total -= L[i][k] * w[k];
                w[i] = total / L[i][i];
                bent += w[i] * w[i];
            }
            sigma -= (1.0 / norm - sigma / strength) / (bent / (norm * norm * norm) - 1.0 / strength);
            if (!(low < sigma && sigma < high)) sigma = 0.5 * (low + high);
        }
    } else {
        for (int turn = 0; turn < descent::proxes; turn++) {  // the trace is no less than the largest eigenvalue
            double norm = 0.0, moved = 0.0;
            for (Index a = 0; a < size; a++) {
                double total = trace * v[a] + b[a];
                for (Index c = 0; c < size; c++) total -= H[members[a]][members[c]] * v[c];
                w[a] = soft(total, l1[members[a]]);
                norm += w[a] * w[a];
            }
            norm = std::sqrt(norm);
            const double factor = norm > strength ? (1.0 - strength / norm) / (trace + l2) : 0.0;
            for (Index a = 0; a < size; a++) {
                moved = std::max(moved, std::fabs(factor * w[a] - v[a]));
                v[a] = factor * w[a];
            }
            if (moved == 0.0) break;
        }
    }
    return move_group(H, r, u, members, l1, l2, strength, v);
}

// Minimises over the coordinates of a group with l1 one by one, while the others keep its norm smooth. A majorised step of a
// group is limited by its largest column; these steps use the scale of each column. A group without l1 has been solved exactly.
inline double descend_members(Matrix<const double> H, double *r, double *u, Span<const Visit> members, const double *l1,
                              double l2, double strength) {
    double total = 0.0;
    bool flat = true;
    for (Visit j : members) flat = flat && l1[j] == 0.0;
    if (flat) return total;
    for (Visit j : members) {
        double rest = 0.0;
        for (Visit c : members) rest += c != j ? u[c] * u[c] : 0.0;
        rest = std::sqrt(rest);
        const double bend = H[j][j] + l2;
        if (!(rest > 0.0 && bend > 0.0)) continue;
        const double b = H[j][j] * u[j] - r[j], pull = std::fabs(b) - l1[j];
        double value = 0.0;
        if (pull > 0.0) {  // bend v + strength v / sqrt(v^2 + rest^2) = pull: the left side rises
            double low = pull / (bend + strength / rest), high = pull / bend;
            for (int turn = 0; turn < 2 * descent::steps; turn++) {
                const double middle = std::sqrt(low) * std::sqrt(high);
                const double reached = bend * middle + strength * middle / std::sqrt(middle * middle + rest * rest);
                (reached < pull ? low : high) = middle;
                if (high - low <= 1e-14 * high) break;
            }
            value = b > 0.0 ? high : -high;
        }
        const double step = value - u[j];
        const double ends = std::sqrt(value * value + rest * rest) + std::sqrt(u[j] * u[j] + rest * rest);
        double change = step * (r[j] + 0.5 * H[j][j] * step + 0.5 * l2 * (value + u[j]));
        change += l1[j] * (std::fabs(value) - std::fabs(u[j])) + strength * step * (value + u[j]) / ends;
        if (change < 0.0) {
            total -= change;
            shift_coordinate(H, r, u, j, value);
        }
    }
    return total;
}

}  // namespace reshuffle
