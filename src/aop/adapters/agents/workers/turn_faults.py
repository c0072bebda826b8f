"""Turn faults: the refusals that name how an agent's program failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from aop.adapters.models.metering.quotas import quota_in_text
from aop.adapters.models.metering.tallies import MeterReport, Outcome
from aop.core.errors import (
    AgentCrashed,
    AgentFailed,
    AgentNotLoggedIn,
    AgentNotStarted,
    AgentOutputTooLarge,
    AgentTimedOut,
    ModelKeyMissing,
    ModelKeyRejected,
    ModelPaymentRequired,
    ModelQuotaReached,
    ModelRateLimited,
    ModelReplyCutOff,
    ModelReplyUnreadable,
    ModelTimeout,
    ModelUnavailable,
    ModelUnreachable,
    NoUsableAnswer,
    ProviderAnswerCutOff,
    ProviderAnswerMalformed,
    ProviderOverloaded,
    ProviderPaymentRequired,
    ProviderTimedOut,
    ProviderToolRefused,
    ProviderTrouble,
    ProviderUnreachable,
    RequestPartUnknown,
)
from aop.core.exit_codes import signal_name
from aop.kernel.ports.processes import CommandResult, Ending
from aop.kernel.record.documents.usage import Trouble

AUTH_REQUIRED = -32000
"""The error number of the Agent Client Protocol for an agent without a log-in."""
_REFUSED_HERE = {Outcome.PROVIDER_TOOL: ProviderToolRefused, Outcome.UNKNOWN_PART: RequestPartUnknown}
_CANNOT_EXECUTE, _NOT_FOUND = 126, 127
_TROUBLES: Mapping[str, tuple[type[ProviderTrouble], str]] = {
    refusal.code: (refusal, what)
    for refusal, what in (
        (AgentNotLoggedIn, "rejects the key"),
        (ModelQuotaReached, "limits the requests"),
        (ProviderAnswerCutOff, "broke off its answer"),
        (ProviderAnswerMalformed, "sent an answer that is not that of a model"),
        (ProviderOverloaded, "is overloaded"),
        (ProviderPaymentRequired, "wants to be paid first"),
        (ProviderTimedOut, "did not answer in time"),
        (ProviderTrouble, "has an error of its own"),
        (ProviderUnreachable, "cannot be reached"),
    )
}
_OF_MODELS: Mapping[str, type[ProviderTrouble]] = {
    ModelKeyMissing.code: AgentNotLoggedIn,
    ModelKeyRejected.code: AgentNotLoggedIn,
    ModelPaymentRequired.code: ProviderPaymentRequired,
    ModelRateLimited.code: ModelQuotaReached,
    ModelReplyCutOff.code: ProviderAnswerCutOff,
    ModelReplyUnreadable.code: ProviderAnswerMalformed,
    ModelTimeout.code: ProviderTimedOut,
    ModelUnavailable.code: ProviderTrouble,
    ModelUnreachable.code: ProviderUnreachable,
}
_PAYMENT = re.compile(
    r"credit balance is too low|insufficient[_ ](?:quota|credit|balance|funds)|payment required|billing", re.IGNORECASE
)
_OVERLOADED = re.compile(r"overloaded|\b529\b", re.IGNORECASE)
_WORDS: tuple[tuple[re.Pattern[str], type[ProviderTrouble]], ...] = (
    (
        re.compile(
            r"API Error: 5\d\d\b|HTTP(?: status)? 5\d\d\b|internal server error|service unavailable|bad gateway",
            re.IGNORECASE,
        ),
        ProviderTrouble,
    ),
    (
        re.compile(
            r"ECONNREFUSED|ENOTFOUND|EAI_AGAIN|connection refused|unable to connect to (?:the )?API", re.IGNORECASE
        ),
        ProviderUnreachable,
    ),
    (
        re.compile(
            r"stream disconnected before completion|connection (?:was )?(?:closed|reset)|ECONNRESET", re.IGNORECASE
        ),
        ProviderAnswerCutOff,
    ),
    (re.compile(r"request timed out|ETIMEDOUT|deadline exceeded", re.IGNORECASE), ProviderTimedOut),
)
_WHAT = {code: what for code, (_, what) in _TROUBLES.items()}
_LOG_IN = re.compile(
    r"not logged in|log ?in required|please (?:run /?log ?in|log ?in|sign in)|/login\b|invalid (?:api|x-api)[- ]key"
    r"|(?:api )?key (?:is )?(?:not set|missing)|no api key|authentication[_ ](?:error|failed|required)|unauthori[sz]ed",
    re.IGNORECASE,
)


def fault_of(ended: CommandResult, lines: Sequence[str]) -> NoUsableAnswer | None:
    """Return the fault of a program that gave no answer, or None if it ended well; `lines` are its last ones."""
    facts: dict[str, Any] = {"ending": ended.ending, "exit_code": ended.exit_code, "last_lines": list(lines)}
    match ended.ending:
        case Ending.NOT_STARTED:
            return AgentNotStarted(f"The agent did not start: {ended.problem}", **facts)
        case Ending.TIMED_OUT:
            return _stopped(ended, lines, facts)
        case Ending.OUT_OF_MEMORY:
            return AgentCrashed(f"The agent ran out of memory: {ended.problem}{quoted(lines)}", **facts)
        case Ending.EXITED:
            return _exit_fault(ended, lines, facts) if ended.exit_code else None


def protocol_fault(message: str, facts: dict[str, Any]) -> NoUsableAnswer | None:
    """Return the fault that an agent's own error message tells of, or None."""
    if facts.get("error") == AUTH_REQUIRED:
        return AgentNotLoggedIn(f"The agent has no log-in or no valid key. {message}", **facts)
    return _told_fault(message, facts)


def model_fault(error: Mapping[str, Any]) -> NoUsableAnswer:
    """Return the fault of a turn whose model failed with an error."""
    code, message, details = str(error["code"]), str(error["message"]), error.get("details", {})
    is_overloaded = code == ModelUnavailable.code and "overloaded" in str(details.get("words", "")).lower()
    fault = ProviderOverloaded if is_overloaded else _OF_MODELS.get(code)
    # A reply that reached its limit of tokens was answered; one whose connection broke was not.
    if fault is None or (code == ModelReplyCutOff.code and not details.get("is_broken")):
        return NoUsableAnswer(message, model_error=code)
    told = {name: details.get(name) for name in ("status", "words", "retry_after_seconds")}
    return fault(message, model_error=code, **told)


def clearest_fault(fault: NoUsableAnswer, metered: MeterReport, provider: str) -> NoUsableAnswer:
    """Return the fault of a turn, or the provider's trouble with its last request, which explains it better.

    Only what the meter saw is a trouble of the provider: words of one agent must not hold back the others.
    """
    facts: dict[str, Any] = dict(fault.facts)
    last = next((each for each in reversed(metered.exchanges) if each.model or each.outcome in _REFUSED_HERE), None)
    if last is not None and last.outcome in _REFUSED_HERE:
        said = last.said.partition(": ")[2]
        return _REFUSED_HERE[last.outcome](f"A request of the agent was not forwarded. {said}", **facts)
    if metered.trouble is not None:
        return trouble_fault(metered.trouble, provider, **_without_told(facts))
    if isinstance(fault, AgentTimedOut) and metered.waiting and not metered.answered:
        late = f"no whole answer from {metered.host} within the time of the turn"
        said = f"{provider} {_WHAT[ProviderTimedOut.code]}: {late}. {fault.message}"
        return ProviderTimedOut(said, **facts)
    if isinstance(fault, ProviderTrouble):
        return AgentFailed(f"The agent failed. It says: {' / '.join(facts.get('last_lines') or ())}", **facts)
    return fault


def trouble_fault(trouble: Trouble, provider: str, **facts: Any) -> ProviderTrouble:
    """Return the fault of a turn that met a trouble of its provider, with the provider's words."""
    refusal, what = _TROUBLES[trouble.kind]
    status = f" (HTTP status {trouble.status})" if trouble.status else ""
    says = f" It says: {trouble.words}" if trouble.words else ""
    # Without an answer there are no words of the provider, but what the meter noticed.
    is_unanswered = refusal in (ProviderTimedOut, ProviderUnreachable) and not trouble.status and trouble.words
    return refusal(
        f"{provider} {what}: {trouble.words}." if is_unanswered else f"{provider} {what}{status}.{says}",
        **facts,
        provider=provider,
        status=trouble.status,
        words=trouble.words,
        retry_after_seconds=trouble.retry_after_seconds,
        retry_at=trouble.retry_at,
    )


def told_trouble(fault: NoUsableAnswer) -> NoUsableAnswer:
    """Return the trouble that the last lines of a program without a meter tell of, or else its fault.

    A program that ended with an error of its own has been read before: here nothing but its words tells of a trouble.
    """
    facts: dict[str, Any] = dict(fault.facts)
    lines = facts.get("last_lines") or ()
    if isinstance(fault, ProviderTrouble) or not lines:
        return fault
    return _told_fault(" / ".join(lines), {**facts, "is_hearsay": True}) or fault


def _without_told(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name in ("ending", "exit_code", "last_lines")}


def quoted(lines: Sequence[str]) -> str:
    """Return the last lines of a program as the end of a message."""
    return f" Its last lines: {' / '.join(lines)}" if lines else " It printed nothing."


def _stopped(ended: CommandResult, lines: Sequence[str], facts: dict[str, Any]) -> NoUsableAnswer:
    if ended.log_truncated:
        return AgentOutputTooLarge(
            f"The agent wrote more than its log may hold, and was stopped: {ended.problem}", **facts
        )
    return AgentTimedOut(f"The agent was stopped: {ended.problem}{quoted(lines)}", **facts)


def _exit_fault(ended: CommandResult, lines: Sequence[str], facts: dict[str, Any]) -> NoUsableAnswer:
    code = ended.exit_code or 0
    why = f" {ended.problem}" if ended.problem else ""
    if code in (_CANNOT_EXECUTE, _NOT_FOUND):
        what = "was not found" if code == _NOT_FOUND else "cannot be executed"
        return AgentNotStarted(f"The agent's program {what} (exit code {code}).{why}{quoted(lines)}", **facts)
    if name := signal_name(code):
        return AgentCrashed(f"The agent crashed: {name} (exit code {code}).{why}{quoted(lines)}", **facts)
    told = _told_fault(" / ".join(lines), facts)
    return told or AgentFailed(f"The agent exited with code {code}.{why}{quoted(lines)}", **facts)


def _told_fault(text: str, facts: dict[str, Any]) -> NoUsableAnswer | None:
    """Return the fault that the words of a failed agent tell of; they decide nothing but how it is called."""
    if _PAYMENT.search(text):
        return ProviderPaymentRequired(f"The account of the agent has no credit. It says: {text}", **facts)
    if _OVERLOADED.search(text):
        return ProviderOverloaded(f"The provider of the agent is overloaded. It says: {text}", **facts)
    quota = quota_in_text(text)
    if quota is not None:
        told: dict[str, Any] = {**facts, **msgspec.to_builtins(quota)}
        return ModelQuotaReached(f"The provider limits the requests of the agent. It says: {text}", **told)
    if _LOG_IN.search(text):
        return AgentNotLoggedIn(f"The agent has no log-in or no valid key. It says: {text}", **facts)
    return next((_told(refusal, text, facts) for words, refusal in _WORDS if words.search(text)), None)


def _told(refusal: type[ProviderTrouble], text: str, facts: dict[str, Any]) -> ProviderTrouble:
    return refusal(f"The provider of the agent {_WHAT[refusal.code]}. It says: {text}", **facts)
