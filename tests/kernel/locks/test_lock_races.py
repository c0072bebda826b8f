"""Locks between real processes: in order, one at a time, and no dead process in the way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aop.kernel.record.documents.locks import Lock
from tests.kernel.tools.worlds import configured, events, state_of
from tests.racing import race, running, until
from tests.world import World, files, plan_for

FEATURES = [f"feature-{number}" for number in range(5)]
QUICK = {"initial_seconds": 0.01, "multiplier": 1.5, "max_seconds": 0.05, "jitter": 0.5}

CALL = """
from aop.wiring.build import Settings, build
root, *calls = sys.argv[1:]
app = build(Path(root), Settings.from_env(os.environ))
ready()
answers = [app.gateway.call(app.person, *json.loads(each)).as_json() for each in calls]
print(json.dumps(answers[-1]))
"""


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[World]:
    """Five features, and waiters that look often."""
    world = configured(tmp_path / "repo", policy={"locks": {"acquire_backoff": QUICK}, "collision_policy": "block"})
    for feature in FEATURES:
        world.init(feature)
    yield world
    world.close()


def acquiring(feature: str, wait: float = 300) -> str:
    arguments = {"feature_id": feature, "resource": "openapi", "wait_timeout_seconds": wait}
    return json.dumps(["locks.acquire", arguments])


def releasing(feature: str) -> str:
    return json.dumps(["locks.release", {"feature_id": feature, "resource": "openapi"}])


def line(world: World) -> list[str]:
    """Return who waits, in order."""
    with world.app.record.read() as view:
        lock = view.get(Lock, "openapi")
    return [each.feature_id for each in lock.waiters] if lock else []


def told(world: World, kind: str) -> list[Any]:
    with world.app.record.read() as view:
        return [entry.event.feature_id for entry in view.journal(kinds=(kind,))]


def is_line(world: World, expected: list[str]) -> bool:
    return line(world) == expected


def stand_in_line(world: World, stack: ExitStack, features: Sequence[str], *after: str) -> list[Any]:
    """Start a process for each feature, which waits for the lock; return when they stand in this order."""
    children = []
    for number, feature in enumerate(features):
        calls = [acquiring(feature), *([releasing(feature)] if "release" in after else [])]
        child = stack.enter_context(running(CALL, world.root, *calls))
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
        until(partial(is_line, world, list(features[: number + 1])))
        children.append(child)
    return children


@pytest.mark.req("AOP-221")
def test_of_processes_that_ask_at_once_one_gets_the_lock(quick: World) -> None:
    answers = race(CALL, [(quick.root, acquiring(feature, 0)) for feature in FEATURES])
    won = [answer["data"]["feature_id"] for answer in answers if answer["ok"]]
    assert len(won) == 1
    lost = [answer["error"] for answer in answers if not answer["ok"]]
    assert [(error["code"], error["details"]["holder"]) for error in lost] == [("lock_conflict", won[0])] * 4
    assert told(quick, "lock_acquired") == won
    assert [feature for feature in FEATURES if state_of(quick, feature).locks.held] == won


@pytest.mark.slow
@pytest.mark.req("AOP-221")
def test_waiting_processes_get_the_lock_in_the_order_in_which_they_asked(quick: World) -> None:
    quick.ok("locks.acquire", feature_id=FEATURES[0], resource="openapi")
    order = [FEATURES[number] for number in (3, 1, 4, 2)]
    with ExitStack() as stack:
        children = stand_in_line(quick, stack, order, "release")
        quick.ok("locks.release", feature_id=FEATURES[0], resource="openapi")
        assert [json.loads(child.communicate(timeout=300)[0])["ok"] for child in children] == [True] * 4
    assert told(quick, "lock_acquired") == [FEATURES[0], *order]
    assert line(quick) == []


@pytest.mark.slow
@pytest.mark.req("AOP-221")
def test_a_process_that_died_in_line_keeps_nobody_waiting(quick: World) -> None:
    quick.ok("locks.acquire", feature_id=FEATURES[0], resource="openapi")
    with ExitStack() as stack:
        first, second = stand_in_line(quick, stack, FEATURES[1:3])
        first.kill()
        first.wait()
        error = quick.refusal("locks.acquire", feature_id=FEATURES[3], resource="openapi", wait_timeout_seconds=0)
        assert error["details"]["waiting_before"] == [FEATURES[2]]
        quick.ok("locks.release", feature_id=FEATURES[0], resource="openapi")
        answer = json.loads(second.communicate(timeout=300)[0])
    assert (answer["data"]["feature_id"], answer["data"]["fence"]) == (FEATURES[2], 2)


@pytest.mark.slow
def test_a_newcomer_does_not_overtake_who_waits(quick: World) -> None:
    quick.ok("locks.acquire", feature_id=FEATURES[0], resource="openapi")
    with ExitStack() as stack:
        (waiter,) = stand_in_line(quick, stack, FEATURES[1:2])
        quick.ok("locks.release", feature_id=FEATURES[0], resource="openapi")
        answer = quick.call("locks.acquire", feature_id=FEATURES[2], resource="openapi", wait_timeout_seconds=0)
        assert answer.error is not None
        assert (answer.error["code"], answer.error["details"]["conflicting_feature_ids"]) == (
            "lock_conflict",
            [FEATURES[1]],
        )
        assert json.loads(waiter.communicate(timeout=300)[0])["ok"]


@pytest.mark.req("AOP-025", "AOP-042", "AOP-209")
def test_of_colliding_plans_that_come_at_once_one_is_accepted_and_the_others_wait(quick: World) -> None:
    calls = [
        json.dumps(["plan.submit", {"feature_id": feature, "plan_json": plan_for(feature)}]) for feature in FEATURES
    ]
    answers = race(CALL, [(quick.root, call) for call in calls])
    won = [answer["data"]["feature_id"] for answer in answers if answer["ok"]]
    codes = [answer["error"]["code"] for answer in answers if not answer["ok"]]
    assert (len(won), codes) == (1, ["blocked_by_collision_policy"] * 4)
    assert (told(quick, "plan_accepted"), len(told(quick, "plan_blocked"))) == (won, 4)
    index = json.loads((quick.root / "agentic/features/index.json").read_text())
    waiting = [each["feature_id"] for each in index["blocked_queue"]]
    assert sorted([*won, *waiting]) == FEATURES
    for feature in (won[0], *waiting[:-1]):
        plan = plan_for(feature, plan_version=2, revision_of=1, files=files(create=(f"src/{feature}.txt",)))
        quick.ok("plan.update", feature_id=feature, expected_plan_version=1, plan_json=plan)
    assert told(quick, "plan_accepted") == [*won, *waiting]
    assert events(quick)[-1] == "plan_accepted"
