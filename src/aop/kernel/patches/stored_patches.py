"""Stored patches: patches that wait to be judged; secrets of files stay in git.

A secret that a patch adds is refused. A secret in a line that it removes or leaves as it is was there before, and
masking it would make another patch: such a patch is stored as a blob.
"""

from __future__ import annotations

from msgspec import Struct

from aop.core.ids import FeatureId, ObjectId
from aop.kernel.gateway.calls import Kernel, feature_named
from aop.kernel.patches.checks import refuse_added_secrets
from aop.kernel.ports.git import FileMode, GitObjects

_NAME = "patch"


class StoredPatch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A patch without secrets, or the blob that holds all of it."""

    unified_diff: str
    patch_blob: ObjectId | None = None


def storable_patch(kernel: Kernel, feature_id: FeatureId, diff: str) -> StoredPatch:
    """Return a patch as it may be stored. Raises: SecretDetected, UnknownFeature."""
    refuse_added_secrets(diff, kernel.redact)
    if not kernel.redact.secrets_in(diff):
        return StoredPatch(unified_diff=diff)
    with kernel.record.read() as view:
        tree = feature_named(view, feature_id).tree
    entry = kernel.git.objects.entry(kernel.git.objects.tree_with(tree, {_NAME: (FileMode.FILE, diff.encode())}), _NAME)
    return StoredPatch(unified_diff="", patch_blob=None if entry is None else entry.oid)


def full_patch(objects: GitObjects, stored: StoredPatch) -> str:
    """Return a patch as it was proposed."""
    return stored.unified_diff if stored.patch_blob is None else objects.blob(stored.patch_blob).decode()
