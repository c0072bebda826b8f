"""aop rebase: a person moves a feature onto the base branch as it is now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernel.tools.worlds import copied, ready_repository
from tests.world import git, run_aop


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ready_repository(tmp_path_factory.mktemp("template") / "repo")


@pytest.fixture
def ready(template: Path, tmp_path: Path) -> Path:
    return copied(template, tmp_path / "repo")


def on_main(root: Path, path: str, text: str) -> str:
    (root / path).write_text(text)
    git(root, "commit", "-qam", "Meanwhile")
    return git(root, "rev-parse", "main").strip()


def test_a_feature_is_moved_and_its_gates_must_run_again(ready: Path) -> None:
    base = on_main(ready, "README.md", "Meanwhile.\n")
    ran = run_aop(ready, "rebase", "one")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"Moved one to {base[:12]}; its gates must run again.\nIt is qa. Continue with: aop resume\n"
    assert git(ready, "rev-parse", "one").strip() == base
    again = run_aop(ready, "rebase", "one", "--json")
    assert (again.code, again.json["data"]["moved"]) == (0, False)


def test_a_conflict_is_shown_with_both_texts_and_nothing_changes(ready: Path) -> None:
    on_main(ready, "src/a.txt", "one\nzwei\nthree\n")
    refs = git(ready, "for-each-ref")
    ran = run_aop(ready, "rebase", "one")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "aop: `one` conflicts with the base branch in 1 file. [merge_conflict]\n"
        "  src/a.txt: both changed the same lines\n"
        "    on the base branch:\n"
        "      | zwei\n"
        "    in the feature:\n"
        "      | TWO\n"
        "  `aop rebase one --resolve` moves it to the new base and hands the conflict to a builder;"
        " `aop resume` continues.\n"
    )
    assert git(ready, "for-each-ref") == refs
    assert run_aop(ready, "status", "--json").json["data"]["features"][0]["status"] == "ready_to_merge"


def test_a_conflict_can_be_handed_to_a_builder(ready: Path) -> None:
    base = on_main(ready, "src/a.txt", "one\nzwei\nthree\n")
    ran = run_aop(ready, "rebase", "one", "--resolve")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.endswith("A builder makes it fit in the next run. Continue with: aop resume\n")
    assert git(ready, "rev-parse", "one").strip() == base
    (row,) = run_aop(ready, "status", "--json").json["data"]["features"]
    assert (row["status"], row["status_reason"]) == (
        "building",
        "`one` conflicts with the base branch in 1 file. (`src/a.txt`)",
    )


def test_the_review_shows_a_conflict_before_anything_is_approved(ready: Path) -> None:
    on_main(ready, "src/a.txt", "one\nzwei\nthree\n")
    ran = run_aop(ready, "review", "one")
    assert ran.code == 0
    assert (
        "Blocking  `one` conflicts with the base branch in 1 file.\n"
        "  src/a.txt: both changed the same lines\n"
        "    on the base branch:\n"
        "      | zwei\n"
    ) in ran.out
    assert run_aop(ready, "review", "one", "--html", "review.html").code == 0
    assert "<pre>  src/a.txt: both changed the same lines\n" in (ready / "review.html").read_text()
    approved = run_aop(ready, "approve", "one", "--yes")
    assert (approved.code, "[merge_conflict]" in approved.err, "      | TWO\n" in approved.err) == (1, True, True)


def test_a_feature_that_does_not_exist_is_refused(ready: Path) -> None:
    ran = run_aop(ready, "rebase", "none")
    assert (ran.code, ran.out, "[unknown_feature]" in ran.err) == (1, "", True)
