"""API keys: `forge.key_new`, `forge.key_list`, `forge.key_revoke`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from aop.core.structs import copy_fields
from aop.forge.projects.keys import KEYS_SCOPE, issue_key, key_prefix, key_text, own_keys, revoke_key
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.port import Transaction


class NewKey(Arguments, frozen=True, kw_only=True):
    label: Annotated[str, Meta(max_length=100)] = ""
    """A name for people: the machine or the program that will hold it."""
    scopes: Annotated[tuple[Literal["read", "write", "keys"], ...], Meta(min_length=1, max_length=8)] = ("read",)
    """The permissions: `read` opens contracts and events, `write` plans and answers, `keys` the keys themselves."""


class KeyFacts(Struct, frozen=True, kw_only=True):
    prefix: str
    """The first 12 characters of the key, by which it is listed and revoked."""
    label: str
    """A name for people."""
    scopes: tuple[str, ...]
    """Its permissions."""
    created_at: str
    """When it was made."""
    last_used: str
    """When it was last used, to the minute; empty if never."""
    revoked_at: str
    """When it was revoked; empty while it is valid."""


class MadeKey(KeyFacts, frozen=True, kw_only=True):
    key_id: str
    """The id that its text is computed from, by this machine alone."""
    key: str = ""
    """The key itself; no record and no log holds it."""


class Keys(Struct, frozen=True, kw_only=True):
    keys: tuple[KeyFacts, ...]
    """The keys of the caller, by prefix."""


class RevokeKey(Arguments, frozen=True, kw_only=True):
    prefix: Annotated[str, Meta(min_length=1, max_length=200)]
    """The first 12 characters of the key, or the whole key."""


def new_key(call: Call, arguments: NewKey, tx: Transaction) -> Outcome:
    """Make a key of the caller for the HTTP interface."""
    key_id = call.kernel.new_id("fk")
    scopes = tuple(dict.fromkeys(arguments.scopes))
    key = issue_key(call, tx, key_id, label=arguments.label, scopes=scopes)
    return copy_fields(MadeKey, key, key_id=key_id)


def with_key(kernel: Kernel, made: MadeKey) -> MadeKey:
    """Add the key to the answer; the record holds only its digest."""
    return replace(made, key=key_text(kernel.signer, made.key_id))


def list_keys(call: Call, _arguments: Arguments) -> Outcome:
    """Return the keys of the caller."""
    with call.kernel.record.read() as view:
        return Keys(keys=tuple(copy_fields(KeyFacts, key) for key in own_keys(view, call.principal.user)))


def revoke(call: Call, arguments: RevokeKey, tx: Transaction) -> Outcome:
    """Revoke a key of the caller."""
    return copy_fields(KeyFacts, revoke_key(call, tx, key_prefix(arguments.prefix)))


TOOLS = (
    Tool(
        name="forge.key_new",
        summary="Make a key for the HTTP interface; its text is shown once.",
        arguments=NewKey,
        output=MadeKey,
        roles=COORDINATORS,
        run=committed(new_key),
        mutates=True,
        person_only=True,
        key_scope=KEYS_SCOPE,
        reveal=with_key,
    ),
    Tool(
        name="forge.key_list",
        summary="List the keys for the HTTP interface: label, permissions, last use.",
        arguments=Arguments,
        output=Keys,
        roles=COORDINATORS,
        run=list_keys,
        person_only=True,
        key_scope=KEYS_SCOPE,
    ),
    Tool(
        name="forge.key_revoke",
        summary="Revoke a key for the HTTP interface.",
        arguments=RevokeKey,
        output=KeyFacts,
        roles=COORDINATORS,
        run=committed(revoke),
        mutates=True,
        brief=True,
        idempotent=True,
        person_only=True,
        key_scope=KEYS_SCOPE,
    ),
)
