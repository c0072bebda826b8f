"""Scaffold plan: the files that a model plans, checked as a whole."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from aop.core.errors import Json, PathOutOfBounds, ScaffoldPlanRejected
from aop.core.paths.names import exact_path, fold_path
from aop.core.redaction.redactor import Redactor
from aop.core.text.counts import list_some

MOST_FILES = 300
MOST_CHARS = 2_000_000

MAY_BE_EMPTY = frozenset([".gitkeep", ".keep", "__init__.py", "py.typed"])
_EXAMPLES = (".example", ".sample", ".template", ".dist")
_FORBIDDEN = re.compile(
    r"\A(?:\.env(?:\..+)?|\.envrc|\.netrc|\.npmrc|\.pypirc|\.git-credentials|id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|.+\.(?:pem|key|p12|pfx|jks|keystore))\Z"
)
_FORBIDDEN_FOLDERS = frozenset([".git", ".aop", ".ssh", ".aws", ".gnupg"])
_STEERING = re.compile(
    r"(?:.*/)?(?:\.gitlab-ci[^/]*|jenkinsfile[^/]*|azure-pipelines[^/]*|bitbucket-pipelines[^/]*|\.travis\.yml|\.drone\.yml"
    r"|appveyor\.yml|codeowners|\.gitattributes|\.gitmodules|\.pre-commit-config\.yaml|agents\.md|claude(?:\.local)?\.md"
    r"|gemini\.md|\.cursorrules|\.windsurfrules|\.clinerules|copilot-instructions\.md|\.mcp\.json|\.aider[^/]*)"
    r"|(?:.*/)?(?:\.github|\.gitlab|\.circleci|\.buildkite|\.woodpecker|\.husky|\.claude|\.cursor|\.codex|\.gemini|\.vscode"
    r"|agentic)/.+"
)
"""Files that CI, code hosting or coding agents act on, in lower case."""


class PlannedFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A planned file; `name` is the last part of `path`."""

    path: Annotated[str, Meta(min_length=1, max_length=4_096)]
    name: Annotated[str, Meta(min_length=1, max_length=255)]
    content: str


class ScaffoldPlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer of a model that plans a scaffold."""

    files: Annotated[tuple[PlannedFile, ...], Meta(max_length=MOST_FILES)]
    summary: Annotated[str, Meta(min_length=1, max_length=2_000)]


def validate_plan(plan: ScaffoldPlan, redact: Redactor, *, may_write: Collection[str] = ()) -> ScaffoldPlan:
    """Return the plan if all its files may be written; `may_write` are the files that the ticket names.

    Raises: ScaffoldPlanRejected, with all reasons and no secret.
    """
    flaws = [*_plan_flaws(plan.files)]
    for file in plan.files:
        flaws += [f"`{file.path}`: {reason}" for reason in _file_flaws(file, redact)]
        if _STEERING.fullmatch(file.path.lower()) and file.path not in may_write:
            flaws.append(f"`{file.path}`: CI or coding agents act on it, and the ticket's `may_write` does not name it")
    if flaws:
        reasons: list[Json] = [redact(flaw)[:400] for flaw in flaws]
        number = "1 flaw" if len(reasons) == 1 else f"{len(reasons)} flaws; the first"
        raise ScaffoldPlanRejected(f"The plan has {number}: {reasons[0]}.", flaws=reasons)
    return plan


def existing_files(paths: Sequence[str]) -> ScaffoldPlanRejected:
    """Return the refusal of a plan that would replace files."""
    listed: list[Json] = [*paths]
    return ScaffoldPlanRejected(
        f"The plan would replace files of the repository: {list_some([f'`{path}`' for path in paths])}.",
        hint="Name them in `may_write` of the ticket's block if they are to be replaced, or plan other files.",
        flaws=listed,
    )


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
