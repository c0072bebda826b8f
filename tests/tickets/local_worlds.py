"""A LOCAL with one project, one ticket and two pages, and its server process."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aop.adapters.tickets.loop_thread import running_loop
from aop.adapters.tickets.mcp.stdio_client import ServerCommand
from aop.adapters.tickets.mcp.upstream import Upstream
from aop.adapters.tickets.systems.local.repositories import PushedFile
from aop.adapters.tickets.systems.local.server import Local
from aop.adapters.tickets.systems.local_ports import TABLE
from aop.core.redaction.redactor import Redactor
from tests.tickets.mission.test_blocks import BLOCK, fenced

KEY, PROJECT, BRANCH, PAGE = "SHOP-12", "group/orders", "feature/SHOP-12-orders", "standards"


def plain_ids(text: str) -> str:
    """Return a text with the ids of runs as they would be if there were one ledger only."""
    return re.sub(r"\b((?:scaffold|review)-[A-Z]+-[0-9]+-[0-9]+)-[0-9a-f]{8}\b", r"\1", text)


def local_world(folder: Path, description: str = fenced(BLOCK), key: str = KEY) -> Local:
    """Make the folder."""
    local = Local(folder, os.environ)
    local.repositories.create_project(PROJECT, [PushedFile(path="README.md", content="# Orders\n")])
    local.tickets.create(key, "Orders", description)
    (folder / "docs").mkdir()
    (folder / "docs" / f"{PAGE}.md").write_text("# Standards\n\nUse hexagons.\n")
    (folder / "docs" / "orders.md").write_text("# The orders service\n\nIt takes orders.\n")
    return local


def server_command(folder: Path) -> ServerCommand:
    return ServerCommand(
        name="local",
        command=sys.executable,
        args=("-m", "aop.adapters.tickets.systems.local.server", str(folder)),
        env={"PATH": os.environ["PATH"]},
    )


@contextmanager
def upstream_of(command: ServerCommand) -> Iterator[Upstream]:
    with running_loop("outbound") as portal:
        upstream = Upstream(command, tuple(TABLE.values()), portal, Redactor())
        try:
            yield upstream
        finally:
            upstream.close()
