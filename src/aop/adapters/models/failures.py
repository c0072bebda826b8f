"""Failures of providers as refusals; provider text is shown only if it helps."""

from __future__ import annotations

from collections.abc import Callable

from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
)

from aop.core.errors import (
    ModelContextExceeded,
    ModelKeyRejected,
    ModelRateLimited,
    ModelReplyCutOff,
    ModelReplyUnreadable,
    ModelRequestRejected,
    ModelTimeout,
    ModelUnavailable,
    ModelUnreachable,
    Refusal,
)

_SERVER_ERROR = 500
_EXPLANATION_CHARS = 300


def refusal_for(error: AgentRunError, model: str, redact: Callable[[str], str]) -> Refusal:
    """Return the refusal for a failed request."""
    match error:
        case ModelRequestTimeout() | ModelTimeoutError():
            return _timeout_refusal(error, model)
        case ModelConnectionError():
            return _connection_refusal(error, model)
        case ModelAuthenticationError():
            return ModelKeyRejected(f"The provider rejects the key for `{model}`.", model=model)
        case ModelRateLimitError() | ModelQuotaExceededError():
            return _rate_refusal(error, model)
        case ModelContextWindowExceededError():
            return ModelContextExceeded(f"The prompt is too long for `{model}`.", model=model)
        case ModelRequestRejectedError():
            why = _explanation(error, redact)
            return ModelRequestRejected(f"The provider of `{model}` rejects the request: {why}", model=model)
        case _:
            return _other_refusal(error, model)


def _timeout_refusal(error: ModelAPIError, model: str) -> Refusal:
    if getattr(error, "phase", None) == "connect":
        return ModelUnreachable(f"The endpoint of `{model}` did not accept a connection in time.", model=model)
    return ModelTimeout(f"`{model}` did not answer in time.", model=model)


def _connection_refusal(error: ModelConnectionError, model: str) -> Refusal:
    if error.phase == "read":
        return ModelReplyCutOff(f"The connection to `{model}` broke before its reply was complete.", model=model)
    return ModelUnreachable(f"Connecting to the endpoint of `{model}` failed.", model=model)


def _rate_refusal(error: ModelAPIError, model: str) -> Refusal:
    after = error.retry_after
    used_up = isinstance(error, ModelQuotaExceededError)
    why = "says that the account's quota is used up" if used_up else "limits the rate of requests"
    when = "" if after is None else f"; wait {after:g} seconds"
    return ModelRateLimited(f"The provider of `{model}` {why}{when}.", model=model, retry_after_seconds=after)


def _other_refusal(error: AgentRunError, model: str) -> Refusal:
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    if isinstance(error, ModelUnavailableError | ModelServerError) or (status or 0) >= _SERVER_ERROR:
        return ModelUnavailable(
            f"The provider of `{model}` is broken or overloaded ({status or 'no status'}).", model=model, status=status
        )
    if status is not None:
        return ModelRequestRejected(
            f"The provider of `{model}` rejects the request with status {status}.", model=model, status=status
        )
    return ModelReplyUnreadable(f"The response from `{model}` is not a model's reply.", model=model)


def _explanation(error: ModelAPIError, redact: Callable[[str], str]) -> str:
    """Return the provider's explanation as one short line without secrets."""
    body = error.body
    inner = body.get("error", body) if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    text = " ".join(redact(message if isinstance(message, str) else str(error)).split())
    return text if len(text) <= _EXPLANATION_CHARS else f"{text[:_EXPLANATION_CHARS]}…"
