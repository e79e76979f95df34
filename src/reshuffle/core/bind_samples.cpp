// Bindings of samples, losses and penalties. Everything is checked here once, before a kernel reads it.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bound_samples.hpp"

namespace reshuffle {

namespace {

using nb::arg;

template <class F>
F address(const std::vector<std::uintptr_t> &addresses, std::size_t k) {
    return k < addresses.size() ? reinterpret_cast<F>(addresses[k]) : nullptr;
}

BoundLoss built_in(const std::string &name, const std::vector<double> &p) {
    const auto take = [&](std::size_t count, auto make) -> BoundLoss {
        require(p.size() == count, "a loss got another number of parameters than it has");
        return {make(), nb::none()};
    };
    if (name == "logistic") return take(0, [] { return Logistic{}; });
    if (name == "squared") return take(0, [] { return Squared{}; });
    if (name == "huber") return take(1, [&] { return Huber{p[0]}; });
    if (name == "squared_hinge") return take(0, [] { return SquaredHinge{}; });
    if (name == "quantile") return take(2, [&] { return Quantile{p[0], p[1]}; });
    if (name == "poisson") return take(0, [] { return Poisson{}; });
    if (name == "gamma") return take(0, [] { return Gamma{}; });
    if (name == "tweedie") return take(1, [&] { return Tweedie{p[0]}; });
    if (name == "inverse_gaussian") return take(0, [] { return Tweedie{3.0}; });
    if (name == "negative_binomial") return take(1, [&] { return NegativeBinomial(p[0]); });
    if (name == "complementary_log_log") return take(0, [] { return ComplementaryLogLog{}; });
    if (name == "probit") return take(0, [] { return Probit{}; });
    if (name == "multinomial") return take(0, [] { return Multinomial{}; });
    if (name == "squared_outputs") return take(0, [] { return SquaredOutputs{}; });
    throw nb::value_error(("the core has no loss " + name).c_str());
}

BoundLoss given(const std::vector<std::uintptr_t> &a, const std::vector<std::uintptr_t> &blocks, nb::object kept) {
    Given loss;
    loss.f = address<Given::Function>(a, 0), loss.df = address<Given::Function>(a, 1);
    loss.d2f = address<Given::Function>(a, 2), loss.fstar = address<Given::Function>(a, 3);
    loss.each_f = address<Given::Block>(blocks, 0), loss.each_df = address<Given::Block>(blocks, 1);
    loss.each_d2f = address<Given::Block>(blocks, 2), loss.each_fstar = address<Given::Block>(blocks, 3);
    require(loss.f && loss.df, "a loss must have the addresses of value and derivative");
    return {loss, kept};
}

template <class T>
BoundLoss given_outputs(const std::vector<std::uintptr_t> &a, nb::object kept) {
    using F = typename GivenOutputs<T>::Function;
    GivenOutputs<T> loss{address<F>(a, 0), address<F>(a, 1), address<F>(a, 2), address<F>(a, 3)};
    require(loss.f && loss.df, "a loss must have the addresses of value and derivative");
    return {loss, kept};
}

// The starts of n rows; they must neither fall nor point beyond the stored entries.
template <class P>
void check_starts(const Array<const P> &starts, Index n, Index stored) {
    require(Index(starts.size()) >= n + 1, "indptr is shorter than the rows and one");
    const P *p = starts.data();
    for (Index i = 0; i < n; i++) require(p[i] <= p[i + 1], "indptr falls");
    require(p[n] <= P(stored), "indptr leads beyond the indices");
}

Starts starts_of(nb::handle starts, Index n, Index stored) {
    Array<const std::uint32_t> narrow;
    if (nb::try_cast(starts, narrow, false)) {
        check_starts(narrow, n, stored);
        return {narrow.data(), nullptr};
    }
    const auto wide = nb::cast<Array<const std::uint64_t>>(starts, false);
    check_starts(wide, n, stored);
    return {nullptr, wide.data()};
}

using Values = nb::ndarray<nb::ro, nb::device::cpu>;

constexpr Index largest_unknown = Index(1) << 48;  // No memory holds so many numbers, and products of sizes below this do not overflow.

Rows dense_rows(const Values &values, Index n, Index features) {
    const Index width = Index(values.shape(1));
    const bool whole = values.size() == 0 || ((values.stride(1) == 1 || width == 1) && (values.stride(0) == width || n == 1));
    require(whole && width == features && Index(values.shape(0)) >= n, "dense rows must be a C-ordered matrix of n rows");
    if (values.dtype() == nb::dtype<double>()) return Dense<double>{static_cast<const double *>(values.data()), width};
    require(values.dtype() == nb::dtype<float>(), "dense rows must be float64 or float32");
    return Dense<float>{static_cast<const float *>(values.data()), width};
}

Rows rows_of(const Values &values, nb::handle indices, nb::handle indptr, Index n, Index features) {
    if (values.ndim() == 2) return dense_rows(values, n, features);
    const auto columns = nb::cast<Array<const Visit>>(indices, false);
    const Starts starts = starts_of(indptr, n, Index(columns.size()));
    const Index first = starts[0], last = starts[n];
    Visit largest = 0;
    for (Index k = first; k < last; k++) largest = std::max(largest, columns.data()[k]);
    require(first == last || Index(largest) < features, "a column index lies beyond the features");
    if (values.dtype() == nb::dtype<bool>()) return Sparse<bool>{nullptr, columns.data(), starts};
    require(values.ndim() == 1 && (values.size() < 2 || values.stride(0) == 1), "values must be one contiguous array");
    require(Index(values.size()) >= last, "indptr leads beyond the values");
    if (values.dtype() == nb::dtype<double>())
        return Sparse<double>{static_cast<const double *>(values.data()), columns.data(), starts};
    require(values.dtype() == nb::dtype<float>(), "values must be float64, float32, or booleans for ones");
    return Sparse<float>{static_cast<const float *>(values.data()), columns.data(), starts};
}

BoundSamples samples(Values values, nb::object indices, nb::object starts, nb::object targets,
                     Array<const double> weights, Array<const double> offsets, const BoundLoss &loss, bool bias, Index features,
                     Index outputs) {
    Samples s;
    s.loss = loss.loss, s.bias = bias, s.features = features, s.outputs = outputs;
    require(features >= 0 && outputs >= 0, "features and outputs must not be negative");
    require(features < largest_unknown / std::max<Index>(outputs, 1), "features times outputs are too many");
    std::visit(
        [&](const auto &l) {
            using L = std::decay_t<decltype(l)>;
            require(VectorLoss<L> == (outputs > 0), "a loss of one margin was given several outputs, or the other way round");
            if constexpr (VectorLoss<L>) {
                if constexpr (std::is_same_v<typename L::Target, std::int32_t>) {
                    s.classes = view(nb::cast<Array<const std::int32_t>>(targets, false));
                    s.n = s.classes.size;
                    for (std::int32_t c : s.classes) require(0 <= c && c < outputs, "a class lies beyond the outputs");
                } else {
                    const auto y = nb::cast<Array2<const double>>(targets, false);
                    require(Index(y.shape(1)) == outputs, "targets have not one column per output");
                    s.numbers = {y.data(), Index(y.size())};
                    s.n = Index(y.shape(0));
                }
            } else {
                s.numbers = view(nb::cast<Array<const double>>(targets, false));
                s.n = s.numbers.size;
            }
        },
        s.loss);
    s.weights = view(weights);
    require(s.weights.size == 0 || s.weights.size == s.n, "weights must have one entry per row, or none");
    s.offsets = view(offsets);
    require(s.offsets.size == 0 || (s.offsets.size == s.n && outputs == 0), "offsets must have one entry per row of a loss of one margin, or none");
    s.rows = rows_of(values, indices, starts, s.n, features);
    return {s, nb::make_tuple(values, indices, starts, targets, weights, offsets, loss.kept)};
}

BoundForm coordinates(Array<const double> l1, Array<const double> l2, Array<const double> low, Array<const double> high) {
    require(l1.size() == l2.size() && l1.size() == low.size() && l1.size() == high.size(),
            "the arrays of a penalty must have the same length");
    return {Coordinates{view(l1), view(l2), view(low), view(high)}, nb::make_tuple(l1, l2, low, high)};
}

BoundForm groups(Array<const double> l1, double l2, Array<const double> strengths, Array<const Visit> members,
                 Array<const Index> starts) {
    const Groups form{view(l1), l2, view(strengths), view(members), view(starts)};
    require(form.starts.size == form.strengths.size + 1, "starts must have one entry more than there are groups");
    for (Index g = 0; g < form.count(); g++) require(form.starts[g] <= form.starts[g + 1], "starts of groups fall");
    require(form.starts[0] >= 0 && form.starts[form.count()] <= form.members.size, "starts of groups lead beyond the members");
    for (Visit j : form.members) require(Index(j) < form.size(), "a group has a coordinate beyond the penalised ones");
    return {form, nb::make_tuple(l1, strengths, members, starts)};
}

// Single functions, for tests that compare them with others.

void elementary(const std::string &name, Array<const double> x, Array<double> out) {
    require(x.size() == out.size(), "x and out must have the same length");
    const auto each = [&](auto function) {
        const double *from = x.data();
        double *to = out.data();
        const Index n = Index(x.size());
#pragma omp simd
        for (Index i = 0; i < n; i++) to[i] = function(from[i]);
    };
    if (name == "exp") return each([](double z) { return InRows::exp(z); });
    if (name == "exp alone") return each([](double z) { return Alone::exp(z); });
    if (name == "log") return each([](double z) { return InRows::log(z); });
    require(name == "log1p", "the elementary functions are exp, exp alone, log and log1p");
    each([](double z) { return InRows::log1p(z); });
}

void prox_of(const BoundForm &form, Flat x, double step) {
    require(size_of(form.form) <= Index(x.size()), "the penalty has more coordinates than x");
    prox(form.form, x.data(), step);
}

}  // namespace

void bind_samples(nb::module_ &m) {
    nb::class_<BoundLoss>(m, "Loss", "A loss as the kernels read it.")
        .def_prop_ro("has_conjugate",
                     [](const BoundLoss &l) { return std::visit([](const auto &loss) { return bool(loss.has_conjugate()); }, l.loss); });
    m.def("built_in_loss", &built_in, arg("name"), arg("parameters"));
    m.def("given_loss", &given, arg("addresses"), arg("blocks"), arg("kept"));
    m.def("given_class_loss", &given_outputs<std::int32_t>, arg("addresses"), arg("kept"));
    m.def("given_row_loss", &given_outputs<double>, arg("addresses"), arg("kept"));

    nb::class_<BoundForm>(m, "Form", "A compiled penalty.");
    m.def("coordinates", &coordinates, arg("l1").noconvert(), arg("l2").noconvert(), arg("low").noconvert(),
          arg("high").noconvert());
    m.def("groups", &groups, arg("l1").noconvert(), arg("l2"), arg("strengths").noconvert(), arg("members").noconvert(),
          arg("starts").noconvert());

    m.def("prox", &prox_of, arg("form"), arg("x").noconvert(), arg("step"));
    m.def("elementary", &elementary, arg("name"), arg("x").noconvert(), arg("out").noconvert());

    nb::class_<BoundSamples>(m, "Samples", "Rows, targets, weights and a loss, checked once.")
        .def("__init__",
             [](BoundSamples *self, Values values, nb::object indices, nb::object starts,
                nb::object targets, Array<const double> weights, Array<const double> offsets, const BoundLoss &loss, bool bias,
                Index features, Index outputs) {
                 new (self) BoundSamples(
                     samples(values, indices, starts, targets, weights, offsets, loss, bias, features, outputs));
             },
             arg("values").noconvert(), arg("indices"), arg("indptr"), arg("targets"), arg("weights").noconvert(),
             arg("offsets").noconvert(), arg("loss"), arg("bias"), arg("features"), arg("outputs"))
        .def_prop_ro("n", [](const BoundSamples &s) { return s.samples.n; })
        .def_prop_ro("features", [](const BoundSamples &s) { return s.samples.features; });
}

}  // namespace reshuffle
