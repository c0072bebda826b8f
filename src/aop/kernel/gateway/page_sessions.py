"""Page sessions: the one-time link of a person, and the cookie that it becomes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.core.clock import timestamp
from aop.core.errors import InvalidCliArgs, PageLinkInvalid, PageSessionInvalid, Refusal, TokenInvalid
from aop.core.ids import TokenId
from aop.core.roles import Role
from aop.kernel.gateway.signed_text import NotSigned, SignedForm
from aop.kernel.gateway.tokens import NOTHING, IssuedToken, NewToken, Reach, RepositoryIdentity, Tokens
from aop.kernel.ports.signer import Signer
from aop.kernel.record.documents.base import NonEmpty, revise
from aop.kernel.record.port import Snapshot, Transaction

LINK_LIFE = timedelta(minutes=2)
COOKIE_LIFE = timedelta(hours=12)
LONGEST_READER_LIFE = timedelta(days=366)

Use = Literal["link", "cookie", "reader"]

_HEAD = "aop-page"
_FORM = SignedForm(head=_HEAD, covered=f"{_HEAD}.")
"""Not the form of an agent's token: neither passes for the other."""


class PageClaims(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The claims of a link, a cookie or a reader's token; the signature covers all of them."""

    aud: str
    jti: TokenId
    sub: NonEmpty
    use: Use
    exp: Annotated[int, Meta(ge=0)]


class PageSession(Struct, frozen=True, kw_only=True):
    """A person at the pages, or a program that reads what they show."""

    token_id: TokenId
    actor: str
    reach: Reach
    """Of a platform: what may be shown."""
    form_token: str
    """The proof that a form was drawn for this session."""


class NewCookie(Struct, frozen=True, kw_only=True):
    """A cookie at the moment when it is made; its text is stored nowhere."""

    text: str
    session: PageSession
    seconds: int


class PageSessions(Struct, frozen=True, kw_only=True):
    """Makes links and cookies, and reads them; each is listed and revoked like a token."""

    tokens: Tokens
    place: str = "this repository"
    command: str = "aop web"
    """The command that makes a link."""

    def link(self, *, by: str, reach: Reach = NOTHING) -> str:
        """Make a link that lets a person in once."""
        with self.tokens.record.write() as tx:
            return self._issue(tx, "link", by, LINK_LIFE, reach).text

    def reader_token(self, *, by: str, reach: Reach, life: timedelta) -> NewToken:
        """Make a token with which a program reads what a platform shows. Raises: InvalidCliArgs."""
        if not timedelta(seconds=1) <= life <= LONGEST_READER_LIFE:
            raise InvalidCliArgs(
                f"A reader's token is valid for one second to {LONGEST_READER_LIFE.days} days.",
                hint="Choose a `--ttl` such as `30d`.",
            )
        with self.tokens.record.write() as tx:
            return self._issue(tx, "reader", by, life, reach)

    def enter(self, link: str) -> NewCookie:
        """Make the cookie for a link, which is used up by it. Raises: PageLinkInvalid."""
        again = f"Open the pages again with `{self.command}`."
        foreign = PageLinkInvalid(f"This link was not made by the `{self.command}` of {self.place}.", hint=again)
        claims = self._claims(link, "link", foreign)
        with self.tokens.record.write() as tx:
            over = PageLinkInvalid("This link was used before, or its time is over.", hint=again)
            used = self._issued(tx, claims, over)
            tx.put(revise(used, revoked_by="page", revoked_at=timestamp(self.tokens.clock.now())), used.token_id)
            cookie = self._issue(tx, "cookie", claims.sub, COOKIE_LIFE, used.reach)
        session = self._session(cookie.token)
        return NewCookie(text=cookie.text, session=session, seconds=int(COOKIE_LIFE.total_seconds()))

    def session(self, cookie: str | None) -> PageSession:
        """Return the person whose browser sent a cookie, or none. Raises: PageSessionInvalid."""
        way_in = f"Open the pages with `{self.command}`."
        none = PageSessionInvalid(f"This browser has no session of {self.place}.", hint=way_in)
        claims = self._claims(cookie or "", "cookie", none)
        over = PageSessionInvalid("The session has ended, or was revoked.", hint=way_in)
        with self.tokens.record.read() as view:
            return self._session(self._issued(view, claims, over))

    def reader(self, token: str) -> PageSession:
        """Return the program that a reader's token stands for. Raises: TokenInvalid."""
        hint = "A person makes one with `aop token reader --platform --repositories NAMES`."
        claims = self._claims(token, "reader", TokenInvalid("This is not a reader's token of this server.", hint=hint))
        over = TokenInvalid("The reader's token has expired, or was revoked.", hint=hint)
        with self.tokens.record.read() as view:
            return self._session(self._issued(view, claims, over))

    def _issue(self, tx: Transaction, use: Use, by: str, life: timedelta, reach: Reach) -> NewToken:
        desk, now = self.tokens, self.tokens.clock.now()
        claims = PageClaims(
            aud=desk.identity(tx).audience,
            jti=TokenId(desk.new_id("token")),
            sub=by,
            use=use,
            exp=int((now + life).timestamp()),
        )
        token = IssuedToken(
            version=1,
            token_id=claims.jti,
            role=Role.ORCHESTRATOR,
            actor=by,
            page=use,
            reach=reach,
            issued_by=by,
            issued_at=timestamp(now),
            expires_at=timestamp(datetime.fromtimestamp(claims.exp, UTC)),
        )
        tx.put(token, token.token_id)
        tx.append(desk.event(f"page_{use}_made", token, by=by, expires_at=token.expires_at))
        return NewToken(text=_FORM.write(claims, desk.signer), token=token)

    def _claims(self, text: str, use: Use, refusal: Refusal) -> PageClaims:
        try:
            claims = _FORM.read(text, PageClaims, self.tokens.signer)
        except NotSigned as error:
            raise refusal from error
        if claims.use != use:
            raise refusal
        return claims

    def _issued(self, view: Snapshot, claims: PageClaims, refusal: Refusal) -> IssuedToken:
        """Return the entry of what is still valid here."""
        identity, token = view.get(RepositoryIdentity, RepositoryIdentity.key), view.get(IssuedToken, claims.jti)
        if identity is None or token is None or claims.aud != identity.audience:
            raise refusal
        if token.revoked_at or claims.exp <= self.tokens.clock.now().timestamp():
            raise refusal
        return token

    def _session(self, token: IssuedToken) -> PageSession:
        proof = self.tokens.signer.sign(f"{_HEAD}-form.{token.token_id}".encode())
        return PageSession(token_id=token.token_id, actor=token.actor, reach=token.reach, form_token=proof)


def page_host(signer: Signer) -> str:
    """Return the name of the pages of a repository on this machine.

    Browsers send a cookie to every port of a host. Under a name of their own, which no agent can guess, the pages'
    cookie does not reach what a feature serves on this machine.
    """
    return f"aop-{sha256(signer.sign(b'aop-page-host').encode()).hexdigest()[:16]}.localhost"
