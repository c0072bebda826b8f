"""Starter files: the first configuration of a repository; no file is overwritten."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from aop.adapters.config.locations import FOLDER
from aop.adapters.config.reader import read_config
from aop.adapters.git.repository import Repository
from aop.adapters.projects.layout import FoundProject, find_projects, projects_by_profile
from aop.adapters.projects.scan import LANGUAGES, checked_out_branch, guess_base_branch, read_project
from aop.core.errors import BaseBranchUnusable, Fault, Json, PathOutOfBounds
from aop.core.text.yaml import dump_yaml
from aop.kernel.config.gates import Mode, Modes, Parsers, Profile, Step

NO_GATES = Profile(modes=Modes(fast=(), full=(), merge=()))
NOTHING_KNOWN = (
    "No known language was found, so the gates have no steps and cannot pass: write your test commands into gates.yaml."
)


class StarterFiles(Struct, frozen=True, kw_only=True):
    """The files that `aop init` writes."""

    base_branch: str
    checked_out: str | None
    language: str | None
    """None if nothing was guessed: an unknown language, or existing gates."""
    reasons: tuple[str, ...]
    """The reason for each guessed step."""
    files: Mapping[str, str]
    existing: tuple[str, ...]
    warnings: tuple[str, ...]


def propose(repository: Repository) -> StarterFiles:
    """Return the configuration files that a repository lacks. Raises: BaseBranchUnusable, InvalidConfiguration."""
    checked_out = checked_out_branch(repository)
    base = guess_base_branch(repository.branches, checked_out)
    config = read_config(repository.branches.head, repository.objects, repository.root, base_branch=base)
    base_branch = config.policy.worktree.base_branch
    head = repository.branches.head(base_branch)
    if head is None:
        raise BaseBranchUnusable(f"The base branch `{base_branch}` has no commit.", base_branch=base_branch)
    lacking = [name for name, source in config.sources if source == "bundled"]
    found: tuple[FoundProject, ...] = ()
    if "gates" in lacking:
        found = find_projects(read_project(repository.objects, repository.objects.tree_of(head)), LANGUAGES)
    texts = {
        "policy": policy_text(base_branch, found),
        "gates": gates_text(
            {name: one.guess.profile for name, one in projects_by_profile(found).items()} or {"default": NO_GATES}
        ),
        "agents": agents_text(),
    }
    notes = tuple(_notes(found, has_policy="policy" not in lacking)) if "gates" in lacking else ()
    return StarterFiles(
        base_branch=base_branch,
        checked_out=checked_out,
        language=", ".join(one.title for one in found) or None,
        reasons=tuple(_reasons(found)),
        files={f"{FOLDER}/{name}.yaml": texts[name] for name in lacking},
        existing=tuple(f"{FOLDER}/{name}.yaml" for name, _source in config.sources if name not in lacking),
        warnings=(*config.warnings, *notes),
    )


def _reasons(found: tuple[FoundProject, ...]) -> Iterator[str]:
    for name, one in projects_by_profile(found).items():
        if name == "default" and len(found) > 1:
            continue
        prefix = "" if name == "default" else f"{name}: "
        yield from (f"{prefix}{step}: {why}" for step, why in one.guess.reasons.items())


def _notes(found: tuple[FoundProject, ...], *, has_policy: bool) -> Iterator[str]:
    if not found:
        yield NOTHING_KNOWN
    if len(found) > 1:
        _default, *others = (f"`{name}`" for name in projects_by_profile(found))
        yield (
            f"There are several projects, each with a gate profile: {', '.join(others)}. `default` covers only the main"
            f" one, {found[0].title}: a plan that changes another one must name its profile as `gate_profile`."
        )
    yield from dict.fromkeys(note for one in found for note in one.guess.notes)
    if has_policy and any(_opened(found).values()):
        yield "policy.yaml already exists and was not changed: add the lines that open these folders."


def _opened(found: tuple[FoundProject, ...]) -> dict[str, list[str]]:
    """Return the folders of this machine that the steps need."""
    return {
        "sandbox_read": list(dict.fromkeys(folder for one in found for folder in one.guess.sandbox_read)),
        "sandbox_write": list(dict.fromkeys(folder for one in found for folder in one.guess.sandbox_write)),
    }


def policy_text(base_branch: str, found: tuple[FoundProject, ...] = ()) -> str:
    """Return a policy.yaml with the base branch and the folders that the gates need."""
    content: dict[str, Json] = {"version": 1, "worktree": {"base_branch": base_branch}}
    opened: dict[str, Json] = {key: folders for key, folders in _opened(found).items() if folders}
    if opened:
        content["execution"] = opened
    return f"# Only what differs from AOP's defaults; docs/configuration.md lists every key.\n{dump_yaml(content)}"


def gates_text(profiles: Mapping[str, Profile]) -> str:
    """Return a gates.yaml with these profiles in all three modes."""
    lines = ["# The commands that test a feature; docs/configuration.md lists every key.", "version: 1", "profiles:"]
    for name, profile in profiles.items():
        lines += [f"  {name}:", "    modes:"]
        for mode in Mode:
            steps = profile.modes.steps(mode)
            lines += [f"      {mode}:" if steps else f"      {mode}: []", *_step_lines(steps or ())]
        lines += _parser_lines(profile.parsers)
    return "".join(f"{line}\n" for line in lines)


def agents_text() -> str:
    """Return an agents.yaml without settings."""
    return "# The agent and the prompt of each role; docs/configuration.md lists every key.\nversion: 1\n"


def _step_lines(steps: tuple[Step, ...]) -> Iterator[str]:
    for step in steps:
        yield f"        - name: {step.name}"
        yield f"          cmd: {_flow(step.cmd)}"
        if step.cwd:
            yield f"          cwd: {_flow(step.cwd)}"
        if step.env:
            yield f"          env: {_flow(step.env)}"


def _parser_lines(parsers: Parsers) -> Iterator[str]:
    coverage, tests = parsers.coverage, parsers.tests
    if coverage or tests:
        yield "    parsers:"
    if coverage:
        yield f"      coverage: {{type: {coverage.type}, path: {_flow(coverage.path)}}}"
    if tests:
        modes = ", ".join(tests.modes)
        yield f"      tests: {{type: {tests.type}, path: {_flow(tests.path)}, modes: [{modes}]}}"


def _flow(value: Json) -> str:
    # YAML, unlike JSON, has no surrogate pairs.
    return json.dumps(value, ensure_ascii=False)


def place_new_file(root: Path, path: str, content: str) -> bool:
    """Create a file atomically unless it exists; tell whether it was written. Raises: PathOutOfBounds."""
    target = root / path
    if not target.parent.resolve().is_relative_to(root.resolve()):
        raise PathOutOfBounds(f"`{path}` is outside the repository.", path=path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return _link_into_place(target, content.encode())
    except OSError as error:
        raise Fault(f"`{path}` cannot be written: {error.strerror}.") from error


def _link_into_place(target: Path, content: bytes) -> bool:
    beside = target.with_name(f".aop-{uuid.uuid4().hex}.tmp")
    try:
        with open(beside, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, never replaces a file that was created meanwhile.
        os.link(beside, target)
    except FileExistsError:
        return False
    finally:
        beside.unlink(missing_ok=True)
    return True
