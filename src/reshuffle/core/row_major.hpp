// Newton's model on working sets of features, for rows as they are stored.
//
// Most features of a wide set rest at zero. So the model
//
//     m(u) = <grad f(x), u - x> + (u - x)^T H (u - x) / 2 + psi(u)
//
// is minimised over those that are not zero or would leave zero, those with the largest gain first; then, if the model
// must prove a bound (`complete`), over more of them, until no other would move at its minimum. If there is an
// intercept, active columns are centred, so that they do not depend on it.
#pragma once
#include <numeric>

#include "gram.hpp"
#include "in_pieces.hpp"
#include "lower_model.hpp"
#include "quadratic_model.hpp"

namespace reshuffle {

namespace sets {
inline constexpr Index few = 100;          // The fewest features of a first working set, needed or not.
inline constexpr double early = 1e-2;       // While features may be missing, the last round of a model may gain this share of the model's decrease.
inline constexpr int turns = 12;            // The first sets of a model, this many, may leave out features that the last one left at zero; later sets only grow, so that the loop ends.
inline constexpr double constant = 1e-14;  // Rounding explains a deviation of this share of the mean.
inline constexpr double apart = 1e-6;      // A variance of this share of the mean square keeps ten digits when the mean is subtracted.
inline constexpr double left = 1e-10;      // A difference of this share of a square still has six digits.
inline constexpr double full = 0.7;        // Sparse rows with this share of nonzero values are multiplied faster as dense ones.
inline constexpr Index sparse = 4;         // If x has this many times fewer nonzeros than columns, a dense row is read only at the nonzeros.
inline constexpr double work = 4.0 * pieces::work;  // A call ends after this many products, and leaves the next step to the next call.
inline constexpr Index cached = Index(1) << 15;  // Rows that are read twice come in pieces of this many values, which stay in the second-level cache.
}  // namespace sets

// The part of a penalty that belongs to some coordinates, the others held at zero.
struct Part {
    std::vector<double> l1, l2, low, high, strengths;
    std::vector<Visit> members;
    std::vector<Index> starts, place;

    Coordinates of(const Coordinates &form, const std::vector<Index> &kept) {
        auto take = [&](Span<const double> from, std::vector<double> &to) {
            to.clear();
            for (Index j : kept) to.push_back(from[j]);
        };
        take(form.l1, l1), take(form.l2, l2), take(form.low, low), take(form.high, high);
        return {span(std::as_const(l1)), span(std::as_const(l2)), span(std::as_const(low)), span(std::as_const(high))};
    }
    // A group is kept whole or not at all.
    Groups of(const Groups &form, const std::vector<Index> &kept) {
        place.assign(std::size_t(form.size()), -1);
        l1.clear(), strengths.clear(), members.clear(), starts.assign(1, 0);
        for (std::size_t k = 0; k < kept.size(); k++) place[std::size_t(kept[k])] = Index(k), l1.push_back(form.l1[kept[k]]);
        for (Index g = 0; g < form.count(); g++) {
            const Span<const Visit> group = form.group(g);
            if (group.size == 0 || place[group[0]] < 0) continue;
            for (Visit j : group) members.push_back(Visit(place[j]));
            strengths.push_back(form.strengths[g]), starts.push_back(Index(members.size()));
        }
        return {span(std::as_const(l1)), form.l2, span(std::as_const(strengths)), span(std::as_const(members)),
                span(std::as_const(starts))};
    }
};

// Adds the coordinates that a penalty keeps together with the chosen ones: none, or those of their groups and all outputs of a feature.
inline void close_set(const Coordinates &, Index, Index, std::vector<unsigned char> &) {}

inline void close_set(const Groups &form, Index features, Index outputs, std::vector<unsigned char> &chosen) {
    bool more = true;
    while (more) {
        more = false;
        auto add = [&](Index j) {
            if (!chosen[std::size_t(j)]) chosen[std::size_t(j)] = true, more = true;
        };
        for (Index f = 0; f < features; f++) {
            bool any = false;
            for (Index o = 0; o < outputs; o++) any = any || chosen[std::size_t(f * outputs + o)];
            for (Index o = 0; any && o < outputs; o++) add(f * outputs + o);
        }
        for (Index g = 0; g < form.count(); g++) {
            bool any = false;
            for (Visit j : form.group(g)) any = any || chosen[j];
            if (any)
                for (Visit j : form.group(g)) add(j);
        }
    }
}

class RowMajor {
  public:
    Samples losses;
    Curvature curvature;
    Point at;
    std::vector<double> d, change;  // a step, and the change of the margins by it
    double floor = -infinity;       // a bound from below on all losses
    Index passes = 0;
    Listener listener;  // it also counts the work of a call
    std::vector<unsigned char> constant;  // columns found to be constant, if there is an intercept

    // centre: the means of the columns, which an intercept absorbs. ones: columns of ones, whose entries are not stored.
    // counts: stored entries of each column, empty for dense rows. squares: (1/n) sum_i w_i a_ij^2, empty if not yet known.
    RowMajor(const Samples &s, const Curvature &c, Index threads, Span<const double> centre, Span<const bool> ones,
             Span<const Index> counts, Span<const double> squares)
        : losses(s), curvature(c), constant(ones.begin(), ones.end()), threads_(threads), ranges_(cut(s.n, threads)),
          centre_(centre.begin(), centre.end()), ones_(ones.begin(), ones.end()), counts_(counts.begin(), counts.end()),
          squares_(squares.begin(), squares.end()) {
        dense_ = with_rows(s, [](const auto &rows) { return std::decay_t<decltype(rows)>::dense; });
        const auto each = std::size_t(s.n * s.margins());
        at.margins.resize(each), at.slopes.resize(each), at.curvatures.resize(each), change.resize(each);
        at.gradient.resize(std::size_t(s.unknowns())), d.resize(std::size_t(s.unknowns()));
    }
    RowMajor(const RowMajor &) = delete;

    Index size() const { return losses.unknowns(); }
    bool has_worked_enough() const { return listener.total >= sets::work; }

    // --- passes -------------------------------------------------------------------------------------------------------

    // z, l'(z), l''(z) of every row and the gradient; does nothing if the last call had the same x.
    void linearise(const double *x) {
        const auto count = std::size_t(size());
        if (x_.size() == count && std::equal(x, x + count, x_.begin())) return;
        x_.clear();
        const Index outputs = losses.margins();
        const std::vector<Index> some = few_entries(x);
        std::vector<std::vector<double>> gradients(slots());
        std::vector<double> values(slots());
        std::fill(at.gradient.begin(), at.gradient.end(), 0.0);
        double total = 0.0;
        in_pieces(
            ranges_, threads_,
            [&](Range range, std::size_t slot) {
                gradients[slot].assign(count, 0.0);
                values[slot] = 0.0;
                in_some(range, slot, 2, [&](Range r) {
                    const Index start = r.begin * outputs;
                    double *s = at.slopes.data() + start;
                    margins_of(x, some, r, at.margins.data() + start);
                    values[slot] += expand(losses, r, at.margins.data() + start, s, at.curvatures.data() + start);
                    reshuffle::combine(losses, r, 1.0 / double(losses.n), s, gradients[slot].data());
                });
            },
            [&](Range, std::size_t slot) {
                total += values[slot];
                for (std::size_t j = 0; j < count; j++) at.gradient[j] += gradients[slot][j];
            });
        at.value = total / double(losses.n);
        passes++;
        x_.assign(x, x + count);
    }

    void margins(const double *v, double *out) {  // a_i^T v for every row, plus the intercept of v
        const std::vector<Index> some = few_entries(v);
        in_pieces(
            ranges_, threads_,
            [&](Range range, std::size_t slot) {
                in_some(range, slot, 1, [&](Range r) { margins_of(v, some, r, out + r.begin * losses.margins()); });
            },
            [](Range, std::size_t) {});
        passes++;
    }

    void combine(const double *table, std::vector<double> &out) {  // (1/n) sum_i w_i table_i a_i, added to out
        std::vector<std::vector<double>> sums(slots());
        in_pieces(
            ranges_, threads_,
            [&](Range range, std::size_t slot) {
                sums[slot].assign(out.size(), 0.0);
                in_some(range, slot, 1, [&](Range r) {
                    reshuffle::combine(losses, r, 1.0 / double(losses.n), table + r.begin * losses.margins(),
                                       sums[slot].data());
                });
            },
            [&](Range, std::size_t slot) {
                for (std::size_t j = 0; j < out.size(); j++) out[j] += sums[slot][j];
            });
        passes++;
    }

    // The Hessian of every row's loss times a change of its margins.
    std::vector<double> bent(const Bends &bends, const double *moved) const {
        std::vector<double> out(change.size());
        const Index outputs = losses.outputs;
        if (outputs == 0) {
            for (std::size_t i = 0; i < out.size(); i++) out[i] = (bends.low[i] * bends.factors[i] + bends.extra) * moved[i];
            return out;
        }
        for (Index i = 0; i < losses.n; i++) {
            const double *p = bends.low.data() + i * outputs, *v = moved + i * outputs;
            double whole = 0.0, along = 0.0, mean = 0.0;
            if (bends.separate) {
                for (Index k = 0; k < outputs; k++)
                    out[std::size_t(i * outputs + k)] = (bends.factors[std::size_t(i)] * p[k] + bends.extra) * v[k];
                continue;
            }
            for (Index k = 0; k < outputs; k++) whole += p[k], along += p[k] * v[k], mean += v[k] / double(outputs);
            for (Index k = 0; k < outputs; k++)
                out[std::size_t(i * outputs + k)] =
                    bends.factors[std::size_t(i)] * p[k] * (whole * v[k] - along) + bends.extra * (v[k] - mean);
        }
        return out;
    }

    // --- the Hessian --------------------------------------------------------------------------------------------------

    // Whether sparse rows are multiplied as dense, centred ones: if many values are stored, or if a column hardly differs
    // from its mean, because its small deviations would be lost in rounding entry by entry. A column of ones has none.
    bool packs(const Active &active) {
        if (dense_) return true;
        double stored = 0.0;
        for (Index j : active.columns) stored += double(counts_[std::size_t(j)]);
        if (stored >= sets::full * double(losses.n) * double(active.size())) return true;
        if (!losses.bias) return false;
        for (Index j : active.columns) {
            const auto k = std::size_t(j);
            if (counts_[k] != losses.n || ones_[k]) continue;
            if (squares()[k] - centre_[k] * centre_[k] <= sets::apart * squares()[k]) return true;
        }
        return false;
    }

    // out = sum_i scales_i b_i b_i^T for rows b_i of the centred active columns (and 1).
    void gram_of(const double *scales, const Active &active, Matrix<double> out) {
        const std::vector<double> shift = shifts(active);
        bool packed = packs(active);
        const Index width = out.rows;
        const auto add_up = [&] {
            summed(out, [&](Range r, Matrix<double> to) {
                with_rows(losses, [&](const auto &rows) {
                    if (packed)
                        add_packed_gram(rows, r, scales + r.begin, active, shift.data(), losses.bias, to);
                    else if constexpr (!std::decay_t<decltype(rows)>::dense)
                        add_scattered_gram(rows, r, scales + r.begin, active, losses.bias, to);
                });
            });
        };
        add_up();
        if (!losses.bias) return;
        const Index last = width - 1;
        const double all = out[last][last];
        if (!packed) {  // (b - m)(b - m)^T, from b b^T
            std::vector<double> ones(std::size_t(last), 0.0);
            for (Index j = 0; j < last; j++) ones[std::size_t(j)] = out[j][last];
            bool lost = false;
            for (Index j = 0; j < last; j++) {
                const double m = shift[std::size_t(j)], s = ones[std::size_t(j)], before = out[j][j];
                for (Index k = 0; k < last; k++) {
                    const double n = shift[std::size_t(k)], t = ones[std::size_t(k)];
                    out[j][k] += m * n * all - (m * t + n * s);
                }
                out[j][last] -= m * all;
                out[last][j] = out[j][last];
                lost = lost || (m != 0.0 && !(out[j][j] > sets::left * before));
            }
            if (lost) {  // in rows with curvature the column equals its mean: only rounding is left
                packed = true;
                add_up();
            }
        }
        for (Index j = 0; j < last; j++) {  // only rounding is left of a constant column, which would be a second intercept
            const double m = shift[std::size_t(j)];
            const double dust = (packed ? sets::constant * sets::constant : sets::constant) * m * m * all;
            const Index column = active.columns[std::size_t(j)];
            if (!((out[j][j] <= dust && m != 0.0) || ones_[std::size_t(column)])) continue;
            const bool even = ones_[std::size_t(column)] || is_even(column);
            if (packed && !even) continue;  // it differs in rows that have no curvature here
            for (Index k = 0; k < width; k++) out[j][k] = out[k][j] = 0.0;
            if (even && all > 0.0) constant[std::size_t(column)] = true;
        }
    }

    // out = (1/n) sum_i w_i (curvature of row i) b_i b_i^T in the coordinates whose feature, a place among the active
    // ones, and output are given; for one output these are all active features (and the intercept).
    void hessian(const Bends &bends, const Active &active, const std::vector<Index> &feature,
                 const std::vector<Index> &output, Matrix<double> out) {
        const Index n = losses.n, outputs = losses.outputs;
        std::vector<double> scales(std::size_t(n), 0.0);
        auto weight = [&](Index i) { return (losses.weights ? losses.weights[i] : 1.0) / double(n); };
        passes++;
        if (outputs == 0) {
            for (Index i = 0; i < n; i++) {
                const auto k = std::size_t(i);
                scales[k] = weight(i) * (bends.low[k] * bends.factors[k] + bends.extra);
            }
            gram_of(scales.data(), active, out);
            return;
        }
        if (bends.separate)
            spread(gram_of_each(bends, active, scales), feature, output, out);
        else if (dense_)
            blocks(bends, active, feature, output, scales, out);
        else
            pairs(bends, active, feature, output, scales, out);
    }

    // --- the model ----------------------------------------------------------------------------------------------------

    template <class Form>
    Minimum model(const Form &form, const double *x, const Bends &bends, double accuracy, double least, bool complete) {
        const Index outputs = losses.margins(), penalised = losses.penalised();
        const auto coordinates = std::size_t(penalised);
        std::vector<double> model_gradient = at.gradient, beyond(coordinates), zeros;
        std::vector<unsigned char> chosen(coordinates, 0), held(std::size_t(size()), 0);
        Index support = penalised - std::count(x, x + penalised, 0.0);
        hold(form, held.data());
        Minimum all{0.0, 0.0, 0.0, 0};
        std::fill(d.begin(), d.end(), 0.0);
        // a set that may lack features is solved roughly, and again finely once none is missing
        double own = complete ? std::max(accuracy, sets::early) : accuracy;
        bool missing = true;
        for (int turn = 0;; turn++) {
            if (missing) {
                if (own > accuracy && turn < sets::turns)
                    for (std::size_t j = 0; j < coordinates; j++) chosen[j] = chosen[j] && x[j] + d[j] != 0.0;
                excess(form, x, model_gradient.data(), beyond.data());
                choose(form, beyond, support, chosen);
                list(chosen);
            }
            const bool whole = Index(kept_.size()) == penalised;
            if (whole) own = accuracy;
            const Minimum found = minimise_over(form, x, bends, own, least, support, missing);
            all = {all.decrease + found.decrease, found.left, found.length, all.rounds + found.rounds};
            if (losses.outputs > 0 && !bends.separate) take_out_shifts(held.data(), losses.width(), outputs, d.data());
            margins(d.data(), change.data());
            if (!complete || whole) break;
            model_gradient = at.gradient;
            combine(bent(bends, change.data()).data(), model_gradient);
            zeros.assign(coordinates, 0.0);
            excess(form, zeros.data(), model_gradient.data(), beyond.data());
            missing = false;
            for (std::size_t j = 0; j < coordinates; j++) missing = missing || (beyond[j] > 0.0 && !chosen[j]);
            if (!missing && own <= accuracy) break;
            if (!missing) own = accuracy;
        }
        return all;
    }

    void move_along_null(double *out) {
        std::vector<double> null(std::size_t(size()), 0.0);
        uncentred(room_.null.data(), null.data());
        margins(null.data(), out);
    }

    double put_back(const double *u, double *x, double *g) const {
        std::copy(u, u + size(), x);
        std::copy(at.gradient.begin(), at.gradient.end(), g);
        return 0.0;
    }

  private:
    Index threads_;
    std::vector<Range> ranges_;
    std::vector<double> centre_;
    std::vector<unsigned char> ones_;
    std::vector<Index> counts_;
    std::vector<double> squares_, x_;
    std::vector<unsigned char> even_;  // columns whose entries are all equal; empty until they are checked
    bool dense_ = false;
    Active active_;                        // of the last working set:
    std::vector<Index> kept_;              // its coordinates that are penalised, in the numbering of all,
    std::vector<Index> feature_, output_;  // the feature, as a place among the active ones, and output of every coordinate
    std::vector<double> H_, start_, u_, slope_, gram_;
    Part part_;
    Workspace room_;

    std::size_t slots() const { return std::size_t(std::max<Index>(threads_, 1)); }

    // Parts of a range that are read `times` times while they are in the cache; the calling thread checks for interruption.
    template <class F>
    void in_some(Range range, std::size_t slot, int times, F &&f) {
        const double each = double(with_rows(losses, [&](const auto &rows) {
            return losses.n > 0 ? rows.length(range.begin) : Index(0);
        }));
        const Index fit = times > 1 && dense_ ? sets::cached / std::max<Index>(losses.features, 1) : together;
        const Index most = std::min(std::max<Index>(fit, 8), together);
        for (Index i = range.begin; i < range.end; i += most) {
            const Range r{i, std::min(i + most, range.end)};
            f(r);
            if (slot == 0) listener.worked(double(times) * double(r.end - r.begin) * (each + 16.0) * double(losses.margins()));
        }
    }

    // The nonzero entries of v if rows are dense and these are few; otherwise empty.
    std::vector<Index> few_entries(const double *v) const {
        std::vector<Index> found;
        if (!dense_ || losses.outputs > 0) return found;
        for (Index j = 0; j < losses.features; j++)
            if (v[j] != 0.0) found.push_back(j);
        if (Index(found.size()) * sets::sparse > losses.features) found.clear();
        return found;
    }

    void margins_of(const double *v, const std::vector<Index> &some, Range r, double *out) const {
        with_rows(losses, [&](const auto &rows) {
            if constexpr (std::decay_t<decltype(rows)>::dense) {
                if (!some.empty()) {
                    const double shift = losses.bias ? v[losses.width() - 1] : 0.0;
                    for (Index i = r.begin; i < r.end; i++) {
                        const auto *a = rows.row(i);
                        double z = 0.0;
                        for (Index j : some) z += double(a[j]) * v[j];
                        out[i - r.begin] = z + shift;
                    }
                    return;
                }
            }
            reshuffle::margins(losses, r, v, out);
        });
    }

    // --- pieces of the Hessian ----------------------------------------------------------------------------------------

    // out = the sum of work(range, to) over all rows, both triangles.
    template <class Work>
    void summed(Matrix<double> out, Work &&work) {
        std::fill(out.data, out.data + out.rows * out.columns, 0.0);
        const bool alone = ranges_.size() <= 1;
        std::vector<std::vector<double>> sums(alone ? 0 : slots());
        const double each = 0.5 * double(out.rows) * double(out.rows);
        const Index most = std::max(Index(pieces::work / std::max(each, 1.0)) / gram::packed, Index(1)) * gram::packed;
        in_pieces(
            ranges_, threads_,
            [&](Range range, std::size_t slot) {
                Matrix<double> to = out;
                if (!alone) {
                    sums[slot].assign(std::size_t(out.rows * out.columns), 0.0);
                    to.data = sums[slot].data();
                }
                for (Index i = range.begin; i < range.end; i += most) {
                    const Range r{i, std::min(i + most, range.end)};
                    work(r, to);
                    if (slot == 0) listener.worked(each * double(r.end - r.begin));
                }
            },
            [&](Range, std::size_t slot) {
                if (!alone)
                    for (std::size_t k = 0; k < sums[slot].size(); k++) out.data[k] += sums[slot][k];
            });
        mirror(out);
    }

    std::vector<double> shifts(const Active &active) const {
        std::vector<double> found;
        for (Index j : active.columns) found.push_back(centre_[std::size_t(j)]);
        return found;
    }

    const std::vector<double> &squares() {
        if (squares_.empty() && losses.features > 0) {
            squares_.assign(std::size_t(losses.features), 0.0);
            with_rows(losses, [&](const auto &rows) {
                for (Index i = 0; i < losses.n; i++) {
                    const double weight = (losses.weights ? losses.weights[i] : 1.0) / double(losses.n);
                    rows.for_each(i, [&](Index j, double a) { squares_[std::size_t(j)] += weight * a * a; });
                }
            });
        }
        return squares_;
    }

    // Whether a column has the same entry, up to rounding, in every row with weight. The Hessian cannot tell: rows in which the
    // column differs may have no curvature, or one that overflows.
    bool is_even(Index column) {
        if (even_.empty()) {
            const auto features = std::size_t(losses.features);
            std::vector<double> least(features, infinity), most(features, -infinity);
            std::vector<Index> stored(features, 0);
            Index rows_that_count = 0;
            with_rows(losses, [&](const auto &rows) {
                for (Index i = 0; i < losses.n; i++) {
                    if (losses.weights && !(losses.weights[i] > 0.0)) continue;
                    rows_that_count++;
                    rows.for_each(i, [&](Index j, double a) {
                        const auto k = std::size_t(j);
                        least[k] = smaller(least[k], a), most[k] = larger(most[k], a), stored[k]++;
                    });
                }
            });
            even_.resize(features);
            for (std::size_t k = 0; k < features; k++)
                even_[k] = stored[k] == rows_that_count && most[k] - least[k] <= 2.0 * sets::constant * std::fabs(centre_[k]);
        }
        return even_[std::size_t(column)];
    }

    // Several independent outputs with the same curvature: one Gram matrix for all.
    Matrix<double> gram_of_each(const Bends &bends, const Active &active, std::vector<double> &scales) {
        const Index n = losses.n, width = active.size() + losses.bias;
        for (Index i = 0; i < n; i++) {
            const auto row = std::size_t(i);
            const double bend = bends.low[row * std::size_t(losses.outputs)] * bends.factors[row] + bends.extra;
            scales[row] = (losses.weights ? losses.weights[i] : 1.0) / double(n) * bend;
        }
        gram_.resize(std::size_t(width * width));
        const Matrix<double> G{gram_.data(), width, width};
        gram_of(scales.data(), active, G);
        return G;
    }

    static void spread(Matrix<const double> G, const std::vector<Index> &feature, const std::vector<Index> &output,
                       Matrix<double> out) {
        for (std::size_t a = 0; a < feature.size(); a++)
            for (std::size_t b = 0; b < feature.size(); b++)
                out[Index(a)][b] = output[a] == output[b] ? G[feature[a]][feature[b]] : 0.0;
    }

    // Several outputs on sparse rows: a Gram matrix for each pair of outputs.
    void pairs(const Bends &bends, const Active &active, const std::vector<Index> &feature, const std::vector<Index> &output,
               std::vector<double> &scales, Matrix<double> out) {
        const Index n = losses.n, outputs = losses.outputs, width = active.size() + losses.bias, size = out.rows;
        std::vector<double> room(std::size_t(width * width));
        const Matrix<double> G{room.data(), width, width};
        std::fill(out.data, out.data + size * size, 0.0);
        for (Index k = 0; k < outputs; k++)
            for (Index o = 0; o < k; o++) {
                for (Index i = 0; i < n; i++) {
                    const double *p = bends.low.data() + i * outputs;
                    const double both = bends.factors[std::size_t(i)] * p[k] * p[o] + bends.extra / double(outputs);
                    scales[std::size_t(i)] = (losses.weights ? losses.weights[i] : 1.0) / double(n) * both;
                }
                gram_of(scales.data(), active, G);
                for (Index a = 0; a < size; a++)
                    for (Index b = 0; b < size; b++) {
                        const Index one = output[std::size_t(a)], other = output[std::size_t(b)];
                        const double entry = G[feature[std::size_t(a)]][feature[std::size_t(b)]];
                        if ((one == k && other == o) || (one == o && other == k)) out[a][b] = -entry;
                        if (one == other && (one == k || one == o)) out[a][b] += entry;
                    }
            }
    }

    // Several outputs on dense rows. Between outputs the Hessian is one product of matrices, -sum_i (p_ik b_i)(p_il b_i)^T;
    // within an output it is a Gram matrix with the weights p_k sum_{l != k} p_l, a sum that loses no digits if p_k is close
    // to one.
    void blocks(const Bends &bends, const Active &active, const std::vector<Index> &feature, const std::vector<Index> &output,
                std::vector<double> &scales, Matrix<double> out) {
        const Index n = losses.n, outputs = losses.outputs, size = out.rows;
        const std::vector<double> shift = shifts(active);
        std::vector<double> roots(std::size_t(n * outputs)), room;
        auto weight = [&](Index i) { return (losses.weights ? losses.weights[i] : 1.0) / double(n); };
        for (Index i = 0; i < n; i++)
            for (Index k = 0; k < outputs; k++)
                roots[std::size_t(i * outputs + k)] =
                    std::sqrt(weight(i) * bends.factors[std::size_t(i)]) * bends.low[std::size_t(i * outputs + k)];
        summed(out, [&](Range r, Matrix<double> to) {
            with_rows(losses, [&](const auto &rows) {
                add_gram_between(rows, r, roots.data() + r.begin * outputs, outputs, active, shift.data(), losses.bias,
                                 feature.data(), output.data(), to);
            });
        });
        for (Index k = 0; k < size * size; k++) out.data[k] = -out.data[k];
        if (bends.extra > 0.0) {
            const Index width = active.size() + losses.bias;
            room.resize(std::size_t(width * width));
            const Matrix<double> G{room.data(), width, width};
            for (Index i = 0; i < n; i++) scales[std::size_t(i)] = weight(i) * bends.extra / double(outputs);
            gram_of(scales.data(), active, G);
            for (Index a = 0; a < size; a++)
                for (Index b = 0; b < size; b++) out[a][b] -= G[feature[std::size_t(a)]][feature[std::size_t(b)]];
        }
        std::vector<Index> own;
        Active some;
        for (Index k = 0; k < outputs; k++) {
            own.clear(), some.columns.clear();
            for (Index a = 0; a < size; a++)
                if (output[std::size_t(a)] == k) {
                    own.push_back(a);
                    const Index f = feature[std::size_t(a)];
                    if (f < active.size()) some.columns.push_back(active.columns[std::size_t(f)]);
                }
            some.choose(losses.features);
            for (Index i = 0; i < n; i++) {
                const double *p = bends.low.data() + i * outputs;
                double others = 0.0;
                for (Index o = 0; o < outputs; o++) others += o != k ? p[o] : 0.0;
                const double each = bends.factors[std::size_t(i)] * p[k] * others + bends.extra * (1.0 - 1.0 / double(outputs));
                scales[std::size_t(i)] = weight(i) * each;
            }
            const Index width = Index(own.size());
            room.resize(std::size_t(width * width));
            const Matrix<double> G{room.data(), width, width};
            gram_of(scales.data(), some, G);
            for (Index a = 0; a < width; a++)
                for (Index b = 0; b < width; b++) out[own[std::size_t(a)]][own[std::size_t(b)]] = G[a][b];
        }
        for (Index a = 0; a < size; a++) {
            const Index f = feature[std::size_t(a)];
            if (f == active.size() || !constant[std::size_t(active.columns[std::size_t(f)])]) continue;
            for (Index b = 0; b < size; b++) out[a][b] = out[b][a] = 0.0;
        }
    }

    // --- working sets -------------------------------------------------------------------------------------------------

    // The coordinates of the next working set, added to the last one: those that are not zero or would move, by decreasing gain.
    template <class Form>
    void choose(const Form &form, const std::vector<double> &beyond, Index support, std::vector<unsigned char> &chosen) {
        std::vector<Index> want;
        for (Index j = 0; j < Index(beyond.size()); j++) {
            const auto k = std::size_t(j);
            if (beyond[k] == infinity)
                chosen[k] = true;
            else if (beyond[k] > 0.0 && !chosen[k])
                want.push_back(j);
        }
        const Index most = std::max(sets::few, support);
        if (Index(want.size()) > most) {
            const std::vector<double> &square = squares();
            auto gain = [&](Index j) {  // of a step of this coordinate alone, without the curvature of the loss
                const double b = beyond[std::size_t(j)], s = square[std::size_t(j / losses.margins())];
                return s > 0.0 ? b * b / s : 0.0;
            };
            std::vector<double> gains(want.size());
            std::vector<std::size_t> order(want.size());
            std::iota(order.begin(), order.end(), std::size_t(0));
            for (std::size_t k = 0; k < want.size(); k++) gains[k] = gain(want[k]);
            std::nth_element(order.begin(), order.begin() + most, order.end(), [&](std::size_t a, std::size_t b) {
                return gains[a] != gains[b] ? gains[a] > gains[b] : a < b;
            });
            for (Index k = 0; k < most; k++) chosen[std::size_t(want[order[std::size_t(k)]])] = true;
        } else {
            for (Index j : want) chosen[std::size_t(j)] = true;
        }
        close_set(form, losses.features, losses.margins(), chosen);
    }

    // The active features of the chosen coordinates, and the coordinates of the model: these, and the intercepts.
    void list(const std::vector<unsigned char> &chosen) {
        const Index outputs = losses.margins();
        active_.columns.clear(), kept_.clear(), feature_.clear(), output_.clear();
        for (Index f = 0; f < losses.features; f++) {
            bool any = false;
            for (Index o = 0; o < outputs; o++) {
                if (!chosen[std::size_t(f * outputs + o)]) continue;
                if (!any) active_.columns.push_back(f), any = true;
                kept_.push_back(f * outputs + o);
                feature_.push_back(active_.size() - 1), output_.push_back(o);
            }
        }
        for (Index o = 0; losses.bias && o < outputs; o++) feature_.push_back(active_.size()), output_.push_back(o);
        active_.choose(losses.features);
    }

    // The model over the listed coordinates, starting at the solution for the last set; d <- the step to its minimum.
    // The Hessian is that of the last call unless the coordinates are `others`.
    template <class Form>
    Minimum minimise_over(const Form &form, const double *x, const Bends &bends, double accuracy, double least,
                          Index &support, bool others) {
        const Index count = Index(feature_.size()), outputs = losses.margins(), features = losses.features;
        const bool apart = bends.separate && std::is_same_v<Form, Coordinates>;
        if (!apart && others) {
            H_.resize(std::size_t(count * count));
            hessian(bends, active_, feature_, output_, Matrix<double>{H_.data(), count, count});
        }
        start_.resize(std::size_t(count)), u_.resize(std::size_t(count)), slope_.resize(std::size_t(count));
        for (Index a = 0; a < count; a++) {
            const auto k = std::size_t(a);
            const Index f = feature_[k], o = output_[k];
            if (f == active_.size()) {
                double shift = d[std::size_t(features * outputs + o)];
                for (Index j : active_.columns) shift += centre_[std::size_t(j)] * d[std::size_t(j * outputs + o)];
                start_[k] = 0.0, u_[k] = shift, slope_[k] = at.gradient[std::size_t(features * outputs + o)];
                continue;
            }
            const Index column = active_.columns[std::size_t(f)], j = column * outputs + o;
            start_[k] = x[j], u_[k] = x[j] + d[std::size_t(j)], slope_[k] = at.gradient[std::size_t(j)];
            if (!losses.bias) continue;
            slope_[k] -= centre_[std::size_t(column)] * at.gradient[std::size_t(features * outputs + o)];
            if (constant[std::size_t(column)]) slope_[k] = 0.0;
        }
        Minimum found{0.0, 0.0, 0.0, 0};
        if constexpr (std::is_same_v<Form, Coordinates>)
            if (apart) found = minimise_each(form, bends, accuracy, least);
        if (!apart)
            found = minimise(part_.of(form, kept_), Matrix<double>{H_.data(), count, count}, slope_.data(), start_.data(),
                             u_.data(), accuracy, least, room_);
        support = count - std::count(u_.begin(), u_.end(), 0.0);
        for (std::size_t k = 0; k < u_.size(); k++) u_[k] -= start_[k];
        uncentred(u_.data(), d.data());
        return found;
    }

    // If neither the rows nor the penalty couple the outputs, each is minimised by itself. The shortest direction without
    // curvature represents all outputs.
    Minimum minimise_each(const Coordinates &form, const Bends &bends, double accuracy, double least) {
        std::vector<double> null(feature_.size(), 0.0), slope, start, u;
        std::vector<Index> own, kept, feature;
        std::vector<double> scales(std::size_t(losses.n));
        const Matrix<const double> G = gram_of_each(bends, active_, scales);
        Minimum all{0.0, 0.0, 0.0, 0};
        passes++;
        for (Index o = 0; o < losses.outputs; o++) {
            own.clear(), kept.clear(), feature.clear(), slope.clear(), start.clear(), u.clear();
            for (std::size_t k = 0; k < feature_.size(); k++) {
                if (output_[k] != o) continue;
                own.push_back(Index(k)), feature.push_back(feature_[k]);
                if (k < kept_.size()) kept.push_back(kept_[k]);
                slope.push_back(slope_[k]), start.push_back(start_[k]), u.push_back(u_[k]);
            }
            if (own.empty()) continue;
            const Index count = Index(own.size());
            H_.resize(std::size_t(count * count));
            const Matrix<double> H{H_.data(), count, count};
            spread(G, feature, std::vector<Index>(own.size(), o), H);
            const Minimum found = minimise(part_.of(form, kept), H, slope.data(), start.data(), u.data(), accuracy,
                                           least / double(losses.outputs), room_);
            for (std::size_t k = 0; k < own.size(); k++)
                u_[std::size_t(own[k])] = u[k], null[std::size_t(own[k])] = room_.null[k];
            const double length = all.length == 0.0 || found.length == 0.0 ? std::max(all.length, found.length)
                                                                           : std::min(all.length, found.length);
            all = {all.decrease + found.decrease, all.left + found.left, length, all.rounds + found.rounds};
        }
        room_.null = null;
        return all;
    }

    // Converts a step in the centred coordinates of the last model to a step of x.
    void uncentred(const double *moved, double *out) const {
        const Index outputs = losses.margins(), last = losses.features * outputs;
        std::fill(out, out + size(), 0.0);
        for (std::size_t k = 0; k < feature_.size(); k++) {
            const Index f = feature_[k], o = output_[k];
            if (f == active_.size()) {
                out[last + o] += moved[k];
            } else {
                const Index column = active_.columns[std::size_t(f)];
                out[column * outputs + o] = moved[k];
                if (losses.bias) out[last + o] -= centre_[std::size_t(column)] * moved[k];
            }
        }
    }
};

}  // namespace reshuffle
