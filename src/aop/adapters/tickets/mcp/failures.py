"""Failures of MCP servers as refusals; most servers report them only in words."""

from __future__ import annotations

import re
from collections.abc import Callable

from aop.core.errors import Refusal, RemoteNotFound, RemoteRejected, RemoteUnavailable

ERROR_CHARS = 400

_TRY_AGAIN = frozenset([408, 425, 429])
# LOCAL and the server of GitLab begin with a status, the server of Atlassian puts it into brackets. Other numbers may
# belong to a key, an id or a name.
_STATUS = re.compile(r"(?:\A|API error: |\()([345][0-9][0-9])\b")
# Words for errors without a status; the first match counts.
_WORDS = (
    (re.compile(r"exceeded 0 redirects|redirect blocked", re.IGNORECASE), 302),
    (re.compile(r"too many requests|rate.?limit", re.IGNORECASE), 429),
    (re.compile(r"unauthorized|authentication failed", re.IGNORECASE), 401),
    (re.compile(r"not found|does not exist|no content with the given id", re.IGNORECASE), 404),
    (re.compile(r"forbidden|permission to", re.IGNORECASE), 403),
    (re.compile(r"bad gateway", re.IGNORECASE), 502),
    (re.compile(r"service unavailable|could not connect|network error|fetch failed|circuit", re.IGNORECASE), 503),
    (re.compile(r"gateway time-?out|timed out", re.IGNORECASE), 504),
    (re.compile(r"internal server error", re.IGNORECASE), 500),
    (re.compile(r"\AInvalid (?:request|arguments):"), 400),
)
_NOTHING_SAID = re.compile(r"(?::|HTTPError)\s*\Z")
_HINTS = {
    401: "Create a new token, set `{token}`, and start the ticket again.",
    403: "Give AOP's account the right to read and write there, and start the ticket again.",
    409: "Someone else changed it meanwhile. Check it, and start the ticket again.",
    429: "The rate limit is reached. Wait a few minutes, and start the ticket again.",
    302: "AOP does not follow redirects. Set the address to the target of the redirect, and start again.",
    None: (
        "Check the token and its rights with `aop doctor --outbound`, and start the ticket again; nothing is written"
        " twice."
    ),
}


def refusal(server: str, tool: str, text: str, *, token: str, redact: Callable[[str], str]) -> Refusal:
    """Return the refusal for a server's error, with its text (shortened, without secrets) and a hint."""
    status = status_of(text)
    # An error without any text may be temporary.
    silent = status is None and _NOTHING_SAID.search(text) is not None
    kind = RemoteUnavailable if silent else _refusal_type(status)
    shown = redact(" ".join(text.split()))[:ERROR_CHARS]
    hint = _HINTS.get(302 if status is not None and status < 400 else status)
    return kind(
        f"`{server}` answered to `{tool}`: {shown}",
        server=server,
        tool=tool,
        status=status,
        hint=hint.format(token=token or "its variable") if hint else None,
    )


def status_of(text: str) -> int | None:
    """Return the HTTP status of an error, or None."""
    found = _STATUS.search(text)
    if found:
        return int(found[1])
    return next((status for words, status in _WORDS if words.search(text)), None)


def _refusal_type(status: int | None) -> type[Refusal]:
    if status == 404:
        return RemoteNotFound
    if status is not None and (status >= 500 or status in _TRY_AGAIN):
        return RemoteUnavailable
    return RemoteRejected
