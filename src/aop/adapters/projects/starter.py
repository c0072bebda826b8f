"""The first configuration of a repository: only what differs from AOP's own defaults, and never over a file."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from aop.adapters.configuration import FOLDER, read_config
from aop.adapters.git.repository import Repository
from aop.adapters.projects.scan import checked_out_branch, guess_base_branch, guess_gates, read_project
from aop.adapters.projects.view import Guess
from aop.core.errors import BaseBranchUnusable, Fault, PathOutOfBounds
from aop.core.yamltext import dump_yaml
from aop.kernel.config_models import Mode, Modes, Profile, Step

NOTHING_KNOWN = Guess(
    profile=Profile(modes=Modes(fast=(), full=(), merge=())),
    notes=(
        "No language that AOP knows was found, so no gate has a step, and `gates.run` refuses with `no_gate_steps`:"
        " write the commands that prove a change into gates.yaml.",
    ),
)


class Proposal(Struct, frozen=True, kw_only=True):
    """What `aop init` would write."""

    base_branch: str
    checked_out: str | None
    language: str | None
    """None where nothing was guessed: an unknown language, or gates that are there already."""
    files: Mapping[str, str]
    existing: tuple[str, ...]
    warnings: tuple[str, ...]


def propose(repository: Repository, environ: Mapping[str, str]) -> Proposal:
    """Look at a repository, and return the configuration that it lacks.

    Raises: BaseBranchUnusable; InvalidConfiguration for a file that is there already.
    """
    checked_out = checked_out_branch(repository, environ)
    config = read_config(repository, repository.root, base_branch=guess_base_branch(repository, checked_out))
    base_branch = config.policy.worktree.base_branch
    head = repository.branch_head(base_branch)
    if head is None:
        raise BaseBranchUnusable(f"The base branch `{base_branch}` has no commit.", base_branch=base_branch)
    lacking = [name for name, source in config.sources if source == "bundled"]
    found = guess_gates(read_project(repository, repository.tree_of(head))) if "gates" in lacking else None
    guess = found[1] if found else NOTHING_KNOWN
    texts = {"policy": policy_text(base_branch), "gates": gates_text(guess.profile), "agents": agents_text()}
    return Proposal(
        base_branch=base_branch,
        checked_out=checked_out,
        language=found[0].name if found else None,
        files={f"{FOLDER}/{name}.yaml": texts[name] for name in lacking},
        existing=tuple(f"{FOLDER}/{name}.yaml" for name, _source in config.sources if name not in lacking),
        warnings=(*config.warnings, *(guess.notes if "gates" in lacking else ())),
    )


def policy_text(base_branch: str) -> str:
    """Return a policy.yaml that names the base branch."""
    content = dump_yaml({"version": 1, "worktree": {"base_branch": base_branch}})
    return f"# What differs from AOP's defaults; docs/configuration.md lists every key.\n{content}"


def gates_text(profile: Profile) -> str:
    """Return a gates.yaml with one profile in all three modes."""
    lines = [
        "# The commands that prove a feature; docs/configuration.md lists every key.",
        "version: 1",
        "profiles:",
        "  default:",
        "    modes:",
    ]
    for mode in Mode:
        steps = profile.modes.steps(mode)
        lines += [f"      {mode}:" if steps else f"      {mode}: []", *_step_lines(steps or ())]
    coverage = profile.parsers.coverage
    if coverage is not None:
        lines += ["    parsers:", f"      coverage: {{type: {coverage.type}, path: {json.dumps(coverage.path)}}}"]
    return "".join(f"{line}\n" for line in lines)


def agents_text() -> str:
    """Return an agents.yaml that leaves everything to the defaults."""
    return "# Who does the work, and what each role is told; docs/configuration.md lists every key.\nversion: 1\n"


def _step_lines(steps: tuple[Step, ...]) -> Iterator[str]:
    for step in steps:
        yield f"        - name: {step.name}"
        yield f"          cmd: {json.dumps(step.cmd)}"
        if step.env:
            yield f"          env: {json.dumps(step.env)}"


def place_new_file(root: Path, path: str, content: str) -> bool:
    """Put a file where none is, as a whole; tell whether it was written.

    Raises: PathOutOfBounds if the way to it leads out of the repository.
    """
    target = root / path
    if not target.parent.resolve().is_relative_to(root.resolve()):
        raise PathOutOfBounds(f"`{path}` would be written outside of the repository.", path=path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return _linked_into_place(target, content.encode())
    except OSError as error:
        raise Fault(f"`{path}` cannot be written: {error.strerror}.") from error


def _linked_into_place(target: Path, content: bytes) -> bool:
    beside = target.with_name(f".aop-{uuid.uuid4().hex}.tmp")
    try:
        with open(beside, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, never takes the place of a file that came in between.
        os.link(beside, target)
    except FileExistsError:
        return False
    finally:
        beside.unlink(missing_ok=True)
    return True
