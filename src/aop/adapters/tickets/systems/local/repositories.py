"""Repositories of LOCAL: bare git repositories and their merge requests."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from aop.adapters.git.process.program import GIT_SECONDS, GitDir, GitProgram
from aop.adapters.machine.clock import SystemClock
from aop.adapters.tickets.systems.local.database import LocalAnswer, LocalDatabase
from aop.core.errors import Fault, Json, PathOutOfBounds
from aop.core.paths.names import exact_path

NO_COMMIT = "0" * 40


class PushedFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of a commit."""

    path: str
    content: str


class LocalRepositories:
    """The version control tools of LOCAL."""

    def __init__(self, folder: Path, database: LocalDatabase, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._database = database
        self._program = GitProgram(environ)

    def create_project(self, project: str, files: Sequence[PushedFile]) -> Json:
        """Create a project whose branch `main` has these files."""
        where = self._place(project)
        if where.exists():
            raise LocalAnswer(409, f"the project `{project}` already exists")
        where.mkdir(parents=True)
        words = ["init", "--quiet", "--bare", "--template=", "--initial-branch=main", "."]
        made = self._program.run(words, cwd=where, environment={}, stdin=b"", seconds=GIT_SECONDS)
        if made.code:
            raise Fault(f"`git init` ended with {made.code}.")
        self._commit(self._git(where), "main", None, "First commit", files)
        return self.project(project)

    def project(self, project: str) -> Json:
        """Return a project by its path or id."""
        path, git = self._opened(project)
        with self._database.transaction() as rows:
            rows.execute("INSERT OR IGNORE INTO projects (path) VALUES (?)", [path])
            number = rows.execute("SELECT id FROM projects WHERE path = ?", [path]).fetchone()["id"]
        default = git.run("symbolic-ref", "--short", "HEAD").out.decode().strip()
        return {"id": number, "path": path, "default_branch": default}

    def branch(self, project: str, branch: str) -> Json:
        """Return a branch and its newest commit."""
        _, git = self._opened(project)
        head = _head(git, branch)
        message = git.run("log", "-1", "--format=%B", head).out.decode("utf-8", "replace")
        return {"name": branch, "commit": {"id": head, "message": message}}

    def tree(self, project: str, ref: str, path: str) -> Json:
        """Return the names in a folder of a branch; an empty path is the root."""
        _, git = self._opened(project)
        where = f"{_head(git, ref)}:{_checked_path(path) if path else ''}"
        listed = git.run("ls-tree", "-z", "--end-of-options", where, fine=(0, 128))
        if listed.code:
            raise LocalAnswer(404, f"there is no folder `{path}` on `{ref}`")
        rows = (line.partition("\t") for line in listed.out.decode("utf-8", "replace").split("\0") if line)
        return [{"path": name, "type": about.split()[1]} for about, _, name in rows]

    def file(self, project: str, ref: str, path: str) -> Json:
        """Return the content of a file of a branch."""
        _, git = self._opened(project)
        found = git.run("cat-file", "blob", f"{_head(git, ref)}:{_checked_path(path)}", fine=(0, 128))
        if found.code:
            raise LocalAnswer(404, f"there is no file `{path}` on `{ref}`")
        return {"path": path, "content": found.out.decode("utf-8", "replace")}

    def create_branch(self, project: str, branch: str, ref: str) -> Json:
        """Create a branch at the head of another."""
        _, git = self._opened(project)
        head = _head(git, ref)
        if git.run("update-ref", _ref(git, branch), head, NO_COMMIT, fine=(0, 128)).code:
            raise LocalAnswer(409, f"the branch `{branch}` already exists")
        return {"name": branch, "commit": head}

    def push_files(self, project: str, branch: str, message: str, files: Sequence[PushedFile]) -> Json:
        """Commit files on top of a branch."""
        _, git = self._opened(project)
        return {"commit": self._commit(git, branch, _head(git, branch), message, files)}

    def create_merge_request(
        self, project: str, source_branch: str, target_branch: str, title: str, description: str
    ) -> Json:
        """Open a merge request; a branch has at most one open."""
        path, git = self._opened(project)
        for branch in (source_branch, target_branch):
            _head(git, branch)
        with self._database.transaction() as rows:
            known = rows.execute(
                "SELECT COUNT(*) AS all_of_them, SUM(source_branch = ? AND state = 'opened') AS opened"
                " FROM merge_requests WHERE project = ?",
                [source_branch, path],
            ).fetchone()
            if known["opened"]:
                raise LocalAnswer(409, f"`{source_branch}` already has an open merge request")
            number = known["all_of_them"] + 1
            rows.execute(
                "INSERT INTO merge_requests VALUES (?, ?, ?, ?, ?, ?, 'opened')",
                [path, number, source_branch, target_branch, title, description],
            )
        return self._merge_request(path, number)

    def merge_request(self, project: str, number: int) -> Json:
        """Return a merge request with its newest commit and its approved commits."""
        path, git = self._opened(project)
        known: Any = self._merge_request(path, number)
        with self._database.transaction() as rows:
            query = "SELECT head FROM approvals WHERE project = ? AND number = ?"
            approved: Json = [row["head"] for row in rows.execute(query, [path, number])]
        return {**known, "head": _head_or_none(git, f"refs/heads/{known['source_branch']}") or "", "approved": approved}

    def approve(self, project: str, number: int, sha: str) -> Json:
        """Approve a merge request at a commit; a second approval changes nothing."""
        known: Any = self.merge_request(project, number)
        if known["head"] != sha:
            raise LocalAnswer(409, f"the merge request {number} is at another commit")
        with self._database.transaction() as rows:
            rows.execute("INSERT OR IGNORE INTO approvals VALUES (?, ?, ?)", [known["project"], number, sha])
        return {"approved": True}

    def merge_requests(self, project: str, source_branch: str) -> Json:
        """Return the merge requests of a branch, the newest first."""
        path, _ = self._opened(project)
        with self._database.transaction() as rows:
            query = "SELECT * FROM merge_requests WHERE project = ? AND source_branch = ? ORDER BY number DESC"
            return [_with_url(row) for row in rows.execute(query, [path, source_branch])]

    def diff(self, project: str, number: int) -> Json:
        """Return the diff of a merge request since its branch left the target."""
        path, git = self._opened(project)
        known: Any = self._merge_request(path, number)
        since = f"{_ref(git, known['target_branch'])}...{_ref(git, known['source_branch'])}"
        ran = git.run("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index", since)
        return {"diff": ran.out.decode("utf-8", "replace")}

    def add_note(self, project: str, number: int, body: str, path: str | None, line: int | None) -> Json:
        """Add a note, at a line or on the merge request as a whole."""
        known: Any = self._merge_request(self._opened(project)[0], number)
        with self._database.transaction() as rows:
            made = rows.execute(
                "INSERT INTO notes (project, number, body, path, line) VALUES (?, ?, ?, ?, ?)",
                [known["project"], number, body, path, line],
            )
            return {"id": made.lastrowid}

    def notes(self, project: str, number: int) -> Json:
        """Return the notes of a merge request."""
        known: Any = self._merge_request(self._opened(project)[0], number)
        with self._database.transaction() as rows:
            query = "SELECT body, path, line FROM notes WHERE project = ? AND number = ? ORDER BY id"
            return [dict(row) for row in rows.execute(query, [known["project"], number])]

    def _merge_request(self, path: str, number: int) -> Json:
        with self._database.transaction() as rows:
            query = "SELECT * FROM merge_requests WHERE project = ? AND number = ?"
            found = rows.execute(query, [path, number]).fetchone()
        if found is None:
            raise LocalAnswer(404, f"`{path}` has no merge request {number}")
        return _with_url(found)

    def _place(self, project: str) -> Path:
        try:
            return self._folder / f"{exact_path(project)}.git"
        except PathOutOfBounds as error:
            raise LocalAnswer(404, f"there is no project `{project}`") from error

    def _opened(self, project: str) -> tuple[str, GitDir]:
        if project.isdecimal():
            with self._database.transaction() as rows:
                found = rows.execute("SELECT path FROM projects WHERE id = ?", [int(project[:15])]).fetchone()
            project = found["path"] if found else project
        where = self._place(project)
        if not (where / "HEAD").is_file():
            raise LocalAnswer(404, f"there is no project `{project}`")
        return project, self._git(where)

    def _git(self, where: Path) -> GitDir:
        return GitDir(self._program, git_dir=where, work_tree=where, environment={}, root=self._folder)

    def _commit(self, git: GitDir, branch: str, head: str | None, message: str, files: Sequence[PushedFile]) -> str:
        """Commit in one process: git moves the branch only after it accepted everything."""
        at = int(SystemClock().now().timestamp())
        parts = [f"commit {_ref(git, branch)}\ncommitter AOP <aop@localhost> {at} +0000\n".encode(), _sized(message)]
        parts += [f"from {head}\n".encode()] if head else []
        for file in files:
            parts += [f"M 100644 inline {_quoted(file.path)}\n".encode(), _sized(file.content)]
        ran = git.run("fast-import", "--quiet", "--done", stdin=b"".join([*parts, b"done\n"]), fine=range(256))
        if ran.code:
            raise LocalAnswer(409, f"the commit to `{branch}` was rejected")
        return _head(git, branch)


def _sized(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return f"data {len(raw)}\n".encode() + raw + b"\n"


def _checked_path(path: str) -> str:
    try:
        return exact_path(path)
    except PathOutOfBounds as error:
        raise LocalAnswer(400, error.message) from error


def _quoted(path: str) -> str:
    plain = _checked_path(path)
    # Git reads the rest of the line verbatim, unless it begins with a quote.
    return '"' + plain.replace('"', '\\"') + '"' if plain.startswith('"') else plain


def _ref(git: GitDir, branch: str) -> str:
    if git.run("check-ref-format", "--branch", branch, fine=range(256)).code:
        raise LocalAnswer(400, f"`{branch}` is not a valid branch name")
    return f"refs/heads/{branch}"


def _head(git: GitDir, branch: str) -> str:
    found = _head_or_none(git, _ref(git, branch))
    if found is None:
        raise LocalAnswer(404, f"there is no branch `{branch}`")
    return found


def _head_or_none(git: GitDir, ref: str) -> str | None:
    ran = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", fine=(0, 1))
    return None if ran.code else ran.out.decode().strip()


def _with_url(row: sqlite3.Row) -> Json:
    known = dict(row)
    return {**known, "url": f"local://{known['project']}/-/merge_requests/{known['number']}"}
