"""What a model wrote, as it may be published: it calls nobody, commands nothing, and loads nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from aop.core.errors import ToolCallDenied
from aop.core.redaction.redactor import Redactor

MOST_CHARS = 10_000
BREAK = "\u200b"
"""Nothing is seen of it, and what it stands in is no longer a command, a mention or a reference."""

# A line that begins with `/` is a quick action of GitLab; bots listen to `bors`, `@name` and the like.
_COMMANDS = re.compile(r"^(\s*(?:[>*+-]\s*)*)/(?=[A-Za-z])", re.MULTILINE)
_BOTS = re.compile(r"\b(bors|homu|marge)(?=[\s:]+\w)", re.IGNORECASE)
_MENTIONS = re.compile(r"(?<![\w.])@(?=[\w-])")
_WIKI_MENTIONS = re.compile(r"\[(?=[~^])")
_REFERENCES = re.compile(r"(?<![\w&])([#!&])(?=\d)")
_LOADING = "a|audio|embed|form|iframe|img|input|link|meta|object|script|style|svg|video"
_TAGS = re.compile(rf"<(?=/?(?:{_LOADING})\b)", re.IGNORECASE)
_MACROS = re.compile(r"\{(?=[a-z]+(?::[^}\n]*)?\})")
_IMAGES = re.compile(r"!\[([^\]\n]*)\]\([^)\n]*\)|!(?:https?:)?//[^!\s]+!")
_LINKS = re.compile(r"\[([^\]\n]*)\]\(\s*<?((?:[a-z][a-z0-9+.-]*:|//)[^)\s>]*)[^)\n]*\)", re.IGNORECASE)
_ADDRESSES = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s<>\"'`)\]]+|(?<![\w/:])//[\w-]+\.[^\s<>\"'`)\]]+", re.IGNORECASE)


def harmless(text: str, hosts: Collection[str] = ()) -> str:
    """Return a text without images, without links but to these hosts, and without what others' programs act on."""
    text = _IMAGES.sub(lambda found: f"{found[1] or ''} (image removed)".strip(), text)
    text = _LINKS.sub(lambda found: found[0] if _is_known(found[2], hosts) else found[1], text)
    text = _ADDRESSES.sub(lambda found: found[0] if _is_known(found[0], hosts) else "(link removed)", text)
    text = _COMMANDS.sub(rf"\1/{BREAK}", text)
    for pattern in (_MENTIONS, _WIKI_MENTIONS, _REFERENCES, _TAGS, _MACROS, _BOTS):
        text = pattern.sub(lambda found: f"{found[0]}{BREAK}", text)
    cut = len(text) - MOST_CHARS
    return f"{text[:MOST_CHARS]}\n({cut} characters were cut off)" if cut > 0 else text


def without_secrets(text: str, redact: Redactor) -> str:
    """Return a text that a model wants to publish.

    Raises: ToolCallDenied, with the rule and never with the secret.
    """
    found = redact.secrets_in(text)
    if found:
        raise ToolCallDenied(
            f"The text holds a secret (rule `{found[0].rule}`) and is not published.", hint="Write it without."
        )
    return redact(text)


def host_of(url: str) -> str:
    """Return the host that an address leads to; where it has none, an empty text."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _is_known(url: str, hosts: Collection[str]) -> bool:
    host = host_of(url)
    return bool(host) and host in hosts
