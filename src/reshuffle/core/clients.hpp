// Many small clients in one call: each a shuffled sweep from the same model.
//
// Training a client of ten samples takes a microsecond, calling it from Python ten, and calls from several threads wait
// for each other. So the clients of a host lie in one matrix, client after client: client c has the rows
// bounds[c] ... bounds[c + 1] - 1, visits them in an order drawn from `uniforms`, and leaves its model in models[c].
#pragma once
#include "shuffle.hpp"
#include "sweep.hpp"

namespace reshuffle {

// `shaped` gives a model, which is flat, the shape that the sweep of this loss takes.
template <class R, class L, class T, class Shaped>
void clients(const R &rows, const L &loss, const T *targets, Span<const double> weights,
             Span<const double> offsets, bool bias, Span<const Index> bounds,
             Span<const double> uniforms, Span<Visit> visits, Index batch, Span<const double> averages, Span<const double> x,
             double *models, Shaped &&shaped, Index penalised, double step, double ridge, Index ahead, double *coefs) {
    for (Index c = 0; c + 1 < bounds.size; c++) {
        const Index first = bounds[c], last = bounds[c + 1];
        for (Index k = first; k < last; k++) visits[k] = Visit(k);
        const Span<Visit> own = visits.part(first, last);
        if (last > first) shuffle(own, uniforms.part(first, last - 1), last - first - 1);
        double *model = models + c * x.size, scale = 1.0;
        std::copy(x.begin(), x.end(), model);
        const Sweep s{own, batch, averages[c], step, ridge, 0.0, ahead};
        scale = sweep(rows, loss, targets, weights, offsets, bias, s, Coordinates{}, shaped(model), penalised, 1.0, coefs);
        if (scale != 1.0) folded(model, penalised, scale);
    }
}

}  // namespace reshuffle
