"""Plans that choose a proof which proves nothing: the policy says which profile a change of some paths must pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hostile.gate_cheats.cases import PASSES, Case, apply, is_expected, outcome
from tests.kernel.tools.worlds import configured, gates_of, step
from tests.world import World, files, plan_for

TESTS = {"type": "junit_xml", "path": "junit.xml"}


def profile(script: str, *more: str, **keys: Any) -> dict[str, Any]:
    """Return a profile of these lines of shell, in every mode."""
    steps = [each for number, line in enumerate((script, *more)) for each in step(line, f"step{number}")]
    return {"modes": {"fast": steps, "full": steps, "merge": steps}, **keys}


OTHERS = {
    "nothing": profile("true"),
    "strict": profile("test ! -e src/bad.txt"),
    "more": profile("test ! -e src/bad.txt", "true"),
    "renamed": profile("test ! -e src/BAD.txt"),
    "measured": profile("true", thresholds={"coverage_line_min": 0.9}, parsers={"tests": TESTS}),
    "measured_less": profile("true", thresholds={"coverage_line_min": 0.5}, parsers={"tests": TESTS}),
    "unmeasured": profile("true", thresholds={"coverage_line_min": 0.9}),
}
REQUIRED = [
    {"paths": ["src"], "profile": "strict"},
    {"paths": ["lib/**/*.py"], "profile": "measured"},
]
ESCAPES = "invalid_override_precedence: The policy demands the gate profile "


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("required") / "repo"
    policy = {"gates": {"required": REQUIRED}, "patch_policy": {"enforce_plan": False, "enforce_allowed_areas": False}}
    world = configured(root, policy=policy, gates=gates_of(others=OTHERS))
    world.init()
    world.close()
    return root


def plan_of(name: str, *paths: str) -> dict[str, Any]:
    return plan_for("one", gate_profile=name, allowed_areas=["src", "lib", "docs"], files=files(create=paths))


PLANS = (
    ("a profile that proves nothing", plan_of("nothing", "src/new.txt"), ESCAPES + "`strict`"),
    ("the default one", plan_of("default", "src/new.txt"), ESCAPES + "`strict`"),
    ("another command", plan_of("renamed", "src/new.txt"), ESCAPES + "`strict`"),
    ("a pattern that reaches the path", plan_of("nothing", "src/**/new.txt"), ESCAPES + "`strict`"),
    ("a folder above", plan_of("nothing", "lib/"), ESCAPES + "`measured`"),
    ("a lower threshold", plan_of("measured_less", "lib/deep/new.py"), ESCAPES + "`measured`"),
    ("no report", plan_of("unmeasured", "lib/new.py"), ESCAPES + "`measured`"),
    ("two rows", plan_of("strict", "src/new.txt", "lib/new.py"), ESCAPES + "`measured`"),
    ("the profile itself", plan_of("strict", "src/new.txt"), PASSES),
    ("one that has more", plan_of("more", "src/new.txt"), PASSES),
    ("a path of no row", plan_of("nothing", "docs/new.txt", "lib/new.txt"), PASSES),
)


@pytest.mark.parametrize(("plan", "expected"), [row[1:] for row in PLANS], ids=[row[0] for row in PLANS])
def test_a_plan_may_add_a_profile_and_never_escape_one(world: World, plan: dict[str, Any], expected: str) -> None:
    assert is_expected(world.call("plan.submit", feature_id="one", plan_json=plan), expected)


CHANGES = (
    Case(name="a path that the plan did not name", files={"src/bad.txt": "x\n"}, expected=ESCAPES + "`strict`"),
    Case(name="a path of no row", files={"docs/new.txt": "x\n"}),
)


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: case.name)
def test_the_tree_decides_when_the_gates_run(world: World, case: Case) -> None:
    world.ok("plan.submit", feature_id="one", plan_json=plan_of("nothing", "docs/new.txt"))
    assert outcome(apply(world, case.files)) == PASSES
    assert is_expected(world.call("gates.run", feature_id="one", mode="fast"), case.expected)
