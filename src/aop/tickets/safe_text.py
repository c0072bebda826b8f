"""Safe text: a model's text without commands, mentions, images and foreign links."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from aop.core.errors import ToolCallDenied
from aop.core.redaction.redactor import Redactor

MOST_CHARS = 10_000
BREAK = "\u200b"
"""An invisible character that breaks a command, a mention or a reference."""

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


def harmless_text(text: str, hosts: Collection[str] = ()) -> str:
    """Return a text without images, links to other hosts, and words that programs act on."""
    text = _IMAGES.sub(lambda found: f"{found[1] or ''} (image removed)".strip(), text)
    text = _LINKS.sub(lambda found: found[0] if _is_known(found[2], hosts) else found[1], text)
    text = _ADDRESSES.sub(lambda found: found[0] if _is_known(found[0], hosts) else "(link removed)", text)
    text = _COMMANDS.sub(rf"\1/{BREAK}", text)
    for pattern in (_MENTIONS, _WIKI_MENTIONS, _REFERENCES, _TAGS, _MACROS, _BOTS):
        text = pattern.sub(lambda found: f"{found[0]}{BREAK}", text)
    cut = len(text) - MOST_CHARS
    return f"{text[:MOST_CHARS]}\n({cut} characters omitted)" if cut > 0 else text


def without_secrets(text: str, redact: Redactor) -> str:
    """Return a text after the check for secrets. Raises: ToolCallDenied, which names the rule and never the secret."""
    found = redact.secrets_in(text)
    if found:
        raise ToolCallDenied(
            f"The text contains a secret (rule `{found[0].rule}`) and was not published.", hint="Remove the secret."
        )
    return redact(text)


def host_of(url: str) -> str:
    """Return the host of an address, or an empty text."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _is_known(url: str, hosts: Collection[str]) -> bool:
    host = host_of(url)
    return bool(host) and host in hosts
