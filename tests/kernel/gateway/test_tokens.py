"""Tokens: only a signed, unexpired, unrevoked token of one form is accepted."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.adapters.files.signing_key import FileSigner
from aop.core.errors import InvalidCliArgs, TokenInvalid, UnknownFeature
from aop.core.ids import FeatureId, TokenId
from aop.core.roles import Role
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.signed_text import NotSigned, SignedForm
from aop.kernel.gateway.tokens import TOKEN_ROLES, TokenClaims, TokenOrder, Tokens, read_token
from tests.clocks import HandClock
from tests.kernel.tools.worlds import events
from tests.world import World, make_repository

NOT_OURS = "The token was not made by this repository's `aop token`."
BUILDER = TokenOrder(role=Role.BUILDER, feature_id=FeatureId("one"))


@pytest.fixture
def clock() -> HandClock:
    return HandClock("boot-1", 0.0)


@pytest.fixture
def tokens(world: World, clock: HandClock) -> Tokens:
    world.init("one")
    return msgspec.structs.replace(world.app.tokens, clock=clock)


def encoded(text: str | bytes) -> str:
    raw = text if isinstance(text, bytes) else text.encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def claims_of(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims


class Forge:
    """Signs whatever it is given with this repository's own key: what must be refused even then."""

    def __init__(self, world: World, token: str) -> None:
        self.signer = FileSigner(world.root / ".aop/keys/token.key")
        self.header, self.payload, self.signature = token.split(".")
        self.claims = claims_of(token)

    def signed(self, payload: str | bytes, header: str | None = None) -> str:
        text = f"{self.header if header is None else encoded(header)}.{encoded(payload)}"
        return f"{text}.{self.signer.sign(text.encode())}"

    def saying(self, **changes: Any) -> str:
        claims = {key: value for key, value in {**self.claims, **changes}.items() if value is not ...}
        return self.signed(json.dumps(claims))


@pytest.mark.req("AOP-327")
def test_a_token_stands_for_one_role_on_one_feature(tokens: Tokens) -> None:
    handed = tokens.issue(BUILDER, by="person:ada")
    assert tokens.principal(handed.text) == Principal(
        role=Role.BUILDER,
        actor="builder:one",
        person=False,
        features=frozenset({FeatureId("one")}),
        token=handed.token.token_id,
    )


def test_a_token_without_a_feature_opens_all_of_this_repository(tokens: Tokens) -> None:
    handed = tokens.issue(TokenOrder(role=Role.QA), by="person:ada")
    known = Principal(role=Role.QA, actor="qa:*", features=None, token=handed.token.token_id)
    assert tokens.principal(handed.text) == known


def test_a_token_is_a_plain_jwt(tokens: Tokens, world: World) -> None:
    handed = tokens.issue(BUILDER, by="person:ada")
    header, payload, signature = handed.text.split(".")
    key = (world.root / ".aop/keys/token.key").read_bytes()
    assert json.loads(base64.urlsafe_b64decode(header + "=")) == {"alg": "HS256", "typ": "JWT"}
    assert signature == encoded(hmac.new(key, f"{header}.{payload}".encode(), hashlib.sha256).digest())
    claims = claims_of(handed.text)
    assert (claims["iss"], claims["sub"], claims["jti"]) == ("aop", "builder:one", handed.token.token_id)
    assert claims["exp"] - claims["iat"] == 3600
    assert (world.root / ".aop/keys/token.key").stat().st_mode & 0o777 == 0o600


def test_the_record_knows_who_was_given_what_and_never_the_token(tokens: Tokens, world: World) -> None:
    handed = tokens.issue(BUILDER, by="person:ada")
    assert tokens.all() == (handed.token,)
    assert events(world)[-1] == "token_issued"
    stored = b"".join(path.read_bytes() for path in (world.root / ".aop").rglob("*") if path.is_file())
    assert handed.text.split(".")[2].encode() not in stored


@pytest.mark.req("AOP-327")
@pytest.mark.parametrize("role", [role for role in Role if role not in TOKEN_ROLES])
def test_the_system_is_nobody_s_role_by_token(tokens: Tokens, role: Role) -> None:
    with pytest.raises(InvalidCliArgs):
        tokens.issue(TokenOrder(role=role), by="person:ada")


@pytest.mark.req("AOP-327")
@pytest.mark.hostile("T10")
@pytest.mark.parametrize("life", [timedelta(0), timedelta(seconds=-1), timedelta(days=7, seconds=1)], ids=str)
def test_a_token_lives_a_limited_time(tokens: Tokens, life: timedelta) -> None:
    with pytest.raises(InvalidCliArgs):
        tokens.issue(TokenOrder(role=Role.QA, life=life), by="person:ada")


def test_a_feature_that_does_not_exist_gets_no_token(tokens: Tokens) -> None:
    with pytest.raises(UnknownFeature):
        tokens.issue(TokenOrder(role=Role.QA, feature_id=FeatureId("nobody")), by="person:ada")
    assert tokens.all() == ()


@pytest.mark.req("AOP-327")
def test_a_token_ends_with_its_time(tokens: Tokens, clock: HandClock) -> None:
    text = tokens.issue(BUILDER, by="person:ada").text
    clock.pause(3598)
    tokens.principal(text)
    clock.pause(2)
    with pytest.raises(TokenInvalid, match="has expired"):
        tokens.principal(text)


@pytest.mark.req("AOP-327")
@pytest.mark.hostile("T10")
@pytest.mark.parametrize("whole", [False, True], ids=["by id", "by token"])
def test_a_revoked_token_is_refused_at_once(tokens: Tokens, world: World, *, whole: bool) -> None:
    handed = tokens.issue(BUILDER, by="person:ada")
    revoked = tokens.revoke(handed.text if whole else handed.token.token_id, by="person:eve")
    assert (revoked.revoked_by, bool(revoked.revoked_at)) == ("person:eve", True)
    with pytest.raises(TokenInvalid, match="was revoked"):
        tokens.principal(handed.text)
    assert tokens.revoke(handed.token.token_id, by="person:bob") == revoked
    assert events(world).count("token_revoked") == 1


def test_a_token_that_nobody_has_cannot_be_revoked(tokens: Tokens) -> None:
    with pytest.raises(TokenInvalid):
        tokens.revoke("token-1", by="person:ada")


FORGERIES: dict[str, Callable[[Forge], str]] = {
    "nothing": lambda _: "",
    "a word": lambda _: "token",
    "no signature": lambda forge: f"{forge.header}.{forge.payload}.",
    "two parts": lambda forge: f"{forge.header}.{forge.payload}",
    "another signature": lambda forge: f"{forge.header}.{forge.payload}.{encoded(b'x' * 32)}",
    "another header": lambda forge: f"{encoded('{}')}.{forge.payload}.{forge.signature}",
    "something after it": lambda forge: f"{forge.header}.{forge.payload}.{forge.signature}.",
    "a line after it": lambda forge: f"{forge.header}.{forge.payload}.{forge.signature}\n",
    "padding": lambda forge: f"{forge.header}.{forge.payload}.{forge.signature}=",
    "not ASCII": lambda forge: f"{forge.header}.{forge.payload}.{forge.signature[:-1]}é",
    "half of a pair": lambda forge: f"{forge.header}.{forge.payload}.\ud800",
    "a role changed": lambda forge: (
        f"{forge.header}.{encoded(json.dumps(forge.claims | {'role': 'qa'}))}.{forge.signature}"
    ),
    "too long": lambda forge: forge.saying(sub="x" * 4096),
    "ten megabytes": lambda _: "a.b." + "c" * 10_000_000,
}
SIGNED_FORGERIES: dict[str, Callable[[Forge], str]] = {
    "alg none": lambda forge: forge.signed(json.dumps(forge.claims), '{"alg":"none","typ":"JWT"}'),
    "alg RS256": lambda forge: forge.signed(json.dumps(forge.claims), '{"alg":"RS256","typ":"JWT"}'),
    "alg first": lambda forge: forge.signed(json.dumps(forge.claims), '{"typ":"JWT","alg":"HS256"}'),
    "a key id": lambda forge: forge.signed(json.dumps(forge.claims), '{"alg":"HS256","kid":"../../x","typ":"JWT"}'),
    "no JSON": lambda forge: forge.signed("{"),
    "no UTF-8": lambda forge: forge.signed(b"\xff\xfe"),
    "a list": lambda forge: forge.signed("[]"),
    "no expiry": lambda forge: forge.saying(exp=...),
    "expiry as text": lambda forge: forge.saying(exp="9999999999"),
    "expiry as a fraction": lambda forge: forge.saying(exp=9999999999.5),
    "expiry as true": lambda forge: forge.saying(exp=True),
    "no audience": lambda forge: forge.saying(aud=...),
    "another repository": lambda forge: forge.saying(aud="aop:repository-2"),
    "several audiences": lambda forge: forge.saying(aud=[forge.claims["aud"]]),
    "another issuer": lambda forge: forge.saying(iss="somebody"),
    "an id that was never handed out": lambda forge: forge.saying(jti="token-1"),
    "no role": lambda forge: forge.saying(role=...),
    "an unknown role": lambda forge: forge.saying(role="boss"),
    "the system": lambda forge: forge.saying(role="system"),
    "a person": lambda forge: forge.saying(person=True),
    "two roles": lambda forge: forge.signed(json.dumps(forge.claims)[:-1] + ', "role": "orchestrator"}'),
    "nothing as the actor": lambda forge: forge.saying(sub=""),
    "something after the claims": lambda forge: forge.signed(json.dumps(forge.claims) + "{}"),
}


@pytest.mark.req("AOP-327")
@pytest.mark.hostile("T01", "T02", "T03", "T05", "T06", "T07", "T18", "T19", "T21")
@pytest.mark.parametrize("forgery", [*FORGERIES, *SIGNED_FORGERIES])
def test_a_forgery_is_refused_like_any_other(tokens: Tokens, world: World, forgery: str) -> None:
    forge = Forge(world, tokens.issue(BUILDER, by="person:ada").text)
    with pytest.raises(TokenInvalid) as refused:
        tokens.principal({**FORGERIES, **SIGNED_FORGERIES}[forgery](forge))
    assert refused.value.message == NOT_OURS


def test_the_forge_itself_makes_tokens_that_are_good(tokens: Tokens, world: World) -> None:
    forge = Forge(world, tokens.issue(BUILDER, by="person:ada").text)
    assert tokens.principal(forge.saying()).role is Role.BUILDER


@pytest.mark.hostile("T05")
def test_a_token_of_another_repository_is_refused(tokens: Tokens, tmp_path: Path) -> None:
    other = World(make_repository(tmp_path / "other"))
    text = other.app.tokens.issue(TokenOrder(role=Role.QA), by="person:ada").text
    with pytest.raises(TokenInvalid, match="was not made by this repository"):
        tokens.principal(text)
    other.close()


def test_the_id_of_a_token_is_all_that_is_needed_to_find_it(tokens: Tokens) -> None:
    handed = [tokens.issue(BUILDER, by="person:ada").token.token_id for _ in range(3)]
    assert [token.token_id for token in tokens.all()] == sorted(map(TokenId, handed))


@pytest.mark.req("AOP-327")
def test_a_text_that_was_signed_in_one_form_counts_in_no_other(tokens: Tokens) -> None:
    one, other = (SignedForm(head="h", covered=covered) for covered in ("one:", "other:"))
    claims = read_token(tokens.issue(BUILDER, by="person:ada").text, tokens.signer)
    text = one.write(claims, tokens.signer)
    assert one.read(text, TokenClaims, tokens.signer) == claims
    with pytest.raises(NotSigned):
        other.read(text, TokenClaims, tokens.signer)
