"""Port suite: the behaviour that each tracker, version control system and documentation must have."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec
import pytest

from aop.core.errors import RemoteNotFound, RemoteRejected, RemoteToolsMissing
from aop.reviews.diff_lines import shown_lines
from aop.tickets.mission.blocks import review_params, review_params_block, scaffolding_mission
from aop.tickets.ports import DocsPort, MergeRequest, TrackerPort, VcsPort
from tests.tickets.local_worlds import BRANCH, KEY, PROJECT
from tests.tickets.mission.test_blocks import MISSION, PARAMS
from tests.tickets.review.test_pipeline import finding, report
from tests.tickets.test_plans_and_modes import file

FILES = (file("src/a.py", "a = 1\nb = 2\n"), file("README.md", "# New\n"), file("src/__init__.py", ""))


class World(Protocol):
    """One ticket, one project and two pages, as `local_world` makes them; and what has become of them."""

    tracker: TrackerPort
    vcs: VcsPort
    docs: DocsPort
    page: str

    def comments(self, expected: int) -> None:
        """Assert how many comments the ticket has, if that can be seen."""

    def notes(self, expected: int) -> None:
        """Assert how many notes the merge requests have, if that can be seen."""

    def approvals(self, expected: list[str]) -> None:
        """Assert which commits were approved, if that can be seen."""


Case = Callable[[World], Coroutine[Any, Any, None]]


async def a_ticket_is_read(world: World) -> None:
    ticket = await world.tracker.get_ticket(KEY)
    assert (ticket.key, ticket.summary, ticket.status) == (KEY, "Orders", "To Do")
    assert scaffolding_mission(ticket.description) == MISSION
    with pytest.raises(RemoteNotFound):
        await world.tracker.get_ticket("SHOP-404")


async def a_comment_is_written_once_for_a_marker(world: World) -> None:
    for marker in ("run-1/start", "run-1/start", "run-11/start"):
        await world.tracker.add_comment(KEY, "Started: `x`.", marker=marker)
    world.comments(2)


async def a_description_keeps_what_it_has_and_gets_the_block_once(world: World) -> None:
    for _ in range(2):
        await world.tracker.update_task_description(KEY, review_params_block(PARAMS))
    description = (await world.tracker.get_ticket(KEY)).description
    assert (scaffolding_mission(description), review_params(description)) == (MISSION, PARAMS)
    assert str(description).count("code_review_params") == 1


async def a_ticket_moves_by_a_transition_whatever_the_case(world: World) -> None:
    await world.tracker.check_status(KEY, "in review")
    assert (await world.tracker.get_ticket(KEY)).status == "To Do"
    for _ in range(2):
        await world.tracker.update_status(KEY, "in review")
    assert (await world.tracker.get_ticket(KEY)).status == "In Review"
    for refuse in (world.tracker.update_status, world.tracker.check_status):
        with pytest.raises(RemoteRejected):
            await refuse(KEY, "Shipped")


async def a_branch_is_there_or_not_and_a_missing_project_is_an_error(world: World) -> None:
    assert not await world.vcs.validate_branch_existence(PROJECT, BRANCH)
    assert await world.vcs.validate_branch_existence(PROJECT, "main")
    with pytest.raises(RemoteNotFound):
        await world.vcs.validate_branch_existence("group/absent", BRANCH)


async def everything_of_a_scaffold_is_made_once(world: World) -> None:
    vcs = world.vcs
    assert await vcs.find_merge_request(PROJECT, BRANCH) is None
    for _ in range(2):
        await vcs.create_branch(PROJECT, BRANCH, base=None)
    commits = [
        await vcs.commit_changes(PROJECT, BRANCH, "Scaffold", FILES, marker="run-1/commit", may_replace=("README.md",))
        for _ in range(2)
    ]
    assert commits[0] == commits[1]
    with pytest.raises(RemoteRejected) as taken:
        await vcs.create_branch(PROJECT, BRANCH, base="main")
    # The branch may be that of another run: nobody is told to delete it.
    assert "elete" not in taken.value.next_action
    opened = [await vcs.create_merge_request(PROJECT, BRANCH, base=None, title="T", description="D") for _ in range(2)]
    wanted = MergeRequest(number="1", url="", state="opened", source_branch=BRANCH, target_branch="main")
    found = [*opened, await vcs.find_merge_request(PROJECT, BRANCH)]
    project = await vcs.resolve_project(PROJECT)
    found.append(await vcs.get_merge_request(project, "1"))
    assert [each and msgspec.structs.replace(each, url="", head="") for each in found] == [wanted] * 4
    assert opened[0].url.endswith(f"/{PROJECT}/-/merge_requests/1")
    diff = await vcs.get_merge_request_diff(project, "1")
    assert shown_lines(diff) == {"README.md": {1}, "src/a.py": {1, 2}, "src/__init__.py": set()}
    with pytest.raises(RemoteNotFound):
        await vcs.get_merge_request(project, "9")


async def a_review_writes_each_finding_once(world: World) -> None:
    vcs = world.vcs
    await vcs.create_branch(PROJECT, BRANCH, base=None)
    await vcs.commit_changes(PROJECT, BRANCH, "Scaffold", FILES, marker="run-1/commit", may_replace=("README.md",))
    await vcs.create_merge_request(PROJECT, BRANCH, base=None, title="T", description="D")
    first = report(finding("src/a.py", 2), finding("src/a.py", None))
    for _ in range(2):
        await vcs.publish_review(PROJECT, "1", first, marker="run-1/publish")
    world.notes(2)
    second = report(finding("src/a.py", 1), finding("README.md", 1))
    await vcs.publish_review(PROJECT, "1", second, marker="run-2/publish")
    world.notes(4)


async def only_the_commit_that_was_looked_at_is_approved_and_only_once(world: World) -> None:
    vcs = world.vcs
    await vcs.create_branch(PROJECT, BRANCH, base=None)
    await vcs.commit_changes(PROJECT, BRANCH, "Scaffold", FILES, marker="run-1/commit", may_replace=("README.md",))
    await vcs.create_merge_request(PROJECT, BRANCH, base=None, title="T", description="D")
    seen = await vcs.get_merge_request(PROJECT, "1")
    with pytest.raises(RemoteRejected) as refused:
        await vcs.approve_merge_request(PROJECT, "1", head="0" * 40)
    assert refused.value.facts["status"] == 409
    world.approvals([])
    for _ in range(2):
        await vcs.approve_merge_request(PROJECT, "1", head=seen.head)
    world.approvals([seen.head])


async def pages_are_found_and_a_missing_one_is_named(world: World) -> None:
    assert "Use hexagons." in await world.docs.get_architecture_context(world.page)
    assert "It takes orders." in await world.docs.get_project_context("orders")
    assert await world.docs.get_project_context("nobody") == ""
    with pytest.raises(RemoteNotFound):
        await world.docs.get_architecture_context("999")


async def a_port_names_its_own_tools_and_calls_no_others(world: World) -> None:
    for port in (world.tracker, world.vcs, world.docs):
        names = [tool.name for tool in await port.get_mcp_tools()]
        assert names
        assert not [name for name in names if "delete" in name or name == "merge_merge_request"]
        with pytest.raises(RemoteToolsMissing):
            await port.execute_tool("merge_merge_request", {})


CASES: tuple[Case, ...] = (
    a_ticket_is_read,
    a_comment_is_written_once_for_a_marker,
    a_description_keeps_what_it_has_and_gets_the_block_once,
    a_ticket_moves_by_a_transition_whatever_the_case,
    a_branch_is_there_or_not_and_a_missing_project_is_an_error,
    everything_of_a_scaffold_is_made_once,
    a_review_writes_each_finding_once,
    only_the_commit_that_was_looked_at_is_approved_and_only_once,
    pages_are_found_and_a_missing_one_is_named,
    a_port_names_its_own_tools_and_calls_no_others,
)
