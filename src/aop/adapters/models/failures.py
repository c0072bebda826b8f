"""Failures of providers as refusals; provider text is shown only if it helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_ai import exceptions

from aop.adapters.models.endpoints import unconnected_words
from aop.core import errors

_PAYMENT_REQUIRED, _SERVER_ERROR = 402, 500
_EXPLANATION_CHARS = 300


def refusal_for(
    error: exceptions.AgentRunError, model: str, redact: Callable[[str], str], *, host: str
) -> errors.Refusal:
    """Return the refusal for a failed request to a host."""
    match error:
        case exceptions.ModelRequestTimeout() | exceptions.ModelTimeoutError():
            return _timeout_refusal(error, model, host)
        case exceptions.ModelConnectionError():
            return _connection_refusal(error, model, host)
        case exceptions.ModelAuthenticationError():
            facts = _facts(error, redact)
            return errors.ModelKeyRejected(
                f"The provider rejects the key for `{model}`.{_says(facts)}", **facts, model=model
            )
        case exceptions.ModelRateLimitError() | exceptions.ModelQuotaExceededError():
            return _rate_refusal(error, model, _facts(error, redact))
        case exceptions.ModelContextWindowExceededError():
            return errors.ModelContextExceeded(f"The prompt is too long for `{model}`.", model=model)
        case exceptions.ModelRequestRejectedError():
            why = _explanation(error, redact)
            return errors.ModelRequestRejected(f"The provider of `{model}` rejects the request: {why}", model=model)
        case _:
            return _other_refusal(error, model, redact)


def timeout_refusal(model: str, host: str) -> errors.ModelTimeout:
    """Return the refusal for a model whose host sent no whole answer in time."""
    return errors.ModelTimeout(f"`{model}` did not answer in time: no whole answer from {host}.", model=model)


def _timeout_refusal(error: exceptions.ModelAPIError, model: str, host: str) -> errors.Refusal:
    if getattr(error, "phase", None) == "connect":
        said = f"The endpoint of `{model}` cannot be reached: {host} accepts no connection in time."
        return errors.ModelUnreachable(said, model=model)
    return timeout_refusal(model, host)


def _connection_refusal(error: exceptions.ModelConnectionError, model: str, host: str) -> errors.Refusal:
    if error.phase == "read":
        said = f"The connection to `{model}` broke before its reply was complete."
        return errors.ModelReplyCutOff(said, model=model, is_broken=True)
    said = f"The endpoint of `{model}` cannot be reached: {unconnected_words(host, error)}."
    return errors.ModelUnreachable(said, model=model)


def _rate_refusal(error: exceptions.ModelAPIError, model: str, facts: Mapping[str, Any]) -> errors.Refusal:
    if isinstance(error, exceptions.ModelQuotaExceededError):
        return _unpaid_refusal(model, facts)
    after = error.retry_after
    when = "" if after is None else f"; wait {after:g} seconds"
    said = f"The provider of `{model}` limits the rate of requests{when}.{_says(facts)}"
    return errors.ModelRateLimited(said, **facts, model=model, retry_after_seconds=after)


def _unpaid_refusal(model: str, facts: Mapping[str, Any]) -> errors.Refusal:
    said = f"The provider of `{model}` says that the account has no credit left.{_says(facts)}"
    return errors.ModelPaymentRequired(said, **facts, model=model)


def _other_refusal(error: exceptions.AgentRunError, model: str, redact: Callable[[str], str]) -> errors.Refusal:
    status = error.status_code if isinstance(error, exceptions.ModelHTTPError) else None
    facts: dict[str, Any] = _facts(error, redact) if isinstance(error, exceptions.ModelAPIError) else {}
    if status == _PAYMENT_REQUIRED:
        return _unpaid_refusal(model, facts)
    if (
        isinstance(error, exceptions.ModelUnavailableError | exceptions.ModelServerError)
        or (status or 0) >= _SERVER_ERROR
    ):
        return errors.ModelUnavailable(
            f"The provider of `{model}` is broken or overloaded ({status or 'no status'}).{_says(facts)}",
            **{**facts, "model": model, "status": status},
        )
    if status is not None:
        return errors.ModelRequestRejected(
            f"The provider of `{model}` rejects the request with status {status}.", model=model, status=status
        )
    return errors.ModelReplyUnreadable(f"The response from `{model}` is not a model's reply.", model=model)


def _facts(error: exceptions.ModelAPIError, redact: Callable[[str], str]) -> dict[str, Any]:
    """Return the status and the words of a provider that refuses."""
    status = error.status_code if isinstance(error, exceptions.ModelHTTPError) else None
    return {"status": status, "words": _explanation(error, redact) if isinstance(error.body, dict) else ""}


def _says(facts: Mapping[str, Any]) -> str:
    return f" It says: {facts['words']}" if facts.get("words") else ""


def _explanation(error: exceptions.ModelAPIError, redact: Callable[[str], str]) -> str:
    """Return the provider's explanation as one short line without secrets."""
    body = error.body
    inner = body.get("error", body) if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    text = " ".join(redact(message if isinstance(message, str) else str(error)).split())
    return text if len(text) <= _EXPLANATION_CHARS else f"{text[:_EXPLANATION_CHARS]}…"
