"""The report of the tests that a gate run leaves: what is demanded of it, and how many tests the base has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from aop.kernel.gates.reports.test_comparison import removal_text
from aop.kernel.gates.reports.verdict import UNKNOWN_BASE
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.ports.processes import Command, CommandResult, Processes
from aop.kernel.record.documents import gate_runs
from aop.kernel.record.documents.features import Status
from aop.wiring.catalogue import CATALOGUE
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import GATES, POLICY, gates_of, patch_of, plain, state_of, step, yaml
from tests.world import World, files, git

# Each file below `suites` is a report, each line in it a test: its name, or the element that says what became of it.
SUITE = """\
mkdir -p out
status=0
for suite in suites/*; do
    echo "<testsuite>" > "out/${suite##*/}.xml"
    while read -r line; do
        echo "<testcase name='x'>$line</testcase>" >> "out/${suite##*/}.xml"
        test "$line" != "<failure/>" || status=1
    done < "$suite"
    echo "</testsuite>" >> "out/${suite##*/}.xml"
done
exit $status
"""
RUN_SUITE = [{"name": "tests", "cmd": ["sh", "suite.sh"]}]
GLOB = {"tests": {"type": "junit_xml", "path": "out/*.xml"}}


def suites(make_world: MakeWorld, texts: Mapping[str, str], parsers: Any = None, policy: Any = None) -> World:
    """Make a repository whose gates run these suites of tests."""
    gates = gates_of(fast=RUN_SUITE, full=RUN_SUITE, merge=RUN_SUITE, parsers=parsers or GLOB)
    free = {"patch_policy": {"enforce_plan": False, "enforce_allowed_areas": False}, **(policy or {})}
    written = {f"suites/{name}": text for name, text in texts.items()}
    return make_world(gates=gates, policy=free, files={"suite.sh": SUITE, ".gitignore": "out/\n", **written})


def run(world: World, feature: str = "one", mode: str = "fast") -> tuple[Any, list[str]]:
    """Run gates; return the answer, and how often the base was measured first."""
    told: list[str] = []
    arguments = {"feature_id": feature, "mode": mode}
    answer = world.app.gateway.call(world.app.person, "gates.run", arguments, report=told.append)
    return answer, [line for line in told if "on the base first" in line]


def counts(answer: Any) -> tuple[int, int | None]:
    return answer.data["tests"]["ran"], answer.data["tests"]["ran_on_base"]


def baselines(world: World) -> list[tuple[str, int | None]]:
    with world.app.record.read() as view:
        return sorted((each.commit, each.ran) for each in view.all(gate_runs.TestBaseline))


def rewrite(world: World, path: str, text: str, feature: str = "one") -> None:
    old = tuple((world.root / ".worktrees" / feature / path).read_text().splitlines())
    world.patch(feature, patch_of(path, *text.splitlines(), old=old))


def fewer(ran: int, on_base: int) -> str:
    return removal_text(["x"] * (on_base - ran))


# --- reading it ----------------------------------------------------------------------------------


def test_a_glob_sums_up_the_reports_of_several_files(make_world: MakeWorld) -> None:
    world = suites(make_world, {"unit": "a\nb\n", "web": "c\n<skipped/>\n"})
    world.init()
    answer, _ = run(world)
    tests = plain(answer.data["tests"])
    compared = tests.pop("comparison")
    assert compared.pop("passed_sha256") == compared.pop("base_sha256")
    assert compared == {"removed": [], "removed_count": 0, "added": [], "added_count": 0, "base_tests": None}
    assert tests == {
        "tests": 4,
        "failures": 0,
        "errors": 0,
        "skipped": 1,
        "ran": 3,
        "ran_on_base": 3,
        "canaries": False,
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<failure/>", "The step `tests` did not pass"),
        ("<error/>", "The report counts 0 failed tests and 1 errors."),
        ("</a>", "The report `out/*.xml` cannot be read"),
    ],
)
def test_one_bad_report_among_good_ones_fails_the_run(make_world: MakeWorld, text: str, why: str) -> None:
    world = suites(make_world, {"unit": "a\nb\n", "web": "c\n"})
    world.init()
    rewrite(world, "suites/web", f"{text}\n")
    answer, _ = run(world)
    assert why in answer.error["message"]


def test_a_report_is_demanded_only_in_the_modes_that_leave_it(make_world: MakeWorld) -> None:
    parsers = {"tests": {**GLOB["tests"], "modes": ["full"]}}
    world = make_world(gates=gates_of(full=step("exit 0"), parsers=parsers))
    world.init()
    fast, measured = run(world)
    assert (plain(fast.data["tests"]), fast.data["findings"], measured) == ({}, [], [])
    full, _ = run(world, mode="full")
    assert full.error["message"] == "No step wrote the report `out/*.xml`."


def test_a_run_that_fails_says_how_many_tests_there_were(make_world: MakeWorld) -> None:
    world = suites(make_world, {"unit": "a\nb\n"})
    world.init()
    rewrite(world, "suites/unit", "a\n<failure/>\n")
    run(world)
    tests = world.ok("evidence.latest", feature_id="one")["latest"]["tests"]
    assert (tests["failures"], tests["ran"], tests["ran_on_base"]) == (1, 2, 2)


@pytest.mark.parametrize("how", [{}, {"parallel": True}], ids=["in-order", "at-once"])
def test_a_step_that_a_plan_adds_cannot_write_the_report(make_world: MakeWorld, how: dict[str, bool]) -> None:
    gates = gates_of(full=step("exit 0"), parsers={"tests": {**GLOB["tests"], "modes": ["full"]}}, **how)
    world = make_world(gates=gates)
    forge = ["sh", "-c", "mkdir out; echo '<testsuite><testcase name=\"a\"/></testsuite>' > out/a.xml"]
    world.plan(verification_overrides={"modes": {"full": {"steps": [{"name": "forge", "cmd": forge}]}}})
    answer, _ = run(world, mode="full")
    assert answer.error["message"] == "No step wrote the report `out/*.xml`."
    assert [each["name"] for each in answer.error["details"]["steps"]] == ["check", "forge"]


def test_a_step_that_a_plan_adds_must_pass_too(make_world: MakeWorld) -> None:
    world = suites(make_world, {"unit": "a\n"})
    world.plan(verification_overrides={"modes": {"full": {"steps": [{"name": "more", "cmd": ["false"]}]}}})
    answer, _ = run(world, mode="full")
    assert answer.error["message"] == "The step `more` did not pass: it ended with exit code 1: false"


# --- the tests of the base -----------------------------------------------------------------------


def test_the_base_is_measured_once_for_each_commit_and_definition_and_never_again(make_world: MakeWorld) -> None:
    world = suites(make_world, {"unit": "a\nb\n"})
    first = git(world.root, "rev-parse", "main").strip()
    for name in ("one", "two"):
        world.init(name)
    assert [len(run(world, name, mode)[1]) for name in ("one", "two") for mode in ("fast", "full")] == [1, 0, 0, 0]
    later = World(world.root)
    try:
        assert len(run(later, "two")[1]) == 0
    finally:
        later.close()
    assert baselines(world) == [(first, 2)]

    other = step("sh suite.sh", "other")
    (world.root / GATES).write_text(gates_of(fast=other, full=RUN_SUITE, merge=RUN_SUITE, parsers=GLOB))
    git(world.root, "commit", "-qam", "Other gates")
    second = git(world.root, "rev-parse", "main").strip()
    assert [len(run(world, "one", mode)[1]) for mode in ("fast", "full")] == [1, 0]
    world.init("three")
    assert [len(run(world, "three", mode)[1]) for mode in ("fast", "full")] == [1, 1]
    assert baselines(world) == sorted([(first, 2), (first, 2), (second, 2), (second, 2)])


def test_a_merge_keeps_how_many_tests_run_on_what_it_made(make_world: MakeWorld) -> None:
    world = suites(make_world, {"unit": "a\nb\n"})
    world.ready(diff=patch_of("suites/more", "c", "d"), files=files(create=("src/unused.txt",)))
    assert world.call("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval()).ok
    assert (git(world.root, "rev-parse", "main").strip(), 4) in baselines(world)
    world.init("two")
    answer, measured = run(world, "two")
    assert (counts(answer), measured) == ((4, 4), [])


def test_fewer_tests_than_on_the_base_fail_the_run(make_world: MakeWorld) -> None:
    world = suites(make_world, {"unit": "a\nb\nc\n"})
    world.init()
    rewrite(world, "suites/unit", "a\n<skipped/>\n")
    answer, _ = run(world)
    assert (answer.error["code"], answer.error["message"]) == ("gate_failed", fewer(1, 3))


def test_a_policy_may_have_fewer_tests_only_told(make_world: MakeWorld) -> None:
    world = suites(make_world, {"unit": "a\nb\nc\n"}, policy={"testing": {"allow_fewer_tests": True}})
    world.init()
    rewrite(world, "suites/unit", "a\nb\n")
    answer, _ = run(world)
    assert (counts(answer), answer.data["findings"]) == ((2, 3), [fewer(2, 3)])

    (world.root / POLICY).write_text(yaml(version=1))
    git(world.root, "commit", "-qam", "Stricter")
    assert world.ok("evidence.latest", feature_id="one")["latest"]["current"] is False
    assert run(world)[0].error["message"] == fewer(2, 3)


def test_tests_that_fail_on_the_base_count_there_all_the_same(make_world: MakeWorld) -> None:
    world = suites(make_world, {"unit": "a\nb\n<failure/>\n"})
    world.init()
    rewrite(world, "suites/unit", "a\nb\n")
    assert run(world)[0].error["message"] == fewer(2, 3)
    rewrite(world, "suites/unit", "a\nb\nc\n")
    assert counts(run(world)[0]) == (3, 3)


def test_where_the_base_leaves_no_report_nobody_knows_and_that_is_told(make_world: MakeWorld) -> None:
    world = suites(make_world, {"unit": "</a>\n"})
    world.init()
    rewrite(world, "suites/unit", "a\n")
    answer, _ = run(world)
    assert (counts(answer), answer.data["findings"]) == ((1, None), [UNKNOWN_BASE])
    assert run(world, mode="full")[1] == []


class CutShort:
    """Implements `aop.kernel.ports.processes.Processes`: a tree with `src/a.txt` in it has no time for its gates."""

    def __init__(self, processes: Processes) -> None:
        self.sandbox_level, self.identity = processes.sandbox_level, processes.identity
        self.together = processes.together
        self._processes = processes

    def run(self, command: Command) -> CommandResult:
        has_time = not (command.worktree / "src/a.txt").exists()
        return self._processes.run(command if has_time else msgspec.structs.replace(command, timeout_seconds=0.1))


def test_a_base_whose_gates_were_cut_short_is_measured_again(make_world: MakeWorld) -> None:
    slow = [{"name": "tests", "cmd": ["sh", "-c", "test ! -s src/a.txt || exec sleep 600; sh suite.sh"]}]
    gates = gates_of(fast=slow, full=slow, merge=slow, parsers=GLOB)
    world = make_world(gates=gates, files={"suite.sh": SUITE, "suites/unit": "a\n", ".gitignore": "out/\n"})
    kernel = world.app.gateway.kernel
    kernel = msgspec.structs.replace(kernel, processes=CutShort(kernel.processes))
    world.app = msgspec.structs.replace(world.app, gateway=Gateway(kernel, CATALOGUE))
    world.plan(files=files(delete=("src/a.txt",)))
    world.patch(diff="--- a/src/a.txt\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n")
    answer, measured = run(world)
    assert (answer.data["findings"], len(measured), baselines(world)) == ([UNKNOWN_BASE], 1, [])
    assert len(run(world, mode="full")[1]) == 1


def test_a_merge_is_held_against_the_base_as_it_is_now(make_world: MakeWorld) -> None:
    world = suites(make_world, {"unit": "a\nb\n"}, parsers={"tests": {**GLOB["tests"], "modes": ["merge"]}})
    world.plan()
    rewrite(world, "suites/unit", "a\n")
    for mode in ("fast", "full"):
        world.ok("gates.run", feature_id="one", mode=mode)
    main = git(world.root, "rev-parse", "main")

    answer = world.call("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval())

    assert (answer.error or {})["message"] == fewer(1, 2)
    assert (git(world.root, "rev-parse", "main"), state_of(world).status) == (main, Status.READY_TO_MERGE)
