"""Turn faults: the refusals that name how an agent's program failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from aop.adapters.models.metering.quotas import Quota, quota_in_text
from aop.adapters.models.metering.tallies import MeterReport, Outcome
from aop.core.errors import (
    AgentCrashed,
    AgentFailed,
    AgentNotLoggedIn,
    AgentNotStarted,
    AgentOutputTooLarge,
    AgentTimedOut,
    Json,
    ModelKeyMissing,
    ModelKeyRejected,
    ModelQuotaReached,
    ModelRateLimited,
    NoUsableAnswer,
    ProviderToolRefused,
    RequestPartUnknown,
)
from aop.core.exit_codes import signal_name
from aop.kernel.ports.processes import CommandResult, Ending

AUTH_REQUIRED = -32000
"""The error number of the Agent Client Protocol for an agent without a log-in."""
_NO_PERMISSION = (401, 403)
_REFUSED_HERE = {Outcome.PROVIDER_TOOL: ProviderToolRefused, Outcome.UNKNOWN_PART: RequestPartUnknown}
_CANNOT_EXECUTE, _NOT_FOUND = 126, 127
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
    code, message = str(error["code"]), str(error["message"])
    if code == ModelRateLimited.code:
        after = error.get("details", {}).get("retry_after_seconds")
        return quota_fault(message, Quota(retry_after_seconds=after), model_error=code)
    if code in (ModelKeyMissing.code, ModelKeyRejected.code):
        return AgentNotLoggedIn(message, model_error=code)
    return NoUsableAnswer(message, model_error=code)


def clearest_fault(fault: NoUsableAnswer, metered: MeterReport) -> NoUsableAnswer:
    """Return the fault of a turn, or the provider's refusal of its last request, which explains it better."""
    facts: Mapping[str, Any] = fault.facts
    last = next((each for each in reversed(metered.exchanges) if each.model or each.outcome in _REFUSED_HERE), None)
    if last is not None and last.outcome in _REFUSED_HERE:
        said = last.said.partition(": ")[2]
        return _REFUSED_HERE[last.outcome](f"A request of the agent was not forwarded. {said}", **facts)
    if last is None or last.outcome is not Outcome.PROVIDER_REFUSED:
        return fault
    if last.status in _NO_PERMISSION:
        said = f"The provider rejects the key of the agent (HTTP status {last.status})."
        return AgentNotLoggedIn(said, **facts)
    if last.quota is not None:
        said = f"The provider limits the requests of the agent (HTTP status {last.status})."
        return quota_fault(said, last.quota)
    return fault


def quota_fault(message: str, quota: Quota, **facts: Json) -> ModelQuotaReached:
    """Return the fault of a turn that ended at the quota of its model."""
    told: Mapping[str, Any] = {**msgspec.to_builtins(quota), **facts}
    return ModelQuotaReached(message, **told)


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
    quota = quota_in_text(text)
    if quota is not None:
        return quota_fault(f"The provider limits the requests of the agent. It says: {text}", quota)
    if _LOG_IN.search(text):
        return AgentNotLoggedIn(f"The agent has no log-in or no valid key. It says: {text}", **facts)
    return None
