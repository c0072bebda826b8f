"""Project guesses of `aop init`, for each language, without git or files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from aop.adapters.projects.drafts import Draft
from aop.adapters.projects.guesses import NO_TESTS, Project
from aop.adapters.projects.layout import FoundProject, find_projects
from aop.adapters.projects.scan import LANGUAGES
from aop.adapters.projects.texts import gates_text, policy_text
from aop.core.text.yaml import parse_yaml

Files = Mapping[str, str]
Commands = list[list[str]]


def found_in(files: Files) -> tuple[FoundProject, ...]:
    return find_projects(Project(paths=frozenset(files), texts=files), LANGUAGES)


def profiles_of(files: Files) -> Any:
    """Return the profiles of the gates.yaml that is written for a repository with these files."""
    gates: Any = parse_yaml(gates_text([Draft(found=one) for one in found_in(files)]).encode()).value
    return gates["profiles"]


def guessed(files: Files) -> Any:
    return profiles_of(files)["default"]


def commands(files: Files) -> dict[str, Commands]:
    """Return the commands of each mode of the `default` profile."""
    return {mode: [step["cmd"] for step in steps] for mode, steps in guessed(files)["modes"].items()}


def the_guess(files: Files) -> Any:
    (found,) = found_in(files)
    return found.guess


def execution(files: Files) -> Any:
    """Return what the proposed policy.yaml opens."""
    policy: Any = parse_yaml(policy_text("main", [Draft(found=one) for one in found_in(files)]).encode()).value
    return policy.get("execution")


def test_a_repository_of_no_known_language_is_not_guessed() -> None:
    assert found_in({"README.md": "", "src/a.txt": "", "tools/build.py": "import os\n"}) == ()


# --- Python ----------------------------------------------------------------------------------------

PYTEST = ["python3", "-m", "pytest", "-q"]
JUNIT = "--junitxml=junit.xml"
COVERAGE = ["--cov", "--cov-branch", "--cov-report=xml:coverage.xml"]
DISCOVER = ["python3", "-m", "unittest", "discover"]
UNITTEST = "import unittest\n\n\nclass ATest(unittest.TestCase):\n    def test_a(self) -> None:\n        pass\n"

WITH_PYTEST: dict[str, tuple[Files, Commands, Commands]] = {
    "pyproject.toml": ({"pyproject.toml": 'dev = ["pytest"]'}, [PYTEST], [[*PYTEST, JUNIT]]),
    "requirements": ({"requirements-dev.txt": "pytest==8\n"}, [PYTEST], [[*PYTEST, JUNIT]]),
    "a folder of requirements": ({"setup.py": "", "requirements/dev.txt": "pytest\n"}, [PYTEST], [[*PYTEST, JUNIT]]),
    "setup.cfg": ({"setup.cfg": "[options.extras_require]\ntest = pytest\n"}, [PYTEST], [[*PYTEST, JUNIT]]),
    "tox.ini": ({"setup.py": "", "tox.ini": "[testenv]\ncommands = pytest\n"}, [PYTEST], [[*PYTEST, JUNIT]]),
    "a conftest": ({"pyproject.toml": "", "tests/conftest.py": ""}, [PYTEST], [[*PYTEST, JUNIT]]),
    "a test that imports pytest": ({"tests/test_a.py": "import pytest\n"}, [PYTEST], [[*PYTEST, JUNIT]]),
    "uv": (
        {"uv.lock": "", "pyproject.toml": "pytest"},
        [["uv", "run", *PYTEST]],
        [["uv", "run", *PYTEST, JUNIT]],
    ),
    "poetry": (
        {"poetry.lock": "", "pyproject.toml": "pytest"},
        [["poetry", "run", *PYTEST]],
        [["poetry", "run", *PYTEST, JUNIT]],
    ),
    "coverage": ({"pyproject.toml": 'dev = ["pytest", "pytest-cov"]'}, [PYTEST], [[*PYTEST, *COVERAGE, JUNIT]]),
}


@pytest.mark.parametrize(("files", "fast", "full"), WITH_PYTEST.values(), ids=WITH_PYTEST)
def test_pytest_is_guessed_and_reports_where_the_report_is_read_from(
    files: Files, fast: Commands, full: Commands
) -> None:
    assert commands(files) == {"fast": fast, "full": full, "merge": full}
    assert guessed(files)["parsers"]["tests"] == {"type": "junit_xml", "path": "junit.xml", "modes": ["full", "merge"]}


WITH_UNITTEST: dict[str, tuple[Files, Commands]] = {
    "in a package": ({"tests/__init__.py": "", "tests/test_a.py": UNITTEST}, [DISCOVER]),
    "at the root": ({"test_a.py": UNITTEST}, [DISCOVER]),
    "in a folder that is no package": ({"tests/test_a.py": UNITTEST}, [[*DISCOVER, "-s", "tests"]]),
    "in two such folders": (
        {"a/tests/test_a.py": UNITTEST, "b/tests/test_b.py": UNITTEST},
        [[*DISCOVER, "-s", "a/tests"], [*DISCOVER, "-s", "b/tests"]],
    ),
}


@pytest.mark.parametrize(("files", "tests"), WITH_UNITTEST.values(), ids=WITH_UNITTEST)
def test_unittest_is_guessed_for_all_three_modes(files: Files, tests: Commands) -> None:
    assert commands(files) == {"fast": tests, "full": tests, "merge": tests}
    assert "parsers" not in guessed(files)


def test_a_project_that_reports_coverage_gets_the_parser_that_reads_it() -> None:
    assert guessed({"requirements.txt": "pytest-cov\n"})["parsers"]["coverage"] == {
        "type": "cobertura_xml",
        "path": "coverage.xml",
        "modes": ["full", "merge"],
    }


def test_configured_checks_come_before_the_tests_and_in_full_only() -> None:
    settings = "[tool.ruff]\nline-length = 100\n\n[tool.mypy]\nstrict = true\n\n[tool.pytest.ini_options]\n"
    assert commands({"pyproject.toml": settings}) == {
        "fast": [PYTEST],
        "full": [["python3", "-m", "ruff", "check"], ["python3", "-m", "mypy", "."], [*PYTEST, JUNIT]],
        "merge": [[*PYTEST, JUNIT]],
    }


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": '[tool.mypy]\nstrict = true\nfiles = ["src"]\n'},
        {"setup.py": "", "mypy.ini": "[mypy]\npackages = shop\n"},
    ],
    ids=["pyproject.toml", "mypy.ini"],
)
def test_mypy_is_not_told_again_what_its_settings_say(files: Files) -> None:
    assert commands(files)["full"] == [["python3", "-m", "mypy"]]


def test_a_package_below_src_is_tested_from_the_worktree_and_not_from_where_it_is_installed() -> None:
    files = {"pyproject.toml": "pytest", "src/shop/__init__.py": ""}
    assert [step["env"] for step in guessed(files)["modes"]["fast"]] == [{"PYTHONPATH": "src"}]
    assert "env" not in guessed({**files, "uv.lock": ""})["modes"]["fast"][0]


# --- Node ------------------------------------------------------------------------------------------

NODE_REPORTERS = [
    "--test-reporter=spec",
    "--test-reporter-destination=stdout",
    "--test-reporter=junit",
    "--test-reporter-destination=junit.xml",
]
VITEST_REPORTERS = ["--reporter=default", "--reporter=junit", "--outputFile.junit=junit.xml"]
NPM_CI = ["npm", "ci", "--offline", "--no-audit", "--no-fund"]


def package(scripts: Mapping[str, str], **more: Any) -> str:
    return json.dumps({"name": "shop", "scripts": scripts, **more})


def node_files(test: str, *, lock: str = "package-lock.json", **needs: str) -> dict[str, str]:
    return {"package.json": package({"test": test}, devDependencies=needs), lock: ""}


MANAGERS = {
    "npm": ("package-lock.json", NPM_CI, {"sandbox_read": ["~/.npm/_cacache"]}),
    "pnpm": (
        "pnpm-lock.yaml",
        ["pnpm", "install", "--offline", "--frozen-lockfile"],
        {"sandbox_read": ["~/.local/share/pnpm/store"]},
    ),
    "bun": ("bun.lock", ["bun", "install", "--frozen-lockfile"], {"sandbox_read": ["~/.bun/install/cache"]}),
    "yarn": (
        "yarn.lock",
        ["yarn", "install", "--offline", "--frozen-lockfile"],
        {"sandbox_write": ["~/.cache/yarn"]},
    ),
}


@pytest.mark.parametrize("name", MANAGERS)
def test_the_lock_file_says_which_package_manager_installs_and_runs(name: str) -> None:
    lock, install, opened = MANAGERS[name]
    files = node_files("mocha", lock=lock, mocha="10")
    steps = [install, [name, "run", "test"]]
    assert commands(files) == {"fast": steps, "full": steps, "merge": steps}
    assert execution(files) == opened


def test_a_newer_yarn_is_told_by_its_settings_and_may_bring_its_packages_along() -> None:
    files = {**node_files("mocha", lock="yarn.lock", mocha="10"), ".yarnrc.yml": ""}
    assert guessed(files)["modes"]["fast"][0] == {
        "name": "install",
        "cmd": ["yarn", "install", "--immutable"],
        "env": {"YARN_ENABLE_NETWORK": "0"},
    }
    assert execution(files) == {"sandbox_write": ["~/.yarn/berry"]}
    assert execution({**files, ".yarn/cache/mocha-10.zip": ""}) is None


def test_only_scripts_that_exist_become_steps_and_nothing_is_installed_that_nobody_needs() -> None:
    scripts = {"test": "node test.js", "lint": "eslint .", "build": "tsc", "start": "node server.js"}
    files = {"package.json": package(scripts), "package-lock.json": ""}
    run = ["npm", "run"]
    assert commands(files) == {
        "fast": [[*run, "test"]],
        "full": [[*run, "lint"], [*run, "build"], [*run, "test"]],
        "merge": [[*run, "test"]],
    }
    assert execution(files) is None


REPORTING: dict[str, tuple[dict[str, str], list[str], dict[str, str] | None]] = {
    "node": (node_files("node --test"), ["node", *NODE_REPORTERS, "--test"], None),
    "node with a file": (node_files("node --test spec/"), ["node", *NODE_REPORTERS, "--test", "spec/"], None),
    "node with options": (
        node_files("node --import tsx --test"),
        ["node", *NODE_REPORTERS, "--import", "tsx", "--test"],
        None,
    ),
    "vitest": (node_files("vitest run", vitest="2"), ["npm", "run", "test", "--", *VITEST_REPORTERS], None),
    "vitest with pnpm": (
        node_files("vitest", lock="pnpm-lock.yaml", vitest="2"),
        ["pnpm", "run", "test", *VITEST_REPORTERS],
        None,
    ),
    "jest": (
        node_files("jest", jest="29", **{"jest-junit": "16"}),
        ["npm", "run", "test", "--", "--reporters=default", "--reporters=jest-junit"],
        {"JEST_JUNIT_OUTPUT_FILE": "junit.xml"},
    ),
}


@pytest.mark.parametrize(("files", "command", "env"), REPORTING.values(), ids=REPORTING)
def test_tests_that_can_write_a_junit_report_do_in_full_and_merge(
    files: Files, command: list[str], env: dict[str, str] | None
) -> None:
    for mode in ("full", "merge"):
        step = guessed(files)["modes"][mode][-1]
        assert (step["name"], step["cmd"], step.get("env")) == ("test", command, env)
    assert guessed(files)["modes"]["fast"][-1]["cmd"][1:3] == ["run", "test"]
    assert guessed(files)["parsers"] == {
        "tests": {"type": "junit_xml", "path": "junit.xml", "modes": ["full", "merge"]}
    }


WITHOUT_REPORT = {
    "more than one command": node_files("node --test && echo done"),
    "a pattern for the shell": node_files("node --test test/*.js"),
    "a script around it": {
        "package.json": package({"test": "node --test", "pretest": "npm run build"}),
        "package-lock.json": "",
    },
    "a reporter of its own": node_files("node --test --test-reporter=tap"),
    "jest without a reporter": node_files("jest", jest="29"),
    "vitest that is not installed": node_files("vitest"),
}


@pytest.mark.parametrize("files", WITHOUT_REPORT.values(), ids=WITHOUT_REPORT)
def test_no_report_is_asked_of_tests_with(files: Files) -> None:
    assert {steps[-1]["cmd"][-1] for steps in guessed(files)["modes"].values()} == {"test"}
    assert "parsers" not in guessed(files)


def test_the_test_script_of_npm_init_is_no_test() -> None:
    files = {"package.json": package({"test": 'echo "Error: no test specified" && exit 1', "lint": "eslint ."})}
    assert commands(files) == {"fast": [], "full": [["npm", "run", "lint"]], "merge": []}
    assert the_guess(files).notes == (NO_TESTS,)


def test_dependencies_without_a_lock_file_are_said_aloud() -> None:
    (note,) = the_guess({"package.json": package({"test": "mocha"}, devDependencies={"mocha": "10"})}).hints
    assert note.startswith("`package.json` has dependencies but no lock file")


@pytest.mark.parametrize("text", ["{", "[]", '{"scripts": []}', ""])
def test_a_package_json_that_cannot_be_read_is_no_reason_to_fail(text: str) -> None:
    assert the_guess({"package.json": text}).notes == (
        NO_TESTS,
        "`package.json` is not a valid package manifest.",
    )


def test_a_workspace_without_tests_of_its_own_runs_those_of_its_packages() -> None:
    files = {
        "package.json": package({}, workspaces={"packages": ["packages/*"]}),
        "package-lock.json": "",
        "packages/a/package.json": package({"test": "node --test"}),
        "packages/b/package.json": package({}),
    }
    steps = [NPM_CI, ["npm", "run", "--workspaces", "--if-present", "test"]]
    assert commands(files) == {"fast": steps, "full": steps, "merge": steps}


# --- Java ------------------------------------------------------------------------------------------

MVN = ["mvn", "--batch-mode", "--quiet", "--offline"]
JAVA_TEST = {"src/test/java/shop/CartTest.java": ""}


def test_maven_runs_its_tests_offline_from_the_repository_that_the_policy_opens() -> None:
    files = {"pom.xml": "<project/>", **JAVA_TEST}
    assert commands(files) == {mode: [[*MVN, "test"]] for mode in ("fast", "full", "merge")}
    assert guessed(files)["parsers"] == {
        "tests": {"type": "junit_xml", "path": "target/surefire-reports/TEST-*.xml", "modes": ["full", "merge"]}
    }
    assert execution(files) == {"sandbox_read": ["~/.m2/repository"]}
    (note,) = the_guess(files).notes
    assert "`execution.sandbox_read: [~/.m2/repository]`" in note


def test_maven_goes_up_to_verify_where_a_plugin_checks_there() -> None:
    files = {"pom.xml": "<artifactId>maven-checkstyle-plugin</artifactId>", **JAVA_TEST}
    assert commands(files) == {"fast": [[*MVN, "test"]], "full": [[*MVN, "verify"]], "merge": [[*MVN, "verify"]]}


def test_the_wrapper_of_maven_is_used_and_may_read_what_it_downloaded() -> None:
    files = {"pom.xml": "", "mvnw": "", **JAVA_TEST}
    assert commands(files)["fast"] == [["./mvnw", *MVN[1:], "test"]]
    assert execution(files) == {"sandbox_read": ["~/.m2/repository", "~/.m2/wrapper"]}


def test_gradle_checks_with_its_wrapper_and_may_write_its_caches() -> None:
    files = {"build.gradle.kts": "", "gradlew": "", **JAVA_TEST}
    gradle = ["./gradlew", "--offline", "--no-daemon", "--quiet"]
    assert commands(files) == {
        "fast": [[*gradle, "test"]],
        "full": [[*gradle, "check"]],
        "merge": [[*gradle, "check"]],
    }
    assert guessed(files)["parsers"]["tests"]["path"] == "build/test-results/test/TEST-*.xml"
    assert execution(files) == {"sandbox_write": ["~/.gradle/caches", "~/.gradle/wrapper"]}
    assert commands({"build.gradle": "", **JAVA_TEST})["fast"] == [["gradle", *gradle[1:], "test"]]


# --- Rust ------------------------------------------------------------------------------------------

CRATE = '[package]\nname = "shop"\nversion = "0.1.0"\n'


def test_cargo_tests_what_its_lock_file_says_and_needs_nothing_where_there_are_no_dependencies() -> None:
    files = {"Cargo.toml": CRATE, "Cargo.lock": 'version = 3\n\n[[package]]\nname = "shop"\n'}
    test = ["cargo", "test", "--offline", "--locked"]
    reporting = [*test, "--no-fail-fast"]
    assert commands(files) == {"fast": [test], "full": [reporting], "merge": [reporting]}
    assert guessed(files)["parsers"] == {"tests": {"type": "cargo_test", "step": "test", "modes": ["full", "merge"]}}
    assert execution(files) is None
    assert the_guess(files).notes == ()


@pytest.mark.parametrize(
    ("lock", "opened"),
    [
        ('source = "registry+x"\n', ["~/.cargo/registry"]),
        ('source = "registry+x"\nsource = "git+y"\n', ["~/.cargo/registry", "~/.cargo/git"]),
    ],
    ids=["registry", "registry and git"],
)
def test_crates_of_others_are_read_from_where_cargo_keeps_them(lock: str, opened: list[str]) -> None:
    files = {"Cargo.toml": f'{CRATE}[dependencies]\nserde = "1"\n', "Cargo.lock": lock}
    assert execution(files) == {"sandbox_read": opened}


def test_without_a_lock_file_the_manifest_says_what_is_needed() -> None:
    files = {"Cargo.toml": f'{CRATE}[dev-dependencies]\nx = {{git = "https://example.org/x"}}\n'}
    assert commands(files)["fast"] == [["cargo", "test", "--offline"]]
    assert execution(files) == {"sandbox_read": ["~/.cargo/registry", "~/.cargo/git"]}
    assert the_guess(files).notes[0].startswith("`Cargo.lock` is not committed")


@pytest.mark.parametrize(
    "files",
    [
        {"Cargo.toml": f'{CRATE}[lints.clippy]\nall = "warn"\n', "rustfmt.toml": ""},
        {"Cargo.toml": CRATE, "clippy.toml": "", ".rustfmt.toml": ""},
    ],
    ids=["Cargo.toml", "clippy.toml"],
)
def test_clippy_and_rustfmt_run_where_they_are_configured(files: Files) -> None:
    lint = ["cargo", "clippy", "--offline", "--all-targets", "--", "-D", "warnings"]
    test = ["cargo", "test", "--offline", "--no-fail-fast"]
    assert commands(files)["full"] == [["cargo", "fmt", "--all", "--check"], lint, test]


def test_a_cargo_toml_that_cannot_be_read_is_no_reason_to_fail() -> None:
    assert the_guess({"Cargo.toml": "[package\n"}).notes == (NO_TESTS, "`Cargo.toml` is not valid TOML.")


# --- Go --------------------------------------------------------------------------------------------

GO_FILES = {"go.mod": "module example.org/shop\n", "cart/cart.go": "", "cart/cart_test.go": ""}


def test_go_vets_and_tests_all_packages_and_downloads_nothing() -> None:
    assert commands(GO_FILES) == {
        "fast": [["go", "test", "./..."]],
        "full": [["go", "vet", "./..."], ["go", "test", "-json", "./..."]],
        "merge": [["go", "test", "-json", "./..."]],
    }
    assert guessed(GO_FILES)["parsers"] == {
        "tests": {"type": "go_test_json", "step": "test", "modes": ["full", "merge"]}
    }
    assert guessed(GO_FILES)["modes"]["fast"][0]["env"] == {"GOPROXY": "off"}
    assert execution(GO_FILES) is None


def test_modules_of_others_are_read_from_where_go_keeps_them_unless_they_are_vendored() -> None:
    assert execution({**GO_FILES, "go.sum": ""}) == {"sandbox_read": ["~/go/pkg/mod"]}
    assert execution({**GO_FILES, "go.sum": "", "vendor/modules.txt": ""}) is None


def test_a_linter_that_is_configured_runs() -> None:
    assert commands({**GO_FILES, ".golangci.yml": ""})["full"][1] == ["golangci-lint", "run", "./..."]


@pytest.mark.parametrize(
    "text",
    ["go 1.22\n\nuse (\n\t./a // the first\n\t./b/c\n)\n", "go 1.22\nuse ./a\nuse ./b/c\n"],
    ids=["together", "one by one"],
)
def test_a_go_workspace_tests_each_of_its_modules(text: str) -> None:
    files = {"go.work": text, "a/go.mod": "", "a/a_test.go": "", "b/c/go.mod": ""}
    assert commands(files)["fast"] == [["go", "test", "./a/...", "./b/c/..."]]


# --- monorepos, and several languages --------------------------------------------------------------

MONOREPOS: dict[str, tuple[Files, str]] = {
    "npm": (
        {"package.json": package({"test": "x"}, workspaces=["packages/*"])},
        "(npm workspaces: `packages/*`)",
    ),
    "pnpm": ({"package.json": package({"test": "x"}), "pnpm-workspace.yaml": ""}, "(pnpm workspaces)"),
    "Maven": (
        {"pom.xml": "<modules><module>api</module><module>core</module></modules>", **JAVA_TEST},
        "(Maven modules: `api`, `core`)",
    ),
    "Gradle": (
        {"settings.gradle": "include 'api', 'core'\n", **JAVA_TEST},
        "(Gradle projects: `api`, `core`)",
    ),
    "Gradle in Kotlin": ({"settings.gradle.kts": 'include(":api")\n', **JAVA_TEST}, "(Gradle projects: `:api`)"),
    "Cargo": ({"Cargo.toml": '[workspace]\nmembers = ["a", "b"]\n'}, "(Cargo workspace: `a`, `b`)"),
    "Go": ({"go.work": "use ./a\n", "a/a_test.go": ""}, "(Go workspace: `a`)"),
    "uv": ({"pyproject.toml": '[tool.uv.workspace]\nmembers = ["a"]\n[tool.pytest]\n'}, "(uv workspace)"),
}


@pytest.mark.parametrize(("files", "said"), MONOREPOS.values(), ids=MONOREPOS)
def test_a_monorepo_is_said_to_be_one(files: Files, said: str) -> None:
    assert sum(f"This is a monorepo {said}." in note for note in the_guess(files).notes) == 1


def test_the_reports_of_all_modules_of_a_monorepo_are_read() -> None:
    files = {"pom.xml": "<module>api</module>", "api/src/test/java/A.java": ""}
    assert guessed(files)["parsers"]["tests"]["path"] == "**/target/surefire-reports/TEST-*.xml"


BACKEND_AND_WEB = {
    "pyproject.toml": "pytest pytest-cov",
    "shop/cart.py": "",
    "web/package.json": package({"test": "node --test"}),
    "web/test/cart.test.js": "",
}


def test_each_of_several_projects_has_a_profile_and_default_proves_the_main_one() -> None:
    profiles = profiles_of(BACKEND_AND_WEB)
    assert list(profiles) == ["default", "python", "web"]
    assert profiles["default"] == profiles["python"]
    assert profiles["web"]["modes"]["full"] == [
        {"name": "test", "cmd": ["node", *NODE_REPORTERS, "--test"], "cwd": "web"}
    ]
    assert profiles["web"]["parsers"]["tests"]["path"] == "web/junit.xml"


def test_of_two_projects_in_one_folder_the_one_with_more_sources_is_the_main_one() -> None:
    files = {"pyproject.toml": "pytest", "package.json": package({"test": "jest"}), "a.js": "", "b.ts": "", "c.py": ""}
    assert [one.title for one in found_in(files)] == ["Node", "Python"]
    assert list(profiles_of(files)) == ["default", "node", "python"]


def test_projects_of_one_folder_are_told_apart_by_their_languages() -> None:
    files = {"api/pyproject.toml": "pytest", "api/package.json": package({"test": "jest"}), "api/a.py": ""}
    assert list(profiles_of(files)) == ["default", "api", "api-node"]


def test_a_project_in_a_folder_runs_there_and_reports_there() -> None:
    default = guessed({"backend/pyproject.toml": "pytest-cov", "backend/src/shop/cart.py": ""})
    assert default["modes"]["fast"] == [{"name": "test", "cmd": PYTEST, "cwd": "backend", "env": {"PYTHONPATH": "src"}}]
    assert [parser["path"] for parser in default["parsers"].values()] == ["backend/coverage.xml", "backend/junit.xml"]


@pytest.mark.parametrize(
    "folder", ["node_modules/x", "tests/samples/node", "vendor/x", ".hidden", "a/b/c/d", "odd\nname", "a*b"]
)
def test_a_project_that_is_somebody_elses_or_data_is_left_alone(folder: str) -> None:
    files = {"pyproject.toml": "pytest", f"{folder}/package.json": package({"test": "x"})}
    assert [one.title for one in found_in(files)] == ["Python"]


def test_a_package_json_for_tools_alone_does_not_hide_the_project_below_it() -> None:
    files = {"package.json": package({"prepare": "husky"}), "web/package.json": package({"test": "mocha"})}
    assert [one.title for one in found_in(files)] == ["Node in `web`"]


def test_members_of_a_workspace_are_no_projects_of_their_own() -> None:
    files = {
        "package.json": package({"test": "turbo test"}, workspaces=["packages/*"]),
        "packages/a/package.json": package({"test": "mocha"}),
    }
    assert [one.title for one in found_in(files)] == ["Node"]


def test_files_of_tests_alone_are_no_project_beside_a_real_one() -> None:
    files = {"package.json": package({"test": "x"}), "tools/test_build.py": "import pytest\n"}
    assert [one.title for one in found_in(files)] == ["Node"]


# --- reasons ---------------------------------------------------------------------------------------


def test_every_step_that_is_guessed_has_its_reason() -> None:
    samples: list[Files] = [BACKEND_AND_WEB, GO_FILES, {"pom.xml": "", **JAVA_TEST}, {"Cargo.toml": CRATE}]
    samples += [row[0] for row in WITH_PYTEST.values()]
    samples += [row[0] for row in WITH_UNITTEST.values()]
    samples += [row[0] for row in REPORTING.values()]
    for files in samples:
        for one in found_in(files):
            modes = one.guess.profile.modes
            steps = {step.name for mode in (modes.fast, modes.full, modes.merge or ()) for step in mode}
            assert steps == set(one.guess.reasons)
            assert all(why and "\n" not in why for why in one.guess.reasons.values())
