"""Failures of providers as refusals; provider text is shown only if it helps."""

from __future__ import annotations

from collections.abc import Callable

from pydantic_ai import exceptions

from aop.core import errors

_SERVER_ERROR = 500
_EXPLANATION_CHARS = 300


def refusal_for(error: exceptions.AgentRunError, model: str, redact: Callable[[str], str]) -> errors.Refusal:
    """Return the refusal for a failed request."""
    match error:
        case exceptions.ModelRequestTimeout() | exceptions.ModelTimeoutError():
            return _timeout_refusal(error, model)
        case exceptions.ModelConnectionError():
            return _connection_refusal(error, model)
        case exceptions.ModelAuthenticationError():
            return errors.ModelKeyRejected(f"The provider rejects the key for `{model}`.", model=model)
        case exceptions.ModelRateLimitError() | exceptions.ModelQuotaExceededError():
            return _rate_refusal(error, model)
        case exceptions.ModelContextWindowExceededError():
            return errors.ModelContextExceeded(f"The prompt is too long for `{model}`.", model=model)
        case exceptions.ModelRequestRejectedError():
            why = _explanation(error, redact)
            return errors.ModelRequestRejected(f"The provider of `{model}` rejects the request: {why}", model=model)
        case _:
            return _other_refusal(error, model)


def _timeout_refusal(error: exceptions.ModelAPIError, model: str) -> errors.Refusal:
    if getattr(error, "phase", None) == "connect":
        return errors.ModelUnreachable(f"The endpoint of `{model}` did not accept a connection in time.", model=model)
    return errors.ModelTimeout(f"`{model}` did not answer in time.", model=model)


def _connection_refusal(error: exceptions.ModelConnectionError, model: str) -> errors.Refusal:
    if error.phase == "read":
        return errors.ModelReplyCutOff(f"The connection to `{model}` broke before its reply was complete.", model=model)
    return errors.ModelUnreachable(f"Connecting to the endpoint of `{model}` failed.", model=model)


def _rate_refusal(error: exceptions.ModelAPIError, model: str) -> errors.Refusal:
    after = error.retry_after
    used_up = isinstance(error, exceptions.ModelQuotaExceededError)
    why = "says that the account's quota is used up" if used_up else "limits the rate of requests"
    when = "" if after is None else f"; wait {after:g} seconds"
    return errors.ModelRateLimited(f"The provider of `{model}` {why}{when}.", model=model, retry_after_seconds=after)


def _other_refusal(error: exceptions.AgentRunError, model: str) -> errors.Refusal:
    status = error.status_code if isinstance(error, exceptions.ModelHTTPError) else None
    if (
        isinstance(error, exceptions.ModelUnavailableError | exceptions.ModelServerError)
        or (status or 0) >= _SERVER_ERROR
    ):
        return errors.ModelUnavailable(
            f"The provider of `{model}` is broken or overloaded ({status or 'no status'}).", model=model, status=status
        )
    if status is not None:
        return errors.ModelRequestRejected(
            f"The provider of `{model}` rejects the request with status {status}.", model=model, status=status
        )
    return errors.ModelReplyUnreadable(f"The response from `{model}` is not a model's reply.", model=model)


def _explanation(error: exceptions.ModelAPIError, redact: Callable[[str], str]) -> str:
    """Return the provider's explanation as one short line without secrets."""
    body = error.body
    inner = body.get("error", body) if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    text = " ".join(redact(message if isinstance(message, str) else str(error)).split())
    return text if len(text) <= _EXPLANATION_CHARS else f"{text[:_EXPLANATION_CHARS]}…"
