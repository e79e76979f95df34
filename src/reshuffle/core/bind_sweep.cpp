// Bindings of the shuffled passes: the sweep, and the sweeps of many clients.
#include "bound_samples.hpp"
#include "clients.hpp"
#include "sweep.hpp"

namespace reshuffle {

namespace {

using nb::arg;

constexpr Index ahead = 8;  // Rows are prefetched this far ahead: memory has time to answer, and they stay in the first cache.

void check_visits(const Samples &s, Span<const Visit> visits) {
    Visit largest = 0;
    for (Visit i : visits) largest = std::max(largest, i);
    require(!visits || Index(largest) < s.n, "a visit lies beyond the samples");
}

double sweep_of(const BoundSamples &b, Array<const double> weights, Array<const Visit> visits, Index batch, double average,
                Flat x, double step, double ridge, double prox_step, const BoundForm &form, double scale) {
    const Samples &s = b.samples;
    require(weights.size() == 0 || Index(weights.size()) == s.n, "weights must have one entry per row, or none");
    require(batch > 0, "a batch must have at least one visit");
    require(size_of(form.form) <= s.penalised(), "the penalty has more coordinates than x");
    check_visits(s, view(visits));
    batch = std::min(batch, std::max(Index(visits.size()), Index(1)));  // it has room of its own
    double *at = unknowns(s, x);
    Free free;
    std::vector<double> coefs(std::size_t(batch * s.margins()));
    const Sweep how{view(visits), batch, average, step, ridge, prox_step, ahead};
    return with(s, [&](const auto &rows, const auto &loss, const auto *y) {
        return sweep(rows, loss, y, view(weights), s.offsets, s.bias, how, form.form, unknown(loss, s, at), s.penalised(), scale,
                     coefs.data());
    });
}

void clients_of(const BoundSamples &b, Array<const Index> bounds, Array<const double> uniforms, Array<Visit> visits,
                Index batch, Array<const double> averages, FlatIn x, Flat models, double step, double ridge) {
    const Samples &s = b.samples;
    const Span<const Index> ends = view(bounds);
    require(ends.size >= 1 && ends[0] >= 0 && ends[ends.size - 1] <= s.n, "bounds of clients lie outside the samples");
    for (Index c = 0; c + 1 < ends.size; c++) require(ends[c] <= ends[c + 1], "bounds of clients fall");
    require(Index(visits.size()) >= s.n && Index(uniforms.size()) + 1 >= ends[ends.size - 1], "too few random numbers");
    require(Index(averages.size()) == ends.size - 1, "averages must have one entry per client");
    require(Index(models.size()) == (ends.size - 1) * s.unknowns(), "models must have one row per client");
    require(batch > 0, "a batch must have at least one visit");
    for (double u : view(uniforms)) require(0.0 <= u && u < 1.0, "random numbers must lie in [0, 1)");
    batch = std::min(batch, std::max(s.n, Index(1)));  // it has room of its own
    const Span<const double> at{unknowns(s, x), s.unknowns()};
    Free free;
    std::vector<double> coefs(std::size_t(batch * s.margins()));
    with(s, [&](const auto &rows, const auto &loss, const auto *y) {
        const auto shaped = [&](double *model) { return unknown(loss, s, model); };
        clients(rows, loss, y, s.weights, s.offsets, s.bias, ends, view(uniforms), view(visits), batch, view(averages), at,
                models.data(), shaped, s.penalised(), step, ridge, ahead, coefs.data());
    });
}

// Functions for users' own loops, called by address, one sample at a time; the caller keeps the samples object alive.

double slope_alone(const Samples *s, std::int64_t i, const double *x) {
    return with(*s, [&](const auto &rows, const auto &loss, const auto *y) -> double {
        if constexpr (VectorLoss<std::decay_t<decltype(loss)>>) {
            return 0.0;
        } else {
            const double z = rows.dot(i, x) + (s->bias ? x[s->features] : 0.0) + s->offset(i);
            return loss.template slope<Alone>(z, y[i]);
        }
    });
}

void add_alone(const Samples *s, std::int64_t i, double slope, double *out) {
    const double c = s->weights ? s->weights[i] * slope : slope;
    with_rows(*s, [&](const auto &rows) { rows.add(i, c, out); });
    if (s->bias) out[s->features] += c;
}

void prox_alone(const Form *form, double *x, double step) { prox(*form, x, step); }

}  // namespace

void bind_sweep(nb::module_ &m) {
    const auto fixed = [](const char *name) { return arg(name).noconvert(); };
    m.def("sweep", &sweep_of, arg("samples"), fixed("weights"), fixed("visits"), arg("batch"), arg("average"), fixed("x"),
          arg("step"), arg("ridge"), arg("prox_step"), arg("form"), arg("scale"));
    m.def("clients", &clients_of, arg("samples"), fixed("bounds"), fixed("uniforms"), fixed("visits"), arg("batch"),
          fixed("averages"), fixed("x"), fixed("models"), arg("step"), arg("ridge"));
    m.def("single_function_addresses", [] {
        return nb::make_tuple(reinterpret_cast<std::uintptr_t>(&slope_alone), reinterpret_cast<std::uintptr_t>(&add_alone),
                              reinterpret_cast<std::uintptr_t>(&prox_alone));
    });
    m.def("address", [](const BoundSamples &b) { return reinterpret_cast<std::uintptr_t>(&b.samples); });
    m.def("address", [](const BoundForm &b) { return reinterpret_cast<std::uintptr_t>(&b.form); });
}

}  // namespace reshuffle
