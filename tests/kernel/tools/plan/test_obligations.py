"""What a spec demands: numbered for the planner, mapped beside the plan, and shown to the reviewer with its proof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aop.kernel.record.documents.obligations import ObligationLedger
from aop.kernel.record.projections import FEATURES
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import gates_of, plain, step
from tests.world import World, plan_for, run_aop

SPEC = "# Letters\n\n- The second line is in capitals\n- The third line is gone\n\nIt must be fast.\n"
FAST = {"scope": "deferred", "obligation": "O3", "reason": "Nobody can say how fast."}
REPORT = """\
mkdir -p out
cat > out/tests.xml <<END
<testsuite><testcase classname="tests.test_letters" name="test_capitals"/>
<testcase classname="tests.test_letters" name="test_gone"><skipped/></testcase></testsuite>
END
"""
PARSERS = {"tests": {"type": "junit_xml", "path": "out/tests.xml"}}


def in_scope(obligation: str, *tests: str, paths: tuple[str, ...] = ("src/a.txt",)) -> dict[str, Any]:
    return {"scope": "in_scope", "obligation": obligation, "paths": list(paths), "tests": list(tests)}


def specified(world: World, text: str = SPEC, feature: str = "one") -> World:
    path = Path(world.root, FEATURES, feature, "spec.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return world


def submit(world: World, *obligations: dict[str, Any], feature: str = "one", **changes: Any) -> Any:
    world.init(feature)
    plan = plan_for(feature, **changes)
    return world.call("plan.submit", feature_id=feature, plan_json=plan, obligations=list(obligations))


def review(world: World, feature: str = "one") -> Any:
    return plain(world.ok("report.feature_summary", feature_id=feature))["obligations"]


def standings(world: World) -> dict[str, str]:
    return {row["id"]: row["standing"] for row in review(world)["rows"]}


@pytest.fixture
def reporting(make_world: MakeWorld) -> World:
    """A repository whose gates report tests by name."""
    run = step("sh report.sh")
    gates = gates_of(
        fast=step("true"), full=run, merge=run, parsers={**PARSERS, "tests": {**PARSERS["tests"], "modes": ["full"]}}
    )
    return specified(make_world(gates=gates, files={".gitignore": "out/\n", "report.sh": REPORT}))


# --- for the planner -----------------------------------------------------------------------------


@pytest.mark.req("AOP-236")
def test_the_planner_is_given_the_obligations_with_their_numbers_and_lines(world: World) -> None:
    specified(world).init()
    given = plain(world.ok("feature.get_context", feature_id="one"))["obligations"]
    shown = [(row["id"], row["line"], row["section"], row["text"], row["standing"]) for row in given["rows"]]
    assert shown == [
        ("O1", 3, "Letters", "The second line is in capitals", "unaccounted"),
        ("O2", 4, "Letters", "The third line is gone", "unaccounted"),
        ("O3", 6, "Letters", "It must be fast.", "unaccounted"),
    ]
    assert given["counts"] == {"unaccounted": 3, "missing": 0, "claimed": 0, "deferred": 0, "met": 0}


def test_a_feature_without_a_spec_has_no_obligations_and_can_map_none(world: World) -> None:
    world.plan()
    assert review(world) is None
    answer = submit(world, in_scope("O1"), feature="two", files={"create": [], "modify": ["src/b.txt"], "delete": []})
    assert answer.error["code"] == "invalid_plan"
    assert answer.error["details"]["violations"][0]["reason"] == "the feature has no spec"


@pytest.mark.parametrize(
    ("obligations", "reasons"),
    [
        ([in_scope("O9")], ["the spec has no obligation `O9`"]),
        ([in_scope("O1"), in_scope("O1")], ["`O1` is mapped more than once"] * 2),
        ([in_scope("O1", paths=("src/b.txt",))], ["`src/b.txt` is not in the plan's `files`"]),
    ],
)
def test_a_mapping_that_does_not_fit_the_spec_or_the_plan_is_refused_with_every_flaw(
    world: World, obligations: list[dict[str, Any]], reasons: list[str]
) -> None:
    specified(world).init()
    error = world.refusal("plan.submit", feature_id="one", plan_json=plan_for("one"), obligations=obligations)
    assert error["code"] == "invalid_plan"
    assert [each["reason"] for each in error["details"]["violations"]] == reasons


def test_the_plan_itself_still_has_no_obligations_in_it(world: World) -> None:
    specified(world).init()
    plan = {**plan_for("one"), "obligations": [FAST]}
    assert world.refusal("plan.submit", feature_id="one", plan_json=plan)["code"] == "invalid_arguments"


def test_a_plan_that_leaves_something_out_is_refused_where_the_policy_demands_it(make_world: MakeWorld) -> None:
    world = specified(make_world(policy={"planning": {"require_obligations": True}}))
    refused = submit(world, in_scope("O1"), FAST)
    assert refused.error["code"] == "obligations_unaccounted"
    assert plain(refused.error["details"]["obligations"]) == [{"id": "O2", "line": 4, "text": "The third line is gone"}]
    assert submit(world, in_scope("O1"), in_scope("O2"), FAST).ok


def test_what_cannot_be_listed_cannot_be_accounted_for(make_world: MakeWorld) -> None:
    world = make_world(policy={"planning": {"require_obligations": True}})
    specified(world, "".join(f"- thing {number}\n" for number in range(301)))
    refused = submit(world, *(in_scope(f"O{number}") for number in range(1, 301)))
    assert (refused.error["code"], refused.error["details"]["left_out"]) == ("obligations_unaccounted", 1)


# --- kept with the plan --------------------------------------------------------------------------


def test_what_a_plan_says_is_kept_with_its_version_and_told_in_the_journal(world: World) -> None:
    specified(world)
    assert submit(world, FAST, in_scope("O1")).ok
    with world.app.record.read() as view:
        ledger = view.get(ObligationLedger, "one")
        (told,) = [entry.event.payload for entry in view.journal(kinds=("plan_accepted",))]
    assert ledger is not None
    assert (ledger.version, ledger.accounting.plan_version) == (1, 1)
    assert [each.obligation for each in ledger.accounting.mapped] == ["O1", "O3"]
    obligations: Any = told["obligations"]
    assert (obligations["unaccounted"], [each["obligation"] for each in obligations["mapped"]]) == (
        ["O2"],
        ["O1", "O3"],
    )


def test_a_revision_keeps_what_still_fits_and_a_changed_spec_keeps_its_numbers(world: World) -> None:
    specified(world)
    submit(
        world,
        in_scope("O1"),
        in_scope("O2", paths=("src/a.txt", "src/b.txt")),
        FAST,
        files=planned("src/a.txt", "src/b.txt"),
    )
    specified(world, "- A new thing\n- It must be fast.\n- The second line is in capitals\n- The third line is gone\n")
    assert review(world)["spec_changed"]
    revised = plan_for("one", plan_version=2, revision_of=1)
    world.ok("plan.update", feature_id="one", expected_plan_version=1, plan_json=revised)
    shown = [(row["id"], row["line"], row["standing"]) for row in review(world)["rows"]]
    assert shown == [
        ("O4", 1, "unaccounted"),
        ("O3", 2, "deferred"),
        ("O1", 3, "claimed"),
        ("O2", 4, "unaccounted"),
    ]
    assert not review(world)["spec_changed"]


def planned(*paths: str) -> dict[str, Any]:
    return {"create": [], "modify": list(paths), "delete": []}


def test_a_plan_that_waits_in_the_queue_keeps_what_it_says_of_the_spec(make_world: MakeWorld) -> None:
    world = specified(make_world(policy={"collision_policy": "block"}), feature="two")
    world.plan("one")
    assert submit(world, FAST, feature="two").error["code"] == "blocked_by_collision_policy"
    world.ok("feature.delete", feature_id="one", dry_run=False, force=True)
    with world.app.record.read() as view:
        ledger = view.get(ObligationLedger, "two")
    assert ledger is not None
    assert [each.obligation for each in ledger.accounting.mapped] == ["O3"]


def test_a_deleted_feature_leaves_no_accounting_behind(world: World) -> None:
    submit(specified(world), FAST)
    world.ok("feature.delete", feature_id="one", dry_run=False, force=True)
    with world.app.record.read() as view:
        assert view.get(ObligationLedger, "one") is None


# --- for the reviewer ----------------------------------------------------------------------------


def test_an_obligation_is_met_only_if_the_report_says_that_its_named_test_passed(reporting: World) -> None:
    world = reporting
    assert submit(world, in_scope("O1", "tests/test_letters.py::test_capitals"), in_scope("O2", "test_gone"), FAST).ok
    assert standings(world) == {"O1": "claimed", "O2": "claimed", "O3": "deferred"}
    world.patch()
    world.ok("gates.run", feature_id="one", mode="fast")
    assert standings(world)["O1"] == "claimed"
    world.ok("gates.run", feature_id="one", mode="full")
    rows = {row["id"]: (row["standing"], row["why"]) for row in review(world)["rows"]}
    assert rows == {
        "O1": ("met", "Passed in the full gates: tests/test_letters.py::test_capitals."),
        "O2": ("missing", "`test_gone` did not pass."),
        "O3": ("deferred", "Nobody can say how fast."),
    }


def test_without_a_report_of_the_tests_nothing_is_more_than_claimed(world: World) -> None:
    submit(specified(world), in_scope("O1", "test_capitals"), in_scope("O2"))
    world.patch()
    for mode in ("fast", "full"):
        world.ok("gates.run", feature_id="one", mode=mode)
    rows = [(row["standing"], row["why"]) for row in review(world)["rows"]]
    assert rows == [
        ("claimed", "Claimed, not proven: no gate run of this tree reports its tests by name."),
        ("claimed", "Claimed, not proven: no test is named for it."),
        ("unaccounted", "The plan does not mention it."),
    ]


def test_gates_that_passed_run_again_when_a_revision_names_tests_that_they_were_not_asked_for(reporting: World) -> None:
    world = reporting
    submit(world, in_scope("O1", "test_capitals"))
    world.patch()
    world.ok("gates.run", feature_id="one", mode="fast")
    revised = plan_for("one", plan_version=2, revision_of=1)
    world.ok("gates.run", feature_id="one", mode="full")
    world.ok(
        "feature.state_patch",
        feature_id="one",
        expected_version=state_version(world),
        patch={"status": "qa", "status_reason": "Again."},
    )
    mapped = [in_scope("O1", "test_other")]
    world.ok("plan.update", feature_id="one", expected_plan_version=1, plan_json=revised, obligations=mapped)
    assert standings(world)["O1"] == "claimed"
    assert world.ok("gates.run", feature_id="one", mode="full")["reused"] is False
    assert review(world)["rows"][0]["why"] == "`test_other` is in no report."
    assert world.ok("gates.run", feature_id="one", mode="full")["reused"] is True


def state_version(world: World) -> int:
    version: int = world.ok("feature.state_get", feature_id="one")["version"]
    return version


def test_a_change_after_the_gates_makes_what_was_met_a_mere_claim(reporting: World) -> None:
    world = reporting
    submit(world, in_scope("O1", "test_capitals"))
    world.patch()
    for mode in ("fast", "full"):
        world.ok("gates.run", feature_id="one", mode=mode)
    assert standings(world)["O1"] == "met"
    world.ok(
        "feature.state_patch",
        feature_id="one",
        expected_version=state_version(world),
        patch={"status": "qa", "status_reason": "Again."},
    )
    world.patch(diff="--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,3 @@\n one\n-TWO\n+Two\n three\n")
    assert standings(world)["O1"] == "claimed"


def test_a_spec_that_is_gone_or_a_link_does_not_hide_what_the_plan_was_made_for(world: World) -> None:
    submit(specified(world), FAST)
    spec = Path(world.root, FEATURES, "one", "spec.md")
    spec.unlink()
    assert standings(world) == {"O1": "unaccounted", "O2": "unaccounted", "O3": "deferred"}
    spec.symlink_to("/etc/hostname")
    assert standings(world) == {"O1": "unaccounted", "O2": "unaccounted", "O3": "deferred"}


@pytest.mark.hostile("B05")
def test_the_review_shows_them_in_the_terminal_and_on_the_page_without_obeying_their_text(world: World) -> None:
    specified(world, "- <img src=x> \x1b[31m\n- Done\n- Later\n")
    later = {"scope": "deferred", "obligation": "O3", "reason": "<b>Because</b>"}
    submit(world, in_scope("O2", "test_done"), later)
    world.close()
    shown = run_aop(world.root, "review", "one", "--no-pager").out
    assert "Obligations of the spec, 1 unaccounted for, 1 claimed, not proven, 1 deferred" in shown
    assert "O1   unaccounted for, line 1: <img src=x>" in shown
    assert "\x1b" not in shown
    assert run_aop(world.root, "review", "one", "--html", "page.html").code == 0
    page = (world.root / "page.html").read_text()
    assert "&lt;img src=x&gt;" in page
    assert "<img" not in page
    assert "<b>Because" not in page
    assert "1 unaccounted for, 1 claimed, not proven, 1 deferred" in page
