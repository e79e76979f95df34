"""Secure sums under attack: each line of the table in docs/secure.md, played by a driver, a site or a broken line."""

from __future__ import annotations

import itertools
import json
import logging
import pickle
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("Crypto", reason='an extra: pip install "reshuffle[secure]"')

from secure_room import Room, changed, never

from reshuffle.engines import Failure, Reply, Task
from reshuffle.errors import InputError
from reshuffle.federated.secure import Secure
from reshuffle.federated.secure.attempt import NoSum
from reshuffle.federated.secure.fixed_point import FixedPoint
from reshuffle.federated.secure.header import SKEW, KeyRow
from reshuffle.federated.secure.masks import (
    MASK,
    SIZE,
    add_mask,
    combine,
    pair_mask_key,
    private_key,
)
from reshuffle.federated.secure.wire import numbers, packed, read_rows, sent

VALUES = np.array(
    [[1.5, -2.0, 0.25], [10.0, 3.0, -7.0], [0.5, 0.5, 0.5], [-4.0, 8.0, 1.0], [2.0, -1.0, 3.0]]
)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "all"


def room(keys: Path, count: int = 5, **settings: Any) -> Room:
    folder = keys.parent / f"{count}"
    return Room(folder, VALUES[:count], Secure(**settings))


def refused(one: Room, number: int = 0, partial: bool = True) -> str:
    """The attempt fails, nothing is decoded; the reasons that sites gave."""
    with pytest.raises((NoSum, InputError)):
        one.attempt(number, partial).run()
    return " | ".join(one.refusals)


# --- what an honest driver gets ----------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_driver_gets_the_sum_and_no_single_value(keys: Path, count: int) -> None:
    one = room(keys, count)
    one.values = np.random.default_rng(0).uniform(-1, 1, (count, 3))
    found = one.attempt().run()["model"]
    np.testing.assert_allclose(
        found, one.values.sum(axis=0), rtol=0, atol=FixedPoint(6, count).error
    )
    plain = [FixedPoint(6, count).encode(v).tobytes() for v in one.values]
    seen = b"".join(
        np.ascontiguousarray(part).tobytes() if isinstance(part, np.ndarray) else str(part).encode()
        for _, reply in one.heard for part in reply.more.values()
    )  # fmt: skip
    assert not any(word[k : k + 8] in seen for word in plain for k in (0, 8, 16))


def test_masks_are_new_in_every_attempt(keys: Path) -> None:
    one = room(keys)
    one.attempt(0).run()
    first = one.answer("secure-input", 2)
    one.attempt(1).run()
    second = one.answer("secure-input", 2)
    a, b = (np.asarray(reply.more["secure_masked"]) for reply in (first, second))
    assert not np.any(a == b)
    rows = [reply.more["secure_keys"] for task, reply in one.heard if task.kind == "secure-keys"]
    assert len({np.asarray(row).tobytes()[:32] for row in rows}) == len(rows) == 10


# --- sites that drop out -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["secure-keys", "secure-shares", "secure-input"])
@pytest.mark.parametrize("arrives", [False, True])
def test_a_site_that_drops_out_before_its_input_is_left_out(
    keys: Path, kind: str, arrives: bool
) -> None:
    one = room(keys)
    if arrives:  # the question arrives, and the answer is lost
        one.lost.add((kind, 1))
    else:
        one.changes[kind, 1] = never
    attempt = one.attempt()
    np.testing.assert_array_equal(attempt.run()["model"], VALUES[[0, 2, 3, 4]].sum(axis=0))
    assert attempt.survivors == (0, 2, 3, 4)


@pytest.mark.parametrize("kind", ["secure-agree", "secure-unmask"])
def test_a_site_that_drops_out_after_its_input_is_counted(keys: Path, kind: str) -> None:
    one = room(keys)
    one.changes[kind, 4] = never
    np.testing.assert_array_equal(one.attempt().run()["model"], VALUES.sum(axis=0))


def test_sites_may_drop_out_at_different_times(keys: Path) -> None:
    one = room(keys, threshold=3)
    one.changes["secure-input", 0] = never
    one.changes["secure-unmask", 3] = never
    np.testing.assert_array_equal(one.attempt().run()["model"], VALUES[1:].sum(axis=0))


@pytest.mark.parametrize(
    "kind", ["secure-keys", "secure-shares", "secure-input", "secure-agree", "secure-unmask"]
)
def test_below_the_threshold_there_is_no_sum(keys: Path, kind: str) -> None:
    one = room(keys)
    for client in (0, 1):
        one.changes[kind, client] = never
    refused(one)


def test_where_everybody_is_needed_nothing_is_unmasked_without_one(keys: Path) -> None:
    one = room(keys)
    one.changes["secure-input", 1] = never
    refused(one, partial=False)
    assert {task.kind for task, _ in one.heard} == {"secure-keys", "secure-shares", "secure-input"}
    one.changes.clear()  # it is back: a new attempt at the same sum, with other masks
    np.testing.assert_array_equal(one.attempt(0, False).run()["model"], VALUES.sum(axis=0))


# --- a driver that wants more ------------------------------------------------------------------


def test_a_late_answer_is_of_no_use_to_the_driver(keys: Path) -> None:
    """It has removed the masks of the pairs of site 1, whose answer then comes."""
    one = room(keys)
    one.lost.add(("secure-input", 1))
    late: list[Reply] = []
    ask = one.say

    def listening(task: Task, client: int) -> Reply | Failure:
        answer = ask(task, client)
        if task.kind == "secure-input" and client == 1 and isinstance(answer, Reply):
            late.append(answer)
        return answer

    one.say = listening  # type: ignore[method-assign]
    attempt = one.attempt()
    attempt.run()
    header = attempt.header
    rows = {
        r.client: KeyRow.of(np.asarray(r.more["secure_keys"]).tobytes())
        for t, r in one.heard if t.kind == "secure-keys"
    }  # fmt: skip
    given = {
        r.client: read_rows(r.more, "shares", SIZE)
        for t, r in one.heard
        if t.kind == "secure-unmask"
    }
    secret = private_key(
        combine(header.shares, {h: shares[1] for h, shares in given.items()}), MASK
    )
    words = np.array(late[0].more["secure_masked"])
    for other in (0, 2, 3, 4):
        key = pair_mask_key(secret, rows[other].masking, header, 1, other)
        add_mask(words, key, -1 if 1 < other else 1)
    left = FixedPoint(6, 5).decode(words)
    assert np.all(np.abs(left - VALUES[1]) > 1e-3)  # its own mask is still there
    # and nobody gives the shares of that one any more
    more = sent({"survivors": numbers(range(5)), "attempt": header.attempt})
    more |= sent(packed("signatures", {}))
    for client in (0, 2, 3, 4):
        for kind in ("secure-agree", "secure-unmask"):
            answer = one.say(replace(one.task(), kind=kind, more=more), client)
            assert isinstance(answer, Failure)
            assert "answered already" in answer.reason


def test_nobody_gives_both_secrets_of_a_site(keys: Path) -> None:
    """Asked for another set after the first, in the same attempt, sites refuse; whatever the order."""
    one = room(keys, threshold=3)
    attempt = one.attempt()
    attempt.run()
    without = sent({"survivors": numbers((0, 2, 3)), "attempt": attempt.header.attempt})
    for client in (0, 2, 3):
        assert isinstance(
            one.say(replace(one.task(), kind="secure-agree", more=without), client), Failure
        )
    for client, reply in ((r.client, r) for t, r in one.heard if t.kind == "secure-unmask"):
        assert len(read_rows(reply.more, "shares", SIZE)) == 4  # one of each neighbour
        held = one.guards[client].rounds[client]
        assert (held.held, held.own, held.masking, held.sealing) == ({}, b"", b"", b"")


def test_a_driver_that_tells_sites_different_sets_gets_nothing(keys: Path) -> None:
    """Sites 0 and 1 are told that site 4 dropped out, the others that it is there."""
    one = room(keys, threshold=3)
    lie = changed(secure_survivors=numbers((0, 1, 2, 3)))
    one.changes["secure-agree", 0] = one.changes["secure-agree", 1] = lie
    told = refused(one)
    assert "not signed by the key" in told
    assert not [reply for task, reply in one.heard if task.kind == "secure-unmask"]


def test_a_driver_that_leaves_out_the_signatures_gets_nothing(keys: Path) -> None:
    one = room(keys)
    few = {0: bytes(64)}
    for client in range(5):
        one.changes["secure-unmask", client] = changed(**sent(packed("signatures", {})))
    assert "0 sites have signed" in refused(one)
    one = room(keys)
    for client in range(5):
        one.changes["secure-unmask", client] = changed(**sent(packed("signatures", few)))
    assert "not signed by the key" in refused(one)


@pytest.mark.parametrize(
    ("kind", "part"),
    [("secure-agree", "survivors"), ("secure-input", "senders")],
)
@pytest.mark.parametrize(
    ("named", "why"),
    [
        ((0, 1, 2), "below the threshold"),
        ((0,), "below the threshold"),
        ((0, 1, 2, 3, 9), "do not belong"),
        ((1, 2), "without this site"),
    ],
)
def test_a_set_that_is_too_small_or_strange_is_refused(
    keys: Path, kind: str, part: str, named: tuple[int, ...], why: str
) -> None:
    one = room(keys)
    for client in range(5):
        one.changes[kind, client] = changed(**{f"secure_{part}": numbers(named)})
    assert why in refused(one)


def test_a_site_that_is_named_twice_is_refused(keys: Path) -> None:
    one = room(keys)
    twice = np.array([0, 1, 2, 3, 3], dtype=np.int64)
    one.changes["secure-agree", 0] = one.changes["secure-agree", 1] = changed(
        secure_survivors=twice
    )
    assert "names a site twice" in refused(one)


def test_keys_of_too_few_sites_are_refused(keys: Path) -> None:
    one = room(keys)

    def few(task: Task) -> Task:
        rows = read_rows(task.more, "keys", 136)
        return replace(
            task, more={**task.more, **sent(packed("keys", {c: rows[c] for c in (0, 1)}))}
        )

    for client in range(5):
        one.changes["secure-shares", client] = few
    assert "below the threshold" in refused(one)


def test_a_driver_that_names_its_own_keys_is_refused(keys: Path) -> None:
    """The man in the middle: it puts in the keys of somebody else for site 3."""
    one = room(keys)

    def forged(task: Task) -> Task:
        rows = read_rows(task.more, "keys", 136)
        rows[3] = bytes(range(64)) + rows[3][64:]
        return replace(task, more={**task.more, **sent(packed("keys", rows))})

    for client in range(5):
        one.changes["secure-shares", client] = forged
    assert "in the name of 'site3' is not signed" in refused(one)


def test_swapped_keys_and_keys_of_another_attempt_are_refused(keys: Path) -> None:
    one = room(keys)
    one.attempt(0).run()
    old = {
        r.client: np.asarray(r.more["secure_keys"]).tobytes()
        for t, r in one.heard
        if t.kind == "secure-keys"
    }

    def swapped(task: Task) -> Task:
        rows = read_rows(task.more, "keys", 136)
        return replace(
            task, more={**task.more, **sent(packed("keys", {**rows, 1: rows[2], 2: rows[1]}))}
        )

    def replayed(task: Task) -> Task:
        rows = read_rows(task.more, "keys", 136)
        return replace(task, more={**task.more, **sent(packed("keys", {**rows, 1: old[1]}))})

    for number, change in enumerate((swapped, replayed), 1):
        for client in range(5):
            one.changes["secure-shares", client] = change
        assert "is not signed" in refused(one, number)


def test_a_site_that_uses_anothers_round_keys_is_refused(keys: Path) -> None:
    """Site 2 signs the very keys of site 1 as its own: their masks would be known to each other."""
    one = room(keys)

    def copied(task: Task) -> Task:
        rows = read_rows(task.more, "keys", 136)
        header = one.guards[2].rounds[2].header
        from reshuffle.federated.secure.header import row_of
        from reshuffle.federated.secure.keys import open_keys

        rows[2] = row_of(
            open_keys(one.folder, "site2"), header, int(time.time()), rows[1][:32], rows[1][32:64]
        ).packed()
        return replace(task, more={**task.more, **sent(packed("keys", rows))})

    for client in (0, 3, 4):
        one.changes["secure-shares", client] = copied
    assert "two of the keys for this sum are the same" in refused(one)


def test_a_sum_is_given_once(keys: Path) -> None:
    """The sum of all and the sum of all but one would tell the value of one."""
    one = room(keys)
    one.attempt(0).run()
    one.changes["secure-input", 1] = never
    assert "a second one over other sites would tell a single value" in refused(one, 0)
    one.changes.clear()
    one.attempt(1).run()


def test_an_attempt_is_begun_once_and_its_questions_come_in_order(keys: Path) -> None:
    one = room(keys)
    header = one.header(0)
    one.changes["secure-input", 0] = never
    with pytest.raises(NoSum):
        one.attempt(0, False, header).run()
    with pytest.raises(NoSum):
        one.attempt(0, True, header).run()  # replayed from its beginning
    assert one.refusals[-1] == "this attempt at a secure sum was begun before"
    fresh = one.header(3)
    begin = replace(
        one.task(3),
        kind="secure-keys",
        more=sent({"header": fresh.text(), "attempt": fresh.attempt}),
    )
    assert isinstance(one.say(begin, 0), Reply)
    more = sent({"survivors": numbers(range(5)), "attempt": fresh.attempt})
    answer = one.say(replace(one.task(3), kind="secure-agree", more=more), 0)
    assert isinstance(answer, Failure)
    assert "asked before its time" in answer.reason
    other = one.say(
        replace(one.task(3), kind="secure-agree", more={**more, "secure_attempt": "x"}), 0
    )
    assert isinstance(other, Failure)
    assert "another attempt" in other.reason


def test_shares_that_were_changed_on_the_way_are_refused(keys: Path) -> None:
    one = room(keys)

    def broken(task: Task) -> Task:
        own = dict(task.own[0])
        sealed = np.array(own["secure_sealed"])
        sealed[1, 5] ^= 1
        return replace(task, own={0: {**own, "secure_sealed": sealed}})

    one.changes["secure-input", 0] = broken
    attempt = one.attempt()
    attempt.run()
    assert 0 not in attempt.survivors
    assert "cannot be opened" in one.refusals[0]


def test_sites_that_were_told_of_other_keys_do_not_work_together(keys: Path) -> None:
    """Sites 0 and 1 are not told of site 4."""
    one = room(keys, threshold=3)

    def fewer(task: Task) -> Task:
        rows = read_rows(task.more, "keys", 136)
        return replace(
            task, more={**task.more, **sent(packed("keys", {c: rows[c] for c in range(4)}))}
        )

    one.changes["secure-shares", 0] = one.changes["secure-shares", 1] = fewer
    told = refused(one)
    assert "cannot be opened" in told or "do not belong" in told


def test_a_question_that_differs_between_sites_is_refused(keys: Path) -> None:
    one = room(keys)
    one.changes["secure-input", 2] = changed(wants="gradient")
    attempt = one.attempt()
    attempt.run()
    assert "the question is another" in one.refusals[0]
    assert 2 not in attempt.survivors


@pytest.mark.parametrize("change", [{"threshold": 3}, {"shares": 2}, {"degree": 2}])
def test_a_driver_cannot_lower_the_threshold(keys: Path, change: dict[str, Any]) -> None:
    one = room(keys)
    header = replace(one.header(), **change)
    with pytest.raises(NoSum):
        one.attempt(header=header).run()
    assert "and this site takes part with 4, 4, 4" in one.refusals[0]


@pytest.mark.parametrize(
    ("sites", "why"),
    [
        (((0, "site0"),), "at least two"),
        (
            ((0, "site1"), (1, "site0"), (2, "site2"), (3, "site3"), (4, "site4")),
            "the driver calls this site site1",
        ),
        (
            ((0, "site0"), (1, "site1"), (2, "site2"), (3, "site3"), (4, "site3")),
            "must be different",
        ),
        (
            ((0, "site0"), (2, "site2"), (1, "site1"), (3, "site3"), (4, "site4")),
            "in ascending order",
        ),
    ],
)
def test_strange_lists_of_sites_are_refused(
    keys: Path, sites: tuple[tuple[int, str], ...], why: str
) -> None:
    one = room(keys)
    with pytest.raises(NoSum):
        one.attempt(header=replace(one.header(), sites=sites)).run()
    assert why in one.refusals[0]


def test_plain_questions_get_no_answer(keys: Path) -> None:
    one = room(keys)
    for kind, more in (("train", {}), ("value", {}), ("curvature", {}), ("columns", {}), ("below", {}),
                       ("hello", {"moments": 1}), ("anything", {})):  # fmt: skip
        answer = one.say(replace(one.task(), kind=kind, more=more), 0)
        assert isinstance(answer, Failure)
        assert "secure sums only" in answer.reason
    header = replace(one.header(), kind="hello")
    with pytest.raises(NoSum):
        one.attempt(header=header).run()
    assert "there is no secure sum of hello" in one.refusals[-1]


def test_a_driver_that_counts_fewer_samples_than_a_site_has_is_refused(keys: Path) -> None:
    one = room(keys)
    with pytest.raises(NoSum):
        one.attempt(header=replace(one.header(), samples=9)).run()
    assert "the driver counts 9 samples" in one.refusals[0]


def test_another_point_under_the_announced_digest_is_refused(keys: Path) -> None:
    one = room(keys)
    one.changes["secure-input", 2] = lambda task: replace(task, x=np.ones(3))
    attempt = one.attempt()
    attempt.run()
    assert "the question is another" in one.refusals[0]
    assert 2 not in attempt.survivors


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"sites": 3}', '{"sites": [[0, "a", 1]]}']
)
def test_heads_that_are_no_heads_are_refused(keys: Path, text: str) -> None:
    one = room(keys)
    answer = one.say(
        replace(one.task(), kind="secure-keys", more=sent({"header": text, "attempt": ""})), 0
    )
    assert isinstance(answer, Failure)
    assert "the head of a secure sum is damaged" in answer.reason
    broken = json.dumps({**json.loads(one.header().text()), "exponent": "x"})
    answer = one.say(
        replace(one.task(), kind="secure-keys", more=sent({"header": broken, "attempt": ""})), 0
    )
    assert isinstance(answer, Failure)


def test_an_answer_is_masked_once(keys: Path) -> None:
    """Two answers under the same masks would tell their difference."""
    one = room(keys)
    one.changes["secure-agree", 0] = never
    one.attempt().run()
    for client in range(5):
        one.changes["secure-agree", client] = never
    refused(one, 1)
    with pytest.raises(InputError, match="has masked its answer"):
        one.guards[3].rounds[3].masked(np.zeros(3, np.uint64))


# --- colluding sites, and what a sum itself tells ----------------------------------------------


def test_sites_below_the_threshold_cannot_rebuild_a_secret(keys: Path) -> None:
    """The driver and t - 1 sites pool their shares of site 0's secrets."""
    one = room(keys)
    one.changes["secure-agree", 0] = never
    secrets: dict[int, bytes] = {}
    for client in range(5):
        one.changes["secure-agree", client] = never
    refused(one)
    victim = one.guards[0].rounds[0]
    for client in (1, 2, 3, 4):
        secrets[client] = one.guards[client].rounds[client].held[0]
    threshold = victim.header.shares
    assert combine(threshold, {c: both[SIZE:] for c, both in secrets.items()}) == victim.own
    assert threshold == 4
    for few in itertools.combinations(secrets, threshold - 1):
        assert combine(threshold - 1, {c: secrets[c][SIZE:] for c in few}) != victim.own


def test_of_two_sites_each_learns_the_others_value(keys: Path) -> None:
    """Said plainly in the docs: a sum and one of its two parts are the other part."""
    one = room(keys, 2)
    total = one.attempt().run()["model"]
    np.testing.assert_array_equal(total - VALUES[0], VALUES[1])


# --- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_does_not_leave(keys: Path, value: float) -> None:
    one = room(keys)
    one.values = VALUES.copy()
    one.values[2, 1] = value
    attempt = one.attempt()
    attempt.run()
    assert one.refusals == ["its model holds NaN or infinity, and does not leave"]
    assert 2 not in attempt.survivors


def test_what_is_out_of_range_does_not_leave_and_the_range_is_named(keys: Path) -> None:
    one = room(keys)
    one.values = VALUES.copy()
    one.values[2, 1] = 65.0
    attempt = one.attempt()
    with pytest.raises(NoSum):
        attempt.run()
    assert attempt.beyond == {"model"}
    assert one.answer("secure-input", 2).more == {"secure_beyond": json.dumps(["model"])}
    assert {task.kind for task, _ in one.heard} == {"secure-keys", "secure-shares", "secure-input"}
    one.sums.ranges.raise_for(["model"])
    np.testing.assert_array_equal(one.attempt().run()["model"], one.values.sum(axis=0))


# --- clocks, secrets ---------------------------------------------------------------------------


@pytest.mark.parametrize("off", [-2 * SKEW, 2 * SKEW])
def test_keys_of_another_time_are_refused(
    keys: Path, off: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = room(keys)
    now = time.time()
    guard = one.guards[2]

    def wrong(task: Task) -> Task:
        monkeypatch.setattr("reshuffle.federated.secure.guard.time.time", lambda: now + off)
        return task

    def right(task: Task) -> Task:
        monkeypatch.setattr("reshuffle.federated.secure.guard.time.time", lambda: now)
        return task

    one.changes["secure-keys", 2], one.changes["secure-keys", 3] = wrong, right
    assert "set the clocks" in refused(one)
    assert guard.rounds


def test_secrets_are_in_no_log_no_text_and_no_pickle(
    keys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = room(keys)
    for client in range(5):
        one.changes["secure-unmask", client] = never
    with caplog.at_level(logging.DEBUG):
        refused(one)
    for client, guard in one.guards.items():
        held = guard.rounds[client]
        assert not held.masking  # used, and gone
        secrets = [held.sealing, held.own, *held.held.values()]
        assert all(secrets)
        texts = repr(guard) + repr(held) + caplog.text
        copied = pickle.dumps(guard)
        for secret in secrets:
            assert secret not in copied
            assert secret.hex() not in texts
            assert repr(secret) not in texts
    assert pickle.loads(pickle.dumps(one.guards[0])).rounds == {}


def test_a_guard_goes_on_in_another_process_of_its_node(keys: Path) -> None:
    one = room(keys)
    ask = one.say

    def moved(task: Task, client: int) -> Reply | Failure:
        old = one.guards[client]
        new = type(old)(old.secure, old.names, old.folders)
        new.restore(old.state())
        one.guards[client] = new
        return ask(task, client)

    one.say = moved  # type: ignore[method-assign]
    one.changes["secure-input", 1] = never
    np.testing.assert_array_equal(one.attempt().run()["model"], VALUES[[0, 2, 3, 4]].sum(axis=0))


# --- many sites --------------------------------------------------------------------------------


def test_many_sites_with_few_neighbours_and_dropouts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    one = Room(tmp_path / "keys", np.round(rng.uniform(-8, 8, (40, 6)), 3))
    one.changes["secure-shares", 3] = one.changes["secure-input", 9] = one.changes[
        "secure-input", 30
    ] = never
    one.changes["secure-unmask", 17] = never
    attempt = one.attempt()
    assert attempt.header.degree == 14
    found = attempt.run()["model"]
    left = [c for c in range(40) if c not in (3, 9, 30)]
    np.testing.assert_allclose(
        found, one.values[left].sum(axis=0), rtol=0, atol=FixedPoint(6, 40).error
    )


def test_each_line_of_the_table_of_attacks_names_its_tests() -> None:
    here = Path(__file__).parent
    page = (here.parents[1] / "docs" / "secure.md").read_text(encoding="utf-8")
    table = page.partition("| attack |")[2].partition("<!--")[0].splitlines()[2:]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line]
    assert len(lines) >= 26
    files = [(here / f"test_secure_{name}.py").read_text() for name in ("attacks", "sums", "parts")]
    for line in lines:
        _, _, tests = line
        for name in tests.split(", "):
            assert any(f"def test_{name.strip('`')}(" in text for text in files), line
