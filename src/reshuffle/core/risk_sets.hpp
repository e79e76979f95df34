// The partial likelihood of one stratum, as a function of the margins z of its rows.
//
//     -log L(z) = -sum_{events i} w_i z_i + sum_k c_k log S_k(z)
//
// Rows are sorted by time from the last to the first, and at equal times censored rows come before events. The risk set of
// a time is then everything up to the end of its events, and all sums over risk sets are running sums. A time with events D
// and total weight c of these has m terms l = 0 ... m - 1,
//
//     c_k = c / m,    S_k = sum_{rows at risk} w_j exp(z_j) - (l / m) sum_D w_i exp(z_i),
//
// with m = 1 for Breslow's treatment of ties and m = |D| for Efron's.
#pragma once
#include "elementary.hpp"
#include "products.hpp"

namespace reshuffle {

namespace risk {
inline constexpr double tiny = 1e-290;   // The inverse of a smaller sum over a risk set, with a largest term of 1, may overflow.
inline constexpr double flat = 1e-14;    // A variance below this share of the mean square is rounding.
inline constexpr Index chunk = 256;      // This many rows, or terms, of all columns are multiplied together, as in gram.hpp.
}  // namespace risk

struct RiskSets {
    Span<const double> weights;       // of all rows of the stratum
    Span<const Index> begins, ends;   // the events of each time that has some; its risk set is all rows up to `ends`
    Span<const Index> terms;          // m
    Span<const double> totals;        // c

    Index rows() const { return weights.size; }
    Index times() const { return begins.size; }
    Index at_risk() const { return times() ? ends[times() - 1] : 0; }  // rows that are in some risk set
    Index count() const {
        Index all = 0;
        for (Index m : terms) all += m;
        return all;
    }
};

// The likelihood at some margins: arrays that are kept from one point to the next.
struct Hazards {
    double value = 0.0, shift = 0.0;  // -log L, infinite where a sum underflows; the largest margin at risk
    std::vector<double> sizes;        // w_j exp(z_j - shift), and 0 for rows that are in no risk set
    std::vector<double> sums;         // S_k exp(-shift)
    std::vector<double> expected;     // w_j exp(z_j) sum_k c_k (1 - l_k) / S_k: the slope, but for -w_j of an event

    void fit(const RiskSets &sets) {
        sizes.resize(std::size_t(sets.rows())), expected.resize(std::size_t(sets.rows()));
        sums.resize(std::size_t(sets.count()));
    }
};

// -log L alone needs `sizes` and `sums`; `slopes` says whether `expected` is computed too.
inline void partial_likelihood(const RiskSets &sets, const double *z, bool slopes, Hazards &at) {
    const Index risk = sets.at_risk(), times = sets.times();
    double *e = at.sizes.data(), *S = at.sums.data(), shift = -infinity;
    at.value = 0.0, at.shift = 0.0;
    std::fill(e + risk, e + sets.rows(), 0.0);
    if (slopes) std::fill(at.expected.begin(), at.expected.end(), 0.0);
    if (times == 0) return;
    for (Index j = 0; j < risk; j++) shift = z[j] > shift ? z[j] : shift;
    at.shift = shift;
    const double *w = sets.weights.data;
#pragma omp simd
    for (Index j = 0; j < risk; j++) e[j] = w[j] * InRows::exp(z[j] - shift);
    double rest = 0.0, least = infinity;
    bool finite = std::fabs(shift) < infinity;
    for (Index k = 0, row = 0, t = 0; k < times; k++) {
        double own = 0.0, drawn = 0.0;
        for (; row < sets.begins[k]; row++) rest += e[row];
        for (; row < sets.ends[k]; row++) own += e[row], drawn += w[row] * (z[row] - shift);
        const Index m = sets.terms[k];
        for (Index l = 0; l < m; l++) {
            const double sum = rest + (1.0 - double(l) / double(m)) * own;
            finite = finite && sum < infinity;  // false for NaN too
            least = std::min(least, sum), S[t++] = sum;
        }
        rest += own;
        at.value -= drawn;
    }
    if (!(finite && least > risk::tiny)) {
        at.value = infinity;
        return;
    }
    double logs = 0.0;
    Index t = 0;
    if (sets.count() == times) {
#pragma omp simd reduction(+ : logs)
        for (Index k = 0; k < times; k++) logs += sets.totals[k] * InRows::log(S[k]);
    } else {
        for (Index k = 0; k < times; k++) {
            double own = 0.0;
            for (Index l = 0; l < sets.terms[k]; l++) own += InRows::log(S[t++]);
            logs += sets.totals[k] / double(sets.terms[k]) * own;
        }
    }
    at.value += logs;
    if (!slopes) return;
    double tail = 0.0;
    Index row = risk - 1;
    t = sets.count();
    for (Index k = times - 1; k >= 0; k--) {
        const Index m = sets.terms[k];
        double whole = 0.0, left = 0.0;
        for (Index l = m - 1; l >= 0; l--) {
            const double each = sets.totals[k] / (double(m) * S[--t]);
            whole += each, left += (1.0 - double(l) / double(m)) * each;
        }
        for (; row >= sets.begins[k]; row--) at.expected[std::size_t(row)] = e[row] * (tail + left);
        tail += whole;
        const Index stop = k > 0 ? sets.ends[k - 1] : 0;
        for (; row >= stop; row--) at.expected[std::size_t(row)] = e[row] * tail;
    }
}

// out <- sum_k c_k Cov_k(a), a the rows of a matrix whose columns are given, the distribution of the risk set of k being
// w_j exp(z_j) / S_k:
//
//     sum_j expected_j a_j a_j^T - sum_k c_k mean_k mean_k^T.
//
// It does not change if all rows are shifted by the same vector. So they are first shifted to mean zero, which keeps the
// subtracted sum from being larger than the difference. `column(c)` points to the entries of column c.
template <class Column>
void add_covariances(const RiskSets &sets, const Hazards &at, Column &&column, double factor, Matrix<double> out) {
    const Index size = out.rows, risk = sets.at_risk(), times = sets.times();
    double total = 0.0;
    for (Index j = 0; j < risk; j++) total += at.expected[std::size_t(j)];
    if (!(total > 0.0)) return;
    Index longest = risk::chunk;
    for (Index m : sets.terms) longest = std::max(longest, m);
    std::vector<double> room(std::size_t(size * longest)), centres(std::size_t(size), 0.0), sums(std::size_t(size), 0.0);
    std::vector<double> whole(std::size_t(size * size), 0.0), squares(std::size_t(size), 0.0);
    const Matrix<double> T{room.data(), size, longest}, H{whole.data(), size, size};
    auto row = [&](Index c) { return static_cast<const double *>(T[c]); };
    auto add = [&](Index count, double sign) {
        for (Index j = 0; j < size; j += cached_columns)
            add_products(row, row, count, j, std::min(j + cached_columns, size), j, size, true, sign,
                         [&](Index k) { return H[k]; });
    };
    for (Index c = 0; c < size; c++) {  // columns that do not vary become zero, to the last digit
        const double *a = column(c), first = a[0], *h = at.expected.data();
        double mean = 0.0;
#pragma omp simd reduction(+ : mean)
        for (Index j = 0; j < risk; j++) mean += h[j] * (a[j] - first);
        centres[std::size_t(c)] = mean / total;
    }
    std::vector<double> roots(static_cast<std::size_t>(risk));
    for (Index j = 0; j < risk; j++) roots[std::size_t(j)] = std::sqrt(at.expected[std::size_t(j)]);
    for (Index begin = 0; begin < risk; begin += risk::chunk) {
        const Index count = std::min(risk::chunk, risk - begin);
        for (Index c = 0; c < size; c++) {
            const double *a = column(c), first = a[0], centre = centres[std::size_t(c)], *s = roots.data() + begin;
            double *to = T[c];
#pragma omp simd
            for (Index j = 0; j < count; j++) to[j] = s[j] * ((a[begin + j] - first) - centre);
        }
        add(count, 1.0);
    }
    for (Index c = 0; c < size; c++) squares[std::size_t(c)] = H[c][c];
    const double *e = at.sizes.data();
    for (Index k = 0, before = 0; k < times;) {  // times whose terms have room together
        Index next = k, count = 0;
        while (next < times && (next == k || count + sets.terms[next] <= longest)) count += sets.terms[next++];
        for (Index c = 0; c < size; c++) {
            const double *a = column(c), first = a[0], centre = centres[std::size_t(c)];
            double rest = sums[std::size_t(c)], *to = T[c];
            for (Index time = k, t = 0; time < next; time++) {
                double own = 0.0;
                const Index start = time > 0 ? sets.ends[time - 1] : 0, m = sets.terms[time];
                for (Index j = start; j < sets.begins[time]; j++) rest += e[j] * ((a[j] - first) - centre);
                for (Index j = sets.begins[time]; j < sets.ends[time]; j++) own += e[j] * ((a[j] - first) - centre);
                const double root = std::sqrt(sets.totals[time] / double(m));
                for (Index l = 0; l < m; l++, t++)
                    to[t] = root * (rest + (1.0 - double(l) / double(m)) * own) / at.sums[std::size_t(before + t)];
                rest += own;
            }
            sums[std::size_t(c)] = rest;
        }
        add(count, -1.0);
        before += count, k = next;
    }
    for (Index c = 0; c < size; c++) {
        const bool bent = H[c][c] > risk::flat * squares[std::size_t(c)];
        squares[std::size_t(c)] = bent ? factor : 0.0;
    }
    for (Index j = 0; j < size; j++)
        for (Index c = j; c < size; c++)
            if (squares[std::size_t(j)] != 0.0 && squares[std::size_t(c)] != 0.0) out[j][c] += factor * H[j][c];
}

}  // namespace reshuffle
