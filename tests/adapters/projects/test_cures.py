"""Cures: what is tried for a red step, without git or files."""

from __future__ import annotations

from aop.adapters.projects.drafts import Draft
from aop.adapters.projects.guesses import Project
from aop.adapters.projects.layout import find_projects
from aop.adapters.projects.scan import LANGUAGES
from aop.adapters.projects.trials.cures import Cure, RedStep, cures_of
from aop.adapters.projects.trials.environments import Environments, as_patterns
from aop.kernel.config.gates import Mode
from aop.kernel.gates.causes import Cause

PYTEST = {"pyproject.toml": "pytest pytest-cov\n[tool.ruff]\n", "tests/test_a.py": ""}


def draft_of(**files: str) -> Draft:
    (found,) = find_projects(Project(paths=frozenset(files), texts=files), LANGUAGES)
    return Draft(found=found)


def cures(draft: Draft, name: str, cause: Cause, *, mode: Mode = Mode.FULL, log: str = "") -> list[Cure]:
    step = next(step for step in draft.steps(mode) if step.name == name)
    return list(cures_of(draft, RedStep(mode=mode, step=step, cause=cause, log=log), Environments()))


def test_a_linter_has_no_cure() -> None:
    assert cures(draft_of(**PYTEST), "lint", Cause.MODULE_MISSING) == []


def test_coverage_that_the_base_does_not_have_is_not_required() -> None:
    first, *_ = cures(draft_of(**PYTEST), "test", Cause.COVERAGE_LOW)
    assert first.text == "require no coverage"
    assert first.draft.profile.parsers.coverage is None
    assert first.draft.steps(Mode.MERGE)[0].cmd == ("python3", "-m", "pytest", "-q", "--junitxml=junit.xml")


def test_a_few_tests_that_fail_are_left_out_in_every_mode() -> None:
    log = "FAILED tests/test_a.py::test_b[1 2] - no\nERROR tests/test_c.py - no\n2 failed, 9 passed in 1s"
    cure = cures(draft_of(**PYTEST), "test", Cause.TESTS_FAILED, mode=Mode.FAST, log=log)[-1]
    assert cure.text == "leave out 2 tests that fail on the base commit"
    for mode in Mode:
        words = cure.draft.steps(mode)[-1].cmd
        assert words[-2:] == ("--ignore=tests/test_c.py", "--deselect=tests/test_a.py::test_b[1 2]")


def test_a_file_of_which_many_tests_fail_is_left_out_as_a_whole() -> None:
    failed = "".join(f"ERROR tests/test_speed.py::test_{number}\n" for number in range(15))
    cure = cures(draft_of(**PYTEST), "test", Cause.TESTS_FAILED, mode=Mode.FAST, log=f"{failed}769 passed")[-1]
    assert cure.draft.steps(Mode.FAST)[0].cmd[-1] == "--ignore=tests/test_speed.py"


def test_tests_of_which_many_fail_are_not_left_out() -> None:
    log = "FAILED tests/test_a.py::test_b - no\n1 failed, 3 passed in 1s"
    found = cures(draft_of(**PYTEST), "test", Cause.TESTS_FAILED, mode=Mode.FAST, log=log)
    assert [cure.text for cure in found] == []


def test_a_set_up_command_that_fetches_names_itself_so_that_a_person_can_agree() -> None:
    cure = cures(draft_of(**PYTEST), "test", Cause.MODULE_MISSING, mode=Mode.FAST)[0]
    assert cure.text == "install the packages in each worktree with pip (worktree.setup)"
    assert [words.split()[:4] for words in cure.fetches] == [[".venv/bin/python", "-m", "pip", "install"]]
    assert cure.draft.steps(Mode.FAST)[0].cmd[0] == ".venv/bin/python"


def test_many_generated_files_are_one_pattern() -> None:
    catalogues = [f"src/a/locale/{language}/a.mo" for language in ("de", "fr", "it", "pl")]
    assert list(as_patterns(["src/a/_version.py", *catalogues])) == ["src/a/_version.py", "src/a/locale/**/*.mo"]


def test_a_generated_file_whose_path_sounds_private_is_not_copied_by_itself_or_by_a_pattern() -> None:
    private = ["conf/service-account.json", "app/local_settings.py", "app/secrets/a.json", "app/API_KEY.js"]
    made = [f"app/made/{name}.json" for name in "abcd"]
    assert list(as_patterns([*private, *made, "app/_tokenizer.so", "app/_version.py", "app/locale/a.mo"])) == [
        "app/_version.py",
        "app/_tokenizer.so",
        "app/locale/a.mo",
        *made,
    ]
