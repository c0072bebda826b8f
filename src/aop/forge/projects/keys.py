"""Keys of the HTTP interface: only the digest of a key is kept."""

from __future__ import annotations

from hmac import compare_digest

from aop.core.digests import sha256_hex
from aop.core.errors import ForgeKeyInvalid
from aop.core.roles import Role
from aop.forge.projects.documents import ForgeKey
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.port import Snapshot

KEY_HEAD = "fg_"
PREFIX_LENGTH = 12
"""So many characters of a key may be shown, and name it."""

READ_SCOPE = "read"
"""Opens the contracts, contexts and events of the owner's projects."""
KEYS_SCOPE = "keys"
"""Opens the keys of the owner: a list of them, new ones with fewer scopes, and their end."""
SCOPES = (READ_SCOPE, KEYS_SCOPE)

_NO_DIGEST = "0" * 64


def key_prefix(text: str) -> str:
    """Return the part of a key that names it."""
    return text[:PREFIX_LENGTH]


def key_digest(text: str) -> str:
    """Return the part of a key that is stored."""
    return sha256_hex(text.encode())


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
    return Principal(role=Role.ORCHESTRATOR, actor=f"key:{key.prefix}", user=key.owner)
