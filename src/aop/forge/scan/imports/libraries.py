"""Libraries of others that a file takes from, looked for by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aop.forge.scan.file_facts import ImportFact, Language
from aop.forge.scan.imports.import_targets import TargetFinder
from aop.forge.scan.inventory import SourceFile

_SEPARATORS: Mapping[Language, str] = {"python": ".", "java": ".", "rust": "::"}


class LibraryNames:
    """The names of some libraries in each language."""

    def __init__(self, names: Mapping[Language, Sequence[str]]) -> None:
        # By the first part of their names: few imports begin with one.
        self._names: dict[Language, dict[str, list[str]]] = {}
        for language, each_name in names.items():
            found = self._names.setdefault(language, {})
            for name in each_name:
                found.setdefault(name.partition(_separator(language))[0], []).append(name)

    def taken_by(self, source: SourceFile) -> Iterator[tuple[ImportFact, str]]:
        """Yield each import of a file that takes one of the libraries, or something below it, and its name."""
        names, separator = self._names.get(source.language), _separator(source.language)
        for fact in source.facts.imports if names else ():
            alike = names.get(fact.target.partition(separator)[0]) if names else None
            name = next((each for each in alike if _takes(fact, each, separator)), "") if alike else ""
            if name:
                yield fact, name


def is_outside(source: SourceFile, fact: ImportFact, targets: TargetFinder) -> bool:
    """Tell whether an import names no file of the repository."""
    return not any(True for _ in targets.targets(source, fact))


def _separator(language: Language) -> str:
    return _SEPARATORS.get(language, "/")


def _takes(fact: ImportFact, module: str, separator: str) -> bool:
    taken = [fact.target, *(f"{fact.target}{separator}{name.partition(' as ')[0]}" for name in fact.names)]
    return any(each == module or each.startswith(module + separator) for each in taken)
