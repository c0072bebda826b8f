"""Checks on a patch: its secrets, and the change between the two trees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, takewhile

import msgspec

from aop.core.errors import AreaNotAllowed, InvalidPatch, PathOutOfBounds, ProtectedPath, SecretDetected, UnplannedFile
from aop.core.paths.names import exact_path, fold_path
from aop.core.redaction.redactor import Redactor
from aop.core.structs import copy_fields
from aop.kernel.config.guarded_areas import GuardedAreas
from aop.kernel.config.policy import PatchPolicy, Placement
from aop.kernel.gates.guards.command_files import CommandGuard
from aop.kernel.patches.file_headers import FilePatch
from aop.kernel.patches.lines import PatchRules
from aop.kernel.patches.parser import Patch
from aop.kernel.patches.placement import place
from aop.kernel.plans.checks import Bounds
from aop.kernel.ports.git import FileMode, TreeChange, TreeEntry

_SHOWN_CHARS = 200


def rules_of(policy: PatchPolicy) -> PatchRules:
    """Return the rules for the text of a patch."""
    return copy_fields(PatchRules, policy, max_bytes=policy.max_patch_bytes)


def refuse_secrets(patch: Patch, redact: Redactor) -> None:
    """Refuse a patch that adds a secret; the secret is never repeated. Raises: SecretDetected."""
    for file in patch.files:
        names = (path.encode() for path in sorted(file.paths))
        added = (line[1:] for hunk in file.hunks for line in hunk.lines if line.startswith(b"+"))
        _refuse_secrets_in(b"\n".join((*names, *added)), file.new_path or file.old_path or "", redact)


def refuse_secret_name(path: str, redact: Redactor) -> None:
    """Refuse to change a file whose name is a secret: the answer would repeat it. Raises: SecretDetected."""
    _refuse_secrets_in(path.encode(), path, redact)


def refuse_added_secrets(diff: str, redact: Redactor) -> None:
    """Refuse a text that would add a secret, before it is parsed or stored. Raises: SecretDetected."""
    for part in re.split(r"(?m)^(?=\+\+\+ )", diff):
        added = [line[1:] for line in part.splitlines() if line.startswith("+")]
        name = added[0].removeprefix("++ ").removeprefix("b/") if added else ""
        _refuse_secrets_in("\n".join(added).encode(errors="replace"), name[:_SHOWN_CHARS], redact)


def refuse_added_lines(path: str, old: bytes, new: bytes, redact: Redactor) -> None:
    """Refuse a new content of a file whose added lines hold a secret. Raises: SecretDetected."""
    known = set(old.split(b"\n"))
    added = (line for line in new.split(b"\n") if line not in known)
    _refuse_secrets_in(b"\n".join((path.encode(), *added)), path, redact)


def removed_secrets(patch: Patch, redact: Redactor) -> tuple[str, ...]:
    """Return a warning for each file that loses a secret, which stays in the history."""
    warnings: list[str] = []
    for file in patch.files:
        removed = b"\n".join(line[1:] for hunk in file.hunks for line in hunk.lines if line.startswith(b"-"))
        rules = ", ".join(_secret_rules(removed, redact))
        if rules:
            secret = f"`{file.old_path}` loses what looks like a secret ({rules})"
            warnings.append(f"{secret}: it stays in the history, so revoke it.")
    return tuple(warnings)


def _secret_rules(content: bytes, redact: Redactor) -> list[str]:
    return sorted({finding.rule for finding in redact.secrets_in(content.decode(errors="replace"))})


def _refuse_secrets_in(content: bytes, path: str, redact: Redactor) -> None:
    rules = _secret_rules(content, redact)
    if rules:
        # The secret may be the name itself.
        shown = redact(path)
        raise SecretDetected(
            f"The change of `{shown}` adds what looks like a secret ({', '.join(rules)}).", path=shown, rules=rules
        )


def place_hunks(file: FilePatch, old: bytes, placement: Placement) -> FilePatch:
    """Return the file's patch with every hunk at the line where it fits. Raises: PatchDoesNotApply."""
    path = file.old_path or "the file"
    return msgspec.structs.replace(file, hunks=place(file.hunks, old, mode=placement, path=path))


def refuse_disagreement(patch: Patch, changes: Sequence[TreeChange]) -> None:
    """Refuse a patch that names other paths than it changes, or takes a file for a link. Raises: InvalidPatch."""
    named = {path for file in patch.files for path in file.paths if not (file.is_copy and path == file.old_path)}
    changed = {change.path for change in changes}
    if named != changed:
        raise InvalidPatch(
            "The patch names other files than it changes.",
            named=sorted(named - changed),
            changed=sorted(changed - named),
        )
    links = {change.path for change in changes if change.old is not None and change.old.mode is FileMode.SYMLINK}
    claimed = {str(file.old_path) for file in patch.files if file.old_mode is FileMode.SYMLINK and not file.is_copy}
    if not claimed <= links:
        raise InvalidPatch("The patch takes a file for a symbolic link.", paths=sorted(claimed - links))


def judge_tree_change(changes: Iterable[TreeChange], policy: PatchPolicy) -> None:
    """Refuse entries that no patch may bring into a tree. Raises: InvalidPatch, PathOutOfBounds."""
    for change in changes:
        exact_path(change.path)
        _refuse_mode(change, policy)
        if change.old is not None and change.new is not None and _type(change.old) != _type(change.new):
            raise InvalidPatch(f"`{change.path}` would change from a file into something else.", path=change.path)


def _refuse_mode(change: TreeChange, policy: PatchPolicy) -> None:
    allowed = (FileMode.FILE, FileMode.EXECUTABLE, *((FileMode.SYMLINK,) if policy.allow_symlinks else ()))
    for entry in (change.old, change.new):
        if entry is not None and entry.mode not in allowed:
            raise InvalidPatch(f"`{change.path}` is a symlink or a submodule.", path=change.path, mode=str(entry.mode))


def _type(entry: TreeEntry) -> str:
    return "file" if entry.mode in (FileMode.FILE, FileMode.EXECUTABLE) else str(entry.mode)


def refuse_case_twins(changes: Iterable[TreeChange], names_in: Callable[[str], Sequence[str]]) -> None:
    """Refuse a new name that equals an existing one on some file systems. Raises: PathOutOfBounds."""
    for change in changes:
        parts = change.path.split("/") if change.old is None else []
        for depth, name in enumerate(parts):
            names = names_in("/".join(parts[:depth]))
            twins = [other for other in names if other != name and fold_path(other) == fold_path(name)]
            if twins:
                raise PathOutOfBounds(
                    f"`{change.path}` differs only in case from `{twins[0]}`.", path=change.path, reason="case twin"
                )


def judge_link(path: str, target: bytes, is_link: Callable[[str], bool]) -> None:
    """Refuse a symbolic link that leads out of the repository, or through another link. Raises: PathOutOfBounds."""
    names = target.decode("utf-8", "surrogateescape").split("/")
    # After a name, `..` would lead elsewhere once that name is a link itself.
    up = len([*takewhile("..".__eq__, names)])
    folder = path.split("/")[:-1]
    if up > len(folder):
        raise PathOutOfBounds(f"The link `{path}` leads out of the repository.", path=path, reason="link out")
    goal = exact_path("/".join([*folder[: len(folder) - up], *names[up:]]))
    if any(map(is_link, accumulate(goal.split("/"), "{}/{}".format))):
        raise PathOutOfBounds(f"The link `{path}` leads through another link.", path=path, reason="link to a link")


def judge_bytes(path: str, content: bytes, redact: Redactor) -> None:
    """Refuse text that came as bytes, because its lines are not shown, and secrets in bytes."""
    # Git decides by the same test whether a file is text.
    if b"\0" not in content[:8000]:
        raise InvalidPatch(f"`{path}` is text; send its lines instead of a binary change.", path=path, reason="text")
    _refuse_secrets_in(content, path, redact)


def refuse_nested_repositories(
    changes: Iterable[TreeChange], names_in: Callable[[str], Sequence[str]], territory: GuardedAreas
) -> None:
    """Refuse new files in a folder that git would take for a repository, whose config it reads."""
    for change in changes:
        if change.old is not None or territory.permits(change.path):
            continue
        for folder in accumulate(change.path.split("/")[:-1], "{}/{}".format):
            names = {fold_path(name) for name in names_in(folder)}
            if "head" in names and ("commondir" in names or names.issuperset(("objects", "refs"))):
                raise ProtectedPath(
                    f"`{change.path}` may not be created: git takes `{folder}` for a repository.",
                    path=change.path,
                    reason="it lies in what git takes for a repository",
                )


def judge_territory(paths: Iterable[str], territory: GuardedAreas) -> None:
    """Refuse changes of guarded paths. Raises: ProtectedPath."""
    for path in paths:
        guard = territory.guard_of(path)
        if guard:
            raise ProtectedPath(f"`{path}` may not be changed: {guard}.", path=path, reason=guard)


def judge_commands(paths: Iterable[str], territory: GuardedAreas, commands: CommandGuard) -> None:
    """Refuse changes of files that gates or reviewers run, unless a person permitted them. Raises: ProtectedPath."""
    for path in paths:
        guard = None if territory.permits(path) else commands.guard_of(path)
        if guard:
            raise ProtectedPath(f"`{path}` may not be changed: {guard}.", path=path, reason=guard)


def judge_plan(changes: Iterable[TreeChange], bounds: Bounds, *, areas: bool, files: bool) -> None:
    """Refuse changes that the accepted plan does not name; `changes` are those against the feature's base."""
    for change in changes:
        if areas and not any(area.covers(change.path) for area in bounds.allowed):
            raise AreaNotAllowed(f"`{change.path}` lies outside the plan's `allowed_areas`.", path=change.path)
        if areas and any(area.covers(change.path, fold=True) for area in bounds.forbidden):
            raise AreaNotAllowed(f"`{change.path}` lies in the plan's `forbidden_areas`.", path=change.path)
        planned = {"create": bounds.create, "modify": bounds.modify, "delete": bounds.delete}[change.kind]
        if files and not any(entry.covers(change.path) for entry in planned):
            why = f"The plan does not name `{change.path}` under `files.{change.kind}`."
            raise UnplannedFile(why, path=change.path, kind=change.kind)


def porcelain(changes: Iterable[TreeChange]) -> str:
    """Return changes against HEAD as `git status --porcelain` writes staged ones."""
    letters = {"create": "A", "modify": "M", "delete": "D"}
    return "".join(f"{letters[change.kind]}  {_quote(change.path)}\n" for change in changes)


def _quote(path: str) -> str:
    """Return a name as git writes it; names with backslashes or invisible characters are refused elsewhere."""
    return '"{}"'.format(path.replace('"', '\\"')) if " " in path or '"' in path else path


COMMENT_MARKS = (b"#", b"//", b"--", b";", b"/*", b"*", b"<!--")


def is_thin(file: FilePatch) -> bool:
    """Tell whether a file's change is nothing but white space and whole-line comments (a guess, by common marks)."""
    if not file.hunks:
        # An empty new file; other changes without hunks are renames, modes or bytes.
        return file.old_path is None and not file.is_binary
    changed = [line[1:].strip() for hunk in file.hunks for line in hunk.lines if line[:1] in (b"+", b"-")]
    return all(not line or line.startswith(COMMENT_MARKS) for line in changed)
