"""Problems of a contract text: collected, so that all of them are told at once."""

from __future__ import annotations

import re

MOST_PROBLEMS = 20
QUOTED = 60

_APOLOGY = re.compile(
    r"(?:i['\u2019]?m |i am |we are )?(?:very |really |so |deeply )?(?:sorry|afraid|unable|not able)\b|unfortunately\b"
    r"|(?:i|we) (?:apologi[sz]e|can ?not|can['\u2019]t|could not|won['\u2019]t|will not|must decline)\b"
    r"|as an ai\b|my apologies\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"\b(?:TBD|FIXME|XXX|TODO(?! (?:app|list|item)s?\b))\b|(?i:\blorem ipsum\b)|<\.{3}>|\{\{[^{}\n]{0,80}\}\}"
    r"|(?i:<(?:your|insert|placeholder|fill|describe|todo|tbd|add)\b[^<>\n]{0,80}>)|<[a-z]+(?: [a-z]+){1,6}>"
    r"|(?i:\[(?:your|insert|placeholder|fill|describe|todo|tbd|add)\b[^\[\]\n]{0,80}\](?!\())"
)
_CODE_SPAN = re.compile(r"`[^`\n]*`")


class Problems:
    """A list of problems that grows while a text is read."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    def add(self, problem: str) -> None:
        """Add a whole sentence, once."""
        self._found[problem] = None

    def listed(self) -> tuple[str, ...]:
        """Return the first problems, in the order in which they were found."""
        return tuple(self._found)[:MOST_PROBLEMS]


def quoted(text: str) -> str:
    """Return a piece of foreign text for a message: short, escaped, in backticks."""
    shown = ascii(text)[1:-1] if not text.isprintable() else text
    return f"`{shown[:QUOTED]}{'…' if len(shown) > QUOTED else ''}`"


def is_apology(text: str) -> bool:
    """Tell whether a text says no in place of being what was asked for."""
    return _APOLOGY.match(text.lstrip(" \n#*>_\"'")) is not None


def find_placeholders(text: str, problems: Problems, *, skip_code: bool) -> None:
    """Add a problem for each line that was left to be filled in."""
    for number, line in enumerate(text.split("\n"), start=1):
        seen = _CODE_SPAN.sub("", line) if skip_code else line
        if found := _PLACEHOLDER.search(seen):
            problems.add(f"Line {number} has the placeholder {quoted(found.group())}.")
