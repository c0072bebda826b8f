"""Scaffold plan: the files that a model plans, checked as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from aop.core.errors import Json, PathOutOfBounds, ScaffoldPlanRejected
from aop.core.paths.names import exact_path, fold_path
from aop.core.redaction.redactor import Redactor

MOST_FILES = 300
MOST_CHARS = 2_000_000

MAY_BE_EMPTY = frozenset([".gitkeep", ".keep", "__init__.py", "py.typed"])
_EXAMPLES = (".example", ".sample", ".template", ".dist")
_FORBIDDEN = re.compile(
    r"\A(?:\.env(?:\..+)?|\.envrc|\.netrc|\.npmrc|\.pypirc|\.git-credentials|id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|.+\.(?:pem|key|p12|pfx|jks|keystore))\Z"
)
_FORBIDDEN_FOLDERS = frozenset([".git", ".aop", ".ssh", ".aws", ".gnupg"])


class PlannedFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A planned file; `name` is the last part of `path`."""

    path: Annotated[str, Meta(min_length=1, max_length=4_096)]
    name: Annotated[str, Meta(min_length=1, max_length=255)]
    content: str


class ScaffoldPlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer of a model that plans a scaffold."""

    files: Annotated[tuple[PlannedFile, ...], Meta(max_length=MOST_FILES)]
    summary: Annotated[str, Meta(min_length=1, max_length=2_000)]


def validate_plan(plan: ScaffoldPlan, redact: Redactor) -> ScaffoldPlan:
    """Return the plan if all its files may be written. Raises: ScaffoldPlanRejected, with all reasons and no secret."""
    flaws = [*_plan_flaws(plan.files)]
    for file in plan.files:
        flaws += [f"`{file.path}`: {reason}" for reason in _file_flaws(file, redact)]
    if flaws:
        reasons: list[Json] = [redact(flaw)[:400] for flaw in flaws]
        number = "1 flaw" if len(reasons) == 1 else f"{len(reasons)} flaws; the first"
        raise ScaffoldPlanRejected(f"The plan has {number}: {reasons[0]}.", flaws=reasons)
    return plan


def _plan_flaws(files: Sequence[PlannedFile]) -> Iterator[str]:
    if not files:
        yield "the plan has no files"
    if sum(len(file.content) for file in files) > MOST_CHARS:
        yield f"the files have more than {MOST_CHARS} characters"
    seen: dict[str, str] = {}
    for file in files:
        key = fold_path(file.path)
        if key in seen:
            yield f"`{file.path}` is planned twice, or differs from another path only in case"
        seen[key] = file.path
    for key, path in seen.items():
        above = key.rpartition("/")[0]
        while above:
            if above in seen:
                yield f"`{path}` lies below `{seen[above]}`, which is planned as a file"
            above = above.rpartition("/")[0]


def _file_flaws(file: PlannedFile, redact: Redactor) -> Iterator[str]:
    try:
        path = exact_path(file.path)
    except PathOutOfBounds as error:
        yield str(error.facts["reason"])
        return
    *folders, name = path.split("/")
    if file.name != name:
        yield "`name` is not the last part of `path`"
    if _is_forbidden([folder.lower() for folder in folders], name.lower()):
        yield "such files contain secrets or belong to a program, and are not generated"
    if not file.content.strip() and name not in MAY_BE_EMPTY:
        yield "the file is empty"
    if "\0" in file.content or any("\ud800" <= letter <= "\udfff" for letter in file.content):
        yield "the content is not text"
    for rule in sorted({found.rule for found in redact.secrets_in(f"{file.path}\n{file.content}")}):
        yield f"the file contains a secret (rule `{rule}`)"


def _is_forbidden(folders: Sequence[str], name: str) -> bool:
    if not _FORBIDDEN_FOLDERS.isdisjoint(folders):
        return True
    return _FORBIDDEN.fullmatch(name) is not None and not name.endswith(_EXAMPLES)
