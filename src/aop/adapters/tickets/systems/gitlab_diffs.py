"""GitLab diffs: one unified diff, and the positions for threads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from aop.core.errors import Json, RemoteRejected
from aop.core.text.counts import list_some
from aop.kernel.patches.file_names import git_spelling

Position: TypeAlias = dict[str, Json]

_HUNK = re.compile(r"@@ -([0-9]+)(?:,[0-9]+)? \+([0-9]+)(?:,[0-9]+)? @@")


def unified_diff(files: Sequence[Mapping[str, Any]]) -> str:
    """Return one unified diff. Raises: RemoteRejected if GitLab hides changes of a file, since all must be reviewed."""
    hidden: list[Json] = [file["new_path"] for file in files if file.get("too_large") or file.get("collapsed")]
    if hidden:
        raise RemoteRejected(
            f"GitLab does not show the changes in {list_some([f'`{name}`' for name in hidden], 5)}.",
            files=hidden[:50],
            hint="Make the merge request smaller or raise GitLab's diff limits, and start the review again.",
        )
    return "".join(line for file in files for line in _file(file))


def positions(files: Sequence[Mapping[str, Any]], refs: Mapping[str, str]) -> Mapping[tuple[str, int], Position]:
    """Return the positions for threads, by path and line of the new file."""
    return {
        (file["new_path"], new): {
            **{name: refs[name] for name in ("base_sha", "head_sha", "start_sha")},
            "position_type": "text",
            "old_path": file["old_path"],
            "new_path": file["new_path"],
            "new_line": new,
            # GitLab wants both numbers of an unchanged line, and only the new number of a new line.
            **({} if old is None else {"old_line": old}),
        }
        for file in files
        for new, old in _lines(file["diff"])
    }


def _lines(diff: str) -> Iterator[tuple[int, int | None]]:
    """Return each line of the new file that a diff shows, with its number in the old one."""
    old = new = 0
    for line in diff.split("\n"):
        if hunk := _HUNK.match(line):
            old, new = int(hunk[1]), int(hunk[2])
        elif line.startswith("+"):
            yield new, None
            new += 1
        elif line.startswith("-"):
            old += 1
        elif line.startswith(" "):
            yield new, old
            old, new = old + 1, new + 1


def _file(file: Mapping[str, Any]) -> Iterator[str]:
    old, new = (_spelled(f"{side}/{file[name]}") for side, name in (("a", "old_path"), ("b", "new_path")))
    yield f"diff --git {old} {new}\n"
    if file["new_file"]:
        yield f"new file mode {file['b_mode']}\n"
    elif file["deleted_file"]:
        yield f"deleted file mode {file['a_mode']}\n"
    elif file["a_mode"] != file["b_mode"]:
        yield f"old mode {file['a_mode']}\nnew mode {file['b_mode']}\n"
    if file["renamed_file"]:
        yield f"rename from {_spelled(file['old_path'])}\nrename to {_spelled(file['new_path'])}\n"
    if _HUNK.match(file["diff"]):
        yield f"--- {'/dev/null' if file['new_file'] else old}\n+++ {'/dev/null' if file['deleted_file'] else new}\n"
        yield file["diff"] if file["diff"].endswith("\n") else f"{file['diff']}\n"


def _spelled(name: str) -> str:
    return git_spelling(name).decode()
