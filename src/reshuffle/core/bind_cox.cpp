// Bindings of risk sets and of paths of Cox's model.
//
// The loops read the rows that events name, so events are checked to rise and to lie among the rows.
#include "bound_samples.hpp"
#include "cox_path.hpp"

namespace reshuffle {

namespace {

struct BoundRiskSets {
    RiskSets sets;
    nb::tuple kept;  // the arrays
};

struct BoundCoxRows {
    CoxRows rows;
    nb::tuple kept;
};

void make_risk_sets(BoundRiskSets *self, Array<const double> weights, Array<const Index> begins, Array<const Index> ends,
                    Array<const Index> terms, Array<const double> totals) {
    const RiskSets sets{view(weights), view(begins), view(ends), view(terms), view(totals)};
    const Index times = sets.begins.size;
    require(sets.ends.size == times && sets.terms.size == times && sets.totals.size == times,
            "begins, ends, terms and totals must have one entry per time");
    for (Index k = 0, last = 0; k < times; last = sets.ends[k], k++)
        require(last <= sets.begins[k] && sets.begins[k] < sets.ends[k] && sets.ends[k] <= sets.rows() &&
                    1 <= sets.terms[k] && sets.terms[k] <= sets.ends[k] - sets.begins[k],
                "events must rise from time to time and lie among the rows");
    new (self) BoundRiskSets{sets, nb::make_tuple(weights, begins, ends, terms, totals)};
}

std::pair<double, double> likelihood_at(const BoundRiskSets &b, Array<const double> z, Array<double> sizes, Array<double> sums,
                                        Array<double> expected) {
    const RiskSets &sets = b.sets;
    for (const Index size : {Index(z.size()), Index(sizes.size()), Index(expected.size())})
        require(size == sets.rows(), "z, sizes and expected must have one entry per row");
    require(Index(sums.size()) == sets.count(), "sums must have one entry per term");
    Hazards at;
    at.fit(sets);
    {
        Free free;
        partial_likelihood(sets, z.data(), true, at);
    }
    std::copy(at.sizes.begin(), at.sizes.end(), sizes.data());
    std::copy(at.sums.begin(), at.sums.end(), sums.data());
    std::copy(at.expected.begin(), at.expected.end(), expected.data());
    return {at.value, at.shift};
}

void covariances_at(const BoundRiskSets &b, Array2<const double> columns, Array<const double> sizes, Array<const double> sums,
                    Array<const double> expected, Array2<double> out) {
    const RiskSets &sets = b.sets;
    for (const Index size : {Index(columns.shape(1)), Index(sizes.size()), Index(expected.size())})
        require(size == sets.rows(), "columns, sizes and expected must have one entry per row");
    require(Index(sums.size()) == sets.count(), "sums must have one entry per term");
    require(out.shape(0) == columns.shape(0) && out.shape(1) == columns.shape(0), "out must be square, a row for each column");
    Free free;
    const auto copy = [](const Array<const double> &a) { return std::vector<double>(a.data(), a.data() + a.size()); };
    const Hazards at{0.0, 0.0, copy(sizes), copy(sums), copy(expected)};
    const Matrix<const double> matrix = view(columns);
    std::fill(out.data(), out.data() + out.size(), 0.0);
    add_covariances(sets, at, [&](Index c) { return matrix[c]; }, 1.0, view(out));
    mirror(view(out));
}

void make_cox_rows(BoundCoxRows *self, Array2<const double> columns, nb::list strata, double rows, double least) {
    CoxRows own{view(columns), {}, rows, least};
    Index total = 0;
    for (nb::handle each : strata) {
        own.strata.push_back(nb::cast<const BoundRiskSets &>(each).sets);
        total += own.strata.back().rows();
    }
    require(total == own.n(), "the strata must have as many rows as the columns");
    new (self) BoundCoxRows{own, nb::make_tuple(columns, strata)};
}

// Strengths begin ... end - 1 of a path, each from the last two points; `ends` gets f, lambda psi, a bound and steps.
void follow(const BoundCoxRows &b, const BoundForm &form, Array<const double> strengths, Array2<double> points,
            Array2<double> ends, Index begin, Index end, double target, Index most) {
    const CoxRows &own = b.rows;
    const auto *psi = std::get_if<Coordinates>(&form.form);
    require(psi && psi->size() == own.features(), "the penalty must have numbers for each feature");
    const Index count = Index(strengths.size()), d = own.features();
    require(Index(points.shape(0)) == count && Index(points.shape(1)) == d, "points must have a row for each strength");
    require(Index(ends.shape(0)) == count && ends.shape(1) == 4, "ends must have a row of four for each strength");
    require(0 <= begin && begin <= end && end <= count, "begin and end must lie among the strengths");
    Free free;
    CoxPath path(own);
    const Matrix<double> x = view(points), out = view(ends);
    const double *lambda = strengths.data();
    for (Index k = begin; k < end; k++) {
        double share = cox::usual;
        if (k > 0) {
            share = std::min(std::max(2.0 - lambda[k - 1] / lambda[k], cox::weakest), 1.0);
            const bool two = k > 1 && lambda[k - 2] > lambda[k - 1];
            const double ahead = two ? std::min((lambda[k - 1] - lambda[k]) / (lambda[k - 2] - lambda[k - 1]), 1.0) : 0.0;
            extrapolate(*psi, x[two ? k - 2 : k - 1], x[k - 1], ahead, x[k]);
        }
        const CoxEnd found = path.minimise_at(*psi, lambda[k], share, target, most, x[k]);
        out[k][0] = found.value, out[k][1] = found.psi, out[k][2] = found.bound, out[k][3] = double(found.steps);
    }
}

}  // namespace

void bind_cox(nb::module_ &m) {
    using nb::arg;
    const auto fixed = [](const char *name) { return arg(name).noconvert(); };
    nb::class_<BoundRiskSets>(m, "RiskSets", "The risk sets of a stratum, rows sorted by time from the last to the first.")
        .def("__init__", &make_risk_sets, fixed("weights"), fixed("begins"), fixed("ends"), fixed("terms"), fixed("totals"))
        .def_prop_ro("count", [](const BoundRiskSets &b) { return b.sets.count(); })
        .def("at", &likelihood_at, fixed("z"), fixed("sizes"), fixed("sums"), fixed("expected"))
        .def("covariances", &covariances_at, fixed("columns"), fixed("sizes"), fixed("sums"), fixed("expected"), fixed("out"));
    nb::class_<BoundCoxRows>(m, "CoxRows", "Dense columns of sorted rows with their strata, for paths.")
        .def("__init__", &make_cox_rows, fixed("columns"), arg("strata"), arg("rows"), arg("least"))
        .def("follow", &follow, arg("form"), fixed("strengths"), fixed("points"), fixed("ends"), arg("begin"), arg("end"),
             arg("target"), arg("most"));
}

}  // namespace reshuffle
