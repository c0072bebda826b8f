"""Trees: free paths, and changes, names and contents as answers show them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

import msgspec
from msgspec import Struct

from aop.core.ids import TreeId
from aop.core.redaction.redactor import Redactor
from aop.kernel.ports.git import FileMode, GitObjects, TreeChange

LARGEST_READ = 1024 * 1024
LARGEST_DIFF = 4 * 1024 * 1024


class ChangedFile(Struct, frozen=True, kw_only=True):
    path: str
    kind: Literal["create", "modify", "delete"]


def changed_files(changes: tuple[TreeChange, ...]) -> tuple[ChangedFile, ...]:
    """Return changes as answers show them."""
    return tuple(msgspec.convert({"path": each.path, "kind": each.kind}, ChangedFile) for each in changes)


def is_free_in(objects: GitObjects, tree: TreeId, path: str) -> bool:
    """Tell whether a tree has nothing at a path, and nothing but folders on the way to it."""
    *above, own = (objects.entry(tree, each) for each in accumulate(path.split("/"), "{}/{}".format))
    return own is None and all(entry is None or entry.mode is FileMode.TREE for entry in above)


def is_at_or_below(path: str, folder: str) -> bool:
    """Tell whether a path is a folder's own, or below it."""
    return path == folder or path.startswith(f"{folder}/")


def masked_bytes(content: bytes, redact: Redactor) -> bytes:
    """Mask the secrets of a whole text: cut first, a secret that is read in pieces would not be recognised."""
    try:
        return redact.mask_secrets(content.decode()).encode()
    except UnicodeDecodeError:
        return content


def masked_names(names: Sequence[str], redact: Redactor) -> list[str]:
    """Return names without secrets; all are searched at once, since most folders hold none."""
    return [redact.mask_secrets(name) for name in names] if redact.secrets_in("\n".join(names)) else list(names)


def text_or_base64(content: bytes) -> tuple[str, str]:
    """Return bytes as text if they are UTF-8, else as base64, together with the name of the encoding."""
    try:
        return content.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(content).decode(), "base64"
