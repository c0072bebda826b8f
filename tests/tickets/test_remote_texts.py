"""Remote texts: errors and diffs of remote systems, and texts that AOP writes there."""

from __future__ import annotations

import re

import pytest

from aop.adapters.tickets.mcp.failures import refusal, status_of
from aop.adapters.tickets.setup.addresses import checked_address
from aop.adapters.tickets.systems import gitlab
from aop.adapters.tickets.systems.gitlab_diffs import positions, unified_diff
from aop.adapters.tickets.systems.jira import has_jira_marker
from aop.adapters.tickets.systems.wiki_text import wiki_text
from aop.core.errors import Refusal, RemoteRejected, RemoteUnavailable, TicketSettingMissing
from aop.core.redaction.redactor import Redactor
from aop.reviews.diff_lines import shown_lines
from aop.tickets.mission.blocks import review_params, review_params_block
from tests.tickets.mission.test_blocks import PARAMS


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("404: there is no branch `x`", 404),
        ('GitLab API error: 409 Conflict\n{"message": "500 of them"}', 409),
        ("Error calling tool 'get_issue': Authentication failed for Jira API (403). Token may be expired.", 403),
        ("Error calling tool 'add_comment': Error adding comment: Unauthorized (401)", 401),
        ("Error calling tool 'get_issue': Issue SHOP-500 not found. Verify the issue key and project access.", 404),
        ("Failed to retrieve page by ID '429': There is no content with the given id, or the calling user does not"
         " have permission to view the content", 404),
        ("Error calling tool 'update_issue': Failed to update issue SHOP-404: Internal Server Error", 500),
        ("Error adding comment: You do not have the permission to comment on this issue.", 403),
        ("GitLab API Rate Limit Exceeded: User API Key Rate limit exceeded", 429),
        ('Invalid request: {"message": "A file with this name already exists"}', 400),
        ("Error adding comment: Comment body can not be empty!", None),
    ],
)  # fmt: skip
def test_a_status_is_read_from_the_words_and_not_from_numbers_in_names(text: str, status: int | None) -> None:
    assert status_of(text) == status


@pytest.mark.hostile("X15", "K09")
@pytest.mark.parametrize(
    ("text", "kind", "hint"),
    [
        ("GitLab API error: 401 Unauthorized", RemoteRejected, "Create a new token, set `GITLAB_TOKEN`"),
        (
            "Error calling tool 'transition_issue': HTTPError",
            RemoteUnavailable,
            "Check the token and its rights with",
        ),
        ("GitLab API error: 500 with s3cr3t-value in it", RemoteUnavailable, "Wait until it answers"),
    ],
)
def test_an_error_says_what_to_do_and_no_secret(text: str, kind: type[Refusal], hint: str) -> None:
    found = refusal("gitlab", "get_branch", text, token="GITLAB_TOKEN", redact=Redactor(["s3cr3t-value"]))
    assert (type(found), found.next_action.startswith(hint), "s3cr3t" in found.message) == (kind, True, False)


@pytest.mark.parametrize("may_approve", [False, True])
def test_the_pattern_of_denied_tools_lets_the_tables_through_and_nothing_else(*, may_approve: bool) -> None:
    wanted = {row.tool for row in ({**gitlab.TABLE, **gitlab.APPROVAL} if may_approve else gitlab.TABLE).values()}
    others = [
        "merge_merge_request", "approve_merge_request", "approve_deployment", "unapprove_merge_request",
        "delete_branch", "get_projects", "update_merge_request", "get_merge_request_approval_state",
        "get_merge_request_note", "get_file_blame",
    ]  # fmt: skip
    denied = gitlab.denied_tools(may_approve=may_approve)
    assert {name for name in [*wanted, *others] if not re.search(denied, name)} == wanted
    # Longer ones, and ones with a group that is repeated, the server ignores.
    assert len(denied) <= 200
    assert not re.search(r"(\(.*[+*?].*\)|\[.*\])[+*?]", denied)


@pytest.mark.hostile("I05", "I06")
def test_words_command_nothing_in_the_wiki_text_of_jira() -> None:
    assert wiki_text("A {html} of [~bob] !https://evil.example/x.png! and `code {x}`, **strong**") == (
        "A \\{html\\} of \\[~bob\\] \\!https://evil.example/x.png\\! and {{code \\{x\\}}}, *strong*"
    )


@pytest.mark.req("SCAF-65")
def test_the_block_for_the_reviewer_is_read_back_from_wiki_text() -> None:
    assert review_params(wiki_text(review_params_block(PARAMS))) == PARAMS


@pytest.mark.parametrize(
    "body",
    [
        "Done.\n\nAOP-Run: scaffold-SHOP-12-1/report_start",
        "Done.\n\nAOP-Run: scaffold~~SHOP~~12-1/report\\_start",
        "AOP\\-Run: scaffold\\-SHOP\\-12\\-1/report_start\n",
    ],
)
def test_a_mark_is_recognised_in_whatever_markup_it_comes_back(body: str) -> None:
    assert has_jira_marker(body, "scaffold-SHOP-12-1/report_start")
    assert not has_jira_marker(body, "scaffold-SHOP-12-1/report")
    assert not has_jira_marker(f"Somebody wrote {body}", "scaffold-SHOP-12-11/report_start")


def of_file(path: str, diff: str, **facts: object) -> dict[str, object]:
    known = {"old_path": path, "new_path": path, "a_mode": "100644", "b_mode": "100644", "diff": diff}
    flags = {"new_file": False, "deleted_file": False, "renamed_file": False, "too_large": False, "collapsed": False}
    return {**known, **flags, **facts}


def test_files_of_gitlab_become_one_diff_that_can_be_read() -> None:
    files = [
        of_file("a.py", "@@ -1,2 +1,3 @@ def x\n one\n-two\n+2\n+3\n"),
        of_file("new.py", "@@ -0,0 +1 @@\n+x", new_file=True, a_mode="0"),
        of_file("empty.py", "", new_file=True, a_mode="0"),
        of_file("gone.py", "@@ -1 +0,0 @@\n-x\n", deleted_file=True, b_mode="0"),
        of_file("b.py", "", renamed_file=True, old_path="c.py"),
    ]
    assert shown_lines(unified_diff(files)) == {
        "a.py": {1, 2, 3}, "new.py": {1}, "empty.py": set(), "gone.py": set(), "b.py": set(),
    }  # fmt: skip
    refs = {"base_sha": "b", "head_sha": "h", "start_sha": "s", "other": "o"}
    places = positions(files, refs)
    assert [(path, line, place.get("old_line")) for (path, line), place in places.items()] == [
        ("a.py", 1, 1), ("a.py", 2, None), ("a.py", 3, None), ("new.py", 1, None),
    ]  # fmt: skip


@pytest.mark.req("REV-34")
def test_a_file_that_gitlab_does_not_show_is_not_reviewed_unseen() -> None:
    with pytest.raises(RemoteRejected) as refused:
        unified_diff([of_file("a.py", ""), of_file("huge.sql", "", too_large=True)])
    assert refused.value.facts["files"] == ["huge.sql"]


@pytest.mark.hostile("X01", "X02", "X03", "X05", "X06")
@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/",
        "http://[::ffff:169.254.169.254]/",
        "http://0xa9fea9fe/",
        "http://2852039166",
        "http://0/",
        "http://0.0.0.0",
        "http://[::]",
        "http://192.0.0.192/",
        "http://100.64.0.1/",
        "http://100.100.100.200",
        "http://[64:ff9b::a9fe:a9fe]",
        "http://[2002:a9fe:a9fe::1]",
        "http://[fd00:ec2::254]",
        "http://metadata.google.internal./",
        "ftp://git.example",
        "git.example",
        "https://user:token@git.example",
        "https://git.example/?x=1",
        "https://git.ex\u00e4mple",
        "https://[",
    ],
)
def test_an_address_that_a_token_must_not_be_sent_to_is_refused(address: str) -> None:
    with pytest.raises(TicketSettingMissing, match="GITLAB_BASE_URL"):
        checked_address({"GITLAB_BASE_URL": address}, "GITLAB_BASE_URL")


def test_an_address_loses_only_the_slash_at_its_end() -> None:
    assert checked_address({"A": " https://git.example/gitlab/ "}, "A") == "https://git.example/gitlab"
