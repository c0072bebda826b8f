"""A ticket, a project and two pages behind the real MCP servers: fake systems, and the environment that leads there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import REAL
from tests.real.fake_rest import TOKENS, FakeRest, fake_rest
from tests.tickets.local_worlds import KEY, PROJECT
from tests.tickets.mission.test_blocks import BLOCK

SERVERS = REAL / "outbound"
PAGE = "100"
PAGES = {PAGE: ("Standards", "<p>Use hexagons.</p>"), "101": ("The orders service", "<p>It takes orders.</p>")}
DESCRIPTION = f"h1. Goal\n\n{{code:yaml}}\n{BLOCK}\n{{code}}\n\nAnd *bold* words -struck-.\n"


def needs_servers() -> None:
    """Skip, loudly, where the servers of others are not installed."""
    if shutil.which("node") is None:
        pytest.skip("NODE IS MISSING: the MCP server of GitLab cannot run, so that nothing of this is tested.")
    if not (SERVERS / "atlassian").is_dir() or not (SERVERS / "gitlab").is_dir():
        pytest.skip("The MCP servers are not installed: `make real` does that.")


def real_environment(rest: FakeRest) -> dict[str, str]:
    """Return what leads to the fake systems; repeated attempts do not wait."""
    return {
        "AOP_OUTBOUND_HOME": str(SERVERS),
        "VCS_PROVIDER": "GITLAB",
        "TRACKER_PROVIDER": "JIRA",
        "KNOWLEDGE_PROVIDER": "CONFLUENCE",
        "GITLAB_BASE_URL": f"{rest.url}/gitlab",
        "GITLAB_TOKEN": TOKENS["gitlab"],
        "JIRA_BASE_URL": f"{rest.url}/jira",
        "JIRA_API_TOKEN": TOKENS["jira"],
        "CONFLUENCE_BASE_URL": f"{rest.url}/confluence",
        "CONFLUENCE_API_TOKEN": TOKENS["confluence"],
        "WORKFLOW_STATE_INITIAL": "To Do",
        "WORKFLOW_STATE_SUCCESS": "In Review",
        "ARCHITECTURE_DOC_PAGE_ID": PAGE,
        "ALLOWLISTED_GROUPS": "group",
        "OUTBOUND_RETRY_SECONDS": "0",
    }


def as_cloud(env: dict[str, str], rest: FakeRest) -> dict[str, str]:
    """Return an environment in which Jira and Confluence look like Atlassian's own, by their host."""
    return {
        **env,
        "JIRA_BASE_URL": "http://shop.atlassian.net/jira",
        "JIRA_USER_EMAIL": "aop@x.test",
        "CONFLUENCE_BASE_URL": "http://shop.atlassian.net/confluence/wiki",
        "CONFLUENCE_USER_EMAIL": "aop@x.test",
        "HTTP_PROXY": rest.url,
        "NO_PROXY": "127.0.0.1",
    }


@contextmanager
def real_world(description: Any = DESCRIPTION) -> Iterator[tuple[FakeRest, dict[str, str]]]:
    """Have the systems, and the environment that leads to them."""
    with fake_rest(KEY, description, PROJECT, PAGES) as rest:
        yield rest, real_environment(rest)


def managed(folder: Path) -> Path:
    """Make a repository in which runs are kept."""
    repo = folder / "managed"
    subprocess.run(["git", "init", "-q", repo], check=True)
    return repo
