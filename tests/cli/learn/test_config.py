"""`aop config`: each key with its value, its source, its default and its meaning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aop.adapters.config.locations import NAMES, bundled_content
from aop.adapters.config.reader import bundled_texts
from aop.core.errors import all_refusals
from aop.core.text.yaml import parse_yaml
from aop.kernel.config.loader import ConfigText, ConfigTexts, load_config
from aop.kernel.contracts.config_keys import config_keys
from aop.kernel.contracts.config_words import KEY_WORDS
from aop.kernel.contracts.environment_words import VARIABLES
from tests.world import FILES, git, make_repository, run_aop

SOURCES = Path(__file__).parents[3] / "src/aop"
POLICY = "version: 1\nworktree:\n  link: [node_modules]\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a committed policy and uncommitted agents."""
    files = {**FILES, "agentic/orchestrator/policy.yaml": POLICY}
    made = make_repository(tmp_path_factory.mktemp("config") / "repo", files)
    (made / "agentic/orchestrator/agents.yaml").write_text("version: 1\nruntime: {default_provider: claude}\n")
    return made


def test_every_key_is_listed_with_its_value_and_those_of_a_file_are_marked(root: Path) -> None:
    ran = run_aop(root, "config")
    lines = ran.out.splitlines()
    assert (ran.code, ran.err) == (0, "")
    assert lines[0] == "policy.yaml (main:agentic/orchestrator/policy.yaml)"
    assert {
        '* worktree.link: ["node_modules"]',
        "  worktree.base_branch: main",
        "agents.yaml (checkout:agentic/orchestrator/agents.yaml)",
        "* runtime.default_provider: claude",
        "  runtime.default_model: not set",
    } <= set(lines)
    assert lines[-1] == "*: set in the file. Explain a key with: aop config KEY"


def test_one_key_is_explained_in_full(root: Path) -> None:
    assert (
        run_aop(root, "config", "worktree.link").out
        == """\
worktree.link
  Files or folders of your checkout that every worktree gets a link to, such
  as `node_modules`; sandboxed steps can read them.

Value    ["node_modules"] (main:agentic/orchestrator/policy.yaml)
Default  []
Type     list of strings

Set it in agentic/orchestrator/policy.yaml, for example:
  worktree:
    link:
      - node_modules
"""
    )


def test_for_a_program_one_key_is_one_object(root: Path) -> None:
    assert run_aop(root, "config", "execution.network", "--json").json["data"] == {
        "key": "execution.network",
        "file": "policy.yaml",
        "value": "none",
        "source": "default",
        "default": "none",
        "type": "string",
        "choices": ["host", "none"],
        "description": "`none`, or `host` where a gate needs the network.",
        "item_keys": {},
        "example": "execution:\n  network: host\n",
    }


def test_an_item_of_a_list_is_explained_by_its_list(root: Path) -> None:
    assert (
        run_aop(root, "config", "worktree.setup[0].cmd").out
        == """\
worktree.setup
  What makes a worktree ready, in this order.

Value    [] (the default)
Default  []
Type     list of mappings

Each item has:
  cmd: A command that makes a worktree ready, word by word, run before its first gates.
  inputs: Globs of tracked files; a change of one runs the command again, without the network if a feature made it.
  timeout_seconds: The command's own time limit.
  network: `host`: the command and all code that it runs may use the network, to fetch packages; `none`: it may not.

Set it in agentic/orchestrator/policy.yaml, for example:
  worktree:
    setup:
      - cmd:
          - npm
          - ci
        inputs:
          - package-lock.json
"""
    )


def test_a_section_lists_its_keys(root: Path) -> None:
    ran = run_aop(root, "config", "merge_policy", "--json")
    keys = [key["key"] for key in ran.json["data"]["keys"]]
    assert "merge_policy.allowed_strategies" in keys
    assert all(key.startswith("merge_policy.") for key in keys)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("worktree.lnik", "There is no key `worktree.lnik`. Did you mean `worktree.link`?"),
        ("base_branch", "There is no key `base_branch`. Did you mean `worktree.base_branch`?"),
        ("qqqq", "There is no key `qqqq`."),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(root: Path, word: str, said: str) -> None:
    ran = run_aop(root, "config", word, "--json")
    assert (ran.code, ran.json["error"]["code"], ran.json["error"]["message"]) == (2, "invalid_cli_args", said)


def test_an_invalid_file_is_refused_with_file_line_and_key(tmp_path: Path) -> None:
    files = {**FILES, "agentic/orchestrator/policy.yaml": "version: 1\nworktree: {lnik: []}\n"}
    ran = run_aop(make_repository(tmp_path / "repo", files), "config", "--json")
    assert (ran.code, ran.json["error"]["details"]["line"]) == (4, 2)


def test_looking_changes_nothing(root: Path) -> None:
    before = git(root, "status", "--porcelain", "--ignored")
    run_aop(root, "config")
    assert git(root, "status", "--porcelain", "--ignored") == before


def test_the_environment_is_listed_without_a_value(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "config", "--environment", env={"AOP_TOKEN": "aop1.secret"})
    assert (ran.code, "aop1.secret" in ran.out) == (0, False)
    assert re.search(r"^\* AOP_TOKEN +The token of the agent that `aop mcp` serves\.$", ran.out, re.MULTILINE)


def test_every_variable_of_its_own_that_aop_reads_is_listed() -> None:
    handed_on = {"AOP_PORT_", "AOP_STEP_ID", "AOP_SANDBOX_OF", "AOP_REVIEW_INPUT"}
    named = {name for path in SOURCES.rglob("*.py") for name in re.findall(r"\bAOP_[A-Z_]+", path.read_text())}
    assert named - handed_on <= VARIABLES.keys()


def test_every_variable_that_a_person_sets_for_the_terminal_is_listed() -> None:
    paths = [*(SOURCES / "cli").rglob("*.py"), SOURCES / "adapters/machine/editor.py"]
    named = {name for path in paths for name in re.findall(r"environ\.get\(\"([A-Z_]+)\"", path.read_text())}
    assert {"COLUMNS", "EDITOR"} <= named
    assert named - {"PATH", "TERM"} <= VARIABLES.keys()


def test_every_documented_key_is_listed_and_its_example_is_accepted() -> None:
    gates = b"version: 1\nprofiles: {default: {modes: {fast: [{name: a, cmd: [sh]}], full: [], merge: []}}}\n"
    texts = ConfigTexts(gates=ConfigText(source="main:gates.yaml", content=gates))
    keys = config_keys(load_config(texts, bundled_texts()), texts, bundled_texts())
    listed = {key.key.replace("profiles.default.", "profiles.<name>.") for key in keys}
    assert {key for key in KEY_WORDS if "[]" not in key} <= listed
    assert [key.key for key in keys if not key.description] == []
    for key in keys:
        assert parse_yaml(key.example().encode()).value, key.key


def test_no_hint_and_no_default_file_names_a_page_that_an_installed_aop_does_not_bring() -> None:
    assert [refusal.code for refusal in all_refusals() if "docs/" in refusal.hint] == []
    comments = [line for name in NAMES for line in bundled_content(name).decode().splitlines() if line.startswith("#")]
    assert [line for line in comments if "docs/" in line] == []
