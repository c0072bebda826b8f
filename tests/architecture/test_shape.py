"""The shape of the source: short modules, small folders, plain names, first sentences that fit on a line."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "src" / "aop"
LINES = 400
LONGER_FOR_A_REASON = {
    "core/errors.py": "one small class for each code; the tree of refusals is read as one list",
}
NAMES_THAT_SAY_NOTHING = frozenset(
    f"{word}{plural}"
    for word in ("common", "data", "helper", "manager", "misc", "service", "util", "utilities")
    for plural in ("", "s")
)
ENTRIES = 12
NOUNS_IN_ING = frozenset({"accounting", "encoding", "metering", "pricing", "spending", "tool_listing", "wiring"})
FIRST_SENTENCE = 80
QUESTION_WORDS = re.compile(r"(What|Which|Where|Who|How)\b")
ONE_THING_IN_TWO_ROOMS = {
    "adapters: assembly": "each puts the parts of one system together: models, tickets",
    "adapters: database": "each is the SQLite file of one system: the engine, LOCAL",
    "adapters: failures": "each translates the failures of one remote system: models, MCP servers",
    "adapters: install": "each installs programs of one kind: coding agents, ticket servers",
    "adapters: repository": "the managed repository, and the doctor's checks of it",
    "adapters: settings": "each reads the environment variables of one system: models, tickets",
    "forge: documents": "the documents of projects, and those of their builds",
    "kernel: checks": "each checks one kind of input: configuration, plans, patches",
    "kernel: collisions": "the rule, and the tool that reports it",
    "kernel: gate_runs": "the document, and the rule that makes one",
    "kernel: list": "the tools `gates.list` and `inbox.list`",
    "kernel: locks": "lock documents, the port of file locks, and the tools that take locks",
    "kernel: merge": "the rule, and the tool `feature.ready_to_merge`",
    "kernel: proposals": "answers of agents: how they are read, and how their patches are stored",
    "kernel: qa_index": "the rule, and the tool that reads it",
    "kernel: questions": "the document, and the rule that puts one to a person",
    "kernel: specs": "the document, the rule, and the tool",
    "kernel: status": "the tools `gates.status` and `repo.status`",
    "kernel: usage": "the document, and the tool that reports it",
    "kernel: worktree_extras": "the port, and the rule that uses it",
    "tickets: agentic": "one flow for each kind of ticket work: review, scaffold",
    "tickets: pipeline": "one flow for each kind of ticket work: review, scaffold",
    "tickets: prompt": "one prompt for each kind of ticket work: review, scaffold",
    "tickets: texts": "one set of texts for each kind of ticket work: review, scaffold",
}


def test_modules_fit_in_400_lines() -> None:
    long = {name for name, lines in line_counts().items() if lines > LINES}
    assert long - LONGER_FOR_A_REASON.keys() == set()


def test_packages_hold_a_docstring_and_no_code() -> None:
    assert [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("__init__.py") if not only_docstring(path)] == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if path.stem in NAMES_THAT_SAY_NOTHING] == []


def test_folders_have_at_most_12_entries() -> None:
    crowded = {str(folder.relative_to(SOURCE)): count for folder, count in entry_counts().items() if count > ENTRIES}
    assert crowded == {}


def test_no_module_is_named_for_a_gesture() -> None:
    gestures = {path.stem for path in SOURCE.rglob("*.py") if path.stem.endswith("ing")} - NOUNS_IN_ING
    assert gestures == set()


def test_a_module_begins_with_what_it_is_in_80_characters() -> None:
    unnamed = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if len(first := first_sentence(path)) > FIRST_SENTENCE or QUESTION_WORDS.match(first)
    }
    assert unnamed == set()


def test_a_name_stands_for_one_thing_in_a_top_level_package() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE)
        if path.name == "__init__.py":
            continue
        public = [name for name in outline(path).classes if not name.startswith("_")]
        for each in {path.stem, *public}:
            homes[f"{name.parts[0]}: {each}"].append(name.as_posix())
    shared = {name: modules for name, modules in homes.items() if len(modules) > 1}
    assert {name: modules for name, modules in shared.items() if name not in ONE_THING_IN_TWO_ROOMS} == {}


def test_a_tool_of_the_kernel_uses_no_other_tool() -> None:
    """What two of them need is a rule, and stands below them."""
    texts = {_module(path): path.read_text() for path in (SOURCE / "kernel" / "tools").rglob("*.py")}
    tools = [name for name, text in texts.items() if "\nTOOLS = " in text]
    assert [(user, used) for user, text in texts.items() for used in tools if f"from {used} import" in text] == []


def _module(path: Path) -> str:
    return ".".join(("aop", *path.relative_to(SOURCE).with_suffix("").parts))


def test_every_refusal_stands_in_the_one_list_of_them() -> None:
    """A narrower one elsewhere would be in the published codes only after its module was imported."""
    listed = outline(SOURCE / "core" / "errors.py").classes.keys() - {"Fault"}
    elsewhere = [
        f"{path.relative_to(SOURCE).as_posix()}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "errors.py"
        for name, bases in outline(path).classes.items()
        if listed & bases
    ]
    assert elsewhere == []


class Outline(NamedTuple):
    """What these tests want to know of a module."""

    docstring: str
    statements: int
    classes: dict[str, frozenset[str]]
    """Each class, also one inside of a function, with the names of its bases."""


@cache
def outline(path: Path) -> Outline:
    text = path.read_bytes()
    tree = ast.parse(text)
    # To walk a module takes longer than to parse it, and many have no class.
    nodes = ast.walk(tree) if b"class " in text else ()
    classes = defaultdict[str, frozenset[str]](frozenset)
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            classes[node.name] |= {base.id for base in node.bases if isinstance(base, ast.Name)}
    return Outline(docstring=ast.get_docstring(tree) or "", statements=len(tree.body), classes=dict(classes))


def entry_counts() -> dict[Path, int]:
    folders = [path for path in SOURCE.rglob("*") if path.is_dir() and path.name != "__pycache__"]
    return {folder: sum(is_entry(path) for path in folder.iterdir()) for folder in folders}


def is_entry(path: Path) -> bool:
    return path.name not in ("__init__.py", "__pycache__") and not path.name.startswith(".")


def first_sentence(path: Path) -> str:
    return re.split(r"(?<=[.!?])\s", " ".join(outline(path).docstring.split()), maxsplit=1)[0]


def line_counts() -> dict[str, int]:
    return {
        path.relative_to(SOURCE).as_posix(): len(path.read_bytes().splitlines())
        for path in sorted(SOURCE.rglob("*.py"))
    }


def only_docstring(path: Path) -> bool:
    return outline(path).statements == 1 and outline(path).docstring != ""
