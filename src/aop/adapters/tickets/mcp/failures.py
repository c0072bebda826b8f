"""What the error of an MCP server means: most say it in words only, each in their own."""

from __future__ import annotations

import re
from collections.abc import Callable

from aop.core.errors import Refusal, RemoteNotFound, RemoteRejected, RemoteUnavailable

ERROR_CHARS = 400

_TRY_AGAIN = frozenset([408, 425, 429])
# A status as LOCAL and the server of GitLab begin with, or as that of Atlassian puts it into brackets. Any other number
# may be part of a key, of an id or of a name.
_STATUS = re.compile(r"(?:\A|API error: |\()([345][0-9][0-9])\b")
# What a server says where it has no status. The first that is found counts.
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
    401: "Make a new token, set `{token}` to it, and start the ticket again.",
    403: "Give the account of AOP the rights that `docs/tickets.md` names, and start the ticket again.",
    409: "Somebody else changed it meanwhile: look at it, and start the ticket again.",
    429: "It takes no more requests for now: wait a few minutes, and start the ticket again.",
    302: "It answers from another address, which is not followed: set its address to that one, and start again.",
    None: (
        "Look at what `aop doctor --outbound` says of the token and its rights, and start the ticket again;"
        " what was written already is not written twice."
    ),
}


def refusal(server: str, tool: str, text: str, *, token: str, redact: Callable[[str], str]) -> Refusal:
    """Return what a server's error means, with what it said, cut short and without secrets, and what to do."""
    status = status_of(text)
    # One that says nothing at all has lost the status on its way: that asking again helps cannot be ruled out.
    silent = status is None and _NOTHING_SAID.search(text) is not None
    kind = RemoteUnavailable if silent else _meaning(status)
    shown = redact(" ".join(text.split()))[:ERROR_CHARS]
    told = _HINTS.get(302 if status is not None and status < 400 else status)
    return kind(
        f"`{server}` answered to `{tool}`: {shown}",
        server=server,
        tool=tool,
        status=status,
        hint=told.format(token=token or "its variable") if told else None,
    )


def status_of(text: str) -> int | None:
    """Return the HTTP status that an error tells of, or None."""
    found = _STATUS.search(text)
    if found:
        return int(found[1])
    return next((status for words, status in _WORDS if words.search(text)), None)


def _meaning(status: int | None) -> type[Refusal]:
    if status == 404:
        return RemoteNotFound
    if status is not None and (status >= 500 or status in _TRY_AGAIN):
        return RemoteUnavailable
    return RemoteRejected
