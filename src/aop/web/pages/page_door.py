"""Page door: address, session and form of a request by a person's browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from aop.core.errors import Json, OriginNotAllowed, PageFormInvalid, PageSessionInvalid
from aop.core.roles import Role
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.page_sessions import NewCookie, PageSession, PageSessions
from aop.kernel.gateway.principals import Principal
from aop.kernel.ports.signer import Signer
from aop.kernel.record.port import newest_seq
from aop.web.entrance import Entrance

FORM_FIELD = "form"
"""The field of a form that proves for which session it was drawn."""


class Visitor(Struct, frozen=True, kw_only=True):
    """A person whose browser has a session."""

    session: PageSession
    principal: Principal


class PageDoor(Entrance):
    """Lets people in by their session."""

    def __init__(
        self,
        gateway: Gateway,
        root: Path,
        sessions: PageSessions,
        origin: str,
        log: Callable[[str], None],
        *,
        agent_sign: str = "",
    ) -> None:
        """Serve the pages; `agent_sign` is what shows that an agent started this server."""
        self.name = page_host(sessions.tokens.signer)
        super().__init__(gateway.kernel, origin, log, names=(self.name,))
        self.gateway = gateway
        self.root = root
        self.sessions = sessions
        self._agent_sign = agent_sign
        self._cookie = f"aop-{self.name.partition('.')[0].removeprefix('aop-')}"

    def check_address(self, headers: Headers) -> None:
        """Refuse what another site sends, shows in a frame, or asks for. Raises: HostNotAllowed, OriginNotAllowed."""
        super().check_address(headers)
        site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "navigate")
        # A link from elsewhere may be followed. Its browser sends no cookie with that, so nothing is shown.
        is_followed = mode == "navigate" and headers.get("sec-fetch-dest", "document") == "document"
        if site not in ("same-origin", "none") and not is_followed:
            raise OriginNotAllowed("The request comes from a page of another site.")

    def visitor(self, request: Request) -> Visitor:
        """Return the person of a request. Raises: HostNotAllowed, OriginNotAllowed, PageSessionInvalid."""
        self.check_address(request.headers)
        cookie = request.cookies.get(self._cookie)
        if cookie is None:
            raise PageSessionInvalid("This browser has no session of this repository.")
        session = self.sessions.session(cookie)
        principal = Principal(role=Role.ORCHESTRATOR, actor=session.actor, person=True, agent_sign=self._agent_sign)
        return Visitor(session=session, principal=principal)

    def check_form(self, request: Request, visitor: Visitor, fields: Mapping[str, str]) -> None:
        """Refuse a form that was drawn for another session, or by another site. Raises: PageFormInvalid."""
        if not compare_digest(fields.get(FORM_FIELD, "").encode(), visitor.session.form_token.encode()):
            raise PageFormInvalid("The form was not drawn for this session.")
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise PageFormInvalid("The form was sent by another site.")

    def newest_seq(self) -> int:
        """Return the number of the newest entry of the journal."""
        with self.kernel.record.read() as view:
            return newest_seq(view)

    def give_cookie(self, response: Response, cookie: NewCookie) -> None:
        """Store a session in the browser."""
        response.set_cookie(self._cookie, cookie.text, max_age=cookie.seconds, httponly=True, samesite="strict")

    def ask(
        self,
        visitor: Visitor,
        tool: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        operation_id: str | None = None,
    ) -> Envelope:
        """Call a tool as the person."""
        return self.gateway.call(visitor.principal, tool, dict(arguments or {}), operation_id=operation_id)


def page_host(signer: Signer) -> str:
    """Return the name of the pages of a repository on this machine.

    Browsers send a cookie to every port of a host. Under a name of their own, which no agent can guess, the pages'
    cookie does not reach what a feature serves on this machine.
    """
    return f"aop-{sha256(signer.sign(b'aop-page-host').encode()).hexdigest()[:16]}.localhost"
