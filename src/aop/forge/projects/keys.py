"""Keys of the HTTP interface: only the digest of a key is kept.

The text of a key is computed from its id with a key that never leaves the machine, and shown once.
"""

from __future__ import annotations

from collections.abc import Iterator
from hmac import compare_digest

from aop.core.digests import sha256_hex
from aop.core.errors import ForgeKeyInvalid, ForgeKeyScopeMissing, UnknownForgeKey
from aop.core.roles import Role
from aop.forge.projects.documents import ForgeKey
from aop.kernel.gateway.calls import Call
from aop.kernel.gateway.principals import Principal
from aop.kernel.ports.signer import Signer
from aop.kernel.record.documents.base import revise
from aop.kernel.record.port import Snapshot, Transaction

KEY_HEAD = "fg_"
PREFIX_LENGTH = 12
"""So many characters of a key may be shown, and name it."""

READ_SCOPE = "read"
"""Opens the contracts, contexts and events of the owner's projects."""
WRITE_SCOPE = "write"
"""Opens what is recorded without a model: the plan of a scan, and answers, notes, dismissed errors of a build."""
KEYS_SCOPE = "keys"
"""Opens the keys of the owner: a list of them, new ones with fewer scopes, and their end."""
SCOPES = (READ_SCOPE, WRITE_SCOPE, KEYS_SCOPE)

_NO_DIGEST = "0" * 64


def key_prefix(text: str) -> str:
    """Return the part of a key that names it."""
    return text[:PREFIX_LENGTH]


def key_digest(text: str) -> str:
    """Return the part of a key that is stored."""
    return sha256_hex(text.encode())


def key_text(signer: Signer, key_id: str) -> str:
    """Return the text of a key; nobody without the signer can make it from the id."""
    return f"{KEY_HEAD}{signer.sign(b'forge-key:' + key_id.encode())}"


def issue_key(call: Call, tx: Transaction, key_id: str, *, label: str, scopes: tuple[str, ...]) -> ForgeKey:
    """Store a new key of the caller; a key makes keys with its own scopes, but none that make keys.

    Raises: ForgeKeyScopeMissing.
    """
    own = call.principal.scopes
    missing = [] if own is None else [each for each in scopes if each not in own - {KEYS_SCOPE}]
    if missing:
        raise ForgeKeyScopeMissing(f"A key with `{missing[0]}` is made by a person.", scope=missing[0])
    text = key_text(call.kernel.signer, key_id)
    key = ForgeKey(
        version=1,
        prefix=key_prefix(text),
        sha256=key_digest(text),
        owner=call.principal.user,
        label=call.kernel.redact(label),
        scopes=scopes,
        created_at=call.kernel.now(),
    )
    tx.put(key, key.prefix)
    facts = {"prefix": key.prefix, "owner": key.owner, "label": key.label, "scopes": list(scopes)}
    tx.append(call.event("forge_key_issued", None, **facts))
    return key


def own_keys(view: Snapshot, user: str) -> Iterator[ForgeKey]:
    """Return the keys of a user, also the revoked ones, by prefix."""
    return (key for key in view.all(ForgeKey) if key.owner == user)


def revoke_key(call: Call, tx: Transaction, prefix: str) -> ForgeKey:
    """Revoke a key of the caller; a revoked one stays as it is. Raises: UnknownForgeKey."""
    key = tx.get(ForgeKey, prefix)
    if key is None or key.owner != call.principal.user:
        raise UnknownForgeKey(f"There is no key `{ascii(key_prefix(prefix))[1:-1]}`.")
    if key.revoked_at:
        return key
    revoked = revise(key, revoked_at=call.kernel.now())
    tx.put(revoked, prefix)
    tx.append(call.event("forge_key_revoked", None, prefix=prefix, owner=key.owner))
    return revoked


def the_key(view: Snapshot, text: str) -> ForgeKey:
    """Return a key that is in force; an unknown prefix takes as long as a wrong end. Raises: ForgeKeyInvalid."""
    key = view.get(ForgeKey, key_prefix(text))
    is_right = compare_digest(_NO_DIGEST if key is None else key.sha256, key_digest(text))
    if key is None or not is_right:
        raise ForgeKeyInvalid("The key is not one of this repository.")
    if key.revoked_at:
        raise ForgeKeyInvalid(f"The key `{key.prefix}` was revoked.", prefix=key.prefix)
    return key


def principal_of_key(key: ForgeKey) -> Principal:
    """Return the caller that comes in with a key: never a person, and only among its owner's projects."""
    return Principal(role=Role.ORCHESTRATOR, actor=f"key:{key.prefix}", user=key.owner, scopes=frozenset(key.scopes))
