// Minimises the quadratic model of a Newton step, with its penalty, to the last digits.
//
//     min_u  m(u) = g^T (u - x) + (u - x)^T H (u - x) / 2 + psi(u),        r = g + H (u - x).
//
// Sweeps of coordinate descent find the face, that is, which coordinates rest at zero or at a bound. They do not depend on
// the scales of columns, but correlated columns make them slow. So each round ends with a Newton step on the face, where psi
// is smooth: one Cholesky factorisation, scaled to a unit diagonal so that it does not depend on scales either; the step is
// cut if a coordinate would change its sign or leave its bounds. If the face still changes after several rounds (sweeps over
// strongly correlated columns release coordinates that the next step on the face brings back), one coordinate is released at
// a time, as in an active-set method.
#pragma once
#include "penalty_ops.hpp"
#include "products.hpp"

namespace reshuffle {

namespace model {
inline constexpr int sweeps = 30;         // The most sweeps of a round.
inline constexpr double slow = 0.7;       // Sweeps stop for a step on the face when one gains more than this share of the last one's gain.
inline constexpr Index a_sweep = 40;      // One sweep is made for each a_sweep coordinates of a face before it is factorised: of 100, 40 and 15, this was fastest on two text data sets.
inline constexpr int few_steps = 4;       // The most steps on a face that sweeps may still change; each is a factorisation.
inline constexpr int sweeping = 12;       // This many rounds begin with sweeps; later ones release one coordinate (or group) at a time.
inline constexpr Index steps = 10;        // The most steps on a face, beyond one for each coordinate that may have to become zero.
inline constexpr double noise = 1e-6;     // A gain under this share of the decrease may be rounding, if it is no less than the last gain.
inline constexpr double pivot = 1e-13;    // Below this share of a unit diagonal a column is a combination of others, up to rounding.
inline constexpr Index largest = 4000;    // The most coordinates of a face; its factorisation takes a third of the cube of their number.
inline constexpr int halvings = 40;       // The most halvings of a step on the face; after them it moves nothing measurable.
inline constexpr int rounds = 100;        // The most rounds of the solver; a face that still changes then is not worth the wait.
inline constexpr double cancelled = 1e-12;  // Below this share of its terms a difference is rounding, with room for that of H.
inline constexpr Index block = 32;        // This many columns of a Cholesky factor are computed together.
}  // namespace model

struct Minimum {
    double decrease;  // of the model; infinite if it has no minimum
    double left;      // the gain of the last round, and the gain that its last step on the face promised but did not achieve
    double length;    // of the direction without curvature, in units in which every column has curvature 1; 0 if there is none
    Index rounds;
};

// M <- L with L L^T = D M D, D M D of unit diagonal, D in scales; of the lower triangle. Returns how many pivots are weak.
//
// A pivot below `model::pivot` is lifted to it: the step along its direction is long if there is a slope (until a kink stops
// it), and lost in rounding if there is none. Columns are computed in blocks: first the products with all columns before the
// block are subtracted, in registers, then those within the block.
inline Index factorise(Matrix<double> M, double *scales, Index size) {
    Index weak = 0;
    for (Index i = 0; i < size; i++) scales[i] = M[i][i] > 0.0 ? 1.0 / std::sqrt(M[i][i]) : 0.0;
    auto row = [&](Index i) { return static_cast<const double *>(M[i]); };
    for (Index begin = 0; begin < size; begin += model::block) {
        const Index end = std::min(begin + model::block, size);
        for (Index i = begin; i < size; i++)
            for (Index j = begin; j < std::min(i + 1, end); j++) M[i][j] *= scales[i] * scales[j];
        if (begin > 0)
            for (Index i = begin; i < size; i += cached_columns)
                add_products(row, row, begin, i, std::min(i + cached_columns, size), begin, end, false, -1.0,
                             [&](Index k) { return M[k]; });
        for (Index i = begin; i < size; i++) {
            double *own = M[i];
            for (Index j = begin; j < std::min(i + 1, end); j++) {
                double total = own[j];
                const double *other = M[j];
#pragma omp simd reduction(- : total)
                for (Index k = begin; k < j; k++) total -= own[k] * other[k];
                if (j < i) {
                    own[j] = total / other[j];
                } else {
                    if (!(total > model::pivot)) weak++, total = model::pivot;
                    own[i] = std::sqrt(total);
                }
            }
        }
    }
    return weak;
}

// b <- M^{-1} b; returns b^T M^{-1} b. Along a weak pivot a slope that is only rounding counts as zero: divided by the pivot
// it would carry x far out along equal columns without any gain.
inline double solve_factored(Matrix<const double> L, const double *scales, double *b, Index size) {
    double power = 0.0;
    for (Index i = 0; i < size; i++) {
        double total = b[i] * scales[i];
        const double *row = L[i];
        if (row[i] * row[i] <= 2.0 * model::pivot) {
            double most = std::fabs(total);
            for (Index k = 0; k < i; k++) total -= row[k] * b[k], most += std::fabs(row[k] * b[k]);
            if (std::fabs(total) <= model::cancelled * most) total = 0.0;
        } else {
#pragma omp simd reduction(- : total)
            for (Index k = 0; k < i; k++) total -= row[k] * b[k];
        }
        b[i] = total / row[i];
        power += b[i] * b[i];
    }
    for (Index i = size - 1; i >= 0; i--) {
        const double *row = L[i], c = b[i] /= row[i];
#pragma omp simd
        for (Index k = 0; k < i; k++) b[k] -= row[k] * c;
    }
    for (Index i = 0; i < size; i++) b[i] *= scales[i];
    return power;
}

// out = H v, for a v with many zeros; H is symmetric.
inline void product(Matrix<const double> H, const double *v, double *out) {
    const Index size = H.columns;
    std::fill(out, out + size, 0.0);
    for (Index j = 0; j < H.rows; j++) {
        if (v[j] == 0.0) continue;
        const double c = v[j], *row = H[j];
#pragma omp simd
        for (Index k = 0; k < size; k++) out[k] += c * row[k];
    }
}

// room.null = a direction in which the face has no curvature, up to rounding: all that are weak, together. Its length.
//
// For a pivot lifted to `model::pivot`, that times M^{-1} e_i is the null vector that ends in i.
inline double null_vector(Workspace &room, Index count, Index size) {
    const Matrix<double> L = room.matrix();
    double *b = room.v.data(), length = 0.0;
    for (Index i = 0; i < count; i++) {
        const bool weak = L[i][i] * L[i][i] <= 2.0 * model::pivot && room.scales[std::size_t(i)] > 0.0;
        b[i] = weak ? (i % 2 == 0 ? model::pivot : -model::pivot) / room.scales[std::size_t(i)] : 0.0;
    }
    solve_factored(L, room.scales.data(), b, count);
    std::fill(room.null.begin(), room.null.begin() + size, 0.0);
    for (Index i = 0; i < count; i++) {
        room.null[std::size_t(room.where[std::size_t(i)])] = b[i];
        if (room.scales[std::size_t(i)] > 0.0) length += std::fabs(b[i]) / room.scales[std::size_t(i)];
    }
    return length;
}

struct FaceStep {
    double gain, missed, length;  // missed: what was promised and not kept; length: that of the null direction
};

// One Newton step on the face of u.
template <class Form>
FaceStep face_step(const Form &form, Matrix<const double> H, double *u, Workspace &room) {
    const Index size = H.rows;
    Index *index = room.where.data(), count = 0;
    const Matrix<double> M = room.matrix();
    double *r = room.r.data(), *step = room.step.data(), *to = room.to.data(), *bent = room.bent.data(), *b = room.b.data();
    face(form, u, size, room.free.data(), room.slopes.data());
    for (Index j = 0; j < size; j++)  // columns of zeros are left out
        if (room.free[std::size_t(j)] && H[j][j] > 0.0) index[count++] = j;
    if (count == 0) return {0.0, 0.0, 0.0};
    if (count > model::largest) return {0.0, infinity, 0.0};  // the face is too large, and sweeps alone prove nothing
    for (Index k = 0; k < count; k++) {
        b[k] = -(r[index[k]] + room.slopes[std::size_t(index[k])]);
        const double *row = H[index[k]];
        for (Index other = 0; other <= k; other++) M[k][other] = row[index[other]];
    }
    stiffen(form, u, size, index, count, M, room.place.data());
    const Index weak = factorise(M, room.scales.data(), count);
    const double promised = 0.5 * solve_factored(M, room.scales.data(), b, count);
    if (!(promised < infinity)) return {0.0, infinity, 1.0};
    const double length = weak > 0 ? null_vector(room, count, size) : 0.0;
    const double until = first_kink(form, u, index, count, b);
    double t = 1.0;
    for (int trial = 0; trial < model::halvings; trial++) {
        if (trial > 0) t = trial == 1 ? until : 0.5 * t;  // the whole step, the step up to the first kink, halves of that
        std::copy(u, u + size, to);
        for (Index k = 0; k < count; k++) to[index[k]] += t * b[k];
        retract(form, u, to, t == until);
        for (Index j = 0; j < size; j++) step[j] = to[j] - u[j];
        product(H, step, bent);
        double change = penalty_change(form, u, to);
        for (Index j = 0; j < size; j++) change += step[j] * (r[j] + 0.5 * bent[j]);
        // a parabola falls by at most what it promised; a larger fall means that rounding made the curvature along a far too
        // long step negative
        if (-4.0 * promised <= change && change <= -0.1 * t * promised) {
            for (Index j = 0; j < size; j++) u[j] = to[j], r[j] += bent[j];
            return {-change, t == 1.0 && until == 1.0 ? 0.0 : promised, length};
        }
    }
    return {0.0, promised, length};
}

// Minimise the model from u, in place.
//
// It stops after a round that gained at most `accuracy` times the whole decrease, or `floor`: a measure in units of P,
// which no scale of columns or rows changes. `room.null` gets a direction in which the last face has no curvature.
template <class Form>
Minimum minimise(const Form &form, Matrix<const double> H, const double *g, const double *x, double *u, double accuracy,
                 double floor, Workspace &room) {
    const Index size = H.rows;
    room.fit(size);
    std::fill(room.null.begin(), room.null.end(), 0.0);
    double *r = room.r.data(), *step = room.step.data();
    double total = 0.0, gain = 0.0, last = 0.0, missed = 0.0, length = 0.0;
    auto enough = [&](double share) { return std::max(share * accuracy * (total + gain), floor); };
    const Index least = size / model::a_sweep;
    Index made = 0;
    for (Index j = 0; j < size; j++) step[j] = u[j] - x[j];
    for (int k = 0; k < model::rounds; k++) {
        made++;
        product(H, step, r);  // recomputed, so that no rounding accumulates over the rounds
        for (Index j = 0; j < size; j++) r[j] += g[j];
        bool quick = false;
        gain = 0.0;
        if (k < model::sweeping) {
            double before = infinity;
            for (Index swept = 0; swept < std::max<Index>(model::sweeps, least); swept++) {
                const double more = sweep(form, H, r, u, room);
                gain += more;
                if (!(more > enough(0.1))) {
                    quick = true;
                    break;
                }
                if (more > model::slow * before && swept >= least) break;
                before = more;
            }
        } else {
            gain = release(form, H, r, u, room);
        }
        if (quick && accuracy > model::noise) {
            total += gain;  // sweeps alone were enough for a rough answer
            break;
        }
        const Index most = k < model::sweeping ? Index(model::few_steps) : size + model::steps;
        for (Index stepped = 0; stepped < most; stepped++) {
            const FaceStep found = face_step(form, H, u, room);
            gain += found.gain, missed = found.missed, length = found.length;
            if (missed <= enough(0.1) || !(found.gain > 0.0)) break;
        }
        total += gain;
        for (Index j = 0; j < size; j++) step[j] = u[j] - x[j];
        if (!(gain > std::max(accuracy * total, floor))) break;
        if (k > 1 && gain > 0.5 * last && gain < model::noise * total) break;  // gains no longer fall from round to round: rounding
        last = gain;
    }
    if (unbounded(form, H, r)) total = infinity;
    return {total, gain + missed, length, made};
}

}  // namespace reshuffle
