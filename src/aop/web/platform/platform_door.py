"""Platform door: people with a session, and programs with a reader's token."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request

from aop.core.errors import TokenInvalid
from aop.core.redaction.redactor import Redactor
from aop.kernel.gateway.page_sessions import PageSession, PageSessions
from aop.web.pages.page_door import SessionDoor
from aop.web.platform.overview import Overview

LONGEST_TOKEN = 4096


class PlatformDoor(SessionDoor):
    """Lets people and programs in, each to the repositories that their session opens."""

    def __init__(
        self,
        overview: Overview,
        sessions: PageSessions,
        origin: str,
        log: Callable[[str], None],
        *,
        redact: Redactor,
        full_disk: Callable[[BaseException], str | None],
    ) -> None:
        super().__init__(sessions, origin, log, redact=redact, full_disk=full_disk)
        self.overview = overview

    def reader(self, request: Request) -> PageSession:
        """Return the program of a request. Raises: HostNotAllowed, OriginNotAllowed, TokenInvalid."""
        self.check_address(request.headers)
        return self.sessions.reader(bearer_token(request))


def bearer_token(request: Request) -> str:
    """Return the token that a request brings. Raises: TokenInvalid."""
    offered = request.headers.getlist("authorization")
    kind, _, text = offered[0].partition(" ") if len(offered) == 1 else ("", "", "")
    if kind.lower() != "bearer" or not 0 < len(text) <= LONGEST_TOKEN:
        raise TokenInvalid("The request has no token. Send it in the header `Authorization: Bearer TOKEN`.")
    return text
