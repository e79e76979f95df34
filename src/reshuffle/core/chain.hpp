// Total variation along a chain, exactly and in linear time:
//
//     min_u  sum_j (u_j - y_j)^2 / 2 + sum_j bounds_j |u_{j+1} - u_j|
//
// The method is dynamic programming (Johnson, 2013). The derivative of the best value up to j, as a function of u_j,
// is increasing and piecewise linear. The next coordinate sees it clipped to [-bounds_j, bounds_j]. Clipping removes
// knots at both ends and puts two new ones there, so that all knots together cost O(n). On the way back, u_j is
// u_{j+1} clipped to the interval in which the derivative was not clipped.
//
// A bound of 0 between two coordinates separates them, so that many chains can be treated as one.
#pragma once
#include "arrays.hpp"

namespace reshuffle {

namespace chain {

// A knot of the derivative: its position, and the changes of slope and offset there.
struct Knot {
    double place, slope, offset;
};

// Recomputes the value of u on each constant stretch from the mean of y on it and from its two ends, which removes the
// rounding errors of the sums over knots.
inline void settle(Span<const double> y, Span<const double> bounds, Span<double> u) {
    const Index n = y.size;
    double before = 0.0;
    for (Index start = 0; start < n;) {
        const double level = u[start];
        double total = 0.0;
        Index stop = start;
        do {  // a NaN equals no other value and makes a stretch of its own
            total += y[stop] - level;
            ++stop;
        } while (stop < n && u[stop] == level);
        double after = 0.0;
        if (stop < n) after = u[stop] > level ? bounds[stop - 1] : -bounds[stop - 1];
        const double value = level + (total + after - before) / double(stop - start);
        for (Index j = start; j < stop; ++j) u[j] = value;
        start = stop;
        before = after;
    }
}

}  // namespace chain

// u <- the minimiser. There is one bound less than there are coordinates.
inline void chain_prox(Span<const double> y, Span<const double> bounds, Span<double> u) {
    const Index n = y.size;
    if (n == 0) return;
    std::vector<chain::Knot> knots(2 * n);
    std::vector<double> low(n), high(n);    // where the derivative reaches -bound and +bound
    Index left = n, right = n - 1;          // the first and the last knot
    double first = -y[0], last = -y[0];     // the offsets of the outermost pieces, whose slope is 1
    double s, c;                            // the slope and the offset of the piece at hand
    const auto from_left = [&](double wanted) {  // go to the piece in which the derivative reaches `wanted`
        s = 1.0, c = first;
        for (; left <= right && s * knots[left].place + c < wanted; ++left) {
            s += knots[left].slope;
            c += knots[left].offset;
        }
    };
    for (Index j = 0; j < n - 1; ++j) {
        const double bound = bounds[j];
        from_left(-bound);
        // The new knot takes the room of one that was removed, or lies beside the others: left <= right from here.
        low[j] = (-bound - c) / s;
        knots[--left] = {low[j], s, c + bound};
        s = 1.0, c = last;
        for (; right > left && s * knots[right].place + c > bound; --right) {
            s -= knots[right].slope;
            c -= knots[right].offset;
        }
        high[j] = std::max((bound - c) / s, low[j]);
        knots[++right] = {high[j], -s, bound - c};
        first = -bound - y[j + 1];
        last = bound - y[j + 1];
    }
    from_left(0.0);
    u[n - 1] = -c / s;
    for (Index j = n - 2; j >= 0; --j) u[j] = std::min(std::max(u[j + 1], low[j]), high[j]);
    chain::settle(y, bounds, u);
}

// Whether g = e + D^T z for some |e| <= l1 and |z| <= bounds, where D takes differences of neighbours. The interval
// in which z_j can lie is carried along the chain; a NaN in g is never held.
inline bool chain_holds(Span<const double> g, Span<const double> bounds, double l1) {
    double low = 0.0, high = 0.0;
    for (Index j = 0; j < g.size; ++j) {
        const double bound = j < bounds.size ? bounds[j] : 0.0;
        low = std::max(low + g[j] - l1, -bound);
        high = std::min(high + g[j] + l1, bound);
        if (!(low <= high)) return false;
    }
    return true;
}

}  // namespace reshuffle
