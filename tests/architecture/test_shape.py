"""How the source is cut: short modules, packages that hold no code, and names that say something."""

from __future__ import annotations

import ast
from pathlib import Path

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


def test_modules_fit_in_400_lines() -> None:
    long = {name for name, lines in line_counts().items() if lines > LINES}
    assert long - LONGER_FOR_A_REASON.keys() == set()


def test_packages_hold_a_docstring_and_no_code() -> None:
    assert [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("__init__.py") if not only_docstring(path)] == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if path.stem in NAMES_THAT_SAY_NOTHING] == []


def test_every_refusal_stands_in_the_one_list_of_them() -> None:
    """A narrower one elsewhere would be in the published codes only after its module was imported."""
    listed = {node.name for node in classes(SOURCE / "core" / "errors.py") if node.name != "Fault"}
    elsewhere = [
        f"{path.relative_to(SOURCE).as_posix()}: {node.name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "errors.py"
        for node in classes(path)
        if listed & {base.id for base in node.bases if isinstance(base, ast.Name)}
    ]
    assert elsewhere == []


def classes(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.ClassDef)]


def line_counts() -> dict[str, int]:
    return {
        path.relative_to(SOURCE).as_posix(): len(path.read_bytes().splitlines())
        for path in sorted(SOURCE.rglob("*.py"))
    }


def only_docstring(path: Path) -> bool:
    tree = ast.parse(path.read_bytes())
    return len(tree.body) == 1 and ast.get_docstring(tree) is not None
