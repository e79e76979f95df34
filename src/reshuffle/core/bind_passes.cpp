// Bindings of the passes over rows in storage order.
#include "bound_samples.hpp"
#include "passes.hpp"

namespace reshuffle {

namespace {

using nb::arg;

double value_of(const BoundSamples &b, FlatIn x, Index begin, Index end, double total) {
    check_range(b.samples, begin, end);
    const double *at = unknowns(b.samples, x);
    Free free;
    return value(b.samples, {begin, end}, at, total);
}

// an empty table means that slopes are not kept
void tabulate_of(const BoundSamples &b, FlatIn x, Index begin, Index end, double factor, Flat table, Flat out) {
    check_range(b.samples, begin, end);
    if (table.size() > 0) check_rows(b.samples, table, begin, end);
    const double *at = unknowns(b.samples, x);
    double *to = unknowns(b.samples, out);
    Free free;
    tabulate(b.samples, {begin, end}, at, factor, table.size() > 0 ? table.data() : nullptr, to);
}

void margins_of(const BoundSamples &b, FlatIn x, Index begin, Index end, Flat out) {
    check_range(b.samples, begin, end);
    check_rows(b.samples, out, begin, end);
    const double *at = unknowns(b.samples, x);
    Free free;
    margins(b.samples, {begin, end}, at, out.data());
}

void combine_of(const BoundSamples &b, FlatIn table, Index begin, Index end, double factor, Flat out) {
    check_range(b.samples, begin, end);
    check_rows(b.samples, table, begin, end);
    double *to = unknowns(b.samples, out);
    Free free;
    combine(b.samples, {begin, end}, factor, table.data(), to);
}

// out <- out + factor sum_i w_i a_i, one number per feature
void column_sums(const BoundSamples &b, Index begin, Index end, double factor, Array<double> out) {
    const Samples &s = b.samples;
    check_range(s, begin, end);
    require(Index(out.size()) == s.features, "out has not one entry per feature");
    Free free;
    with_rows(s, [&](const auto &rows) {
        for (Index i = begin; i < end; i++) rows.add(i, s.weights ? s.weights[i] * factor : factor, out.data());
    });
}

void slopes_at(const BoundSamples &b, Index begin, Index end, Flat table) {
    check_range(b.samples, begin, end);
    check_rows(b.samples, table, begin, end);
    Free free;
    slopes_of(b.samples, {begin, end}, table.data());
}

// l(z_k, y_i) of the k-th visit i, at given margins
void losses_at(const BoundSamples &b, Flat z, Array<const Visit> order, Array<double> out) {
    const Samples &s = b.samples;
    const Index n = Index(order.size()), each = s.margins();
    require(Index(z.size()) == n * each && Index(out.size()) == n, "margins or losses have not one entry per visit");
    for (Visit i : view(order)) require(Index(i) < s.n, "a visit lies beyond the samples");
    Free free;
    with_loss(s, [&](const auto &loss, const auto *y) {
        for (Index k = 0; k < n; k++) {
            const Index i = order.data()[k];
            if constexpr (VectorLoss<std::decay_t<decltype(loss)>>)
                out.data()[k] = loss.value(z.data() + k * each, each, y, i);
            else
                out.data()[k] = loss.template value<InRows>(z.data()[k] + s.offset(i), y[i]);
        }
    });
}

double conjugates_of(const BoundSamples &b, FlatIn table, Index begin, Index end, double factor, double total) {
    check_range(b.samples, begin, end);
    check_rows(b.samples, table, begin, end);
    require(has_conjugate(b.samples), "the loss has no conjugate");
    Free free;
    return conjugates(b.samples, {begin, end}, table.data(), factor, total);
}

double linearise_of(const BoundSamples &b, FlatIn x, Index begin, Index end, double factor, Flat z, Flat slopes, Flat bends,
                    Flat out, double total) {
    check_range(b.samples, begin, end);
    for (const Flat *a : {&z, &slopes, &bends}) check_rows(b.samples, *a, begin, end);
    require(has_bend(b.samples), "the loss has no second derivative");
    const double *at = unknowns(b.samples, x);
    double *to = unknowns(b.samples, out);
    Free free;
    return linearise(b.samples, {begin, end}, at, factor, z.data(), slopes.data(), bends.data(), to, total);
}

double expand_of(const BoundSamples &b, FlatIn z, Index begin, Index end, Flat slopes, Flat bends, double total) {
    check_range(b.samples, begin, end);
    check_rows(b.samples, z, begin, end);
    for (const Flat *a : {&slopes, &bends}) check_rows(b.samples, *a, begin, end);
    require(has_bend(b.samples), "the loss has no second derivative");
    Free free;
    in_blocks({begin, end}, [&](Range r) {
        const Index at = (r.begin - begin) * b.samples.margins();
        total += expand(b.samples, r, z.data() + at, slopes.data() + at, bends.data() + at);
    });
    return total;
}

// out <- out + factor sum_i c_i a_i a_i^T v, for one output; empty curvatures stand for ones
void bent_of(const BoundSamples &b, Array<const double> curvatures, Index begin, Index end, Array<const double> v,
             double factor, Array<double> out) {
    const Samples &s = b.samples;
    check_range(s, begin, end);
    require(curvatures.size() == 0 || Index(curvatures.size()) == s.n, "curvatures must have one entry per row, or none");
    require(Index(v.size()) == s.width() && Index(out.size()) == s.width(), "v and out must have one entry per feature");
    Free free;
    bent(s, {begin, end}, view(curvatures), v.data(), factor, out.data());
}

void walk_of(const BoundSamples &b, Array<const Visit> visits, FlatIn coefs, double step, Flat x, Flat out) {
    const Samples &s = b.samples;
    check_rows(s, coefs, 0, s.n);
    require(Index(out.size()) == Index(visits.size()) * s.margins(), "out has not one entry per visit and output");
    for (Visit i : view(visits)) require(Index(i) < s.n, "a visit lies beyond the samples");
    double *at = unknowns(s, x);
    Free free;
    walk(s, view(visits), coefs.data(), step, at, out.data());
}

}  // namespace

void bind_passes(nb::module_ &m) {
    const auto fixed = [](const char *name) { return arg(name).noconvert(); };
    m.def("value", &value_of, arg("samples"), fixed("x"), arg("begin"), arg("end"), arg("total"));
    m.def("tabulate", &tabulate_of, arg("samples"), fixed("x"), arg("begin"), arg("end"), arg("factor"), fixed("table"),
          fixed("out"));
    m.def("margins", &margins_of, arg("samples"), fixed("x"), arg("begin"), arg("end"), fixed("out"));
    m.def("combine", &combine_of, arg("samples"), fixed("table"), arg("begin"), arg("end"), arg("factor"), fixed("out"));
    m.def("column_sums", &column_sums, arg("samples"), arg("begin"), arg("end"), arg("factor"), fixed("out"));
    m.def("slopes_at", &slopes_at, arg("samples"), arg("begin"), arg("end"), fixed("table"));
    m.def("losses_at", &losses_at, arg("samples"), fixed("margins"), fixed("order"), fixed("out"));
    m.def("conjugates", &conjugates_of, arg("samples"), fixed("table"), arg("begin"), arg("end"), arg("factor"), arg("total"));
    m.def("linearise", &linearise_of, arg("samples"), fixed("x"), arg("begin"), arg("end"), arg("factor"), fixed("margins"),
          fixed("slopes"), fixed("curvatures"), fixed("out"), arg("total"));
    m.def("expand", &expand_of, arg("samples"), fixed("margins"), arg("begin"), arg("end"), fixed("slopes"),
          fixed("curvatures"), arg("total"));
    m.def("bent_product", &bent_of, arg("samples"), fixed("curvatures"), arg("begin"), arg("end"), fixed("v"), arg("factor"),
          fixed("out"));
    m.def("walk", &walk_of, arg("samples"), fixed("visits"), fixed("coefs"), arg("step"), fixed("x"), fixed("out"));
}

}  // namespace reshuffle
