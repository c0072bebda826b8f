"""Notes: the notepad of a project, and how a model is told of it."""

from __future__ import annotations

from aop.core.digests import sha256_hex
from aop.forge.projects.documents import ProjectNote, note_key
from aop.kernel.record.documents.base import revise
from aop.kernel.record.port import Snapshot

LONGEST_NOTE = 20_000
NO_NOTES = "(none)"


def note_of(view: Snapshot, project_id: str, user: str) -> ProjectNote | None:
    """Return the note of a person on a project; None if there never was one."""
    return view.get(ProjectNote, note_key(project_id, user))


def changed_note(known: ProjectNote | None, project_id: str, user: str, *, content: str, now: str) -> ProjectNote:
    """Return the note with another content; the one before is overwritten (FORGE-217)."""
    if known is None:
        return ProjectNote(version=1, project_id=project_id, user_id=user, content=content, updated_at=now)
    return known if known.content == content else revise(known, content=content, updated_at=now)


def notes_section(note: ProjectNote | None) -> str:
    """Return the part of a context pack that shows the note (FORGE-219)."""
    return f"## User Notes\n\n{_content(note) or NO_NOTES}\n"


def note_digest(note: ProjectNote | None) -> str:
    """Return the digest that a cycle keeps of the note that its model was shown; the empty note has none."""
    return sha256_hex(_content(note).encode()) if _content(note) else ""


def note_message(shown: str, note: ProjectNote | None) -> str | None:
    """Return what the next turn says of a note that is not the one that was shown; None if it is (FORGE-239)."""
    if note_digest(note) == shown:
        return None
    if not _content(note):
        return "[NOTE] The user emptied the notepad of this project: earlier notes no longer hold."
    return "[NOTE] The user changed the notepad of this project. Call `forge_read_notepad` before you go on."


def _content(note: ProjectNote | None) -> str:
    return "" if note is None else note.content.strip()
