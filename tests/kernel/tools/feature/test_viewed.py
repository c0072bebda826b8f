"""Marks of files that a person has viewed: for one change, and for people only."""

from __future__ import annotations

from aop.core.roles import Role
from tests.world import PATCH, World, run_aop


def test_a_mark_is_for_one_change_and_ends_with_it(world: World) -> None:
    world.plan("one")
    world.patch("one")
    (file,) = world.ok("repo.diff_bundle", feature_id="one")["files"]
    assert file["viewed_by"] == ""
    marked = world.ok("feature.mark_viewed", feature_id="one", change=file["change"])
    assert marked == {"feature_id": "one", "path": "src/a.txt", "viewed": 1, "files": 1}
    assert world.ok("repo.diff_bundle", feature_id="one")["files"][0]["viewed_by"] == "person:ada"
    assert "Files, 1 changed, +1 -1, 1 of 1 file viewed" in run_aop(world.root, "review", "one", "--no-pager").out
    world.patch("one", PATCH.replace("-two\n+TWO", "-TWO\n+2"))
    (after,) = world.ok("repo.diff_bundle", feature_id="one")["files"]
    assert after["viewed_by"] == ""
    assert after["change"] != file["change"]
    refused = world.refusal("feature.mark_viewed", feature_id="one", change=file["change"])
    assert "moved on" in refused["message"]
    # Back at the first content, the mark is true again.
    world.patch("one", PATCH.replace("-two\n+TWO", "-2\n+TWO"))
    assert world.ok("repo.diff_bundle", feature_id="one")["files"][0]["viewed_by"] == "person:ada"
    assert world.ok("feature.mark_viewed", feature_id="one", change=file["change"], viewed=False)["viewed"] == 0


def test_no_agent_marks_a_file_as_viewed(world: World) -> None:
    world.plan("one")
    world.patch("one")
    change = world.ok("repo.diff_bundle", feature_id="one")["files"][0]["change"]
    for role in (Role.BUILDER, Role.ORCHESTRATOR):
        answer = world.call_as_worker("feature.mark_viewed", role, "one", change=change)
        assert answer.error is not None
    assert world.ok("repo.diff_bundle", feature_id="one")["files"][0]["viewed_by"] == ""
