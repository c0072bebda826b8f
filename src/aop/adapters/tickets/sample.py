"""Sample of LOCAL: a project, a ticket and pages, for `aop demo tickets`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aop.adapters.git.process.program import GIT_SECONDS, GitProgram
from aop.adapters.tickets.systems.local.repositories import PushedFile
from aop.adapters.tickets.systems.local.server import Local
from aop.core.errors import Fault

PROJECT = "shop/orders"
STANDARDS = "standards"


class SampleTickets:
    """LOCAL in a folder, with a clone of its project."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.local_folder = folder / "local"
        self.root = folder / "orders"
        self._local = Local(self.local_folder, environ)
        self._git = GitProgram(environ)

    def make(self, key: str, files: Mapping[str, bytes]) -> None:
        """Create the project, the pages and the ticket from the files of the sample."""
        texts = {path: content.decode() for path, content in files.items()}
        code = [PushedFile(path=path, content=text) for path, text in below(texts, "project").items()]
        self._local.repositories.create_project(PROJECT, code)
        for path, text in below(texts, "docs").items():
            page = self.local_folder / "docs" / path
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text)
        heading, _, description = texts["ticket.md"].partition("\n")
        self._local.tickets.create(key, heading.removeprefix("# "), description.strip())
        self._run(self.local_folder, "clone", "--quiet", "--template=", self._bare, str(self.root))

    def fetch(self, branch: str) -> str:
        """Fetch a branch of LOCAL's project into the clone, and return its commit."""
        self._run(self.root, "fetch", "--quiet", "origin", f"refs/heads/{branch}:refs/heads/{branch}")
        return self._run(self.root, "rev-parse", f"refs/heads/{branch}").strip()

    def ticket(self, key: str) -> Any:
        """Return the ticket as the tracker has it now."""
        return self._local.tickets.get(key)

    def merge_request(self, number: str) -> Any:
        """Return a merge request with its notes."""
        known: Any = self._local.repositories.merge_request(PROJECT, int(number))
        return {**known, "notes": self._local.repositories.notes(PROJECT, int(number))}

    @property
    def _bare(self) -> str:
        return str(self.local_folder / "repositories" / f"{PROJECT}.git")

    def _run(self, folder: Path, *words: str) -> str:
        # Cloning from a local path is allowed here, since we have just created the repository.
        ran = self._git.run(
            ["-c", "protocol.file.allow=always", *words], cwd=folder, environment={}, seconds=GIT_SECONDS
        )
        if ran.code:
            raise Fault(f"`git {words[0]}` failed with exit code {ran.code}: {ran.err}")
        return ran.out.decode()


def below(texts: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the texts of a folder of the sample, by path."""
    return {path.removeprefix(f"{folder}/"): text for path, text in texts.items() if path.startswith(f"{folder}/")}
