"""Prose contracts: manifesto, blueprint, stack, UI, by their headings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from aop.forge.contracts.shapes.markdown import Section, items_of, plain_title, sections_of
from aop.forge.contracts.shapes.problems import Problems
from aop.forge.contracts.types import ContractType

SHORTEST_SECTION = 20
FEWEST_PRINCIPLES = 3

REQUIRED_HEADINGS: Mapping[ContractType, tuple[str, ...]] = {
    ContractType.MANIFESTO: ("Purpose", "Principles"),
    ContractType.BLUEPRINT: ("Intent", "Features", "Architecture"),
    ContractType.STACK: ("Backend", "Frontend", "Infrastructure", "Development tools"),
    ContractType.UI: ("Design system", "Pages", "Components"),
    ContractType.BUILDER_DIRECTIVE: ("Mission", "Loop", "Rules", "Settings"),
}


class Prose(Struct, frozen=True, kw_only=True):
    """A contract of headings and sentences."""

    title: str
    sections: tuple[Section, ...]

    def lines_below(self, heading: str) -> tuple[str, ...]:
        """Return the lines of the section with this heading and of those below it; none if it is absent."""
        top = next((each for each in self.sections if plain_title(each.title) == heading.casefold()), None)
        if top is None:
            return ()
        return tuple(line for each in self.sections if top.line <= each.line <= top.end for line in each.own)


def read_prose(contract_type: ContractType, text: str, problems: Problems) -> Prose:
    """Read the headings of a contract; each required one needs a few words below it."""
    sections = sections_of(text)
    prose = Prose(title=sections[0].title if sections and sections[0].level == 1 else "", sections=sections)
    for heading in REQUIRED_HEADINGS[contract_type]:
        _check_section(prose, heading, problems)
    if contract_type is ContractType.MANIFESTO and len(_points(prose, "Principles")) < FEWEST_PRINCIPLES:
        problems.add(f"`## Principles` needs at least {FEWEST_PRINCIPLES} list items or subheadings.")
    return prose


def _check_section(prose: Prose, heading: str, problems: Problems) -> None:
    count = sum(plain_title(each.title) == heading.casefold() for each in prose.sections if each.level == 2)
    if count == 0:
        problems.add(f"The section `## {heading}` is missing.")
    elif count > 1:
        problems.add(f"The section `## {heading}` is there {count} times.")
    elif sum(len(line.strip()) for line in prose.lines_below(heading)) < SHORTEST_SECTION:
        problems.add(f"The section `## {heading}` is nearly empty.")


def _points(prose: Prose, heading: str) -> Sequence[str]:
    top = next((each for each in prose.sections if plain_title(each.title) == heading.casefold()), None)
    below = [each.title for each in prose.sections if top and top.line < each.line <= top.end]
    return [*below, *items_of(prose.lines_below(heading))]
