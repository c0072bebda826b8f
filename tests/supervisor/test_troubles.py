"""Troubles of a model's provider: one wait or one question for all its features, and no attempt is used up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aop.core.errors import (
    AgentLoginExpired,
    AgentNotLoggedIn,
    ModelQuotaReached,
    ProviderAnswerCutOff,
    ProviderAnswerMalformed,
    ProviderOverloaded,
    ProviderPaymentRequired,
    ProviderTimedOut,
    ProviderTrouble,
    ProviderUnreachable,
)
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.runs import ProviderWait
from aop.supervisor.policy.state import AskPerson, AskWorker, FeatureRun, Finish, PersonAnswered, Resumed, TurnPostponed
from aop.supervisor.policy.state import WaitUntil as Wait
from aop.supervisor.policy.step import step
from aop.supervisor.workers import PatchProposal, PlanSubmission, WorkerInput, WorkerOutput
from aop.testing.memory_engine import Memory
from tests.clocks import clocked
from tests.kernel.tools.worlds import configured, patch_of
from tests.supervisor.worlds import Office, Watched, office
from tests.world import World, files, plan_for

AT = "2026-01-01T23:00:00.000Z"
RUN = FeatureRun(feature_id=FeatureId("one"), turns_allowed=3)
ASK = AskWorker(role=Role.PLANNER, instructions="", results=())
LIMITED = {"code": "model_quota_reached", "message": "anthropic limits the requests.", "details": {}}


def postponed(error: dict[str, Any] | None = None, *, waits: int = 0, **details: Any) -> TurnPostponed:
    told = {**(error or LIMITED), "details": details}
    return TurnPostponed(ask=ASK, error=told, at=AT, provider="anthropic", since=AT, waits=waits)


TOLD = {
    "seconds": ({"retry_after_seconds": 90.0}, "23:01:30.000Z"),
    "a moment": ({"retry_at": "2026-01-01T23:40:00.000Z"}, "23:40:00.000Z"),
    "a moment that is over": ({"retry_at": "2026-01-01T22:00:00.000Z"}, "23:00:01.000Z"),
    "nothing": ({"retry_at": ""}, "23:00:15.000Z"),
    "a negative time": ({"retry_after_seconds": -7.0}, "23:00:01.000Z"),
}


@pytest.mark.parametrize(("details", "until"), TOLD.values(), ids=TOLD)
def test_a_limited_turn_waits_for_the_time_that_the_provider_told_and_is_no_attempt(
    details: dict[str, Any], until: str
) -> None:
    run, wait = step(RUN, postponed(**details))
    assert isinstance(wait, Wait)
    assert (wait.provider, wait.until, wait.since) == ("anthropic", f"2026-01-01T{until}", AT)
    run, again = step(run, Resumed())
    assert (again, run.turns, run.attempts, run.rung) == (ASK, 0, (), RUN.rung)


def test_a_wait_is_never_longer_than_a_day() -> None:
    assert step(RUN, postponed(retry_after_seconds=1e9))[1] == Wait(
        until="2026-01-02T23:00:00.000Z", reason="anthropic limits the requests.", provider="anthropic", since=AT
    )


def seconds_of_waits(waits: int, **details: Any) -> list[str]:
    decided = [step(RUN, postponed(waits=number, **details))[1] for number in range(waits)]
    return [action.until[11:19] if isinstance(action, Wait) else "asks" for action in decided]


def test_without_a_time_each_wait_in_a_row_is_twice_as_long_up_to_an_hour() -> None:
    assert seconds_of_waits(5) == ["23:00:15", "23:00:30", "23:01:00", "23:02:00", "23:04:00"]
    assert seconds_of_waits(20)[8:] == ["00:00:00"] * 12


def test_times_that_always_prove_too_short_are_no_longer_believed() -> None:
    assert seconds_of_waits(7, retry_after_seconds=1.0) == ["23:00:01"] * 5 + ["23:08:00", "23:16:00"]


PATIENCE = {
    AgentNotLoggedIn: 0,
    AgentLoginExpired: 1,
    ProviderPaymentRequired: 0,
    ProviderTrouble: 5,
    ProviderUnreachable: 5,
    ProviderTimedOut: 2,
    ProviderAnswerCutOff: 3,
    ProviderAnswerMalformed: 2,
    ModelQuotaReached: None,
    ProviderOverloaded: None,
}


@pytest.mark.parametrize(("refusal", "waits"), PATIENCE.items(), ids=lambda value: getattr(value, "code", str(value)))
def test_after_so_many_waits_a_person_is_asked_about_what_may_not_pass_by_itself(
    refusal: type[ProviderTrouble], waits: int | None
) -> None:
    error = refusal("It is so.").as_error()
    decided = [step(RUN, postponed(error, waits=number))[1] for number in range(9)]
    asked = [number for number, action in enumerate(decided) if isinstance(action, AskPerson)]
    assert asked == ([] if waits is None else list(range(waits, 9)))


def test_the_question_is_about_the_provider_and_its_answer_is_given_to_the_turn_that_waits() -> None:
    error = AgentNotLoggedIn("anthropic rejects the key (HTTP status 401). It says: invalid x-api-key").as_error()
    run, asked = step(RUN, TurnPostponed(ask=ASK, error=error, at=AT, provider="anthropic", since=AT))
    assert asked == AskPerson(
        question=(
            "anthropic rejects the key (HTTP status 401). It says: invalid x-api-key. Log in or set the key first, and"
            " check it with `aop agents test PROVIDER`. `retry` lets every feature that waits for this answer go on;"
            " `stop` keeps their work and blocks them."
        ),
        detail={"error": error},
        gate="escalation",
        about="provider:anthropic",
        since=AT,
        choices=("retry", "stop"),
    )
    resumed, again = step(run, PersonAnswered(question="?", answer="retry"))
    assert (again, resumed.held_back, resumed.fault, resumed.turns, resumed.attempts) == (ASK, None, None, 0, ())
    assert step(run, PersonAnswered(question="?", answer="stop"))[1] == Finish(status=Status.BLOCKED, error=error)


# --- several features ------------------------------------------------------------------------------

NAMES = [FeatureId(f"f{number}") for number in range(6)]
SECRET = f"sk-ant-api03-{'aB3xY9' * 15}"


class Provider:
    """A provider of models that has a trouble until it is cured."""

    def __init__(self) -> None:
        self.trouble: Callable[[], ProviderTrouble] | None = None
        self.requests = 0

    def answer(self) -> None:
        self.requests += 1
        if self.trouble is not None:
            raise self.trouble()


class Metered(Watched):
    """A recorded worker whose provider may be in trouble."""

    def __init__(self, provider: Provider, name: FeatureId) -> None:
        path = f"src/{name}.txt"
        super().__init__(
            (Role.PLANNER, PlanSubmission(plan=plan_for(name, files=files(create=(path,))))),
            (Role.BUILDER, PatchProposal(unified_diff=patch_of(path, "Written."))),
        )
        self._provider = provider

    def turn(self, given: WorkerInput) -> WorkerOutput:
        self._provider.answer()
        return super().turn(given)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = configured(tmp_path / "repo")
    yield made
    made.close()


def workers(provider: Provider) -> dict[FeatureId, Watched]:
    return {name: Metered(provider, name) for name in NAMES}


def until_all(at_work: Office, does: str) -> None:
    """Work until every feature does one thing."""
    at_work.supervisor.supervise(
        until="ended", stopped=lambda: {each.does for each in at_work.board.entries().values()} == {does}
    )


def ends(at_work: Office) -> set[str]:
    return {str(entry.outcome.get("status", at_work.told[-9:])) for entry in at_work.settle().values()}


def events(world: World) -> Counter[str]:
    with world.app.record.read() as view:
        return Counter(entry.event.kind for entry in view.journal())


def limited() -> ProviderTrouble:
    return ModelQuotaReached(
        f"anthropic limits the requests (HTTP status 429). It says: slow down, {SECRET}",
        status=429,
        words=f"slow down, {SECRET}",
        retry_after_seconds=20.0,
    )


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same process", "another process"])
def test_all_features_of_a_limited_provider_share_one_wait_and_go_on_by_themselves(
    world: World, *, is_restarted: bool
) -> None:
    clock, memory, provider = clocked(world), Memory(), Provider()
    provider.trouble = limited
    with office(world, workers(provider), memory=memory) as at_work:
        at_work.supervisor.submit(NAMES)
        until_all(at_work, "sleeps")
        assert provider.requests <= 2
        inbox = world.ok("inbox.list")
        [wait] = inbox["waits"]
        assert (inbox["questions"], sorted(wait["features"]), SECRET in wait["reason"]) == ([], sorted(NAMES), False)
        assert wait["reason"].startswith("Waits for replay until 12:00:20 UTC: anthropic limits the requests")
        provider.trouble = None
        if not is_restarted:
            clock.go_on(20.0)
            assert ends(at_work) == {"ready_to_merge"}
    if is_restarted:
        clock.go_on(20.0)
        with office(world, workers(provider), memory=memory) as at_work:
            at_work.supervisor.submit(NAMES)
            assert ends(at_work) == {"ready_to_merge"}
    seen = events(world)
    assert (seen["provider_wait_began"], seen["provider_wait_ended"], seen["question_asked"]) == (1, 1, 0)
    assert waits_in(world) == []


def test_what_the_provider_said_is_shown_for_each_feature_and_recorded_for_the_turn_without_secrets(
    world: World,
) -> None:
    clocked(world)
    provider = Provider()
    provider.trouble = limited
    with office(world, workers(provider)) as at_work:
        at_work.supervisor.submit(NAMES)
        until_all(at_work, "sleeps")
        [wait] = world.ok("inbox.list")["waits"]
        assert {row["waits"] for row in world.ok("report.dashboard")["features"]} == {wait["reason"]}
    [trouble] = troubles_in(world)
    assert (trouble["kind"], trouble["status"], trouble["words"][:9]) == ("model_quota_reached", 429, "slow down")
    assert SECRET not in trouble["words"]


def waits_in(world: World) -> list[ProviderWait]:
    with world.app.record.read() as view:
        return list(view.all(ProviderWait))


def troubles_in(world: World) -> list[Any]:
    """Return the different troubles of turns that the journal has."""
    with world.app.record.read() as view:
        told = [entry.event.payload.get("trouble") for entry in view.journal(kinds=("turn_taken",))]
    return [each for number, each in enumerate(told) if each and each not in told[:number]]


def test_a_wait_that_was_too_short_is_followed_by_a_longer_one_and_an_answer_begins_the_row_again(
    world: World,
) -> None:
    clock, provider = clocked(world), Provider()
    provider.trouble = lambda: ProviderOverloaded("anthropic is overloaded (HTTP status 529).", status=529)

    def waits() -> tuple[int, str]:
        [wait] = waits_in(world)
        return wait.number, wait.until[11:19]

    with office(world, workers(provider)) as at_work:
        at_work.supervisor.submit(NAMES)
        until_all(at_work, "sleeps")
        seen = [waits()]
        for seconds in (15.0, 30.0):
            clock.go_on(seconds)
            at_work.supervisor.deliver_answers()
            until_all(at_work, "sleeps")
            seen.append(waits())
        provider.trouble = None
        clock.go_on(60.0)
        at_work.settle()
    assert seen == [(1, "12:00:15"), (2, "12:00:45"), (3, "12:01:45")]
    assert (events(world)["provider_wait_began"], waits_in(world)) == (3, [])


def test_a_rejected_key_is_one_question_for_all_features_and_one_answer_lets_them_go_on(world: World) -> None:
    provider = Provider()
    provider.trouble = lambda: AgentNotLoggedIn("anthropic rejects the key (HTTP status 401).", status=401)
    with office(world, workers(provider)) as at_work:
        at_work.supervisor.submit(NAMES)
        until_all(at_work, "asks")
        assert provider.requests <= 2
        [question] = world.ok("inbox.list")["questions"]
        assert sorted((question["feature_id"], *question["features"])) == sorted(NAMES)
        rows = world.ok("report.dashboard")["features"]
        assert [row["asks"] for row in rows] == [[question["question_id"]]] * len(NAMES)
        assert len(at_work.notices) == 1
        provider.trouble = None
        given = {"feature_id": question["feature_id"], "question_id": question["question_id"]}
        world.ok("inbox.answer", **given, answer="retry")
        assert ends(at_work) == {"ready_to_merge"}
    assert events(world)["question_asked"] == 1
    assert events(world)["question_joined"] == len(NAMES) - 1


def test_a_question_that_features_share_outlives_the_one_that_asked_first(world: World) -> None:
    provider = Provider()
    provider.trouble = lambda: ProviderPaymentRequired("anthropic wants to be paid (HTTP status 402).", status=402)
    with office(world, workers(provider)) as at_work:
        at_work.supervisor.submit(NAMES)
        until_all(at_work, "asks")
        [question] = world.ok("inbox.list")["questions"]
        world.ok("feature.delete", feature_id=question["feature_id"], dry_run=False)
        [left] = world.ok("inbox.list")["questions"]
        assert (left["feature_id"], *left["features"]) == tuple(question["features"])


def test_an_answer_that_was_given_after_the_turn_began_is_not_asked_for_again(world: World) -> None:
    clock = clocked(world)
    for name in NAMES[:2]:
        world.init(name)
    began = world.app.gateway.kernel.now()
    clock.go_on(1.0)
    asked: dict[str, Any] = {
        "gate": "escalation",
        "text": "Which?",
        "about": "provider:anthropic",
        "choices": ["retry", "stop"],
    }
    first = world.ok("inbox.ask", feature_id=NAMES[0], **asked)
    world.ok("inbox.answer", feature_id=NAMES[0], question_id=first["question_id"], answer="retry")
    assert world.ok("inbox.ask", feature_id=NAMES[1], since=began, **asked)["question_id"] == first["question_id"]
    clock.go_on(1.0)
    later = world.app.gateway.kernel.now()
    assert world.ok("inbox.ask", feature_id=NAMES[1], since=later, **asked)["question_id"] != first["question_id"]


def test_a_turn_from_before_the_end_of_a_wait_takes_part_in_it(world: World) -> None:
    clock = clocked(world)
    for name in NAMES[:3]:
        world.init(name)

    def wait(name: FeatureId, since: str, until: str) -> Any:
        given = {"provider": "anthropic", "trouble": "Limited.", "since": f"2026-01-02T{since}.000Z"}
        return world.ok("run.wait", role=Role.SYSTEM, feature_id=name, until=f"2026-01-02T{until}.000Z", **given)

    assert wait(NAMES[0], "11:59:00", "11:59:20")["features"] == []
    assert wait(NAMES[0], "12:00:00", "12:00:20")["features"] == [NAMES[0]]
    assert wait(NAMES[1], "12:00:00", "12:00:10")["until"] == "2026-01-02T12:00:20.000Z"
    clock.go_on(20.0)
    assert world.ok("run.waited", role=Role.SYSTEM, feature_id=NAMES[1])["ended"] == [NAMES[0], NAMES[1]]
    assert wait(NAMES[2], "12:00:19", "12:00:20")["features"] == []
    late = wait(NAMES[2], "12:00:19", "12:00:25")
    assert (late["features"], late["until"]) == ([NAMES[2]], "2026-01-02T12:00:25.000Z")
    assert events(world)["provider_wait_began"] == 1
    wait(NAMES[0], "12:00:30", "12:01:00")
    assert events(world)["provider_wait_began"] == 2
