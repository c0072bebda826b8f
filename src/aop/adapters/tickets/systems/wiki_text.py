"""What AOP writes, in the wiki text of Jira Data Center: code, strong words, and nothing else that means anything."""

from __future__ import annotations

import re

# Blocks, words of code, and strong words; everything between them is plain text.
_MARKUP = re.compile(
    r"^```(?P<label>[A-Za-z0-9_+-]*)\n(?P<block>.*?)\n?```$|`(?P<code>[^`\n]+)`|\*\*(?P<strong>[^*\n]+)\*\*",
    re.MULTILINE | re.DOTALL,
)
# Macros, mentions, images and links with another text would do more than be read.
_MEANT = re.compile(r"[{}\[\]!|]")


def as_wiki(text: str) -> str:
    """Return a text of AOP's, which is Markdown of a few words, so that Jira shows it as it is meant."""
    parts = []
    at = 0
    for found in _MARKUP.finditer(text):
        parts += [_plain(text[at : found.start()]), _marked_up(found)]
        at = found.end()
    return "".join([*parts, _plain(text[at:])])


def _marked_up(found: re.Match[str]) -> str:
    if found["block"] is not None:
        opening = f"{{code:{found['label']}}}" if found["label"] else "{code}"
        # A word that would end the block early gets a break that nobody sees.
        block = found["block"].replace("{code", "{\u200bcode")
        return f"{opening}\n{block}\n{{code}}"
    if found["code"] is not None:
        return f"{{{{{_plain(found['code'])}}}}}"
    return f"*{_plain(found['strong'])}*"


def _plain(text: str) -> str:
    return _MEANT.sub(lambda sign: f"\\{sign[0]}", text)
