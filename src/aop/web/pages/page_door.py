"""Page door: address, session and form of a request by a person's browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hmac import compare_digest
from pathlib import Path

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from aop.core.errors import Json, OriginNotAllowed, PageFormInvalid
from aop.core.redaction.redactor import Redactor
from aop.core.roles import Role
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.page_sessions import NewCookie, PageSession, PageSessions, page_host
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.port import newest_seq
from aop.tickets.runs.storage import RunHistory
from aop.web.entrance import Entrance

FORM_FIELD = "form"
"""The field of a form that proves for which session it was drawn."""


RunCommand = Callable[[Sequence[str]], bytes]
"""Runs `aop` with some words and `--json`, and returns what it prints."""


class Visitor(Struct, frozen=True, kw_only=True):
    """A person whose browser has a session."""

    session: PageSession
    principal: Principal


class Machine(Struct, frozen=True, kw_only=True):
    """The machine below the server, as far as pages tell of it or set it to work."""

    examine: Callable[[], Sequence[Mapping[str, str]]]
    """Makes the checks of `aop doctor`."""
    full_disk: Callable[[BaseException], str | None]
    """Returns the system's reason, if a disk without space caused a fault."""
    pack: Callable[[Mapping[str, bytes], str], bytes]
    """Packs files, with their checksums, in a folder of one archive."""
    run_command: RunCommand | None
    """Runs another `aop` in this repository, as a process of its own; without it people start runs at a terminal."""


class SessionDoor(Entrance):
    """Lets browsers with a session in."""

    def __init__(
        self,
        sessions: PageSessions,
        origin: str,
        log: Callable[[str], None],
        *,
        redact: Redactor,
        full_disk: Callable[[BaseException], str | None],
    ) -> None:
        self.name = page_host(sessions.tokens.signer)
        super().__init__(
            origin, log, new_id=sessions.tokens.new_id, redact=redact, names=(self.name,), full_disk=full_disk
        )
        self.sessions = sessions
        self._cookie = f"aop-{self.name.partition('.')[0].removeprefix('aop-')}"

    def check_address(self, headers: Headers) -> None:
        """Refuse what another site sends, shows in a frame, or asks for. Raises: HostNotAllowed, OriginNotAllowed."""
        super().check_address(headers)
        site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "navigate")
        # A link from elsewhere may be followed. Its browser sends no cookie with that, so nothing is shown.
        is_followed = mode == "navigate" and headers.get("sec-fetch-dest", "document") == "document"
        if site not in ("same-origin", "none") and not is_followed:
            raise OriginNotAllowed("The request comes from a page of another site.")

    def session(self, request: Request) -> PageSession:
        """Return the session of a request. Raises: HostNotAllowed, OriginNotAllowed, PageSessionInvalid."""
        self.check_address(request.headers)
        return self.sessions.session(request.cookies.get(self._cookie))

    def check_form(self, request: Request, session: PageSession, fields: Mapping[str, str]) -> None:
        """Refuse a form that was drawn for another session, or by another site. Raises: PageFormInvalid."""
        if not compare_digest(fields.get(FORM_FIELD, "").encode(), session.form_token.encode()):
            raise PageFormInvalid("The form was not drawn for this session.")
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise PageFormInvalid("The form was sent by another site.")

    def give_cookie(self, response: Response, cookie: NewCookie) -> None:
        """Store a session in the browser."""
        response.set_cookie(self._cookie, cookie.text, max_age=cookie.seconds, httponly=True, samesite="strict")


class PageDoor(SessionDoor):
    """Lets people in to the pages of one repository."""

    def __init__(
        self,
        gateway: Gateway,
        root: Path,
        sessions: PageSessions,
        origin: str,
        log: Callable[[str], None],
        *,
        tickets: RunHistory,
        agent_sign: str = "",
        machine: Machine,
    ) -> None:
        """Serve the pages; `agent_sign` is what shows that an agent started this server."""
        super().__init__(sessions, origin, log, redact=gateway.kernel.redact, full_disk=machine.full_disk)
        self.gateway = gateway
        self.kernel = gateway.kernel
        self.root = root
        self.tickets = tickets
        self.examine = machine.examine
        self.pack = machine.pack
        self.run_command = None if agent_sign else machine.run_command
        self._agent_sign = agent_sign

    def visitor(self, request: Request) -> Visitor:
        """Return the person of a request. Raises: HostNotAllowed, OriginNotAllowed, PageSessionInvalid."""
        session = self.session(request)
        principal = Principal(role=Role.ORCHESTRATOR, actor=session.actor, person=True, agent_sign=self._agent_sign)
        return Visitor(session=session, principal=principal)

    def newest_seq(self) -> int:
        """Return the number of the newest entry of the journal."""
        with self.kernel.record.read() as view:
            return newest_seq(view)

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
