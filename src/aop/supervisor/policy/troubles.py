"""Troubles of providers: a wait that their features share, or one question."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from aop.core import errors
from aop.core.clock import later, timestamp
from aop.core.ids import FeatureId
from aop.kernel.record.documents.questions import RETRY, STOP
from aop.kernel.record.documents.runs import ProviderWait
from aop.kernel.record.port import Snapshot
from aop.kernel.record.requests import own_wait_name, question_on, wait_for
from aop.supervisor.policy.faults import sentence
from aop.supervisor.policy.state import AskPerson, AskWorker, FeatureRun, TurnPostponed, WaitUntil

SHORTEST_WAIT, FIRST_STEP, LONGEST_STEP, LONGEST_WAIT = 1.0, 15.0, 3600.0, 24 * 3600.0
"""In seconds. Without a time of the provider each wait in a row is twice as long, up to the longest step."""
TRUSTED_WAITS = 5
"""After so many waits in a row for times that proved too short, the step is the least: the words may be an agent's."""
WAITS_BEFORE_QUESTION: Mapping[str, int] = {
    # It may be over in a moment, or never: an address that is wrong looks the same.
    errors.ProviderTrouble.code: 5,
    errors.ProviderUnreachable.code: 5,
    errors.ProviderTimedOut.code: 2,
    errors.ProviderAnswerCutOff.code: 3,
    errors.ProviderAnswerMalformed.code: 2,
    # The next turn begins with a renewed log-in.
    errors.AgentLoginExpired.code: 1,
}
"""How many waits in a row come before the question; a person alone removes the causes that are not listed."""
NEVER_ASKED = frozenset({errors.ModelQuotaReached.code, errors.ProviderOverloaded.code})
BEFORE_RETRY: Mapping[str, str] = {
    errors.AgentLoginAmbiguous.code: "Log in again first: aop agents login PROVIDER",
    errors.AgentLoginExpired.code: "Log in again first: aop agents login PROVIDER",
    errors.AgentLoginMissing.code: "Log in first: aop agents login PROVIDER",
    errors.AgentLoginUnsafe.code: "Correct the file first; `aop agents` says whether it can be used.",
    errors.AgentNotLoggedIn.code: "Log in or set the key first, and check it with `aop agents test PROVIDER`.",
    errors.ProviderPaymentRequired.code: "Add credit to the account, or set another key, first.",
}
_CHECK = "Several waits did not help: check its address and its service first, with `aop agents test PROVIDER`."


def topic_of(provider: str) -> str:
    """Return the topic of the question about a provider; all its features share it."""
    return f"provider:{provider}"


def held_back(
    view: Snapshot, provider: str, feature_id: FeatureId, ask: AskWorker, now: datetime
) -> TurnPostponed | None:
    """Return a turn with what holds it back: an open question or a wait, of its provider or its own; else None."""
    names = (provider, own_wait_name(provider, feature_id))
    found = (_held_back(view, name, ask, now) for name in names)
    return next((held for held in found if held is not None), None)


def _held_back(view: Snapshot, provider: str, ask: AskWorker, now: datetime) -> TurnPostponed | None:
    question, wait = question_on(view, topic_of(provider)), wait_for(view, provider, now)
    held = TurnPostponed(ask=ask, error={}, at=timestamp(now), provider=provider)
    if question is not None:
        return replace(held, error=question.detail["error"], is_asked=True)
    return None if wait is None else replace(held, error={"message": wait.trouble}, until=wait.until)


def with_waits(view: Snapshot, met: TurnPostponed, feature_id: FeatureId) -> TurnPostponed:
    """Return a turn that met a trouble with the number of waits before; one from before the end of a wait is in it.

    An agent is a stranger: what nothing but its words tells of holds back its own feature, and no other.
    """
    is_hearsay = bool(met.error.get("details", {}).get("is_hearsay"))
    name = own_wait_name(met.provider, feature_id) if is_hearsay else met.provider
    wait = view.get(ProviderWait, name)
    return replace(met, provider=name, waits=0 if wait is None else wait.number - (met.since < wait.until))


def postpone(run: FeatureRun, event: TurnPostponed) -> tuple[FeatureRun, WaitUntil | AskPerson]:
    """Keep a turn until its provider may answer again, or until a person has removed the cause."""
    if event.is_asked or (not event.until and _needs_person(event)):
        return replace(run, held_back=event.ask, fault=event.error), _question(event)
    at = datetime.fromisoformat(event.at)
    until = event.until or timestamp(later(at, _seconds(at, event.error.get("details", {}), event.waits)))
    wait = WaitUntil(
        until=until, reason=str(event.error["message"]), provider=event.provider, since=event.since or event.at
    )
    return replace(run, held_back=event.ask), wait


def trouble_facts(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trouble in the error of a turn as `usage.record` takes it."""
    told = error.get("details", {})
    return {
        "kind": error["code"],
        "status": told.get("status") or 0,
        "words": str(told.get("words") or "")[:500],
        "retry_after_seconds": told.get("retry_after_seconds"),
        "retry_at": told.get("retry_at") or "",
    }


def _needs_person(event: TurnPostponed) -> bool:
    code = str(event.error["code"])
    return code not in NEVER_ASKED and event.waits >= WAITS_BEFORE_QUESTION.get(code, 0)


def _question(event: TurnPostponed) -> AskPerson:
    before = BEFORE_RETRY.get(str(event.error["code"]), _CHECK)
    text = (
        f"{sentence(str(event.error['message']))} {before} `{RETRY}` lets every feature that waits for this answer go"
        f" on; `{STOP}` keeps their work and blocks them."
    )
    return AskPerson(
        question=text,
        detail={"error": event.error},
        gate="escalation",
        about=topic_of(event.provider),
        since=event.since or event.at,
        choices=(RETRY, STOP),
    )


def _seconds(at: datetime, told: Mapping[str, Any], waits: int) -> float:
    after = told.get("retry_after_seconds")
    if told.get("retry_at"):
        after = (datetime.fromisoformat(told["retry_at"]) - at) / timedelta(seconds=1)
    step = min(FIRST_STEP * 2.0 ** min(waits, 10), LONGEST_STEP)
    least = SHORTEST_WAIT if waits < TRUSTED_WAITS else step
    return min(max(step if after is None else float(after), least), LONGEST_WAIT)
