"""The parts of secure sums: fixed point, masks, shares, the graph of neighbours, keys."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("Crypto", reason='an extra: pip install "reshuffle[secure]"')

import reshuffle as rs
from reshuffle.engines import Reply
from reshuffle.errors import InputError
from reshuffle.federated.secure.fixed_point import MOST_SITES, FixedPoint, exponent_of
from reshuffle.federated.secure.graph import degree_of, neighbours
from reshuffle.federated.secure.keys import make_keys, open_keys
from reshuffle.federated.secure.masks import (
    PIECE,
    add_mask,
    combine,
    derived,
    pair_secret,
    private_key,
    public_bytes,
    seal,
    split,
    unseal,
)
from reshuffle.federated.secure.parts import parts_of
from reshuffle.federated.secure.ranges import Ranges

Secure = rs.federated.Secure


@settings(max_examples=200, deadline=None)
@given(
    st.integers(-80, 80),
    st.integers(1, MOST_SITES),
    st.integers(0, 2**32),
    st.sampled_from(["uniform", "largest", "tiny", "alternating"]),
)
def test_a_decoded_sum_is_off_by_less_than_2_to_the_minus_40_of_the_range(
    exponent: int, sites: int, seed: int, kind: str
) -> None:
    rng, point = np.random.default_rng(seed), FixedPoint(exponent, sites)
    bound = 2.0**exponent
    values = {
        "uniform": rng.uniform(-bound, bound, sites),
        "largest": np.full(sites, bound),
        "tiny": rng.standard_normal(sites) * bound * 2.0**-60,
        "alternating": bound * (-1.0) ** np.arange(sites),
    }[kind].clip(-bound, bound)
    with np.errstate(over="ignore"):
        total = point.encode(values).sum(dtype=np.uint64, keepdims=True)
    true = sum(map(Fraction, values.tolist()))
    off = abs(Fraction(float(point.decode(total)[0])) - true)
    assert off <= Fraction(point.error) <= Fraction(bound) * Fraction(1, 2**40)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=1e-300))
def test_the_exponent_of_a_size_is_the_least_that_holds_it(size: float) -> None:
    b = exponent_of(size)
    assert Fraction(size) <= Fraction(2) ** b
    assert Fraction(size) > Fraction(2) ** (b - 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 4.0 + 1e-12, -5.0])
def test_values_that_do_not_fit_are_refused(value: float) -> None:
    with pytest.raises(InputError, match="not finite or beyond the agreed range"):
        FixedPoint(2, 3).encode(np.array([0.0, value]))


def test_masks_of_a_pair_cancel_and_look_like_noise() -> None:
    one, two = private_key(b"a" * 16, b"t"), private_key(b"b" * 16, b"t")
    secret = pair_secret(one, public_bytes(two))
    assert secret == pair_secret(two, public_bytes(one))
    key = derived(secret, b"x")
    assert key != derived(secret, b"y")
    total = np.zeros(2 * PIECE + 5, np.uint64)
    add_mask(total, key, 1)
    bits = np.unpackbits(total.view(np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)
    assert np.unique(total).size == total.size
    add_mask(total, key, -1)
    assert not total.any()


def test_a_point_of_low_order_is_refused() -> None:
    with pytest.raises(InputError, match="not a valid point"):
        pair_secret(private_key(b"a" * 16, b"t"), bytes(32))


def test_enough_shares_give_the_secret_and_fewer_do_not() -> None:
    secret = bytes(range(16))
    shares = dict(enumerate(split(secret, 3, 5)))
    for some in ([0, 1, 2], [4, 2, 0], [1, 3, 4]):
        assert combine(3, {k: shares[k] for k in some}) == secret
    assert combine(2, {k: shares[k] for k in (0, 1)}) != secret


def test_sealed_shares_open_for_the_same_view_only() -> None:
    sealed = seal(b"k" * 32, b"text", b"view")
    assert unseal(b"k" * 32, sealed, b"view", "north") == b"text"
    for wrong in ((b"k" * 32, sealed, b"other"), (b"l" * 32, sealed, b"view"),
                  (b"k" * 32, bytes([sealed[0] ^ 1]) + sealed[1:], b"view")):  # fmt: skip
        with pytest.raises(InputError, match="the shares from north cannot be opened"):
            unseal(*wrong, "north")


@pytest.mark.parametrize("count", [21, 50, 100, 333])
def test_the_graph_is_regular_symmetric_and_follows_its_seed(count: int) -> None:
    k, sites = degree_of(count), tuple(range(7, 7 + count))
    graph = neighbours(sites, k, b"seed")
    assert k < count - 1
    assert all(len(near) == k and site not in near for site, near in graph.items())
    assert all(site in graph[other] for site, near in graph.items() for other in near)
    assert graph == neighbours(sites, k, b"seed") != neighbours(sites, k, b"other")


def test_up_to_twenty_sites_are_all_neighbours() -> None:
    assert [degree_of(count) for count in (2, 3, 20)] == [1, 2, 19]


def test_ranges_follow_residuals_and_grow_where_they_are_too_small() -> None:
    ranges = Ranges(6)
    ranges.raise_for(["gradient"])
    ranges.follow(
        {
            "model": np.ones(3),
            "square": np.array(1e-12),
            "slopes": np.empty(0),
            "changes": np.empty(0),
        }
    )
    assert ranges.exponents["gradient"] == 18
    assert ranges.exponents["model"] < -10
    assert ranges.exponents["square"] < -30
    with pytest.raises(InputError, match="no fixed point holds it"):
        ranges.raise_for(20 * ["gradient"])


@pytest.mark.parametrize("more", [{"places": np.arange(3)}, {"name": "north"}, {"values": 1.0}])
def test_parts_that_are_not_added_up_do_not_enter_a_sum(more: dict[str, Any]) -> None:
    reply = Reply("run", 0, 0, "", np.ones(2), None, more)
    with pytest.raises(InputError, match="cannot be part of a secure sum"):
        parts_of(reply, 0.5)
    whole = replace(reply, more={"value": 4.0, "square": 3.0})
    found = parts_of(whole, 0.5, (1, 1))
    assert {name: part.tolist() for name, part in found.items()} == {
        "model 0": [1.0], "model 1": [1.0], "square": 3.0, "value": 2.0,
    }  # fmt: skip


# --- keys --------------------------------------------------------------------------------------


def test_keys_are_for_their_owners_eyes_and_never_overwritten(tmp_path: Path) -> None:
    make_keys(tmp_path / "k", ["north", "south"])
    assert (tmp_path / "k/north.key").stat().st_mode & 0o777 == 0o600
    assert b"PRIVATE" not in (tmp_path / "k/north.pub").read_bytes()
    with pytest.raises(InputError, match="not overwritten"):
        make_keys(tmp_path / "k", ["north"])
    for names in (["a/b"], ["../x"], ["a", "a"], [""], ["-x"]):
        with pytest.raises(InputError, match="name"):
            make_keys(tmp_path / "l", names)
    assert not (tmp_path / "l").exists()


def test_signatures_of_others_are_refused(tmp_path: Path) -> None:
    make_keys(tmp_path, ["north", "south"])
    north, south = open_keys(tmp_path, "north"), open_keys(tmp_path, "south")
    south.check("north", b"text", north.sign(b"text"))
    for name, text, signature in (
        ("north", b"other", north.sign(b"text")), ("south", b"text", north.sign(b"text")),
        ("north", b"text", bytes(64)), ("east", b"text", north.sign(b"text")),
    ):  # fmt: skip
        with pytest.raises(InputError, match=r"not signed by the key|no public key of 'east'"):
            south.check(name, text, signature)
    assert "PRIVATE" not in repr(north)


def test_a_folder_of_keys_that_does_not_fit_is_refused_with_a_sentence(tmp_path: Path) -> None:
    def refused(
        match: str, name: str | None = "north", folder: Path | None = tmp_path / "k"
    ) -> None:
        with pytest.raises(InputError, match=match) as caught:
            open_keys(folder, name)
        assert str(tmp_path) not in str(caught.value)  # errors travel to the driver

    refused("no signing key for secure sums", folder=None)
    refused("reshuffle federate keys", folder=tmp_path / "none")
    make_keys(tmp_path / "k", ["north", "south"])
    refused("the folder has north.key, south.key", "east")
    own, pub = tmp_path / "k/north.key", tmp_path / "k/north.pub"
    own.chmod(0o640)
    refused("can be read by others")
    own.chmod(0o600)
    first = pub.read_bytes()
    pub.write_bytes((tmp_path / "k/south.pub").read_bytes())
    refused("is of another key")
    pub.unlink()
    refused("north.pub beside it is not there")
    pub.write_bytes(first)
    (tmp_path / "k/east.pub").write_bytes(first)
    refused("hold the same key")
    (tmp_path / "k/east.pub").write_bytes(b"rubbish")
    refused("east.pub is no public key")
    (tmp_path / "k/east.pub").unlink()
    own.write_bytes(b"rubbish")
    refused("north.key is no private key")
    if os.geteuid():
        own.chmod(0)
        refused("cannot be read")


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ({"threshold": 1}, "threshold must be an integer of at least 2"),
        ({"threshold": 2.5}, "threshold must be an integer"),
        ({"threshold": True}, "threshold must be an integer"),
        ({"neighbours": 3}, "neighbours must be even"),
        ({"range": 0.0}, "range must be a positive number"),
        ({"range": float("nan")}, "range must be a positive number"),
        ({"range": 1e300}, "range must be from"),
    ],
)
def test_settings_that_make_no_sense_are_refused(parts: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        Secure(**parts)  # type: ignore[arg-type]


def test_the_threshold_is_a_majority() -> None:
    assert [Secure().threshold_of(m) for m in (2, 3, 4, 10, 100)] == [2, 3, 3, 7, 67]
    for count in (4, 1, 2):
        with pytest.raises(InputError, match="more than half"):
            Secure(threshold=2 if count == 4 else 3).threshold_of(count)


def test_a_range_falls_with_the_sum_and_less_often_where_values_cancel() -> None:
    ranges, raised = Ranges(6), 0
    ranges.raise_for(["value"] * 4)
    ranges.follow({"value": np.array(1.0)})
    assert ranges.exponents["value"] == 8  # 1 is 2⁰, and sites may have 2⁸ times as much
    for _ in range(100):  # the sites' values are ±2¹⁵ in truth, and their sum is 1
        while ranges.exponents["value"] < 15:
            ranges.raise_for(["value"])
            raised += 1
        ranges.follow({"value": np.array(1.0)})
    assert raised <= 8
