"""Layer clauses: forbidden patterns by line, and imports between layers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from aop.core.digests import sha256_hex
from aop.core.paths.globs import matches
from aop.core.text.counts import count
from aop.core.text.search import first_match
from aop.forge.check.clauses import Clause, Code, Proof, decided, proof_at
from aop.forge.check.unread_code import unfollowed_in, unread_in
from aop.forge.contracts.shapes.boundaries import Boundaries, Forbidden, KnownViolation, Layer
from aop.forge.scan.imports.import_targets import Imports, resolve_imports

_NO_TEXT = "is not text, too large, or a link"


def layer_clauses(boundaries: Boundaries, code: Code) -> Iterator[Clause]:
    """Judge every clause of the boundaries."""
    imports = resolve_imports(code.inventory)
    for layer in boundaries.layers:
        files = [path for path in code.paths if matches(layer.glob, path)]
        matched, unread = _matched(layer.forbidden, files, code)
        unread += unfollowed_in(layer.glob, code)
        for forbidden in layer.forbidden:
            clause = _pattern(layer, forbidden, matched[forbidden.pattern], _unknown(layer, files, unread, _NO_TEXT))
            yield _with_known(clause, layer, forbidden.pattern, boundaries)
        if layer.may_import is not None:
            others = [each for each in boundaries.layers if each.name not in (layer.name, *layer.may_import)]
            for other in others:
                yield _with_known(_import(layer, other, files, imports, code), layer, "", boundaries)


def _matched(
    forbidden: Sequence[Forbidden], files: Sequence[str], code: Code
) -> tuple[Mapping[str, list[Proof]], list[str]]:
    """Return the lines that match each pattern, and the files without lines; every file is read once."""
    found: dict[str, list[Proof]] = {each.pattern: [] for each in forbidden}
    firsts = {pattern: first_match(pattern, regex=True, ignore_case=False) for pattern in found}
    unread: list[str] = []
    for path in files if found else ():
        lines = code.lines(path)
        if lines is None:
            unread.append(path)
            continue
        for pattern, first in firsts.items():
            numbered = enumerate(lines, start=1)
            found[pattern] += [proof_at(path, at, line) for at, line in numbered if first(line) is not None]
    return found, unread


def _pattern(layer: Layer, forbidden: Forbidden, proofs: Sequence[Proof], unknown: str) -> Clause:
    return Clause(
        clause=f"boundaries.{_slug(layer.name)}.pattern-{sha256_hex(forbidden.pattern.encode())[:8]}",
        kind="pattern",
        statement=f"No line of {layer.name} matches `{forbidden.pattern}`: {forbidden.reason}",
        verdict=decided(proofs, unknown=unknown),
        proofs=tuple(proofs),
        detail="" if proofs else unknown,
    )


def _import(layer: Layer, other: Layer, files: Sequence[str], imports: Imports, code: Code) -> Clause:
    inside = frozenset(files)
    proofs = [
        code.proof(edge.file, edge.line)
        for edge in imports.edges
        if edge.file in inside and edge.target not in inside and matches(other.glob, edge.target)
    ]
    parsed = {
        source.path for source in code.inventory.sources if not source.facts.error_line and not source.facts.problem
    }
    unread = [path for path in files if path not in parsed] + unfollowed_in(layer.glob, code)
    unknown = _unknown(layer, files, unread, "cannot be parsed for its imports")
    # An import of a file that nothing read leads nowhere, and would not be seen.
    unknown = unknown or _unknown(other, files, unread_in(other.glob, code), "is not read, nor an import of it")
    return Clause(
        clause=f"boundaries.{_slug(layer.name)}.imports.{_slug(other.name)}",
        kind="import",
        statement=f"{layer.name} does not import {other.name}",
        verdict=decided(proofs, unknown=unknown),
        proofs=tuple(dict.fromkeys(proofs)),
        detail="" if proofs else unknown,
    )


def _unknown(layer: Layer, files: Sequence[str], unread: Sequence[str], why: str) -> str:
    if not files and not unread:
        return f"No file matches `{layer.glob}`."
    more = f", and {count(len(unread) - 1, 'more file')}" if len(unread) > 1 else ""
    return f"`{unread[0]}` {why}{more}." if unread else ""


def _with_known(clause: Clause, layer: Layer, pattern: str, boundaries: Boundaries) -> Clause:
    """Return a clause without the violations that the contract itself accepts."""
    known = [each for each in boundaries.known_violations if _is_about(each, layer, pattern)]
    left = tuple(proof for proof in clause.proofs if not any(_covers(each, proof) for each in known))
    if len(left) == len(clause.proofs):
        return clause
    if left:
        return replace(clause, proofs=left)
    return replace(clause, verdict="accepted", detail="The contract lists it in `known_violations`.")


def _is_about(known: KnownViolation, layer: Layer, pattern: str) -> bool:
    return known.layer in ("", layer.name) and known.pattern in ("", pattern)


def _covers(known: KnownViolation, proof: Proof) -> bool:
    return known.file == proof.file or matches(known.file, proof.file)


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-").lower() or "layer"
