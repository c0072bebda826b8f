"""Pages of LOCAL: Markdown files; the id of a page is its path without `.md`."""

from __future__ import annotations

from pathlib import Path

from aop.adapters.tickets.systems.local.database import LocalAnswer
from aop.core.errors import Json, PathOutOfBounds
from aop.core.paths.names import exact_path

MOST_PAGES = 10


class LocalPages:
    """The documentation tools of LOCAL."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, page_id: str) -> Json:
        """Return a page."""
        try:
            path = self._folder / f"{exact_path(page_id)}.md"
        except PathOutOfBounds as error:
            raise LocalAnswer(404, f"there is no page `{page_id}`") from error
        if path.is_symlink() or not path.is_file():
            raise LocalAnswer(404, f"there is no page `{page_id}`")
        return {"id": page_id, "text": path.read_text(encoding="utf-8", errors="replace")}

    def search(self, words: str) -> Json:
        """Return the pages whose id or first line has the words."""
        found = [
            path.relative_to(self._folder).with_suffix("").as_posix()
            for path in sorted(self._folder.rglob("*.md"))
            if words.lower() in f"{path.stem}\n{_first_line(path)}".lower()
        ]
        return {"pages": list(found[:MOST_PAGES])}


def _first_line(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
