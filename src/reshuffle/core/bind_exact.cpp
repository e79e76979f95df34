// Bindings of the exact method: steps of a block, and whole epochs.
#include "bound_samples.hpp"
#include "exact_epoch.hpp"

namespace reshuffle {

namespace {

using nb::arg;

constexpr Index ahead = 8;  // Rows are prefetched this far ahead, as in the sweep.

// Every copy that is visited must have a slope, and its owner a row.
void check(const Samples &s, const Copies &copies, Span<const Visit> visits, Index count) {
    Visit largest = 0;
    for (Visit c : visits) largest = std::max(largest, c);
    require(!visits || Index(largest) < count, "a visit lies beyond the table of slopes");
    require(copies.owner ? copies.owner.size == count : count == s.n, "the table has not one slope per copy");
    require(!copies.weights || copies.weights.size == count, "weights must have one entry per copy, or none");
    for (Visit i : copies.owner) require(Index(i) < s.n, "an owner lies beyond the samples");
}

void block_of(const BoundSamples &b, Array<const Visit> owner, Array<const double> weights, Array<const Visit> visits,
              Index first, Index last, Flat table, Flat y, FlatIn q, double step) {
    const Samples &s = b.samples;
    const Copies copies{view(owner), view(weights)};
    require(Index(table.size()) % s.margins() == 0, "the table has not one slope per copy and output");
    check(s, copies, view(visits), Index(table.size()) / s.margins());
    require(0 <= first && first <= last && last <= Index(visits.size()), "the range of visits lies outside them");
    double *at = unknowns(s, y);
    const double *along = unknowns(s, q);
    Free free;
    std::vector<double> coefs(std::size_t(s.margins()));
    with(s, [&](const auto &rows, const auto &loss, const auto *targets) {
        block(rows, loss, targets, s.offsets, s.bias, copies, view(visits), 0, first, last, table.data(), unknown(loss, s, at), along,
              step, ahead, coefs.data());
    });
}

// `whole` is N if the table has only some of the N functions, like a window of rows, and 0 if it has all.
void epoch_of(const BoundSamples &b, Array<const Visit> owner, Array<const double> weights, Array<const Visit> visits,
              Index begin, Index end, Array<const double> steps, double corrected, Flat table, Flat y, Flat q, Flat start,
              Flat g, const BoundForm &form, Index whole) {
    const Samples &s = b.samples;
    const Copies copies{view(owner), view(weights)};
    require(Index(table.size()) % s.margins() == 0, "the table has not one slope per copy and output");
    const Index count = Index(table.size()) / s.margins();
    check(s, copies, view(visits), count);
    require(0 <= begin && begin <= end && end <= Index(visits.size()), "the range of visits lies outside them");
    require(size_of(form.form) <= s.unknowns(), "the penalty has more coordinates than x");
    require(whole == 0 || whole >= count, "the whole sum must have at least the functions of the table");
    const EpochState state{unknowns(s, y), unknowns(s, q), unknowns(s, start), unknowns(s, g), s.unknowns()};
    Free free;
    std::vector<double> coefs(std::size_t(s.margins()));
    with(s, [&](const auto &rows, const auto &loss, const auto *targets) {
        epoch(rows, loss, targets, s.offsets, s.bias, copies, view(visits), begin, end, view(steps), corrected, table.data(), whole ? whole : count,
              unknown(loss, s, state.y), state, form.form, ahead, coefs.data());
    });
}

}  // namespace

void bind_exact(nb::module_ &m) {
    const auto fixed = [](const char *name) { return arg(name).noconvert(); };
    m.def("block", &block_of, arg("samples"), fixed("owner"), fixed("weights"), fixed("visits"), arg("first"), arg("last"),
          fixed("table"), fixed("y"), fixed("q"), arg("step"));
    m.def("epoch", &epoch_of, arg("samples"), fixed("owner"), fixed("weights"), fixed("visits"), arg("begin"), arg("end"),
          fixed("steps"), arg("corrected"), fixed("table"), fixed("y"), fixed("q"), fixed("start"), fixed("g"), arg("form"),
          arg("whole") = Index(0));
}

}  // namespace reshuffle
