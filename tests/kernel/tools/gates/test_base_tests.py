"""The tests of the base, run as the base has them: when they run, how often, and what the evidence says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from aop.core.errors import GateFailed
from aop.kernel.gates.base.base_tests import comparison_of
from aop.kernel.gates.reports.test_comparison import MOST_NAMES
from aop.kernel.record.documents import gate_runs
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import gates_of, patch_of
from tests.world import World, git, plan_for

# Each line of a file below `tests` is a test: its name, and a word that `src/code.txt` must have.
SUITE = """\
status=0
echo "<testsuite>" > junit.xml
for file in tests/*; do
    while read -r name word; do
        echo "<testcase classname='$file' name='$name'>" >> junit.xml
        grep -qw "$word" src/code.txt || { echo "<failure/>" >> junit.xml; status=1; }
        echo "</testcase>" >> junit.xml
    done < "$file"
done
echo "</testsuite>" >> junit.xml
exit $status
"""
TESTED = {"name": "test", "cmd": ["sh", "suite.sh"]}
CODE = "one two three\n"
FILES = {
    "suite.sh": SUITE,
    "src/code.txt": CODE,
    "tests/a.ts": "first one\nsecond two\n",
    "tests/b.ts": "third three\n",
}
PLAN: Mapping[str, Any] = {"allowed_areas": ["**"], "files": {"create": [], "modify": ["src/a.txt"], "delete": []}}
AGAIN = "one: {} gates with the tests of the base, as the base has them"


def suite(make_world: MakeWorld, *changes: dict[str, str], steps: Any = None, **policy: Any) -> World:
    """Make a repository with these tests, and a feature whose plan names these changes of tests."""
    free = {"patch_policy": {"enforce_plan": False, "enforce_allowed_areas": False}}
    modes = steps or [TESTED]
    parsers = {"tests": {"type": "junit_xml", "path": "junit.xml"}}
    gates = gates_of(fast=modes, full=modes, merge=modes, parsers=parsers)
    world = make_world(policy={**free, **policy}, gates=gates, files=FILES)
    world.init()
    named = {"test_changes": list(changes)} if changes else {}
    world.ok("plan.submit", feature_id="one", plan_json={**plan_for("one"), **PLAN, **named})
    return world


def write(world: World, path: str, text: str) -> None:
    there = world.root / ".worktrees/one" / path
    old = tuple(there.read_text().splitlines()) if there.exists() else ()
    world.patch("one", patch_of(path, *text.splitlines(), old=old))


def run(world: World, mode: str = "full", **arguments: Any) -> tuple[str, list[str]]:
    """Run gates; return why they failed, and the runs of the base's tests that were reported."""
    told: list[str] = []
    given = {"feature_id": "one", "mode": mode, **arguments}
    answer = world.app.gateway.call(world.app.person, "gates.run", given, report=told.append)
    return str((answer.error or {}).get("message", "")), [line for line in told if "as the base has them" in line]


def latest(world: World, mode: str = "full") -> gate_runs.TestComparison:
    """Return what the evidence says of the tests of the newest run."""
    with world.app.record.read() as view:
        found = [comparison_of(each) for each in view.all(gate_runs.GateRun) if each.mode == mode]
    assert found[-1] is not None
    return found[-1]


@pytest.mark.parametrize(
    ("rule", "path", "mode", "times"),
    [
        ("changed", "src/code.txt", "full", 0),
        ("changed", "tests/c.ts", "full", 1),
        ("changed", "tests/c.ts", "fast", 0),
        ("always", "src/code.txt", "full", 1),
        ("off", "tests/c.ts", "full", 0),
    ],
)
def test_they_run_when_the_policy_says_so(make_world: MakeWorld, rule: str, path: str, mode: str, times: int) -> None:
    world = suite(make_world, gates={"base_tests": rule})
    write(world, path, "more one two three\n")
    assert run(world, mode) == ("", [AGAIN.format(mode)] * times)


def test_a_merge_of_the_same_tree_on_the_same_base_takes_the_run_of_the_full_gates(make_world: MakeWorld) -> None:
    world = suite(make_world)
    write(world, "tests/c.ts", "more one\n")
    assert [run(world, mode)[1] for mode in ("fast", "full")] == [[], [AGAIN.format("full")]]
    told: list[str] = []
    merge = {"feature_id": "one", "user_approval_token": world.approval()}
    answer = world.app.gateway.call(world.app.person, "feature.ready_to_merge", merge, report=told.append)
    assert (answer.error, [line for line in told if "as the base has them" in line]) == (None, [])
    assert latest(world, "merge").base_tests == latest(world).base_tests


def test_a_base_that_moved_has_its_own_tests_run_by_the_merge(make_world: MakeWorld) -> None:
    world = suite(make_world)
    write(world, "tests/c.ts", "more one\n")
    for mode in ("fast", "full"):
        run(world, mode)
    (world.root / "tests/d.ts").write_text("fourth four\n")
    (world.root / "src/code.txt").write_text(f"{CODE}four\n")
    git(world.root, "add", "-A")
    git(world.root, "commit", "-qm", "Four")
    told: list[str] = []
    merge = {"feature_id": "one", "user_approval_token": world.approval()}
    answer = world.app.gateway.call(world.app.person, "feature.ready_to_merge", merge, report=told.append)
    assert (answer.error, AGAIN.format("merge") in told) == (None, True)


def test_the_evidence_names_what_is_gone_and_new_and_what_does_not_pass_as_it_was(make_world: MakeWorld) -> None:
    changes = ({"test": name, "reason": "It is not so any more"} for name in ("first", "tests/b.ts"))
    world = suite(make_world, *changes)
    write(world, "src/code.txt", "zero two\n")
    write(world, "tests/a.ts", "first zero\nsecond two\nfourth two\n")
    world.patch("one", "--- a/tests/b.ts\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-third three\n")
    assert run(world)[0] == ""
    found = latest(world)
    assert (found.removed, found.added) == (("tests/b.ts.third",), ("tests/a.ts.fourth",))
    assert found.base_tests is not None
    assert (found.base_tests.failed, found.base_tests.left_out) == (
        ("tests/a.ts.first", "tests/b.ts.third"),
        ("tests/b.ts",),
    )
    assert world.ok("evidence.verify")["gate_runs"] == 1


def test_another_plan_makes_a_verdict_stale_and_measures_no_base_again(make_world: MakeWorld) -> None:
    world = suite(make_world, {"test": "first", "reason": "It is not so any more"})
    write(world, "src/code.txt", "zero two three\n")
    write(world, "tests/a.ts", "first zero\nsecond two\n")
    assert run(world)[0] == ""
    plan = {**plan_for("one"), **PLAN, "plan_version": 2, "revision_of": 1, "revision_reason": "No changes"}
    world.ok("plan.update", feature_id="one", expected_plan_version=1, plan_json=plan)
    assert world.ok("evidence.latest", feature_id="one")["latest"]["current"] is False
    assert "1 test of the base, run as the base has them, did not pass" in run(world)[0]
    with world.app.record.read() as view:
        assert len(list(view.all(gate_runs.TestBaseline))) == 1


def test_a_policy_that_lets_tests_go_lets_none_be_contradicted(make_world: MakeWorld) -> None:
    world = suite(make_world, testing={"allow_fewer_tests": True})
    write(world, "src/code.txt", "zero two\n")
    world.patch("one", "--- a/tests/b.ts\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-third three\n")
    write(world, "tests/a.ts", "first zero\nsecond two\n")
    assert run(world)[0].startswith("1 test of the base, run as the base has them, did not pass")
    write(world, "tests/a.ts", "first two\nsecond two\n")
    assert "`tests/a.ts.first`" in run(world)[0]
    write(world, "src/code.txt", "one two\n")
    assert run(world)[0] == ""
    findings = world.ok("evidence.latest", feature_id="one")["latest"]["findings"]
    assert [text.partition(": ")[0] for text in findings] == ["1 test of the base did not run and pass"]


def test_a_step_that_the_tests_of_the_base_make_fail_keeps_none_of_them_from_running(make_world: MakeWorld) -> None:
    lint = {"name": "lint", "cmd": ["sh", "-c", "! grep -q old tests/a.ts || grep -q one src/code.txt"]}
    world = suite(make_world, {"test": "first", "reason": "It is not so any more"}, steps=[lint, TESTED])
    write(world, "src/code.txt", "zero two three\n")
    write(world, "tests/a.ts", "first zero\nsecond two\n")
    assert run(world)[0] == ""


def test_names_from_before_they_were_compared_are_measured_again(make_world: MakeWorld) -> None:
    world = suite(make_world)
    assert run(world)[0] == ""
    with world.app.record.write() as tx:
        known = next(iter(tx.all(gate_runs.TestBaseline)))
        old = msgspec.structs.replace(known, version=known.version + 1, passed=None, failed=())
        tx.put(old, f"{known.commit}:{known.definition}")
    assert run(world, force=True)[0] == ""
    with world.app.record.read() as view:
        assert [(each.version, each.passed) for each in view.all(gate_runs.TestBaseline)] == [(3, known.passed)]


def test_many_names_are_counted_and_the_first_of_them_kept(make_world: MakeWorld) -> None:
    world = suite(make_world)
    write(world, "tests/c.ts", "".join(f"test{number:03} one\n" for number in range(MOST_NAMES + 1)))
    assert run(world, "fast")[0] == ""
    found = latest(world, "fast")
    assert (len(found.added), found.added_count) == (MOST_NAMES, MOST_NAMES + 1)


def test_a_failure_names_the_tests_and_the_next_step(make_world: MakeWorld) -> None:
    world = suite(make_world)
    write(world, "src/code.txt", "one two\n")
    write(world, "tests/b.ts", "third two\n")
    answer = world.call("gates.run", feature_id="one", mode="full")
    assert answer.error is not None
    assert answer.error["code"] == GateFailed.code
    told = "1 test of the base, run as the base has them, did not pass on the code of this feature: `tests/b.ts.third`"
    assert answer.error["message"].startswith(told)
    assert "is named in `test_changes` of the plan" in answer.error["message"]
