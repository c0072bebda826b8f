"""Troubles: each call of both pipelines in both modes, and the effect of its failure."""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.adapters.tickets.systems.local.server import Local
from tests.tickets.local_worlds import KEY
from tests.tickets.shaken_worlds import (
    RECOVERY,
    SETTINGS,
    WAYS,
    Effects,
    Killed,
    Trouble,
    Way,
    effects,
    made_world,
    worked,
)  # fmt: skip

T, V, D = "tracker_", "vcs_", "docs_"
COMMENT = [f"{T}get_ticket", f"{T}add_comment"]
BRANCH_THERE = [f"{V}get_project", f"{V}get_branch"]
DOCS = [f"{D}search", f"{D}get_page", f"{D}get_page"]
START = [f"{T}get_ticket", *COMMENT, *BRANCH_THERE]
MOVE = [f"{T}get_ticket", f"{T}get_transitions", f"{T}transition"]
WRITE = [
    [f"{V}get_project", *BRANCH_THERE, f"{V}create_branch"],
    [f"{V}get_branch", *[f"{V}read_file"] * 2, f"{V}push_files"],
    [f"{V}list_merge_requests", f"{V}get_project", f"{V}create_merge_request"],
]
TREE = [f"{V}get_project", f"{V}list_tree"]
TELL = [f"{V}get_project", f"{T}get_ticket", f"{T}set_description", *COMMENT, *MOVE]
READ = [*START, f"{V}get_merge_request", *DOCS, f"{V}get_merge_request_diff", f"{V}list_notes"]
PUBLISH = [f"{V}list_notes", f"{V}add_note", f"{V}add_note", *COMMENT]
ORDER = {
    "linear scaffold": [*START, *DOCS, *TREE, *WRITE[0], *WRITE[1], *WRITE[2], *TELL],
    "agentic scaffold": [
        *START, *DOCS, *["tools/list"] * 3, *TREE, *COMMENT, *WRITE[0], *WRITE[1], *WRITE[2],
        f"{V}list_merge_requests", *TELL,
    ],
    "linear review": [*READ, *PUBLISH],
    "agentic review": [*READ, *["tools/list"] * 3, f"{V}read_file", *PUBLISH],
}  # fmt: skip
LOOP = {"agentic scaffold": range(13, 26), "agentic review": range(14, 15)}
"""The calls that the model asks for: it sees that they failed, and may ask again."""
TREE_AT = {"linear scaffold": (8, 9), "agentic scaffold": (11, 12)}
STATUSES = ("401", "403", "404", "409", "429", "500")
EXPECTED = {
    "scaffold": Effects(
        status="In Review",
        comments=("scaffold-SHOP-12-1/report_start", "scaffold-SHOP-12-1/report_success"),
        blocks=1,
        commits=("SHOP-12: Scaffold orders", "First commit"),
        merge_requests=1,
        notes=(),
    ),
    "review": Effects(
        status="In Review",
        comments=("review-SHOP-12-1/report_start", "review-SHOP-12-1/report_success"),
        blocks=1,
        commits=("Add", "First commit"),
        merge_requests=1,
        notes=(
            ("src/a.py", 1, "**MAJOR**: Bad at src/a.py."), (None, None, "**Review: COMMENT** (2 MAJOR)"),
        ),
    ),
}  # fmt: skip


def expected(name: str) -> Effects:
    left = EXPECTED[WAYS[name].kind]
    if name != "agentic scaffold":
        return left
    first, last = left.comments
    said = sha256(b"At it.").hexdigest()[:16]
    return msgspec.structs.replace(left, comments=(first, f"scaffold-SHOP-12-1/comment/{said}", last))


@pytest.fixture
def worlds(tmp_path: Path) -> Any:
    """Return what makes copies of a way's world."""
    made: dict[str, Path] = {}

    def copy(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path / "first"
            made_world(made[name], WAYS[name])
        folder = tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        return Path(shutil.copytree(made[name], folder))

    return copy


def is_harmless(name: str, at: int, what: str) -> bool:
    """Tell whether a failed call is none: no branch and no file are what is hoped for, a list of files is not needed,
    and a project's id has a stand-in (C-07).
    """
    tool = ORDER[name][at]
    if WAYS[name].kind == "scaffold" and (at in TREE_AT[name] or (tool == f"{V}read_file" and what == "404")):
        return True
    no_branch = tool == f"{V}get_branch" and what == "404" and WAYS[name].kind == "scaffold" and at in (4, 12, 17, 19)
    no_id = ORDER[name][at : at + 3] == [f"{V}get_project", f"{T}get_ticket", f"{T}set_description"]
    return no_branch or (no_id and what in ("401", "403", "404", "409"))


def comments_of(folder: Path) -> list[str]:
    ticket: Any = Local(folder, os.environ).tickets.get(KEY)
    return list(ticket["comments"])


@pytest.mark.req("SCAF-84", "SCAF-88", "REV-69", "REV-75")
@pytest.mark.parametrize("name", WAYS)
def test_a_success_makes_these_calls_and_leaves_this(name: str, worlds: Any) -> None:
    folder = worlds(name)
    ending, calls = worked(folder, WAYS[name])
    assert (ending["outcome"], calls) == ("scaffolded" if WAYS[name].kind == "scaffold" else "reviewed", ORDER[name])
    assert effects(folder) == expected(name)


@pytest.mark.req("SCAF-12", "SCAF-43", "SCAF-84")
@pytest.mark.parametrize("name", ["linear scaffold", "agentic scaffold"])
def test_an_existing_branch_makes_these_calls(name: str, worlds: Any) -> None:
    folder = worlds(name)
    Local(folder, os.environ).repositories.create_branch("group/orders", "feature/SHOP-12-orders", "main")
    ending, calls = worked(folder, WAYS[name])
    assert (ending["outcome"], calls) == (
        "branch_exists",
        [*START, f"{V}list_merge_requests", f"{V}get_project", *[f"{V}get_branch"] * 2, *COMMENT, *MOVE],
    )


def fails(folder: Path, name: str, trouble: Trouble) -> None:
    """Let one call fail, and check what the ticket says, what was called, and what is there after another start."""
    way, order = WAYS[name], ORDER[name]
    ending, calls = worked(folder, way, trouble)
    assert calls[: trouble.at + 1] == order[: trouble.at + 1]
    healed = trouble.at in LOOP.get(name, ()) or is_harmless(name, trouble.at, trouble.what)
    if healed:
        assert (ending["outcome"], effects(folder)) == (_success(way), expected(name))
        return
    assert ending["outcome"] == "failed"
    last = comments_of(folder)[-1]
    assert f"failed at step `{ending['step']}` (" in last
    assert [word for word in ("\nCurrent state: ", "\nTo fix it: ", "\nThen: ") if word not in last] == []
    assert told_of(way, order[trouble.at], trouble.what) in last
    tail = calls[trouble.at + 1 :]
    moved = [MOVE[:1], MOVE] if way.kind == "scaffold" else [[]]
    assert tail in [[*COMMENT, *each] for each in moved]
    again, _ = worked(folder, way)
    assert again["outcome"] in (_success(way), "branch_exists")
    left, wanted = effects(folder), expected(name)
    assert len(set(left.comments)) == len(left.comments)
    assert (left.blocks, left.merge_requests, left.notes) <= (wanted.blocks, wanted.merge_requests, wanted.notes)
    assert left.commits in (wanted.commits, ("First commit",))


def told_of(way: Way, tool: str, what: str) -> str:
    """Return what the ticket says of a failed call: a branch that is not there is what a review says of it."""
    if way.kind == "review" and tool == f"{V}get_branch" and what == "404":
        return "does not exist"
    return "was lost at" if what == "lost" else f"{what}: it said no"


def _success(way: Way) -> str:
    return "scaffolded" if way.kind == "scaffold" else "reviewed"


@pytest.mark.req("SCAF-14", "SCAF-44", "SCAF-68", "SCAF-82", "REV-10", "REV-56", "REV-68")
@pytest.mark.hostile("X18", "X19")
@pytest.mark.parametrize("name", WAYS)
def test_whichever_tool_fails_the_ticket_says_so_and_nothing_is_there_twice(name: str, worlds: Any) -> None:
    """The last call of each tool; `test_every_call_with_every_failure` takes them all."""
    last = {tool: at for at, tool in enumerate(ORDER[name]) if at}
    for at in sorted(last.values()):
        fails(worlds(name), name, Trouble(at=at, what=STATUSES[at % len(STATUSES)]))


@pytest.mark.hostile("X19")
@pytest.mark.parametrize("name", WAYS)
def test_an_answer_that_is_lost_after_a_write_does_not_make_it_twice(name: str, worlds: Any) -> None:
    for at, tool in enumerate(ORDER[name]):
        if at and any(word in tool for word in ("add_", "create_", "push_", "set_", "transition")):
            fails(worlds(name), name, Trouble(at=at, what="lost", after=True))


@pytest.mark.req("SCAF-35")
def test_a_recovery_of_any_write_whose_answer_was_lost_leaves_each_effect_once(worlds: Any) -> None:
    name = "linear scaffold"
    settings = msgspec.structs.replace(SETTINGS, recovery_enabled=True)
    for at, tool in enumerate(ORDER[name]):
        if at > 2 and any(word in tool for word in ("add_", "create_", "push_", "set_", "transition")):
            folder = worlds(name)
            ending, _ = worked(folder, RECOVERY, Trouble(at=at, what="lost", after=True), settings)
            left = effects(folder)
            assert (at, ending["outcome"], bool(ending["commit"])) == (at, "scaffolded", True)
            assert len(set(left.comments)) == len(left.comments)
            assert msgspec.structs.replace(left, comments=EXPECTED["scaffold"].comments) == EXPECTED["scaffold"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", [*STATUSES, "lost"])
@pytest.mark.parametrize("name", WAYS)
def test_every_call_with_every_failure(name: str, what: str, worlds: Any) -> None:
    for at in range(1, len(ORDER[name])):
        fails(worlds(name), name, Trouble(at=at, what=what))


def killed_at(folder: Path, name: str, at: int, *, after: bool) -> None:
    with pytest.raises(Killed):
        worked(folder, WAYS[name], Trouble(at=at, what="killed", after=after))
    ending, _ = worked(folder, WAYS[name])
    assert (ending["outcome"], effects(folder)) == (_success(WAYS[name]), expected(name))


@pytest.mark.parametrize("name", WAYS)
def test_killed_after_any_write_and_started_again_each_effect_is_there_once(name: str, worlds: Any) -> None:
    for at, tool in enumerate(ORDER[name]):
        if at and any(word in tool for word in ("add_", "create_", "push_", "set_", "transition")):
            killed_at(worlds(name), name, at, after=True)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", WAYS)
def test_killed_at_any_call_and_started_again_each_effect_is_there_once(name: str, after: Any, worlds: Any) -> None:
    for at in range(1, len(ORDER[name])):
        killed_at(worlds(name), name, at, after=after)


def test_a_start_that_cannot_be_reported_fails_the_run_with_its_own_error(worlds: Any) -> None:
    folder = worlds("linear scaffold")
    ending, calls = worked(folder, WAYS["linear scaffold"], Trouble(at=1, what="500"))
    assert (ending["step"], ending["error"]["details"]["status"], calls[1]) == ("report_start", 500, f"{T}get_ticket")
