"""Settings of the work on tickets, and the environment of the MCP servers."""

from __future__ import annotations

import json

import pytest

from aop.adapters.tickets.setup.servers import ATLASSIAN, GITLAB_SERVER, listed_words, server_command, waits
from aop.adapters.tickets.setup.settings import ChosenSystems, ticket_settings
from aop.core.errors import TicketSettingMissing
from tests.tickets.test_port_conformance import REAL

COMMANDS = {"MCP_ATLASSIAN_COMMAND": "atlassian", "MCP_GITLAB_COMMAND": "gitlab", "MCP_GITLAB_ARGS": '["-v", "a,b"]'}
BOTH = frozenset(["JIRA", "CONFLUENCE"])


@pytest.mark.req("REV-19", "REV-20", "REV-74")
@pytest.mark.parametrize("name", sorted({*REAL} - {"OUTBOUND_RETRY_SECONDS", "ALLOWLISTED_GROUPS"}))
def test_a_reviewer_needs_each_of_these_but_no_states(name: str) -> None:
    environ = {other: value for other, value in REAL.items() if other != name}
    if name.startswith("WORKFLOW_"):
        assert ticket_settings(environ, "code-review")[0].architecture_page_id == "100"
        return
    with pytest.raises(TicketSettingMissing) as refused:
        ticket_settings(environ, "code-review")
    missing = refused.value.facts["missing"]
    assert isinstance(missing, list)
    assert missing[0] == name


def test_each_port_has_the_provider_that_is_named_for_it() -> None:
    settings, chosen = ticket_settings({**REAL, "SCAFFOLDING_TRACKER_PROVIDER": "jira"}, "scaffolding")
    assert (settings.state_initial, settings.architecture_page_id) == ("To Do", "100")
    assert chosen == ChosenSystems(vcs="GITLAB", tracker="JIRA", docs="CONFLUENCE", groups=("group",))


@pytest.mark.hostile("K09")
def test_a_server_sees_its_own_tokens_and_nothing_else_of_the_environment() -> None:
    environ = {**REAL, **COMMANDS, "ANTHROPIC_API_KEY": "k", "PATH": "/bin", "HTTPS_PROXY": "http://proxy.example"}
    gitlab = server_command(GITLAB_SERVER, frozenset(["GITLAB"]), environ)
    assert (gitlab.command, gitlab.args, gitlab.folder) == ("gitlab", ("-v", "a,b"), "/")
    assert {*gitlab.env} == {
        "PATH", "HTTPS_PROXY", "GITLAB_API_URL", "GITLAB_PERSONAL_ACCESS_TOKEN", "GITLAB_DISABLE_VERSION_CHECK",
        "GITLAB_DENIED_TOOLS_REGEX",
    }  # fmt: skip
    jira = server_command(ATLASSIAN, frozenset(["JIRA"]), environ)
    assert {*jira.env} == {
        "PATH", "HTTPS_PROXY", "READ_ONLY_MODE", "ENABLED_TOOLS", "JIRA_URL", "JIRA_PERSONAL_TOKEN",
        "DISABLE_JIRA_MARKUP_TRANSLATION",
    }  # fmt: skip
    tools = jira.env["ENABLED_TOOLS"].split(",")
    assert (all(tool.startswith("jira_") for tool in tools), "jira_delete_issue" in tools) == (True, False)


def test_atlassian_cloud_is_known_by_its_host_and_gets_the_account() -> None:
    cloud = {
        "JIRA_BASE_URL": "https://shop.atlassian.net", "JIRA_USER_EMAIL": "aop@x.test",
        "CONFLUENCE_BASE_URL": "https://shop.atlassian.net/wiki", "CONFLUENCE_USER_EMAIL": "aop@x.test",
    }  # fmt: skip
    env = server_command(ATLASSIAN, BOTH, {**REAL, **COMMANDS, **cloud}).env
    assert (env["JIRA_USERNAME"], env["JIRA_API_TOKEN"], env["CONFLUENCE_API_TOKEN"]) == ("aop@x.test", "t", "t")
    assert [name for name in env if "PERSONAL" in name or "DISABLE" in name] == []


@pytest.mark.parametrize("text", ["x", "-1", "1,x", "99999", "nan", "inf"])
def test_waits_that_are_no_seconds_are_refused(text: str) -> None:
    with pytest.raises(TicketSettingMissing, match="OUTBOUND_RETRY_SECONDS"):
        waits({"OUTBOUND_RETRY_SECONDS": text})


def test_lists_are_json_or_between_commas() -> None:
    assert [listed_words(text) for text in ("", "a, b,", json.dumps(["a b", "c,d"]))] == [
        (),
        ("a", "b"),
        ("a b", "c,d"),
    ]
    assert [waits(env) for env in ({}, {"OUTBOUND_RETRY_SECONDS": ""}, {"OUTBOUND_RETRY_SECONDS": "0,2.5"})] == [
        (1.0, 5.0), (), (0.0, 2.5),
    ]  # fmt: skip
