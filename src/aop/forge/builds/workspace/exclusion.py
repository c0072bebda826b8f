"""Exclusion: contracts stay out of the product (FORGE-058).

A file of a build may repeat what a contract lays down as code, tables and routes. It may not repeat twelve words in a
row of its prose, name a tool of forge, or name the build.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from aop.core.errors import ContractQuoted
from aop.core.ids import TreeId
from aop.core.text.counts import list_some
from aop.forge.builds.documents import BuildCycle
from aop.forge.contracts.types import FORMATS
from aop.forge.projects.batches import batch_of, contract_in
from aop.forge.projects.documents import ForgeBuild
from aop.kernel.gateway.calls import Call
from aop.kernel.ports.git import GitObjects, TreeEntry

WORDS_IN_A_ROW = 12
LARGEST_FILE = 4 * 1024 * 1024
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_FENCE = re.compile(r" {0,3}(?:`{3,}|~{3,})")

Row = tuple[str, ...]


class ContractWords(Struct, frozen=True, kw_only=True):
    """Something of a contract in a file of the product."""

    path: str
    line: int
    """The line in which it begins, from 1."""
    found: str
    """The tool, the build, or the contract whose prose it is."""


def refuse_contract_words(call: Call, cycle: BuildCycle, tree: TreeId) -> None:
    """Refuse to commit a tree of a build with a contract's words in a file. Raises: ContractQuoted."""
    found = contract_words_in(call, cycle, tree)
    if found:
        places = [f"`{call.kernel.redact(each.path)}` line {each.line} ({each.found})" for each in found]
        raise ContractQuoted(
            f"Words of the contracts, or of forge itself, are in files of the product: {list_some(places)}.",
            places=places[:100],
        )


def contract_words_in(call: Call, cycle: BuildCycle, tree: TreeId) -> tuple[ContractWords, ...]:
    """Return what the files that changed since the last commit repeat of the contracts, and did not before."""
    objects = call.kernel.git.objects
    changes = [change for change in objects.changes(objects.tree_of(cycle.head), tree) if change.new]
    with call.kernel.record.read() as view:
        build = view.get(ForgeBuild, cycle.build_id)
        batch = None if build is None else batch_of(view, build.project_id, build.batch)
        texts = (
            {}
            if batch is None
            else {
                each: contract_in(view, batch, each).content for each in batch.contracts if FORMATS[each] == "markdown"
            }
        )
    rows = {row: f"prose of {name}" for name, text in texts.items() for row in _rows(_words(_prose(text)))}
    tools = [name for name in call.kernel.tools if name.startswith("forge_")]
    return tuple(
        found
        for change in changes
        for found in words_of_contracts(
            change.path, _text(objects, change.old), _text(objects, change.new), rows, [*tools, cycle.build_id]
        )
    )


def words_of_contracts(
    path: str, old: str, new: str, rows: Mapping[Row, str], names: Sequence[str]
) -> Iterable[ContractWords]:
    """Return the first repeated prose of a file, and the first of the names, that its old content does not hold."""
    named = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names))})(?![\w-])")
    known_names = set(named.findall(old))
    name = next((each for each in named.finditer(new) if each.group() not in known_names), None)
    if name is not None:
        yield ContractWords(path=path, line=new.count("\n", 0, name.start()) + 1, found=name.group())
    known = _rows(_words(old)).keys()
    for row, place in _rows(_words(new)).items():
        if row in rows and row not in known:
            yield ContractWords(path=path, line=new.count("\n", 0, place) + 1, found=rows[row])
            return


def _rows(words: Sequence[tuple[str, int]]) -> dict[Row, int]:
    """Return every row of so many words, with the place of its first word."""
    found: dict[Row, int] = {}
    for first in range(len(words) - WORDS_IN_A_ROW + 1):
        row = tuple(word for word, _place in words[first : first + WORDS_IN_A_ROW])
        found.setdefault(row, words[first][1])
    return found


def _words(text: str) -> list[tuple[str, int]]:
    return [(match.group().casefold(), match.start()) for match in _WORD.finditer(text)]


def _prose(text: str) -> str:
    """Return a contract without fenced blocks and tables, which the product has to repeat."""
    kept, fenced = [], False
    for line in text.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.lstrip().startswith("|"):
            kept.append(line)
    return "\n".join(kept)


def _text(objects: GitObjects, entry: TreeEntry | None) -> str:
    if entry is None or objects.blob_size(entry.oid) > LARGEST_FILE:
        return ""
    return objects.blob(entry.oid).decode(errors="replace")
