// Rows with targets, weights and a loss, the argument of every kernel.
//
//     f(x) = (1/n) sum_i w_i l(a_i^T x + b + o_i, y_i)
//
// Margins z_i = a_i^T x + b do not include the offsets o_i, so that they are linear in x; code that evaluates a loss adds the offset.
// The loss of row i is thus z -> l(z + o_i, y_i), whose conjugate is l*(s, y_i) - s o_i.
//
// `with(samples, go)` calls go(rows, loss, targets) with their true types, so that loops are compiled for each layout
// and each loss. `with_rows` and `with_loss` do so for one of the two.
#pragma once
#include "class_links.hpp"
#include "log_links.hpp"
#include "loss_sums.hpp"
#include "penalties.hpp"
#include "rows.hpp"
#include "vector_losses.hpp"

namespace reshuffle {

using AnyLoss = std::variant<Logistic, Squared, Huber, SquaredHinge, Quantile, Poisson, Gamma, Tweedie, NegativeBinomial,
                             ComplementaryLogLog, Probit, Given, Multinomial, SquaredOutputs, GivenOutputs<std::int32_t>,
                             GivenOutputs<double>>;

struct Samples {
    Rows rows;
    AnyLoss loss;
    Span<const double> numbers;         // targets that are numbers: one a row, or K a row
    Span<const std::int32_t> classes;   // targets that are classes
    Span<const double> weights;         // empty where all are 1
    Span<const double> offsets;         // of losses with one margin; empty where all are 0
    bool bias = false;                  // whether the last entry (row) of x is an intercept
    Index n = 0, features = 0;
    Index outputs = 0;                  // 0 for a loss of one margin

    Index width() const { return features + bias; }                    // entries (rows) of x
    Index margins() const { return outputs > 0 ? outputs : 1; }        // of one row
    Index unknowns() const { return width() * margins(); }
    Index penalised() const { return features * margins(); }           // entries of x before its intercept
    double offset(Index i) const { return offsets ? offsets[i] : 0.0; }
};

template <class L>
const auto *targets_of(const Samples &s, const L &) {
    if constexpr (VectorLoss<L>) {
        if constexpr (std::is_same_v<typename L::Target, std::int32_t>)
            return s.classes.data;
        else
            return s.numbers.data;
    } else {
        return s.numbers.data;
    }
}

// The unknown in the shape for this loss: a vector, or a matrix with one column per output.
template <class L, class T>
auto unknown(const L &, const Samples &s, T *x) {
    if constexpr (VectorLoss<L>)
        return Matrix<T>{x, s.width(), s.outputs};
    else
        return Span<T>{x, s.width()};
}

template <class F>
decltype(auto) with(const Samples &s, F &&go) {
    return std::visit([&](const auto &rows, const auto &loss) -> decltype(auto) { return go(rows, loss, targets_of(s, loss)); },
                      s.rows, s.loss);
}

template <class F>
decltype(auto) with_loss(const Samples &s, F &&go) {
    return std::visit([&](const auto &loss) -> decltype(auto) { return go(loss, targets_of(s, loss)); }, s.loss);
}

template <class F>
decltype(auto) with_rows(const Samples &s, F &&go) {
    return std::visit(go, s.rows);
}

}  // namespace reshuffle
