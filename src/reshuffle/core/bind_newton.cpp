// Bindings of Newton's method: whole runs on either system, and the parts that others use.
#include "bound_samples.hpp"
#include "column_major.hpp"
#include "column_sweeps.hpp"
#include "newton.hpp"
#include "row_major.hpp"

namespace reshuffle {

namespace {

using nb::arg;
using Places = Array<const Visit>;

Curvature checked_curvature(const Samples &s, double bound, double concordance, bool quadratic) {
    require(has_bend(s), "the loss has no second derivative");
    require(bound > 0.0 && concordance >= 0.0, "bounds on the curvature must be positive");
    require(s.outputs == 0 || concordance < infinity || quadratic, "a loss of several outputs must be self-concordant");
    return {bound, concordance, quadratic};
}

Index form_size(const Form &form) {
    return std::visit([](const auto &f) { return f.size(); }, form);
}

void check_size(Index size, Index wanted, const char *what) { require(size == wanted, what); }

// Newton steps from u, in place. Writes x, the gradient there, and margins, slopes and curvatures one after the other, to the
// arrays. Returns f, psi, damping, expected, seen, bound, stuck, steps, passes, rounds.
template <class System>
nb::tuple run(System &system, const BoundForm &form, Flat u, Flat x, Flat gradient, Flat at,
              const std::tuple<double, double, double, double> &progress, double target, double at_zero, Index most) {
    const Index size = system.size(), each = system.losses.n * system.losses.margins();
    for (const Flat *a : {&u, &x, &gradient}) check_size(Index(a->size()), size, "x has not as many entries as there are unknowns");
    check_size(Index(at.size()), 3 * each, "there must be room for margins, slopes and curvatures of every row and output");
    check_size(form_size(form.form), system.losses.penalised(), "the penalty is not that of these coordinates");
    require(most >= 1, "at least one step must be allowed");
    const auto [damping, expected, seen, bound] = progress;
    Ended end;
    Index before = system.passes;
    {
        Free free;
        end = std::visit(
            [&](const auto &psi) {
                return newton_steps(system, psi, u.data(), Progress{damping, expected, seen, bound}, target, at_zero, most);
            },
            form.form);
        end.progress.bound += system.put_back(u.data(), x.data(), gradient.data());
        std::copy_n(system.at.margins.data(), each, at.data());
        std::copy_n(system.at.slopes.data(), each, at.data() + each);
        std::copy_n(system.at.curvatures.data(), each, at.data() + 2 * each);
    }
    const Progress &p = end.progress;
    return nb::make_tuple(end.value, end.psi, p.damping, p.expected, p.seen, p.bound, end.stuck, end.steps,
                          system.passes - before, end.rounds);
}

// --- a small set ------------------------------------------------------------------------------------------------------

void make_column_major(ColumnMajor *self, const BoundSamples &b, const BoundLoss *each, double bound, double concordance,
                       bool quadratic) {
    const Samples &s = b.samples;
    Curvature curvature{bound, concordance, quadratic};
    if (each == nullptr) {
        curvature = checked_curvature(s, bound, concordance, quadratic);
    } else {
        Samples one = s;
        one.loss = each->loss, one.outputs = 0;
        std::visit([](const auto &l) { require(!VectorLoss<std::decay_t<decltype(l)>>, "each must be a loss of one output"); },
                   one.loss);
        require(s.outputs > 0 && s.numbers.size == s.n * s.outputs, "targets must be a number for every row and output");
        curvature = checked_curvature(one, bound, concordance, quadratic);
    }
    Free free;
    new (self) ColumnMajor(s, each == nullptr ? nullptr : &each->loss, curvature);
}

// --- rows as stored ---------------------------------------------------------------------------------------------------

struct BoundRowMajor {
    RowMajor system;
    nb::object listen;

    BoundRowMajor(const Samples &s, const Curvature &c, Index threads, Span<const double> centre, Span<const bool> ones,
                  Span<const Index> counts, Span<const double> squares, nb::object ask)
        : system(s, c, threads, centre, ones, counts, squares), listen(std::move(ask)) {
        system.listener.ask = [this] {
            nb::gil_scoped_acquire held;
            listen();
        };
    }
};

void make_row_major(BoundRowMajor *self, const BoundSamples &b, double bound, double concordance, bool quadratic,
                    Index threads, Array<const double> centre, Array<const bool> ones, Array<const Index> counts,
                    Array<const double> squares, nb::object listen) {
    const Samples &s = b.samples;
    const Curvature curvature = checked_curvature(s, bound, concordance, quadratic);
    const bool dense = with_rows(s, [](const auto &rows) { return std::decay_t<decltype(rows)>::dense; });
    check_size(Index(centre.size()), s.features, "centre must have one entry per feature");
    check_size(Index(ones.size()), s.features, "ones must have one entry per feature");
    check_size(Index(counts.size()), dense ? 0 : s.features, "counts must have one entry per feature of sparse rows");
    require(squares.size() == 0 || Index(squares.size()) == s.features, "squares must have one entry per feature, or none");
    require(threads >= 0 && s.n > 0, "threads must not be negative, and there must be a row");
    new (self) BoundRowMajor(s, curvature, threads, view(centre), view(ones), view(counts), view(squares), listen);
}

nb::tuple run_row_major(BoundRowMajor &b, const BoundForm &form, Flat u, Flat x, Flat gradient, Flat at,
                        const std::tuple<double, double, double, double> &progress, double target, double at_zero,
                        Index most) {
    RowMajor &system = b.system;
    check_size(Index(u.size()), system.size(), "x has not as many entries as there are unknowns");
    check_size(form_size(form.form), system.losses.penalised(), "the penalty is not that of these coordinates");
    if (system.floor == -infinity) system.floor = least_value(system.losses);
    system.listener.total = 0.0;
    const auto [damping, expected, seen, bound] = progress;
    if (damping != 0.0 || expected != infinity || seen != 0.0 || bound != infinity) {
        Free free;  // the pass at u was counted with the step that ended there
        std::visit([&](const auto &psi) { clip(psi, u.data()); }, form.form);
        system.linearise(u.data());
    }
    return run(system, form, u, x, gradient, at, progress, target, at_zero, most);
}

double linearise_row_major(BoundRowMajor &b, FlatIn x, Flat margins, Flat slopes, Flat curvatures, Flat gradient) {
    RowMajor &system = b.system;
    const double *u = unknowns(system.losses, x);
    double *g = unknowns(system.losses, gradient);
    for (const Flat *a : {&margins, &slopes, &curvatures}) check_rows(system.losses, *a, 0, system.losses.n);
    Free free;
    system.linearise(u);
    std::copy(system.at.margins.begin(), system.at.margins.end(), margins.data());
    std::copy(system.at.slopes.begin(), system.at.slopes.end(), slopes.data());
    std::copy(system.at.curvatures.begin(), system.at.curvatures.end(), curvatures.data());
    std::copy(system.at.gradient.begin(), system.at.gradient.end(), g);
    return system.at.value;
}

void margins_row_major(BoundRowMajor &b, FlatIn v, Flat out) {
    const double *u = unknowns(b.system.losses, v);
    check_rows(b.system.losses, out, 0, b.system.losses.n);
    Free free;
    b.system.margins(u, out.data());
}

Active checked_active(const Samples &s, const Places &active) {
    Active found;
    for (Visit j : view(active)) {
        require(Index(j) < s.features, "an active column lies beyond the features");
        require(found.columns.empty() || found.columns.back() < Index(j), "active columns must be in increasing order");
        found.columns.push_back(j);
    }
    found.choose(s.features);
    return found;
}

void gram_row_major(BoundRowMajor &b, Array<const double> scales, Places active, Array2<double> out) {
    const Samples &s = b.system.losses;
    const Active own = checked_active(s, active);
    check_size(Index(scales.size()), s.n, "scales must have one entry per row");
    check_size(Index(out.shape(0)), own.size() + s.bias, "out must have a row for each active column");
    check_size(Index(out.shape(1)), own.size() + s.bias, "out must have a column for each active column");
    Free free;
    b.system.gram_of(scales.data(), own, view(out));
}

Bends checked_bends(const Samples &s, const FlatIn &curvatures, const Array<const double> &factors, double extra) {
    check_rows(s, curvatures, 0, s.n);
    check_size(Index(factors.size()), s.n, "factors must have one entry per row");
    Bends bends;
    bends.fit(s);
    std::copy_n(curvatures.data(), s.n * s.margins(), bends.low.begin());
    std::copy_n(factors.data(), s.n, bends.factors.begin());
    bends.extra = extra;
    return bends;
}

// The Hessian with these curvatures, in the coordinates `kept` of the active features (and the intercept) and outputs.
void hessian_row_major(BoundRowMajor &b, FlatIn curvatures, Array<const double> factors, double extra, Places active,
                       Array<const Index> kept, Array2<double> out) {
    const Samples &s = b.system.losses;
    const Active own = checked_active(s, active);
    const Bends bends = checked_bends(s, curvatures, factors, extra);
    const Index outputs = s.margins(), width = own.size() + s.bias;
    std::vector<Index> feature, output;
    Index last = -1, intercepts = 0;
    for (Index a : view(kept)) {
        require(last < a && a < width * outputs, "coordinates must rise, and lie among the active ones");
        feature.push_back(a / outputs), output.push_back(a % outputs);
        last = a, intercepts += feature.back() == own.size();
    }
    require(intercepts == s.bias * outputs, "the intercepts must be kept");
    require(s.outputs > 0 || Index(kept.size()) == width, "for one output all coordinates are kept");
    check_size(Index(out.shape(0)), Index(kept.size()), "out must have a row for each coordinate");
    check_size(Index(out.shape(1)), Index(kept.size()), "out must have a column for each coordinate");
    Free free;
    b.system.hessian(bends, own, feature, output, view(out));
}

void bent_row_major(BoundRowMajor &b, FlatIn curvatures, Array<const double> factors, double extra, FlatIn change, Flat out) {
    const Samples &s = b.system.losses;
    check_rows(s, change, 0, s.n);
    check_rows(s, out, 0, s.n);
    const std::vector<double> found = b.system.bent(checked_bends(s, curvatures, factors, extra), change.data());
    std::copy(found.begin(), found.end(), out.data());
}

void combine_row_major(BoundRowMajor &b, FlatIn table, Flat out) {
    check_rows(b.system.losses, table, 0, b.system.losses.n);
    double *to = unknowns(b.system.losses, out);
    Free free;
    std::vector<double> found(out.size(), 0.0);
    b.system.combine(table.data(), found);
    std::copy(found.begin(), found.end(), to);
}

// --- parts ------------------------------------------------------------------------------------------------------------

// The length t of the step along d from x (0 if none lowers P as promised); writes x + t d to `to`.
double search_of(const BoundSamples &b, const BoundForm &form, FlatIn margins, FlatIn change, FlatIn x, FlatIn d, double slope,
              double value, double psi, Flat to) {
    const Samples &s = b.samples;
    const double *at = unknowns(s, x), *step = unknowns(s, d);
    double *there = unknowns(s, to);
    for (const FlatIn *a : {&margins, &change}) check_rows(s, *a, 0, s.n);
    check_size(form_size(form.form), s.penalised(), "the penalty is not that of these coordinates");
    Free free;
    return std::visit(
        [&](const auto &own) {
            return search_along(own, s.unknowns(), at, step, slope, value, psi, there,
                                [&](double t) { return value_along(s, margins.data(), change.data(), t); });
        },
        form.form);
}

// Minimises g^T (u - x) + (u - x)^T H (u - x) / 2 + psi(u) from u, in place: decrease, left, length of null, rounds.
std::tuple<double, double, double, Index> minimise_model(const BoundForm &form, Array2<const double> H, Array<const double> g,
                                                         Array<const double> x, Array<double> u, double accuracy,
                                                         double floor, Array<double> null) {
    const Index size = Index(u.size());
    for (const Index other : {Index(H.shape(0)), Index(H.shape(1)), Index(g.size()), Index(x.size()), Index(null.size())})
        check_size(other, size, "the arrays of a model must have the same length");
    require(form_size(form.form) <= size, "the penalty has more coordinates than the model");
    Free free;
    Workspace room;
    const Minimum found = std::visit(
        [&](const auto &own) { return minimise(own, view(H), g.data(), x.data(), u.data(), accuracy, floor, room); },
        form.form);
    std::copy(room.null.begin(), room.null.end(), null.data());
    return {found.decrease, found.left, found.length, found.rounds};
}

// Sweeps over columns from u, in place, with the change of the margins in z: decrease, sweeps, stored values visited.
std::tuple<double, Index, Index> sweep_of(const BoundForm &form, Array<const double> values, Places rows, Array<const Index> starts,
                                          Array<const double> h, Array<const double> g, Array<double> u, Array<double> z,
                                          Index most, double share) {
    const auto *psi = std::get_if<Coordinates>(&form.form);
    require(psi != nullptr, "the penalty must treat coordinates one by one");
    const Index features = psi->size(), n = Index(h.size());
    check_size(Index(starts.size()), features + 1, "starts must have one entry for each column, and one more");
    require(Index(u.size()) == features || Index(u.size()) == features + 1, "u must have one entry for each column, and one for an intercept");
    check_size(Index(g.size()), Index(u.size()), "g must be as long as u");
    check_size(Index(z.size()), n, "z must have one entry for each row");
    check_size(Index(rows.size()), Index(values.size()), "each value must have a row");
    const SparseColumns A{view(values), view(rows), view(starts)};
    require(A.starts[0] == 0 && A.starts[features] <= A.values.size, "columns must lie within the stored values");
    for (Index j = 0; j < features; j++) require(A.starts[j] <= A.starts[j + 1], "columns must not end before they begin");
    for (const Visit i : A.rows) require(Index(i) < n, "a row lies beyond the curvatures");
    Free free;
    const Swept found = sweep_columns(*psi, A, view(h), g.data(), view(u), view(z), most, share);
    return {found.decrease, found.sweeps, found.visited};
}

// Curvatures from below at a point, for a model whose decrease is at most cap.
void lower_of(const BoundSamples &b, double concordance, FlatIn margins, FlatIn slopes, FlatIn curvatures, double cap,
              Flat low, Array<double> factors, Array<double> radius, Array<double> shares) {
    const Samples &s = b.samples;
    require(has_bend(s), "the loss has no second derivative");
    for (const FlatIn *a : {&margins, &slopes, &curvatures}) check_rows(s, *a, 0, s.n);
    check_rows(s, low, 0, s.n);
    for (const Array<double> *a : {&factors, &radius, &shares})
        check_size(Index(a->size()), s.n, "an array has not one entry per row");
    const auto copy = [](const FlatIn &a) { return std::vector<double>(a.data(), a.data() + a.size()); };
    const Point at{copy(margins), copy(slopes), copy(curvatures), {}, 0.0};
    Bends bends;
    bends_from_below(s, concordance, at, cap, bends);
    std::copy(bends.low.begin(), bends.low.end(), low.data());
    std::copy(bends.factors.begin(), bends.factors.end(), factors.data());
    std::copy(bends.radius.begin(), bends.radius.end(), radius.data());
    std::copy(bends.shares.begin(), bends.shares.end(), shares.data());
}

void face_of(const BoundForm &form, FlatIn u, nb::ndarray<bool, nb::c_contig, nb::device::cpu> free, Flat slopes) {
    const Index size = Index(u.size());
    require(Index(free.size()) == size && Index(slopes.size()) == size && form_size(form.form) <= size,
            "free and slopes must have one entry per coordinate");
    auto *marks = reinterpret_cast<unsigned char *>(free.data());
    std::visit([&](const auto &own) { face(own, u.data(), size, marks, slopes.data()); }, form.form);
}

void retract_to(const BoundForm &form, FlatIn u, Flat to) {
    require(u.size() == to.size() && form_size(form.form) <= Index(u.size()), "a point has too few coordinates");
    std::visit([&](const auto &own) { retract(own, u.data(), to.data(), false); }, form.form);
}

void mark_held(const BoundForm &form, nb::ndarray<bool, nb::c_contig, nb::device::cpu> held) {
    check_size(Index(held.size()), form_size(form.form), "held must have one entry per penalised coordinate");
    std::visit([&](const auto &own) { hold(own, reinterpret_cast<unsigned char *>(held.data())); }, form.form);
}

}  // namespace

void bind_newton(nb::module_ &m) {
    const auto fixed = [](const char *name) { return arg(name).noconvert(); };
    nb::class_<ColumnMajor>(m, "ColumnMajor", "A small set laid out column by column, for Newton steps in one call.")
        .def("__init__", &make_column_major, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), arg("samples"),
             arg("each").none(), arg("curvature"), arg("concordance"), arg("quadratic"))
        .def_prop_ro("at_zero", [](const ColumnMajor &s) { return s.at_zero; })
        .def_prop_ro("floor", [](const ColumnMajor &s) { return s.floor; })
        .def("inner", [](const ColumnMajor &s, Array2<double> u) {
            check_size(Index(u.size()), s.size(), "x has not as many entries as there are unknowns");
            require(Index(u.shape(0)) > s.centred_columns(), "x has fewer rows than there are features");
            s.centred(view(u));
        }, fixed("u"))
        .def("run", &run<ColumnMajor>, arg("form"), fixed("u"), fixed("x"), fixed("gradient"), fixed("at"), arg("progress"),
             arg("target"), arg("at_zero"), arg("most"));
    nb::class_<BoundRowMajor>(m, "RowMajor", "Rows as they lie: passes and Newton steps on working sets of features.")
        .def("__init__", &make_row_major, nb::keep_alive<1, 2>(), arg("samples"), arg("curvature"), arg("concordance"),
             arg("quadratic"), arg("threads"), fixed("centre"), fixed("ones"), fixed("counts"), fixed("squares"),
             arg("listen"))
        .def_prop_rw("passes", [](const BoundRowMajor &b) { return b.system.passes; },
                     [](BoundRowMajor &b, Index passes) { b.system.passes = passes; })
        .def_prop_ro("constant",
                     [](const BoundRowMajor &b) {
                         const auto &marks = b.system.constant;
                         return nb::bytes(reinterpret_cast<const char *>(marks.data()), marks.size());
                     })
        .def("packs", [](BoundRowMajor &b, Places active) { return b.system.packs(checked_active(b.system.losses, active)); },
             fixed("active"))
        .def("run", &run_row_major, arg("form"), fixed("u"), fixed("x"), fixed("gradient"), fixed("at"), arg("progress"),
             arg("target"), arg("at_zero"), arg("most"))
        .def("linearise", &linearise_row_major, fixed("x"), fixed("margins"), fixed("slopes"), fixed("curvatures"),
             fixed("gradient"))
        .def("margins", &margins_row_major, fixed("v"), fixed("out"))
        .def("gram", &gram_row_major, fixed("scales"), fixed("active"), fixed("out"))
        .def("hessian", &hessian_row_major, fixed("curvatures"), fixed("factors"), arg("extra"), fixed("active"),
             fixed("kept"), fixed("out"))
        .def("bent", &bent_row_major, fixed("curvatures"), fixed("factors"), arg("extra"), fixed("change"), fixed("out"))
        .def("combine", &combine_row_major, fixed("table"), fixed("out"));
    m.def("search", &search_of, arg("samples"), arg("form"), fixed("margins"), fixed("change"), fixed("x"), fixed("d"),
          arg("slope"), arg("value"), arg("psi"), fixed("to"));
    m.def("minimise", &minimise_model, arg("form"), fixed("H"), fixed("g"), fixed("x"), fixed("u"), arg("accuracy"),
          arg("floor"), fixed("null"));
    m.def("sweep_columns", &sweep_of, arg("form"), fixed("values"), fixed("rows"), fixed("starts"), fixed("h"), fixed("g"),
          fixed("u"), fixed("z"), arg("most"), arg("share"));
    m.def("lower", &lower_of, arg("samples"), arg("concordance"), fixed("margins"), fixed("slopes"), fixed("curvatures"),
          arg("cap"), fixed("low"), fixed("factors"), fixed("radius"), fixed("shares"));
    m.def("kept_within", [](double curvature, double cap, double concordance) {
        const Kept kept = kept_within(curvature, cap, concordance);
        return std::make_pair(kept.share, kept.radius);
    }, arg("curvature"), arg("cap"), arg("concordance"));
    m.def("face", &face_of, arg("form"), fixed("u"), fixed("free"), fixed("slopes"));
    m.def("retract", &retract_to, arg("form"), fixed("u"), fixed("to"));
    m.def("held", &mark_held, arg("form"), fixed("held"));
    m.def("adapted", [](double damping, double decrease, double t, double gained, bool lowered, double spent) {
        const Adapted next = adapted(damping, decrease, t, gained, lowered, spent);
        return std::make_pair(next.damping, next.expected);
    }, arg("damping"), arg("decrease"), arg("t"), arg("gained"), arg("lowered"), arg("spent"));
    m.def("another", [](double damping, double expected, double seen, double decrease) {
        const Another next = another(damping, expected, seen, decrease);
        return std::make_tuple(next.again, next.damping, next.expected, next.seen);
    }, arg("damping"), arg("expected"), arg("seen"), arg("decrease"));
    m.attr("EPSILON") = epsilon;
    m.attr("ROUNDING") = search::rounding;
    m.attr("ARMIJO") = search::armijo;
    m.attr("FINE") = newton::fine;
    m.attr("TRACE") = newton::trace;
}

}  // namespace reshuffle
