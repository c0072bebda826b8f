"""Says which requirement ids and hostile inputs the tests claim; exits with 1 when a claimed id does not exist.

With `--document`, also when an id of the tools and contracts is neither claimed nor has a reason, or the document is
old.

A claim is `@pytest.mark.req("AOP-130")` or `@pytest.mark.hostile("D001")` with literal ids, read from the source
without importing it. Below `tests/hostile` the literal id of a row claims as well. A test that is skipped or expected
to fail claims nothing.
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


class Claim(NamedTuple):
    """An id that a test says it covers, and where it says so."""

    marker: str
    id: str
    place: str


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
        wrong += _documented(options.document, claimed["req"], reasons=_rows_of(options.reasons), write=options.write)
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
        for node in _running(ast.parse(path.read_bytes())):
            marker = _marker(node)
            if isinstance(node, ast.Call) and marker in TITLES:
                for argument in node.args:
                    yield Claim(marker, ast.unparse(argument).strip("'"), f"{path}:{argument.lineno}")


def _rows(folder: Path, listed: Sequence[str]) -> Iterator[Claim]:
    """Return what the rows claim; a row that is on no list claims nothing, for the suite may hold more rows."""
    for path in sorted(folder.rglob("*.py")):
        for node in _running(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Constant) and node.value in listed:
                yield Claim("hostile", str(node.value), f"{path}:{node.lineno}")


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Return the node and all that it holds, without the tests that cannot pass."""
    if any(_marker(decorator) in ("skip", "xfail") for decorator in getattr(node, "decorator_list", ())):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _running(child)


def _marker(node: ast.AST) -> str:
    """Return NAME of `pytest.mark.NAME` or `pytest.mark.NAME(...)`; of anything else, nothing."""
    named = node.func if isinstance(node, ast.Call) else node
    if isinstance(named, ast.Attribute) and ast.unparse(named.value) == "pytest.mark":
        return named.attr
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

DOCUMENTED = (
    *(f"AOP-{number}" for number in range(143, 336)),
    *(f"GATED-{number:02}" for number in range(1, 111)),
)
"""The tools and what they rest on, the supervisor and its command line, the contracts, and the gated workflow."""

HEAD = """\
<!-- Written by `make tools`; the reasons are in tests/requirements/open.tsv. -->

# Requirements

What AOP's tools, supervisor and contracts (AOP-143 to 335) and the gated workflow (GATED-01 to 110) must do, and
whether a test would notice if they did not. A claim is a marker at a test, `@pytest.mark.req("AOP-143")`:
`grep -rn AOP-143 tests` says which tests those are.
"""


def _documented(path: Path, claimed: set[str], *, reasons: dict[str, str], write: bool) -> list[str]:
    """Return what is wrong with the document, after writing it if that is asked for."""
    wrong = [
        f"`{id_}` is claimed by no test, and has no reason in tests/requirements/open.tsv."
        for id_ in DOCUMENTED
        if id_ not in claimed and id_ not in reasons
    ]
    text = _document(claimed, reasons)
    if write:
        path.write_text(text, encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != text:
        wrong.append(f"`{path.name}` does not say what the tests claim; run `make tools`, and commit what it changed.")
    return wrong


def _document(claimed: set[str], reasons: dict[str, str]) -> str:
    what = _rows_of(TESTS / "requirements" / "requirements.tsv")
    shown = [(id_, what[id_].replace("|", "\\|")) for id_ in DOCUMENTED]
    proven = [f"| {id_} | {text} |\n" for id_, text in shown if id_ in claimed]
    missing = [f"| {id_} | {text} | {reasons.get(id_, '')} |\n" for id_, text in shown if id_ not in claimed]
    return (
        f"{HEAD}\n## Not claimed: {len(missing)} of {len(shown)}\n\n"
        f"| id | what | why not |\n|---|---|---|\n{''.join(missing)}"
        f"\n## Claimed by tests: {len(proven)} of {len(shown)}\n\n| id | what |\n|---|---|\n{''.join(proven)}"
    )


def _rows_of(path: Path) -> dict[str, str]:
    """Return a table of ids; what else stands in a row is its text."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {id_: text for id_, _tab, text in (line.partition("\t") for line in lines)}


def _part(id_: str) -> str:
    return re.sub(r"[^A-Z].*", "", id_)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
