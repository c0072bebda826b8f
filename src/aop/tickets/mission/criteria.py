"""Criteria of acceptance: the list below that heading in a ticket's description."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_CRITERIA = 50
MOST_CHARS = 500

_TITLE = re.compile(r"[\W_]*(?:h[1-6]\.\s*)?[\W_]*acceptance\s+criteri(?:a|on)\b[\s*_:]*(?P<rest>.*)", re.IGNORECASE)
_ITEM = re.compile(r"\s*(?:[-*+•#]+|\(?[0-9]{1,3}[.)]|\[[ xX]\])\s+(?:\[[ xX]\]\s*)?(?P<text>\S.*)")
_HEADING = re.compile(r"\s*(?:#{1,6}\s+\S|h[1-6]\.\s|(?:\*\*|__)[^*_]+(?:\*\*|__):?\s*\Z|`{3}|~{3}|\{code)")


def acceptance_criteria(description: str) -> tuple[str, ...]:
    """Return the items of the first list below a line `Acceptance criteria`."""
    return tuple(_criteria(description.split("\n")))[:MOST_CRITERIA]


def _criteria(lines: list[str]) -> Iterator[str]:
    start = next((at for at, line in enumerate(lines) if _is_title(line)), len(lines))
    gap = False
    found = ""
    for line in lines[start + 1 :]:
        item = _ITEM.fullmatch(line)
        if not item and (_HEADING.match(line) or (found and gap and line.strip())):
            break
        gap = not line.strip()
        if item:
            yield from _item_text(found)
            found = item["text"]
        elif found and line.strip():
            found = f"{found} {line.strip()}"
    yield from _item_text(found)


def _is_title(line: str) -> bool:
    found = _TITLE.fullmatch(line)
    return found is not None and not found["rest"].strip()


def _item_text(text: str) -> Iterator[str]:
    if text:
        yield " ".join(text.split())[:MOST_CHARS]
