"""Wiki text of Jira Data Center, from Markdown with code and bold words only."""

from __future__ import annotations

import re

# Code blocks, inline code and bold words; everything between them is plain text.
_MARKUP = re.compile(
    r"^```(?P<label>[A-Za-z0-9_+-]*)\n(?P<block>.*?)\n?```$|`(?P<code>[^`\n]+)`|\*\*(?P<strong>[^*\n]+)\*\*",
    re.MULTILINE | re.DOTALL,
)
# Characters of macros, mentions, images and links.
_SPECIAL = re.compile(r"[{}\[\]!|]")


def wiki_text(text: str) -> str:
    """Return a Markdown text as wiki text."""
    parts = []
    at = 0
    for found in _MARKUP.finditer(text):
        parts += [_plain(text[at : found.start()]), _wiki_markup(found)]
        at = found.end()
    return "".join([*parts, _plain(text[at:])])


def _wiki_markup(found: re.Match[str]) -> str:
    if found["block"] is not None:
        opening = f"{{code:{found['label']}}}" if found["label"] else "{code}"
        # An invisible break keeps the text from closing the block.
        block = found["block"].replace("{code", "{\u200bcode")
        return f"{opening}\n{block}\n{{code}}"
    if found["code"] is not None:
        return f"{{{{{_plain(found['code'])}}}}}"
    return f"*{_plain(found['strong'])}*"


def _plain(text: str) -> str:
    return _SPECIAL.sub(lambda sign: f"\\{sign[0]}", text)
