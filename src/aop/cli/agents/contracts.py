"""Contract files: the files that describe AOP to other programs, and their places."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from aop.adapters.config.locations import FOLDER
from aop.adapters.files.generated import Drift, drift_of, rewrite_files
from aop.cli.shell.exits import EXIT_OF_MOVE
from aop.kernel.contracts.contract_files import contract_files
from aop.kernel.contracts.reference_pages import refusals_text, tools_text
from aop.wiring.catalogue import CATALOGUE


class Contracts(Struct, frozen=True, kw_only=True):
    """Files that are generated from the code, below one root."""

    root: Path
    files: dict[str, bytes]
    folders: tuple[str, ...]
    """Folders that hold no other schemas."""

    def drift(self) -> tuple[Drift, ...]:
        """Return the files that differ from what the code generates."""
        return drift_of(self.root, self.files, folders=self.folders)

    def write(self, drifted: tuple[Drift, ...]) -> None:
        """Write these files again."""
        rewrite_files(self.root, drifted, self.files)


def contracts_in(root: Path, *, folder: str = FOLDER, docs: bool = False) -> Contracts:
    """Return the contract files of a repository; `docs` adds the pages of AOP's own repository."""
    below = f"{folder}/" if folder else ""
    files = {f"{below}{path}": content for path, content in contract_files(CATALOGUE).items()}
    if docs:
        files["docs/tools.md"] = tools_text(CATALOGUE).encode()
        files["docs/refusals.md"] = refusals_text(EXIT_OF_MOVE).encode()
    return Contracts(root=root, files=files, folders=(f"{below}schemas", f"{below}tools"))
