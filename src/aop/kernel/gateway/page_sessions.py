"""Page sessions: the one-time link of a person, and the cookie that it becomes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.core.clock import timestamp
from aop.core.errors import PageLinkInvalid, PageSessionInvalid, Refusal
from aop.core.ids import TokenId
from aop.core.roles import Role
from aop.kernel.gateway.signed_text import NotSigned, SignedForm
from aop.kernel.gateway.tokens import IssuedToken, RepositoryIdentity, Tokens
from aop.kernel.ports.signer import Signer
from aop.kernel.record.documents.base import NonEmpty, revise
from aop.kernel.record.port import Snapshot, Transaction

LINK_LIFE = timedelta(minutes=2)
COOKIE_LIFE = timedelta(hours=12)

Use = Literal["link", "cookie"]

_HEAD = "aop-page"
_FORM = SignedForm(head=_HEAD, covered=f"{_HEAD}.")
"""Not the form of an agent's token: neither passes for the other."""


class PageClaims(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The claims of a link or a cookie; the signature covers all of them."""

    aud: str
    jti: TokenId
    sub: NonEmpty
    use: Use
    exp: Annotated[int, Meta(ge=0)]


class PageSession(Struct, frozen=True, kw_only=True):
    """A person at the pages."""

    token_id: TokenId
    actor: str
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

    def link(self, *, by: str) -> str:
        """Make a link that lets a person in once."""
        with self.tokens.record.write() as tx:
            return self._issue(tx, "link", by, LINK_LIFE)[0]

    def enter(self, link: str) -> NewCookie:
        """Make the cookie for a link, which is used up by it. Raises: PageLinkInvalid."""
        claims = self._claims(link, "link", PageLinkInvalid("This link was not made by this repository's `aop web`."))
        with self.tokens.record.write() as tx:
            used = self._issued(tx, claims, PageLinkInvalid("This link was used before, or its time is over."))
            tx.put(revise(used, revoked_by="page", revoked_at=timestamp(self.tokens.clock.now())), used.token_id)
            text, cookie = self._issue(tx, "cookie", claims.sub, COOKIE_LIFE)
        return NewCookie(text=text, session=self._session(cookie), seconds=int(COOKIE_LIFE.total_seconds()))

    def session(self, cookie: str) -> PageSession:
        """Return the person whose browser sent a cookie. Raises: PageSessionInvalid."""
        claims = self._claims(cookie, "cookie", PageSessionInvalid("This browser has no session of this repository."))
        with self.tokens.record.read() as view:
            self._issued(view, claims, PageSessionInvalid("The session has ended, or was revoked."))
        return self._session(claims)

    def _issue(self, tx: Transaction, use: Use, by: str, life: timedelta) -> tuple[str, PageClaims]:
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
            issued_by=by,
            issued_at=timestamp(now),
            expires_at=timestamp(datetime.fromtimestamp(claims.exp, UTC)),
        )
        tx.put(token, token.token_id)
        tx.append(desk.event(f"page_{use}_made", token, by=by, expires_at=token.expires_at))
        return _FORM.write(claims, desk.signer), claims

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

    def _session(self, claims: PageClaims) -> PageSession:
        proof = self.tokens.signer.sign(f"{_HEAD}-form.{claims.jti}".encode())
        return PageSession(token_id=claims.jti, actor=claims.sub, form_token=proof)


def page_host(signer: Signer) -> str:
    """Return the name of the pages of a repository on this machine.

    Browsers send a cookie to every port of a host. Under a name of their own, which no agent can guess, the pages'
    cookie does not reach what a feature serves on this machine.
    """
    return f"aop-{sha256(signer.sign(b'aop-page-host').encode()).hexdigest()[:16]}.localhost"
