// Bindings of the passes with clipped gradients and noise.
#include "bound_samples.hpp"
#include "clipped_sweep.hpp"

namespace reshuffle {

namespace {

using nb::arg;

double clipped_sweep_of(const BoundSamples &b, Array<const double> weights, Array<const Visit> visits, Array<const Index> ends,
                        double average, Flat x, double step, double ridge, double bound, double sigma,
                        Array2<const double> noise, double prox_step, const BoundForm &form, double scale) {
    const Samples &s = b.samples;
    require(weights.size() == 0 || Index(weights.size()) == s.n, "weights must have one entry per row, or none");
    require(bound > 0.0 && std::isfinite(bound), "the bound of clipped gradients must be positive and finite");
    require(size_of(form.form) <= s.penalised(), "the penalty has more coordinates than x");
    require(noise.shape(0) == ends.size() && Index(noise.shape(1)) == s.unknowns(), "noise must have a row of all unknowns per batch");
    for (Visit i : view(visits)) require(Index(i) < s.n, "a visit lies beyond the samples");
    Index before = 0, longest = 1;
    for (Index end : view(ends)) {
        require(before <= end && end <= Index(visits.size()), "ends of batches fall, or lie beyond the visits");
        longest = std::max(longest, end - before);
        before = end;
    }
    require(before == Index(visits.size()), "the last batch must end with the visits");
    double *at = unknowns(s, x);
    Free free;
    std::vector<double> coefs(std::size_t(longest * s.margins()));
    const Sweep how{view(visits), longest, average, step, ridge, prox_step, 0};
    const Clipping clipping{bound, sigma, view(ends), noise.data()};
    return with(s, [&](const auto &rows, const auto &loss, const auto *y) {
        return clipped_sweep(rows, loss, y, view(weights), s.offsets, s.bias, how, clipping, form.form, unknown(loss, s, at),
                             s.penalised(), scale, coefs.data());
    });
}

}  // namespace

void bind_private(nb::module_ &m) {
    const auto fixed = [](const char *name) { return arg(name).noconvert(); };
    m.def("clipped_sweep", &clipped_sweep_of, arg("samples"), fixed("weights"), fixed("visits"), fixed("ends"), arg("average"),
          fixed("x"), arg("step"), arg("ridge"), arg("bound"), arg("sigma"), fixed("noise"), arg("prox_step"), arg("form"),
          arg("scale"));
}

}  // namespace reshuffle
