"""`aop forge plan` as a real process: from a scan alone, and with versions that package managers answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.forge.scan.shop import FILES
from tests.world import Ran, make_repository, run_aop

PIP = """#!/bin/sh
case "$3" in
fastapi) echo "fastapi (0.99.0)"; echo "Available versions: 0.99.0" ;;
sqlalchemy) echo "sqlalchemy (3.1.0)" ;;
*) exit 1 ;;
esac
"""
NPM = """#!/bin/sh
pwd > "$AOP_TEST_SEEN"
echo '"4.20.0"'
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "repo", FILES)
    assert forge(root, "new", "Shop").code == 0
    return root


def forge(root: Path, *words: str, env: dict[str, str] | None = None) -> Ran:
    return run_aop(root, "forge", *words, env=env)


@pytest.mark.req("FORGE-127", "FORGE-227")
def test_a_plan_follows_from_the_scan_alone(shop: Path) -> None:
    forge(shop, "scan", "shop")
    ran = forge(shop, "plan", "shop", "--json")
    assert ran.code == 0, ran.err
    plan = ran.json["data"]
    assert (plan["run_id"], plan["online"]) == ("shop-s1", False)
    assert {status: [each["package"] for each in found] for status, found in plan["version_report"].items()} == {
        "current": [],
        "outdated": [],
        "eol": ["python"],
        "unknown": ["express", "fastapi", "sqlalchemy"],
    }
    assert {each["latest"] for found in plan["version_report"].values() for each in found} == {"unknown"}
    tasks = plan["migration_recommendations"]
    assert [(each["id"], each["priority"], each["forge_automatable"]) for each in tasks] == [
        ("upgrade-runtime-python", "high", True),
        ("repair-lock-files-agree-with-manifests", "high", True),
        ("repair-no-secrets-in-the-sources", "high", False),
        ("repair-no-import-cycles", "medium", True),
        ("repair-tests-exist", "medium", True),
        ("repair-a-licence-exists", "low", False),
        ("repair-a-linter-is-set-up", "low", True),
        ("repair-a-pipeline-exists", "low", True),
    ]
    python = tasks[0]
    assert (python["from_state"], python["to_state"]) == ("python 3.8", "a supported release of python")
    assert python["rationale"] == "Its support ended on 2024-10-07. It is asked for in pyproject.toml."
    brief = plan["executive_brief"]
    assert brief.keys() == {
        "health_grade",
        "headline",
        "top_priorities",
        "risk_summary",
        "forge_automation_note",
    }
    assert brief["top_priorities"][0] == "upgrade-runtime-python: a supported release of python"
    assert len(brief["top_priorities"]) == 3
    assert plan["summary_stats"]["recommendations"] == len(tasks)


def test_newest_versions_are_asked_for_only_with_online_and_outside_the_repository(shop: Path, tmp_path: Path) -> None:
    programs, seen = tmp_path / "programs", tmp_path / "seen"
    programs.mkdir()
    for name, text in (("pip", PIP), ("npm", NPM)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "AOP_TEST_SEEN": str(seen)}
    forge(shop, "scan", "shop")
    assert forge(shop, "plan", "shop", env=env).code == 0
    assert not seen.exists()
    plan = forge(shop, "plan", "shop", "--online", "--json", env=env).json["data"]
    found = {
        each["package"]: (status, each["current"], each["latest"])
        for status, each_of in plan["version_report"].items()
        for each in each_of
    }
    assert found == {
        "express": ("outdated", "4.19.2", "4.20.0"),
        "fastapi": ("current", "0.99.0", "0.99.0"),
        "python": ("eol", "3.8", "unknown"),
        "sqlalchemy": ("outdated", "2.0.30", "3.1.0"),
    }
    assert str(shop) not in seen.read_text()
    ids = [each["id"] for each in plan["migration_recommendations"]]
    assert {"upgrade-python-sqlalchemy", "update-within-major-versions"} <= set(ids)


def test_a_package_manager_that_fails_leaves_versions_unknown(shop: Path, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("pip", "npm"):
        (programs / name).write_text("#!/bin/sh\necho '{'\nexit 3\n")
        (programs / name).chmod(0o755)
    forge(shop, "scan", "shop")
    ran = forge(shop, "plan", "shop", "--online", "--json", env={"PATH": f"{programs}:{os.environ['PATH']}"})
    assert ran.code == 0
    assert "No newest version found for 3 packages" in ran.err
    assert [each["package"] for each in ran.json["data"]["version_report"]["unknown"]] == [
        "express",
        "fastapi",
        "sqlalchemy",
    ]


GO = """#!/bin/sh
if [ "$1" = env ]; then printf '%s\\n%s\\n' "$AOP_TEST_GOPROXY" "example.com/*/hidden"; exit; fi
echo "$GOPROXY $GONOPROXY $GOVCS $GOTOOLCHAIN $5" >> "$AOP_TEST_SEEN"
echo v1.9.0
"""
CARGO = """#!/bin/sh
echo 'serde-evil = "9.9.9"    # serde'
test "$5" = absent || echo 'serde = "1.0.9"    # serde'
"""
FOREIGN = {
    "go.mod": (
        "module example.com/shop\n\ngo 1.22\n\nrequire (\n\tattacker.example.org/x v1.0.0\n"
        "\texample.com/own/hidden/y v1.0.0\n)\n"
    ),
    "Cargo.toml": '[package]\nname = "shop"\nversion = "0.1.0"\n\n[dependencies]\nserde = "1"\nabsent = "1"\n',
}


@pytest.mark.parametrize(
    ("set_up", "asked"),
    [("https://proxy.example.net,direct", "https://proxy.example.net none *:off local"), ("direct", "")],
)
def test_no_module_chooses_a_host_and_no_other_crate_answers(tmp_path: Path, set_up: str, asked: str) -> None:
    root = make_repository(tmp_path / "repo", FOREIGN)
    forge(root, "new", "Shop")
    forge(root, "scan", "shop")
    programs, seen = tmp_path / "programs", tmp_path / "seen"
    programs.mkdir()
    for name, text in (("go", GO), ("cargo", CARGO)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    env = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "AOP_TEST_SEEN": str(seen),
        "AOP_TEST_GOPROXY": set_up,
    }
    plan = forge(root, "plan", "shop", "--online", "--json", env=env).json["data"]
    latest = {each["package"]: each["latest"] for found in plan["version_report"].values() for each in found}
    assert {
        name: latest[name] for name in ("attacker.example.org/x", "example.com/own/hidden/y", "serde", "absent")
    } == {
        "attacker.example.org/x": "v1.9.0" if asked else "unknown",
        "example.com/own/hidden/y": "unknown",
        "serde": "1.0.9",
        "absent": "unknown",
    }
    said = seen.read_text() if seen.exists() else ""
    assert said == (f"{asked} attacker.example.org/x@latest\n" if asked else "")


def test_a_project_that_was_not_scanned_gets_no_plan(shop: Path) -> None:
    ran = forge(shop, "plan", "shop", "--json")
    assert (ran.code != 0, ran.json["error"]["code"]) == (True, "not_scanned")
    assert "aop forge scan" in forge(shop, "plan", "shop").err
