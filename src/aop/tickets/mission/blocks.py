"""Blocks in descriptions: `scaffolding` and `code_review_params`, strictly parsed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import Json, MissionAmbiguous, MissionInvalid, MissionMalformed, MissionMissing, PathOutOfBounds
from aop.core.paths.names import exact_path
from aop.core.text.json import MalformedText
from aop.core.text.yaml import dump_yaml, parse_yaml
from aop.tickets.mission.descriptions import Block, blocks_in, plain_description

SCAFFOLDING = "scaffolding"
REVIEW_PARAMS = "code_review_params"

_LABELS = frozenset(["", "yaml", "yml", SCAFFOLDING, REVIEW_PARAMS])
_MERGE_REQUEST = re.compile(r"/merge_requests/([1-9][0-9]{0,9})(?:[/?#].*)?\Z")
_NOT_IN_BRANCHES = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.lock(?:/|\Z)|\.\Z|(?:\A|/)[.-]|/\Z")

# One line, since names are part of commit messages and comments, whose last lines are markers.
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\A[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*\Z")]
Prose = Annotated[str, Meta(min_length=1, max_length=4_000, pattern=r"\S")]
T = TypeVar("T", bound=Struct)


class Target(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The project and the branch of the scaffold."""

    gitlab_project_path: Name
    branch_slug: Name
    gitlab_project_id: str | int | None = None
    target_base_branch: Name | None = None


class Parameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The service to scaffold."""

    service_name: Name
    description: Prose
    owner_team: Name


class ScaffoldingMission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The block `scaffolding` of a ticket."""

    version: Literal["1", "1.0"]
    technology_stack: Name
    target: Target
    parameters: Parameters
    mode: Literal["linear", "agentic"] = "linear"
    exploratory: bool = False
    may_write: Annotated[tuple[Name, ...], Meta(max_length=50)] = ()
    """Files that the scaffold may replace, or write although they steer CI or coding agents."""


class ReviewParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The block `code_review_params` of a ticket, which the scaffolder writes and the reviewer reads."""

    gitlab_project_id: str
    source_branch_name: Name
    review_request_url: Name
    generated_at: str
    mode: Literal["linear", "agentic"] = "linear"

    @property
    def merge_request_id(self) -> str:
        """Return the number of the merge request, from its address."""
        found = _MERGE_REQUEST.search(self.review_request_url)
        if found is None:
            raise MissionInvalid(
                "`code_review_params.review_request_url` is not the address of a merge request.",
                field="code_review_params.review_request_url",
                hint="Copy the address from the browser; it ends with `/merge_requests/` and a number.",
            )
        return found[1]


def scaffolding_mission(description: Json) -> ScaffoldingMission:
    """Parse the block `scaffolding`. Raises: MissionMissing, MissionAmbiguous, MissionMalformed, MissionInvalid."""
    mission = _read(_only_block(description, SCAFFOLDING), SCAFFOLDING, ScaffoldingMission)
    _check_branch(mission.target.branch_slug, "scaffolding.target.branch_slug")
    if mission.target.target_base_branch is not None:
        _check_branch(mission.target.target_base_branch, "scaffolding.target.target_base_branch")
    _check_path(mission.target.gitlab_project_path, "scaffolding.target.gitlab_project_path", "a project")
    for number, path in enumerate(mission.may_write):
        _check_path(path, f"scaffolding.may_write[{number}]", "a file")
    return mission


def review_params(description: Json) -> ReviewParams:
    """Parse the block `code_review_params`, with the refusals of `scaffolding_mission`."""
    params = _read(_only_block(description, REVIEW_PARAMS), REVIEW_PARAMS, ReviewParams)
    _check_branch(params.source_branch_name, "code_review_params.source_branch_name")
    try:
        datetime.fromisoformat(params.generated_at)
    except ValueError as error:
        field = "code_review_params.generated_at"
        raise MissionInvalid(f"`{field}` is not an ISO 8601 time.", field=field) from error
    # Refuse a wrong address now, before the comment that the review started.
    _ = params.merge_request_id
    return params


def review_params_block(params: ReviewParams) -> str:
    """Return the block for a description, which `review_params` parses."""
    fields = {name: value for name, value in msgspec.to_builtins(params).items() if name != "mode"}
    return f"```yaml\n{dump_yaml({REVIEW_PARAMS: fields})}```"


def _only_block(description: Json, name: str) -> tuple[Mapping[str, Json], int]:
    """Return the value of a block and its first line; equal blocks count as one."""
    named = re.compile(rf"^\s*[\"']?{name}[\"']?\s*:", re.MULTILINE)
    blocks = [block for block in blocks_in(plain_description(description)) if block.label in _LABELS]
    found = [block for block in blocks if block.label == name or named.search(block.text)]
    values = [(value, block.line) for block in found if (value := _value(block, name)) is not None]
    if not values:
        raise MissionMissing(f"The description has no block `{name}`.", block=name, blocks_seen=len(blocks))
    if any(value != values[0][0] for value, _ in values):
        lines = [line for _, line in values]
        raise MissionAmbiguous(f"The description has {len(values)} different blocks `{name}`.", block=name, lines=lines)
    return values[0]


def _value(block: Block, name: str) -> Mapping[str, Json] | None:
    """Return the value of a name at the top level of a block, or None."""
    try:
        value = parse_yaml(block.text.encode("utf-8", "surrogatepass")).value
    except MalformedText as problem:
        line = block.line + (problem.line or 1) - 1
        raise MissionMalformed(
            f"The block `{name}` is malformed: {problem.reason}, in line {line} of the description.",
            block=name,
            line=line,
        ) from problem
    if isinstance(value, Mapping) and name not in value and block.label == name:
        return value
    inside = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping) and name in value and not isinstance(inside, Mapping):
        raise MissionInvalid(f"`{name}` has no fields.", field=name)
    return inside if isinstance(inside, Mapping) else None


def _read(found: tuple[Mapping[str, Json], int], name: str, shape: type[T]) -> T:
    value, line = found
    try:
        return msgspec.convert(_as_text(value), type=shape)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        field = f"{name}{where.rstrip('`')}"
        raise MissionInvalid(f"`{field}` is invalid: {what}.", field=field, line=line) from error


def _as_text(value: Mapping[str, Json]) -> dict[str, Json]:
    """Return the fields with numbers as text: `version: 1.0`, `gitlab_project_id: 7`."""
    return {
        name: str(field) if isinstance(field, (int, float)) and not isinstance(field, bool) else field
        for name, field in value.items()
    }


def _check_path(path: str, field: str, of_what: str) -> None:
    try:
        exact_path(path)
    except PathOutOfBounds as error:
        reason = error.facts["reason"]
        raise MissionInvalid(f"`{field}` is not the path of {of_what}: {reason}.", field=field) from error


def _check_branch(name: str, field: str) -> None:
    """Refuse a name that git does not accept as a branch, or takes for an option."""
    if _NOT_IN_BRANCHES.search(name) or name in ("@", "HEAD") or not name.isprintable():
        raise MissionInvalid(
            f"`{field}` is not a valid branch name.",
            field=field,
            hint="Use a name such as `feature/SHOP-12-orders`: no spaces, no `..`, no leading `-`.",
        )
