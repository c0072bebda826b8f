"""Tools of Jira, GitLab and Confluence that the policy allows."""

from __future__ import annotations

import pytest

from aop.adapters.tickets.systems import confluence, gitlab, jira
from aop.brains.conversation import Offer
from aop.tickets.loop.tool_policy import REVIEWER_MAY, SCAFFOLDER_MAY, allowed_tools, server_tools

TABLES = {"tracker": jira.TABLE, "vcs": gitlab.TABLE, "docs": confluence.TABLE}
SERVERS = {
    side: {*(row.tool for row in table.values()), "delete_branch", "merge_merge_request", "jira_delete_issue"}
    for side, table in TABLES.items()
}
READS = [
    "tracker.jira_get_issue", "vcs.get_project", "vcs.get_branch", "vcs.get_repository_tree", "vcs.get_file_contents",
    "vcs.list_merge_requests",
]  # fmt: skip
DOCS = ["docs.confluence_search", "docs.confluence_get_page"]


@pytest.mark.req("SCAF-72", "SCAF-73", "SCAF-85", "REV-59", "REV-60")
@pytest.mark.parametrize(
    ("may", "names"),
    [
        (
            SCAFFOLDER_MAY,
            [*READS, *DOCS, "vcs.create_branch", "vcs.push_files", "vcs.create_merge_request",
             "tracker.jira_add_comment", "tracker.jira_update_issue", "tracker.jira_transition_issue"],
        ),
        (REVIEWER_MAY, [*READS, "vcs.get_merge_request", "vcs.get_merge_request_notes", *DOCS]),
    ],
)  # fmt: skip
def test_a_model_gets_these_tools_of_the_real_servers(may: frozenset[str], names: list[str]) -> None:
    there = [
        tool
        for side, server in SERVERS.items()
        for tool in server_tools(side, [Offer(name=name, description="", schema={}) for name in sorted(server)])
    ]
    assert [tool.name for tool in allowed_tools(there, TABLES, may)] == names
