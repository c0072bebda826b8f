"""Runs for tests: features that agents write, led by `aop run` as a process that a test disturbs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cli.scripted_agents import agent_command
from tests.fleet.platforms import Platform


class LedRun:
    """A run of features of a platform, by a leader of its own."""

    def __init__(self, platform: Platform, features: Sequence[str]) -> None:
        self._platform = platform
        self.features = tuple(features)
        self.agent = platform.folder / "agent"
        specs = platform.folder / "specs"
        specs.mkdir()
        for name in features:
            (specs / f"{name}.md").write_text(f"Write {name}.\n")
        self.first = ("run", "-fl", str(specs), "--wait")
        platform.env |= {"AOP_CUSTOM_AGENT": agent_command(self.agent), "AOP_AGENT_PROVIDER": "custom"}

    def lead(
        self, *words: str, root: Path | None = None, prefix: Sequence[str] = (), output: str = "leader"
    ) -> subprocess.Popen[bytes]:
        """Start a leader; what it prints goes into a file."""
        with self.output(output).open("ab") as file:
            return subprocess.Popen(
                [*prefix, sys.executable, "-m", "aop.cli.main", *(words or self.first)],
                cwd=root or self._platform.root,
                env={**os.environ, "USER": "ada", **self._platform.env},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )

    def stand_by(self, root: Path, prefix: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a leader in another clone, which waits until no other one leads."""
        return self.lead("resume", "--standby", "--wait", root=root, prefix=prefix, output="standby")

    def output(self, name: str = "leader") -> Path:
        """Return the file of what a leader has printed."""
        return self._platform.folder / f"{name}.output"

    def statuses(self) -> dict[str, str]:
        """Return the status of each feature."""
        return dict(
            self._own_rows("SELECT key, body::json ->> 'status' FROM aop.all_documents", "AND kind = 'feature'")
        )

    def trees(self) -> tuple[tuple[str, str, str], ...]:
        """Return the name, the status and the tree of each feature."""
        select = "SELECT key, (body::json ->> 'status') || ' ' || (body::json ->> 'tree') FROM aop.all_documents"
        found = sorted(self._own_rows(select, "AND kind = 'feature'"))
        return tuple((name, *value.split()) for name, value in found)  # type: ignore[misc]

    def events(self) -> Mapping[tuple[str, str], int]:
        """Return how often each thing happened to each feature."""
        return Counter(self._own_rows("SELECT kind, coalesce(feature_id, '') FROM aop.journals"))

    def machines(self) -> list[tuple[str, str]]:
        """Return the machines that have opened the record."""
        return self._own_rows("SELECT number, home FROM aop.machines")

    def _own_rows(self, select: str, condition: str = "") -> list[tuple[str, str]]:
        own = "repository = (SELECT number FROM aop.repositories WHERE name = %s)"
        found = self._platform.rows(f"{select} WHERE {own} {condition}", self._platform.env["AOP_REPOSITORY"])
        return [(str(name), str(value)) for name, value in found]
