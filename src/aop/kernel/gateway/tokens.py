"""Tokens: the identity of an agent, signed, short-lived, revocable, not stored."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from aop.core.clock import Clock, timestamp
from aop.core.errors import InvalidCliArgs, TokenInvalid, UnknownFeature
from aop.core.ids import FeatureId, OperationId, RunId, TokenId
from aop.core.roles import Role
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.signed_text import NotSigned, SignedForm
from aop.kernel.ports.handed_in import NewId
from aop.kernel.ports.signer import Signer
from aop.kernel.record.documents.base import Document, NonEmpty, revise
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Event, Record, Snapshot, Transaction

ISSUER = "aop"
DEFAULT_LIFE = timedelta(hours=1)
LONGEST_LIFE = timedelta(days=7)

TOKEN_ROLES = frozenset(Role) - {Role.SYSTEM}
"""The system may do what only a person may do, so no token stands for it (C-53)."""

PROJECT_ROLES = frozenset({Role.ORCHESTRATOR, Role.FORGE_BUILDER, Role.SCOUT, Role.CODER, Role.AUDITOR, Role.FIXER})
"""The roles whose token can be restricted to a project or a build."""

_HEADER = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=").decode()
_FORM = SignedForm(head=_HEADER, covered=f"{_HEADER}.")
_NOT_OURS = "The token was not made by this repository's `aop token`."


class TokenClaims(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The claims of a token; the signature covers all of them."""

    iss: str
    aud: str
    jti: TokenId
    sub: NonEmpty
    role: Role
    feature: FeatureId | None
    run: RunId | None
    iat: Annotated[int, Meta(ge=0)]
    exp: Annotated[int, Meta(ge=0)]
    project: str | None = None
    build: str | None = None


class Reach(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The repositories that a way into the pages of a platform opens; none if nothing is named."""

    everything: bool = False
    repositories: tuple[str, ...] = ()

    def opens(self, repository: str) -> bool:
        """Tell whether a repository may be shown."""
        return self.everything or repository in self.repositories


NOTHING = Reach()


class IssuedToken(Document, frozen=True, kw_only=True):
    """One token that was issued."""

    kind: ClassVar[str] = "token"

    token_id: TokenId
    role: Role
    actor: NonEmpty
    feature_id: FeatureId | None = None
    run_id: RunId | None = None
    project_id: str | None = None
    build_id: str | None = None
    page: Literal["", "link", "cookie", "reader"] = ""
    """Of a way to the pages, which no agent can use; empty for a token of an agent."""
    reach: Reach = NOTHING
    """Of a way to the pages of a platform."""
    issued_by: NonEmpty
    issued_at: NonEmpty
    expires_at: NonEmpty
    revoked_by: str = ""
    revoked_at: str = ""


class RepositoryIdentity(Document, frozen=True, kw_only=True):
    """The identity of this record: a token names it as its audience."""

    kind: ClassVar[str] = "repository"
    key: ClassVar[str] = "identity"

    repository_id: NonEmpty

    @property
    def audience(self) -> str:
        """Return the audience of this repository's tokens."""
        return f"aop:{self.repository_id}"


class TokenOrder(Struct, frozen=True, kw_only=True):
    """The role, scope and life of a token to be issued."""

    role: Role
    feature_id: FeatureId | None = None
    """None means every feature of the repository."""
    run_id: RunId | None = None
    project_id: str | None = None
    """A project that the caller has looked up; None means every project."""
    build_id: str | None = None
    """A build of that project; None means every build."""
    life: timedelta = DEFAULT_LIFE


class NewToken(Struct, frozen=True, kw_only=True):
    """A token at the moment when it is issued; the text is stored nowhere."""

    text: str
    token: IssuedToken


class Tokens(Struct, frozen=True, kw_only=True):
    """Issues, reads and revokes the tokens of one repository."""

    record: Record
    signer: Signer
    clock: Clock
    new_id: NewId

    def issue(self, order: TokenOrder, *, by: str) -> NewToken:
        """Issue a token, and record it. Raises: InvalidCliArgs, UnknownFeature."""
        check_order(order)
        now = self.clock.now()
        token_id = TokenId(self.new_id("token"))
        with self.record.write() as tx:
            # What `swe` works on is a workflow, which is a feature only from its first branch on.
            named = None if order.role is Role.SWE else order.feature_id
            if named is not None and tx.get(FeatureState, named) is None:
                raise UnknownFeature(named, (each.feature_id for each in tx.all(FeatureState)))
            claims = claims_for(order, token_id, self.identity(tx), now=now)
            token = _document(claims, by=by)
            tx.put(token, token_id)
            tx.append(self.event("token_issued", token, by=by, role=token.role, expires_at=token.expires_at))
        return NewToken(text=_FORM.write(claims, self.signer), token=token)

    def principal(self, text: str) -> Principal:
        """Return the caller that a token stands for. Raises: TokenInvalid."""
        claims = read_token(text, self.signer)
        with self.record.read() as view:
            return principal_of(claims, view, now=self.clock.now())

    def revoke(self, which: str, *, by: str) -> IssuedToken:
        """Revoke a token, given by its id or its text. Raises: TokenInvalid."""
        token_id = read_token(which, self.signer).jti if which.count(".") == 2 else TokenId(which)
        with self.record.write() as tx:
            token = tx.get(IssuedToken, token_id)
            if token is None:
                raise TokenInvalid(
                    f"There is no token `{ascii(token_id[:80])[1:-1]}`.", hint="List the tokens with `aop token list`."
                )
            if token.revoked_at:
                return token
            revoked = revise(token, revoked_by=by, revoked_at=timestamp(self.clock.now()))
            tx.put(revoked, token_id)
            tx.append(self.event("token_revoked", revoked, by=by))
        return revoked

    def all(self) -> tuple[IssuedToken, ...]:
        """Return every token that was issued, oldest first."""
        with self.record.read() as view:
            return tuple(view.all(IssuedToken))

    def identity(self, tx: Transaction) -> RepositoryIdentity:
        """Return the identity of this record, made when it is first needed."""
        known = tx.get(RepositoryIdentity, RepositoryIdentity.key)
        if known is not None:
            return known
        made = RepositoryIdentity(version=1, repository_id=self.new_id("repository"))
        tx.put(made, RepositoryIdentity.key)
        return made

    def event(self, kind: str, token: IssuedToken, *, by: str, **payload: str) -> Event:
        """Return the event about a token; its text is in no event."""
        return Event(
            kind=kind,
            at=timestamp(self.clock.now()),
            actor=by,
            operation_id=OperationId(self.new_id("op")),
            feature_id=token.feature_id,
            payload={"token_id": token.token_id, **payload},
        )


def check_order(order: TokenOrder) -> None:
    """Refuse an order for a token that must not exist. Raises: InvalidCliArgs."""
    if order.role not in TOKEN_ROLES:
        raise InvalidCliArgs(
            f"There are no tokens for the role `{order.role}`.",
            hint=f"Choose one of: {', '.join(sorted(TOKEN_ROLES))}.",
            role=order.role,
        )
    if order.project_id is not None and order.role not in PROJECT_ROLES:
        raise InvalidCliArgs(
            f"A token for the role `{order.role}` cannot be restricted to a project.",
            hint=f"Projects are for: {', '.join(sorted(PROJECT_ROLES))}.",
            role=order.role,
        )
    if not timedelta(seconds=1) <= order.life <= LONGEST_LIFE:
        raise InvalidCliArgs("A token is valid for one second to seven days.", hint="Choose a `--ttl` such as `8h`.")


def claims_for(order: TokenOrder, token_id: TokenId, audience: RepositoryIdentity, *, now: datetime) -> TokenClaims:
    """Return the claims of the token for an order."""
    issued = int(now.timestamp())
    return TokenClaims(
        iss=ISSUER,
        aud=audience.audience,
        jti=token_id,
        sub=f"{order.role}:{order.feature_id or order.build_id or order.project_id or '*'}",
        role=order.role,
        feature=order.feature_id,
        run=order.run_id,
        iat=issued,
        exp=issued + int(order.life.total_seconds()),
        project=order.project_id,
        build=order.build_id,
    )


def read_token(text: str, signer: Signer) -> TokenClaims:
    """Return the claims of a token that this repository signed. Raises: TokenInvalid."""
    try:
        return _FORM.read(text, TokenClaims, signer)
    except NotSigned as error:
        raise TokenInvalid(_NOT_OURS) from error


def principal_of(claims: TokenClaims, view: Snapshot, *, now: datetime) -> Principal:
    """Return the caller of signed claims. Raises: TokenInvalid for claims of others, expired or revoked ones."""
    identity = view.get(RepositoryIdentity, RepositoryIdentity.key)
    token = view.get(IssuedToken, claims.jti)
    if identity is None or token is None or (claims.iss, claims.aud) != (ISSUER, identity.audience):
        raise TokenInvalid(_NOT_OURS)
    if claims.role not in TOKEN_ROLES:
        raise TokenInvalid(_NOT_OURS)
    if claims.exp <= now.timestamp():
        raise TokenInvalid(f"The token `{claims.jti}` has expired.", token_id=claims.jti)
    if token.revoked_at:
        raise TokenInvalid(f"The token `{claims.jti}` was revoked.", token_id=claims.jti)
    return Principal(
        role=claims.role,
        actor=claims.sub,
        features=_features(claims),
        token=claims.jti,
        turn=claims.run or "",
        project=claims.project,
        build=claims.build,
    )


def _features(claims: TokenClaims) -> frozenset[FeatureId] | None:
    if claims.feature is not None:
        return frozenset({claims.feature})
    # What is restricted to a project has no business with features.
    return None if claims.project is None else frozenset()


def _document(claims: TokenClaims, *, by: str) -> IssuedToken:
    return IssuedToken(
        version=1,
        token_id=claims.jti,
        role=claims.role,
        actor=claims.sub,
        feature_id=claims.feature,
        run_id=claims.run,
        project_id=claims.project,
        build_id=claims.build,
        issued_by=by,
        issued_at=_moment(claims.iat),
        expires_at=_moment(claims.exp),
    )


def _moment(seconds: int) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC))
