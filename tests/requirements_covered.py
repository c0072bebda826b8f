"""Says which requirement ids and hostile inputs the tests claim; exits with 1 when a claimed id does not exist.

With `--document`, also when an id is neither claimed nor has a reason why not in `open.tsv`, when one is claimed and
has a reason, or when the document is old.

A claim is `@pytest.mark.req("AOP-130")` or `@pytest.mark.hostile("D001")` with literal ids, read from the source
without importing it. Below `tests/hostile` the literal id of a row claims as well. A test that is skipped or expected
to fail claims nothing. Of an id that only tests claim which `make test` leaves out, the document says which target runs
them.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent
TITLES = {"req": "requirements", "hostile": "hostile inputs"}
TARGETS = ("slow", "real", "soak")


class Claim(NamedTuple):
    """An id that a test says it covers, and where it says so."""

    marker: str
    id: str
    place: str
    target: str = "test"
    """The target of the Makefile that runs the test."""


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    known = {"req": _listed("requirements.tsv"), "hostile": _listed("hostile.tsv")}
    claims = [*_marked(options.tests), *_rows(options.tests / "hostile", known["hostile"])]
    claimed = {marker: {claim.id for claim in claims if claim.marker == marker} for marker in TITLES}
    if options.json:
        print(json.dumps({marker: _by_state(ids, claimed[marker]) for marker, ids in known.items()}, indent=1))
    else:
        for marker, ids in known.items():
            _print_summary(TITLES[marker], _by_state(ids, claimed[marker]), every_id=options.list)
    unknown = [claim for claim in claims if claim.id not in known[claim.marker]]
    wrong = [f"{claim.place}: `{claim.id}` is not in the list of {TITLES[claim.marker]}." for claim in unknown]
    if options.document:
        targets = {claim.id: set[str]() for claim in claims if claim.marker == "req"}
        for claim in claims:
            targets.get(claim.id, set()).add(claim.target)
        wrong += _documented(options.document, targets, reasons=_rows_of(options.reasons), write=options.write)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tests", type=Path, default=TESTS, help="the folder whose tests are read")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--list", action="store_true", help="name every id, claimed or open")
    shape.add_argument("--json", action="store_true", help="the same, for programs")
    parser.add_argument("--document", type=Path, metavar="FILE", help="check that this file says it, with reasons")
    parser.add_argument("--write", action="store_true", help="write that file instead")
    parser.add_argument("--reasons", type=Path, default=TESTS / "requirements" / "open.tsv", metavar="FILE")
    return parser


def _listed(name: str) -> tuple[str, ...]:
    return tuple(_rows_of(TESTS / "requirements" / name))


def _marked(folder: Path) -> Iterator[Claim]:
    """Return what the markers claim; an argument that is not a literal stands there as it is written."""
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_bytes()
        if not any(f"mark.{marker}".encode() in text for marker in TITLES):
            continue
        for node, target in _running(ast.parse(text)):
            marker = _marker(node)
            if isinstance(node, ast.Call) and marker in TITLES:
                for argument in node.args:
                    yield Claim(marker, ast.unparse(argument).strip("'"), f"{path}:{argument.lineno}", target)


def _rows(folder: Path, ids: Sequence[str]) -> Iterator[Claim]:
    """Return what the rows claim; a row that is on no list claims nothing, for the suite may hold more rows."""
    listed = set(ids)
    for path in sorted(folder.rglob("*.py")):
        for node, target in _running(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Constant) and node.value in listed:
                yield Claim("hostile", str(node.value), f"{path}:{node.lineno}", target)


def _running(node: ast.AST, target: str = "test") -> Iterator[tuple[ast.AST, str]]:
    """Return the node and all that it holds, with the target that runs it, without the tests that cannot pass."""
    waiting = [(node, target)]
    while waiting:
        node, target = waiting.pop()
        markers = {_marker(marked) for marked in _marks(node)}
        if markers & {"skip", "xfail"}:
            continue
        target = next((name for name in TARGETS if name in markers), target)
        yield node, target
        waiting += [(child, target) for child in ast.iter_child_nodes(node)]


def _marks(node: ast.AST) -> Sequence[ast.AST]:
    """Return what marks a test or a class of them, and a module by its `pytestmark`."""
    if not isinstance(node, ast.Module):
        return getattr(node, "decorator_list", ())
    values = [
        each.value
        for each in node.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark"
    ]
    return [mark for value in values for mark in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])]


def _marker(node: ast.AST) -> str:
    """Return NAME of `pytest.mark.NAME` or `pytest.mark.NAME(...)`; of anything else, nothing."""
    match node.func if isinstance(node, ast.Call) else node:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="pytest"), attr="mark"), attr=name):
            return name
    return ""


def _by_state(listed: Sequence[str], claimed: set[str]) -> dict[str, list[str]]:
    return {
        "claimed": [id_ for id_ in listed if id_ in claimed],
        "open": [id_ for id_ in listed if id_ not in claimed],
    }


def _print_summary(title: str, states: dict[str, list[str]], *, every_id: bool) -> None:
    claimed, everything = states["claimed"], states["claimed"] + states["open"]
    done, all_ = Counter(map(_part, claimed)), Counter(map(_part, everything))
    parts = ", ".join(f"{part} {done[part]}/{count}" for part, count in sorted(all_.items()))
    print(f"{title} claimed by tests: {len(claimed)} of {len(everything)} ({parts})")
    if every_id:
        for state, ids in states.items():
            print(f"  {state}: {' '.join(ids) or 'none'}")


# --- docs/requirements.md --------------------------------------------------------------------------

PARTS = {
    "AOP": "the orchestrator of features, its tools and contracts",
    "GATED": "the gated workflow",
    "SCAF": "from a ticket to a merge request",
    "REV": "from a merge request to its review",
    "FORGE": "the contract-driven builder",
}

HEAD = """\
<!-- Written by `make tools`; the reasons are in tests/requirements/open.tsv. -->

# Requirements

What AOP must do, and whether a test would notice if it did not. A claim is a marker at a test,
`@pytest.mark.req("AOP-143")`: `grep -rn AOP-143 tests` says which tests those are. `make test` runs them, or the target
that is named in the last column.
"""


def _documented(path: Path, targets: dict[str, set[str]], *, reasons: dict[str, str], write: bool) -> list[str]:
    """Return what is wrong with the document, after writing it if that is asked for."""
    wrong = [
        f"`{id_}` is claimed by no test, and has no reason in tests/requirements/open.tsv."
        for id_ in _listed("requirements.tsv")
        if id_ not in targets and id_ not in reasons and _whole_part(id_) not in reasons
    ]
    wrong += [
        f"`{id_}` is claimed by a test, and has a reason why not in tests/requirements/open.tsv."
        for id_ in reasons
        if id_ in targets
    ]
    text = _document(targets, reasons)
    if write:
        path.write_text(text, encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != text:
        wrong.append(f"`{path.name}` does not say what the tests claim; run `make tools`, and commit what it changed.")
    return wrong


def _document(targets: dict[str, set[str]], reasons: dict[str, str]) -> str:
    rows = {
        id_: what.replace("|", "\\|") for id_, what in _rows_of(TESTS / "requirements" / "requirements.tsv").items()
    }
    sections = [HEAD, "\n| part | what | claimed by tests |\n|---|---|---|\n"]
    ids = {part: [id_ for id_ in rows if _part(id_) == part] for part in PARTS}
    for part, title in PARTS.items():
        sections.append(f"| {part} | {title} | {sum(id_ in targets for id_ in ids[part])} of {len(ids[part])} |\n")
    sections.append("\n## Not claimed\n\n| id | what | why not |\n|---|---|---|\n")
    for part, title in PARTS.items():
        missing = [id_ for id_ in ids[part] if id_ not in targets]
        if (whole := f"{part}-*") in reasons and missing:
            sections.append(f"| {part}, {len(missing)} ids | {title} | {reasons[whole]} |\n")
        else:
            sections += [f"| {id_} | {rows[id_]} | {reasons.get(id_, '')} |\n" for id_ in missing]
    sections.append("\n## Claimed by tests\n\n| id | what | only by |\n|---|---|---|\n")
    sections += [
        f"| {id_} | {rows[id_]} | {_only_by(targets[id_])} |\n" for part in PARTS for id_ in ids[part] if id_ in targets
    ]
    return "".join(sections)


def _only_by(targets: set[str]) -> str:
    return "" if "test" in targets else ", ".join(f"`make {name}`" for name in TARGETS if name in targets)


def _whole_part(id_: str) -> str:
    """Return the row of `open.tsv` that gives one reason for all of a part that is not built yet."""
    return f"{_part(id_)}-*"


def _rows_of(path: Path) -> dict[str, str]:
    """Return a table of ids; what else stands in a row is its text."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {id_: text for id_, _tab, text in (line.partition("\t") for line in lines)}


def _part(id_: str) -> str:
    return re.sub(r"[^A-Z].*", "", id_)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
