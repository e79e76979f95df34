// Bindings of the proxes by iterations.
//
// Groups, arcs and their sizes come from users, by way of `penalties.overlapping.check_lists` and
// `penalties.graph_fused_lasso.check_edges`, whose messages name the user's input. The loops read and write where they point,
// so they are checked here again; a check costs less than one pass.
#include "bound.hpp"
#include "chain.hpp"
#include "cuts.hpp"
#include "cylinders.hpp"
#include "overlap.hpp"

namespace reshuffle {

using In = Array<const double>;
using Out = Array<double>;
using Numbers = Array<const Index>;

static Members members_of(const Numbers &members, const Numbers &starts, const In &bounds, size_t size) {
    const Members groups{view(members), view(starts)};
    require(starts.size() == bounds.size() + 1 && rises(groups.starts, groups.members.size),
            "starts must rise from 0 to the number of members, one more than there are bounds");
    require(below(groups.members, Index(size)), "members must be coordinates of x");
    return groups;
}

static Cylinders cylinders_of(const In &x, const Numbers &members, const Numbers &starts, const In &bounds) {
    return {view(x), members_of(members, starts, bounds, x.size()), view(bounds)};
}

static void bind_chain(nb::module_ &m) {
    m.def(
        "chain_prox",
        [](In y, In bounds, Out u) {
            require(u.size() == y.size() && bounds.size() + 1 == std::max<size_t>(y.size(), 1),
                    "u must be as long as y, and bounds shorter by one");
            Free free;
            chain_prox(view(y), view(bounds), view(u));
        },
        nb::arg("y").noconvert(), nb::arg("bounds").noconvert(), nb::arg("u").noconvert());
    m.def(
        "chain_holds",
        [](In g, In bounds, double l1) {
            Free free;
            return chain_holds(view(g), view(bounds), l1);
        },
        nb::arg("g").noconvert(), nb::arg("bounds").noconvert(), nb::arg("l1"));
}

static void bind_cuts(nb::module_ &m) {
    m.def(
        "cut_prox",
        [](In y, Numbers first, Numbers target, Numbers edge, Array<const bool> tail, In bounds, Out u) {
            const Arcs arcs{view(first), view(target), view(edge), view(tail)};
            require(u.size() == y.size() && first.size() == y.size() + 1 && edge.size() == target.size() &&
                        tail.size() == target.size(),
                    "y and u, and what is said of arcs, must be of one length, and first one longer than y");
            require(rises(arcs.first, arcs.target.size), "first must rise from 0 to the number of arcs");
            require(below(arcs.target, Index(y.size())) && below(arcs.edge, Index(bounds.size())),
                    "targets must be nodes, and edges those that have a bound");
            Free free;
            return cut_prox(view(y), arcs, view(bounds), view(u));
        },
        nb::arg("y").noconvert(), nb::arg("first").noconvert(), nb::arg("target").noconvert(),
        nb::arg("edge").noconvert(), nb::arg("tail").noconvert(), nb::arg("bounds").noconvert(),
        nb::arg("u").noconvert());
}

static void bind_cylinders(nb::module_ &m) {
    m.def(
        "cylinder_pass",
        [](In x, Numbers members, Numbers starts, In bounds, Out multipliers, Out s) {
            const Cylinders in = cylinders_of(x, members, starts, bounds);
            require(multipliers.size() == bounds.size() && s.size() == x.size(),
                    "multipliers must be as many as bounds, and s as long as x");
            Free free;
            cylinder_pass(in, view(multipliers), view(s));
        },
        nb::arg("x").noconvert(), nb::arg("members").noconvert(), nb::arg("starts").noconvert(),
        nb::arg("bounds").noconvert(), nb::arg("multipliers").noconvert(), nb::arg("s").noconvert());
    m.def(
        "cylinder_state",
        [](In x, Numbers members, Numbers starts, In bounds, In multipliers, Out s, Out y, Out parts, Out point) {
            const Cylinders in = cylinders_of(x, members, starts, bounds);
            require(multipliers.size() == bounds.size() && s.size() == x.size() && y.size() == x.size() &&
                        point.size() == x.size() && parts.size() == members.size(),
                    "multipliers must be as many as bounds, s, y and point as long as x, and parts as members");
            Free free;
            return cylinder_state(in, view(multipliers), view(s), view(y), view(parts), view(point));
        },
        nb::arg("x").noconvert(), nb::arg("members").noconvert(), nb::arg("starts").noconvert(),
        nb::arg("bounds").noconvert(), nb::arg("multipliers").noconvert(), nb::arg("s").noconvert(),
        nb::arg("y").noconvert(), nb::arg("parts").noconvert(), nb::arg("point").noconvert());
    m.def(
        "cylinder_solve",
        [](In x, Numbers members, Numbers starts, In bounds, double gap, Index most, Out multipliers, Out parts,
           Out point, Out y) {
            const Cylinders in = cylinders_of(x, members, starts, bounds);
            require(multipliers.size() == bounds.size() && y.size() == x.size() && point.size() == x.size() &&
                        parts.size() == members.size(),
                    "multipliers must be as many as bounds, y and point as long as x, and parts as members");
            Free free;
            return cylinder_solve(in, gap, most, view(multipliers), view(parts), view(point), view(y));
        },
        nb::arg("x").noconvert(), nb::arg("members").noconvert(), nb::arg("starts").noconvert(),
        nb::arg("bounds").noconvert(), nb::arg("gap"), nb::arg("most"), nb::arg("multipliers").noconvert(),
        nb::arg("parts").noconvert(), nb::arg("point").noconvert(), nb::arg("y").noconvert());
}

static void bind_latent(nb::module_ &m) {
    m.def(
        "into_balls",
        [](In y, Numbers members, Numbers starts, In bounds, Out inside) {
            const Members groups = members_of(members, starts, bounds, y.size());
            require(inside.size() == y.size(), "inside must be as long as y");
            Free free;
            into_balls(view(y), groups, view(bounds), view(inside));
        },
        nb::arg("y").noconvert(), nb::arg("members").noconvert(), nb::arg("starts").noconvert(),
        nb::arg("bounds").noconvert(), nb::arg("inside").noconvert());
    m.def(
        "apart_from_support",
        [](In y, In parts, Numbers members, Numbers starts, In bounds) {
            const Members groups = members_of(members, starts, bounds, y.size());
            require(parts.size() == members.size(), "parts must be as many as members");
            Free free;
            return apart_from_support(view(y), view(parts), groups, view(bounds));
        },
        nb::arg("y").noconvert(), nb::arg("parts").noconvert(), nb::arg("members").noconvert(),
        nb::arg("starts").noconvert(), nb::arg("bounds").noconvert());
}

static void bind_overlap(nb::module_ &m) {
    m.def(
        "renew_rest",
        [](In x, In parts, Numbers members, Out rest) {
            require(rest.size() == x.size() && parts.size() == members.size() &&
                        below(view(members), Index(x.size())),
                    "rest must be as long as x, and parts as many as members, which are coordinates of x");
            Free free;
            renew_rest(view(x), view(parts), view(members), view(rest));
        },
        nb::arg("x").noconvert(), nb::arg("parts").noconvert(), nb::arg("members").noconvert(),
        nb::arg("rest").noconvert());
    m.def(
        "overlap_gap",
        [](In x, In rest, In parts, Numbers members, Numbers starts, In bounds, Out clean) {
            const Members groups = members_of(members, starts, bounds, x.size());
            require(rest.size() == x.size() && clean.size() == x.size() && parts.size() == members.size(),
                    "rest and clean must be as long as x, and parts as many as members");
            Free free;
            return overlap_gap(view(x), view(rest), view(parts), groups, view(bounds), view(clean));
        },
        nb::arg("x").noconvert(), nb::arg("rest").noconvert(), nb::arg("parts").noconvert(),
        nb::arg("members").noconvert(), nb::arg("starts").noconvert(), nb::arg("bounds").noconvert(),
        nb::arg("clean").noconvert());
    m.def(
        "overlap_solve",
        [](In x, Numbers members, Numbers starts, In bounds, double tolerance, double gap, Index most, Out rest,
           Out parts) {
            const Members groups = members_of(members, starts, bounds, x.size());
            require(rest.size() == x.size() && parts.size() == members.size(),
                    "rest must be as long as x, and parts as many as members");
            Free free;
            return overlap_solve(view(x), groups, view(bounds), tolerance, gap, most, view(rest), view(parts));
        },
        nb::arg("x").noconvert(), nb::arg("members").noconvert(), nb::arg("starts").noconvert(),
        nb::arg("bounds").noconvert(), nb::arg("tolerance"), nb::arg("gap"), nb::arg("most"),
        nb::arg("rest").noconvert(), nb::arg("parts").noconvert());
}

void bind_proxes(nb::module_ &m) {
    bind_chain(m);
    bind_cuts(m);
    bind_cylinders(m);
    bind_latent(m);
    bind_overlap(m);
}

}  // namespace reshuffle
