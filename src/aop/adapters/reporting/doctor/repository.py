"""Repository checks: base branch, configuration, gates and their programs."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from aop.adapters.config.locations import FOLDER, NAMES
from aop.adapters.config.reader import bundled_texts, read_config
from aop.adapters.files.closed_places import closed_place
from aop.adapters.files.private_files import exposed_places
from aop.adapters.files.repository_files import RepositoryFiles
from aop.adapters.git.repository import Repository, open_repository
from aop.adapters.machine.own_environment import hidden_folders, own_prefix, visible_paths
from aop.adapters.processes.toolchains import search_path
from aop.adapters.projects.scan import checked_out_branch, guess_base_branch
from aop.adapters.reporting.doctor.checks import Check, failure, fine, warning
from aop.core import errors
from aop.core.errors import Refusal
from aop.core.ids import TreeId
from aop.core.text.yaml import MAX_YAML_BYTES
from aop.kernel.config.gates import Mode, Step
from aop.kernel.config.in_force import Config
from aop.kernel.config.loader import ConfigText, ConfigTexts, load_config
from aop.kernel.config.worktrees import WorktreeRules
from aop.kernel.gates.steps import missing_steps, needed_modes
from aop.kernel.ports.git import FileMode

GATES_FILE = f"{FOLDER}/gates.yaml"


def find_repository(folder: Path, environ: Mapping[str, str]) -> tuple[Repository | None, Check]:
    """Find the repository that contains a folder."""
    try:
        repository = open_repository(folder, environ)
    except errors.NotARepository as refusal:
        if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
            clone = "Clone it, and use the clone: AOP needs a working tree."
            return None, failure("repository", f"`{folder}` is a bare repository.", clone)
        return None, failure("repository", refusal.message, refusal.next_action)
    except errors.FilesClosed as refusal:
        return None, failure("repository", refusal.message, refusal.next_action)
    return repository, fine("repository", str(repository.root))


def check_permissions(repository: Repository) -> Check:
    """Check that this user can read and write the folders that AOP and git write, and others not the private ones."""
    closed = closed_place(repository.root)
    if closed:
        return failure("permissions", closed, errors.FilesClosed(closed).next_action)
    for exposed in exposed_places(str(repository.root / ".aop")):
        return failure("permissions", exposed, errors.FilesExposed.hint)
    return fine("permissions", "the repository can be read and written, and its private files by nobody else")


def check_base_branch(repository: Repository, config: Config | None) -> Check:
    """Check that the base branch has a commit."""
    checked_out = checked_out_branch(repository)
    try:
        branch = config.policy.worktree.base_branch if config else guess_base_branch(repository.branches, checked_out)
    except Refusal as refusal:
        return failure("base branch", refusal.message, refusal.next_action)
    where = f"the checkout is on `{checked_out}`" if checked_out else "the checkout is on no branch"
    head = repository.branches.head(branch)
    if head is not None:
        return fine("base branch", f"`{branch}` at {head[:12]}; {where}")
    if branch == checked_out:
        return failure("base branch", f"`{branch}` has no commit yet.", "Commit something on it.")
    return failure(
        "base branch",
        f"There is no branch `{branch}`; {where}.",
        f"Create it, or set `worktree.base_branch` in {FOLDER}/policy.yaml to another branch.",
    )


def check_checkout(repository: Repository, config: Config) -> Iterator[Check]:
    """Check that a checkout of the base branch shows it."""
    behind = repository.checkout_behind(config.policy.worktree.base_branch)
    if behind is not None:
        yield warning("checkout", behind, "Update it with: aop sync")


def load_configuration(repository: Repository) -> tuple[Config | None, list[Check]]:
    """Return the configuration in force, if its three files are valid, and their checks."""
    try:
        config = read_config(repository.branches.head, repository.objects, repository.root)
    except (errors.InvalidConfiguration, errors.InvalidWorkspaceImplementation) as refusal:
        refusals = list(_each_refusal(repository)) or [refusal]
        return None, [failure("configuration", one.message, one.next_action) for one in refusals]
    except errors.BaseBranchUnreadable as refusal:
        return None, [failure("configuration", refusal.message, refusal.next_action)]
    commit = f"Commit the change on `{config.policy.worktree.base_branch}`, or undo it."
    sources = ", ".join(f"{name}: {source}" for name, source in config.sources)
    warnings = [warning("configuration", text, commit) for text in config.warnings]
    return config, warnings or [fine("configuration", sources)]


def _each_refusal(repository: Repository) -> Iterator[Refusal]:
    """Read each file alone, from the base branch or else from the checkout."""
    try:
        branch = guess_base_branch(repository.branches, checked_out_branch(repository))
    except Refusal:
        return
    head = repository.branches.head(branch)
    tree = repository.objects.tree_of(head) if head else None
    for name in NAMES:
        path = f"{FOLDER}/{name}.yaml"
        entry = repository.objects.entry(tree, path) if tree else None
        text = _checkout_text(repository, path)
        if entry is not None and entry.mode in (FileMode.FILE, FileMode.EXECUTABLE):
            text = ConfigText(source=f"{branch}:{path}", content=repository.objects.blob(entry.oid))
        try:
            load_config(msgspec.structs.replace(ConfigTexts(), **{name: text}), bundled_texts())
        except (errors.InvalidConfiguration, errors.InvalidWorkspaceImplementation) as refusal:
            yield refusal


def _checkout_text(repository: Repository, path: str) -> ConfigText | None:
    try:
        content = RepositoryFiles(repository.root).read(path, limit=MAX_YAML_BYTES)
    except errors.FileNotFound:
        return None
    return None if content is None else ConfigText(source=f"checkout:{path}", content=content)


def check_gates(config: Config) -> Check:
    """Check that every required mode has steps."""
    lacking = list(missing_steps(config, sorted(config.gates.profiles)))
    if lacking:
        write = f"Write your test commands into {GATES_FILE}; if it does not exist, `aop init` guesses them."
        return failure("gates", f"No feature can pass: {'; '.join(lacking)}.", write)
    modes = ", ".join(needed_modes(config.policy))
    return fine("gates", f"{', '.join(sorted(config.gates.profiles)) or 'no profiles'}: {modes}")


def check_environment(repository: Repository) -> Check:
    """Tell whether gates and agents share the environment that AOP runs in."""
    prefix = own_prefix()
    if not prefix:
        return fine("environment", "AOP runs in the system's Python, which gates and agents share")
    if prefix in hidden_folders(repository.root):
        return fine("environment", f"AOP runs in {prefix}, which gates and agents do not see")
    return fine("environment", f"AOP runs in {prefix}, which is the project's own: gates and agents see it")


def check_programs(repository: Repository, config: Config, environ: Mapping[str, str]) -> Iterator[Check]:
    """Check that the programs of gate steps exist."""
    head = repository.branches.head(config.policy.worktree.base_branch)
    tree = repository.objects.tree_of(head) if head else None
    steps = {
        (step.cmd[0], step.cwd or "", step.env.get("PATH")): step
        for profile in config.gates.profiles.values()
        for mode in Mode
        for step in profile.modes.steps(mode) or ()
    }
    given = config.policy.worktree
    problems = [_program_problem(repository, tree, given, step, environ) for step in steps.values()]
    yield from dict.fromkeys(problem for problem in problems if problem is not None)
    if steps and not any(problems):
        yield fine("programs", ", ".join(sorted({step.cmd[0] for step in steps.values()})))


def _program_problem(
    repository: Repository, tree: TreeId | None, given: WorktreeRules, step: Step, environ: Mapping[str, str]
) -> Check | None:
    program = step.cmd[0]
    if "/" in program:
        return _path_problem(repository, tree, given, step)
    # Looked up as in a worktree: a virtual environment in the checkout is not on a worktree's PATH.
    worktree = str(repository.root / ".worktrees" / "any")
    named = step.env.get("PATH", environ.get("PATH", ""))
    if _is_on_path(program, search_path(visible_paths(named, hidden_folders(repository.root)), worktree)):
        return None
    if _is_on_path(program, search_path(named, worktree)):
        return failure(
            "programs",
            f"The step `{step.name}` runs `{program}`, which is only in AOP's own environment; gates do not see that.",
            f"Install `{program}` in the project's own environment, and activate that one.",
        )
    return failure(
        "programs",
        f"The step `{step.name}` runs `{program}`, which is not on PATH.",
        f"Install `{program}`, or add its folder to the PATH of `aop`.",
    )


def _path_problem(repository: Repository, tree: TreeId | None, given: WorktreeRules, step: Step) -> Check | None:
    program = step.cmd[0]
    if os.path.isabs(program):
        missing = f"The step `{step.name}` runs `{program}`, which is not a program on this machine."
        return None if _is_program(program) else failure("programs", missing, f"Install `{program}`.")
    path = posixpath.normpath(posixpath.join(step.cwd or "", program))
    entry = repository.objects.entry(tree, path) if tree else None
    if entry is None:
        is_linked = any(path == link or path.startswith(f"{link}/") for link in given.link)
        if given.setup or (is_linked and _is_program(str(repository.root / path))):
            return None
        place = "checkout" if is_linked else "base branch"
        absent = f"The step `{step.name}` runs `{program}`, but the {place} has no `{path}`."
        fix = "Create it, or change `worktree.link`." if is_linked else "Commit it, unless an earlier step creates it."
        return warning("programs", absent, fix)
    if entry.mode is FileMode.FILE:
        closed = f"The step `{step.name}` runs `{program}`, but `{path}` is not executable."
        return failure("programs", closed, f"git update-index --chmod=+x {path} && git commit")
    return None


def _is_on_path(program: str, folders: Sequence[str]) -> bool:
    return any(_is_program(os.path.join(folder, program)) for folder in folders)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
