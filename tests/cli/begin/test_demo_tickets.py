"""`aop demo tickets`, as a real process: what it reports is what git and the record say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tickets.local_worlds import plain_ids
from tests.world import git, run_aop

BRANCH = "feature/SHOP-12-orders"
URL = "local://shop/orders/-/merge_requests/1"


@pytest.mark.req("SCAF-83", "REV-76")
def test_a_ticket_becomes_a_merge_request_that_is_reviewed_without_an_account(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "demo", "tickets", "--json", "--keep", env={"TMPDIR": str(tmp_path)})
    assert ran.code == 0, ran.err
    report: dict[str, Any] = ran.json["data"]
    root = Path(report["repository"])
    assert list(report) == [
        "ticket", "branch", "commit", "merge_request", "review", "repository", "run", "seconds",
    ]  # fmt: skip
    assert (report["branch"], report["merge_request"]) == (BRANCH, {"url": URL, "state": "opened"})
    ticket = report["ticket"]
    assert (ticket["key"], ticket["status"]) == ("SHOP-12", "In Review")
    assert [comment.partition(":")[0].partition("\n")[0] for comment in ticket["comments"]] == [
        "Scaffolding of `orders` (python) started", "Scaffolding done", "Review of local", "Review done",
    ]  # fmt: skip
    review = report["review"]
    assert review["verdict"] == "REQUEST_CHANGES"
    assert [(found["file_path"], found["line_number"], found["severity"]) for found in review["findings"]] == [
        ("src/orders/service.py", 10, "MAJOR"), ("src/orders/service.py", 8, "MINOR"),
    ]  # fmt: skip
    assert git(root, "rev-parse", BRANCH).strip() == report["commit"]
    assert git(root, "show", f"{BRANCH}:src/orders/service.py").splitlines()[9] == "    _orders[order_id] = cents"
    assert git(root, "status", "--porcelain") == ""
    git(root, "worktree", "add", "-q", str(tmp_path / "scaffold"), BRANCH)
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / "scaffold", capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (tested.returncode, "1 passed" in tested.stdout) == (0, True), tested.stdout
    runs = run_aop(root, "ticket", "runs", "--json").json["data"]["runs"]
    assert [(plain_ids(run["run_id"]), run["state"]) for run in runs] == [
        ("review-SHOP-12-1", "reviewed"), ("scaffold-SHOP-12-1", "scaffolded"),
    ]  # fmt: skip


def test_without_keep_nothing_stays_and_a_person_is_told_what_was_found(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "demo", "tickets", env={"TMPDIR": str(tmp_path)})
    assert ran.code == 0, ran.err
    assert (list(tmp_path.iterdir()), "REQUEST_CHANGES" in ran.out, "was removed" in ran.err) == ([], True, True)


def test_another_word_is_not_understood(tmp_path: Path) -> None:
    assert run_aop(tmp_path, "demo", "ticket", "--json").code == 2
