"""Ids: a type for each kind, and the functions that make one from text."""

from __future__ import annotations

import re
from typing import NewType

from aop.core.errors import InvalidArguments, InvalidFeatureSlug

FeatureId = NewType("FeatureId", str)
OperationId = NewType("OperationId", str)
GateRunId = NewType("GateRunId", str)
ApprovalId = NewType("ApprovalId", str)
TokenId = NewType("TokenId", str)
RunId = NewType("RunId", str)
ObjectId = NewType("ObjectId", str)
TreeId = NewType("TreeId", ObjectId)
CommitId = NewType("CommitId", ObjectId)

FEATURE_ID_PATTERN = "^[a-z0-9_][a-z0-9_-]{0,62}$"
OPERATION_ID_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"

# Names that have another meaning to git, or to a file system that a worktree may lie on.
_RESERVED = frozenset(
    ["head", "stash", "main", "master", "con", "prn", "aux", "nul"]
    + [f"{step}_head" for step in ("fetch", "orig", "merge", "cherry_pick", "revert", "rebase", "bisect")]
    + [f"{device}{number}" for device in ("com", "lpt") for number in range(1, 10)]
)


def is_feature_id(text: str) -> bool:
    """Tell whether a text has the form of a feature id."""
    return re.fullmatch(FEATURE_ID_PATTERN, text) is not None


def is_operation_id(text: str) -> bool:
    """Tell whether a text has the form of an operation id."""
    return re.fullmatch(OPERATION_ID_PATTERN, text) is not None


def feature_id(text: str) -> FeatureId:
    """Return the text as a feature id. Raises: InvalidFeatureSlug."""
    if not is_feature_id(text):
        raise InvalidFeatureSlug(text, f"it must match `{FEATURE_ID_PATTERN}`")
    if text in _RESERVED:
        raise InvalidFeatureSlug(text, "git or the file system gives this name another meaning")
    return FeatureId(text)


def operation_id(text: str) -> OperationId:
    """Return the text as an operation id. Raises: InvalidArguments."""
    if not is_operation_id(text):
        shown = ascii(text[:80])[1:-1]
        raise InvalidArguments(f"An operation id must match `{OPERATION_ID_PATTERN}`.", operation_id=shown)
    return OperationId(text)
