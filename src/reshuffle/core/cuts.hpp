// Total variation on a graph, exactly, by a sequence of maximum flows:
//
//     min_u  sum_i (u_i - y_i)^2 / 2 + sum_e bounds_e |u_i - u_j|,    e = (i, j)
//
// The dual is a flow z with |z_e| <= bounds_e, and u_i = y_i - (what leaves i). A block of nodes starts as the whole
// graph; let t be its mean of u. Flow is sent from the nodes above t to the nodes below it. If nothing is left above,
// u = t on the block, and the block is done. Otherwise, all edges from the nodes that the remainder can reach to the
// rest of the block are full: u >= t on the former, u <= t on the latter, and each side becomes a block of its own
// (Hochbaum, 2001; Chambolle and Darbon, 2009). The flow of one level is the start of the next. The blocks of a level are
// treated together.
//
// The flow is Dinic's: first the distances of the nodes from those above t, then paths along growing distances only.
#pragma once
#include "arrays.hpp"

namespace reshuffle {

// The arcs of node i are first[i] ... first[i + 1] - 1. Each has the neighbour `target`, the number of its `edge`,
// and says whether i is the `tail` of that edge (z_e counts from tail to head).
struct Arcs {
    Span<const Index> first, target, edge;
    Span<const bool> tail;
};

class Cuts {
    // Of the largest |y - mean|. Less than this counts neither as something left above t nor as room on an edge: it
    // is about a hundred roundings of one addition, which the sums of a path stay below.
    static constexpr double rounding = 1e-14;

    Span<const double> y;
    const Arcs &arcs;
    Span<double> u;
    double mean = 0.0, tiny = 0.0;
    std::vector<double> room, z, excess, sums;
    std::vector<Index> block, reach, pointer, queue, path, sizes;
    std::vector<char> done;
    Index count = 1;  // of the blocks

   public:
    Cuts(Span<const double> y, const Arcs &arcs, Span<const double> bounds, Span<double> u)
        : y(y), arcs(arcs), u(u), room(bounds.size), z(bounds.size), excess(y.size), sums(y.size + 1), block(y.size),
          reach(y.size), pointer(y.size), queue(y.size), path(y.size + 1), sizes(y.size + 1), done(y.size + 1) {
        double sum = 0.0, total = 0.0, largest = 0.0;
#pragma omp simd reduction(+ : sum)
        for (Index i = 0; i < y.size; ++i) sum += y[i];
        mean = sum / double(y.size);
        for (Index i = 0; i < y.size; ++i) {
            total += std::abs(y[i] - mean);
            largest = std::max(largest, std::abs(y[i] - mean));
            u[i] = y[i] - mean;  // counted from the mean, so that a common shift costs no digits
        }
        tiny = rounding * largest;
        for (Index e = 0; e < bounds.size; ++e) room[e] = std::min(bounds[e], total);  // no more than that ever flows
    }

    // u <- the minimiser. Returns the number of levels.
    Index solve() {
        Index levels = 0;
        while (aim()) {
            ++levels;
            while (distances()) send();
            for (Index i = 0; i < y.size; ++i) {
                const Index b = block[i];
                if (!done[b]) u[i] = sums[b] / double(sizes[b]) + excess[i];
            }
            split();
        }
        level();
        return levels;
    }

   private:
    // excess <- u minus the mean of the block; returns whether any flow is left to be sent.
    bool aim() {
        std::fill_n(sums.begin(), count, 0.0);
        std::fill_n(sizes.begin(), count, Index(0));
        for (Index i = 0; i < y.size; ++i) {
            sums[block[i]] += u[i];
            ++sizes[block[i]];
        }
        bool left = false;
        for (Index i = 0; i < y.size; ++i) {
            const Index b = block[i];
            excess[i] = done[b] ? 0.0 : u[i] - sums[b] / double(sizes[b]);
            left = left || std::abs(excess[i]) > tiny;
        }
        return left;
    }

    // The remaining capacity of an arc.
    double spare(Index a) const {
        const Index e = arcs.edge[a];
        return arcs.tail[a] ? room[e] - z[e] : room[e] + z[e];
    }

    // reach <- the distance of each node from those with something left, or -1 if there is no path. Returns
    // whether a node below the mean is reached.
    bool distances() {
        Index size = 0;
        bool found = false;
        for (Index i = 0; i < y.size; ++i) {
            reach[i] = -1;
            if (excess[i] > tiny) {
                reach[i] = 0;
                queue[size++] = i;
            }
        }
        for (Index k = 0; k < size; ++k) {
            const Index i = queue[k];
            for (Index a = arcs.first[i]; a < arcs.first[i + 1]; ++a) {
                const Index j = arcs.target[a];
                if (reach[j] < 0 && block[j] == block[i] && spare(a) > tiny) {
                    reach[j] = reach[i] + 1;
                    queue[size++] = j;
                    found = found || excess[j] < -tiny;
                }
            }
        }
        return found;
    }

    // Flow along paths of growing distance, until each is blocked. `path` holds the arcs from the source.
    void send() {
        for (Index i = 0; i < y.size; ++i) pointer[i] = arcs.first[i];
        for (Index source = 0; source < y.size; ++source)
            if (reach[source] == 0) send_from(source);
    }

    void send_from(Index source) {
        Index length = 0, i = source;
        while (excess[source] > tiny) {
            if (excess[i] < -tiny) {  // at the end of a path: send as much as fits
                double amount = std::min(excess[source], -excess[i]);
                for (Index k = 0; k < length; ++k) amount = std::min(amount, spare(path[k]));
                Index cut = length;
                for (Index k = length - 1; k >= 0; --k) {
                    const Index a = path[k];
                    z[arcs.edge[a]] += arcs.tail[a] ? amount : -amount;
                    if (spare(a) <= tiny) cut = k;
                }
                excess[source] -= amount;
                excess[i] += amount;
                if (cut < length) {  // back to where the first full arc starts
                    i = cut == 0 ? source : arcs.target[path[cut - 1]];
                    length = cut;
                }
                continue;  // from a sink that is full the path goes on
            }
            if (advance(i, length)) continue;
            if (length == 0) break;
            --length;
            i = length == 0 ? source : arcs.target[path[length - 1]];
            ++pointer[i];
        }
    }

    // Extends the path by one arc from node i if possible; updates i and the path's length.
    bool advance(Index &i, Index &length) {
        for (; pointer[i] < arcs.first[i + 1]; ++pointer[i]) {
            const Index a = pointer[i], j = arcs.target[a];
            if (reach[j] == reach[i] + 1 && block[j] == block[i] && spare(a) > tiny) {
                path[length++] = a;
                i = j;
                return true;
            }
        }
        return false;
    }

    // New blocks for the nodes that were reached; a block of which none or all were reached is done.
    void split() {
        std::vector<Index> reached(count), fresh(count, Index(-1));
        for (Index i = 0; i < y.size; ++i)
            if (reach[i] >= 0) ++reached[block[i]];
        Index more = count;
        for (Index b = 0; b < count; ++b) {
            if (done[b] || reached[b] == 0 || reached[b] == sizes[b]) {
                done[b] = true;
            } else {
                fresh[b] = more;
                done[more++] = false;
            }
        }
        for (Index i = 0; i < y.size; ++i)
            if (reach[i] >= 0 && fresh[block[i]] >= 0) block[i] = fresh[block[i]];
        count = more;
    }

    // u on each block computed anew, from its mean and from the edges to other blocks, which are full.
    void level() {
        std::fill_n(sums.begin(), count, 0.0);
        std::fill_n(sizes.begin(), count, Index(0));
        for (Index i = 0; i < y.size; ++i) {
            const Index b = block[i];
            sums[b] += y[i] - mean;
            ++sizes[b];
            for (Index a = arcs.first[i]; a < arcs.first[i + 1]; ++a) {
                if (block[arcs.target[a]] == b) continue;
                const Index e = arcs.edge[a];
                const double flow = z[e] > 0.0 ? room[e] : -room[e];
                sums[b] -= arcs.tail[a] ? flow : -flow;
            }
        }
        for (Index i = 0; i < y.size; ++i) u[i] = mean + sums[block[i]] / double(sizes[block[i]]);
    }
};

// u <- the minimiser. Returns the number of levels.
inline Index cut_prox(Span<const double> y, const Arcs &arcs, Span<const double> bounds, Span<double> u) {
    return y.size == 0 ? 0 : Cuts(y, arcs, bounds, u).solve();
}

}  // namespace reshuffle
