"""Templates: HTML in which every value is escaped, and nothing stays invisible."""

from __future__ import annotations

import gzip
from collections.abc import Container, Mapping
from datetime import datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from aop.core.clock import age, span_since
from aop.core.text.counts import count
from aop.core.text.visible import pieces, visible_lines, visible_name
from aop.core.version import VERSION
from aop.kernel.record.documents.usage import Spending
from aop.kernel.record.spending import marks_of

FOLDER = Path(__file__).parents[1]
STATIC = FOLDER / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    # With `no-referrer` a browser would name no origin for a form.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
COMPRESSED_FROM = 1024
_MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def render(template: str, facts: Mapping[str, Any]) -> str:
    """Return the text of a template."""
    return _environment().get_template(template).render(facts)


def html_response(request: Request, text: str, status: int = 200) -> Response:
    """Return a page, compressed if its reader can take that."""
    return _response(request, text.encode(), "text/html; charset=utf-8", HEADERS, status)


def static_response(request: Request, name: str) -> Response | None:
    """Return a file of the pages; its address changes with its content, so browsers keep it."""
    content = _static_files().get(name)
    if content is None:
        return None
    kept = {**HEADERS, "cache-control": "private, max-age=31536000, immutable"}
    return _response(request, content, f"{_MEDIA_TYPES[Path(name).suffix]}; charset=utf-8", kept)


def static_url(name: str) -> str:
    """Return the address of a file of the pages."""
    return f"/static/{sha256(_static_files()[name]).hexdigest()[:12]}/{name}"


def _response(
    request: Request, content: bytes, media_type: str, headers: Mapping[str, str], status: int = 200
) -> Response:
    sent = dict(headers)
    if len(content) >= COMPRESSED_FROM and "gzip" in request.headers.get("accept-encoding", ""):
        content, sent["content-encoding"] = gzip.compress(content, 5), "gzip"
    return Response(content, status, {**sent, "vary": "accept-encoding, aop-part"}, media_type)


@cache
def _static_files() -> Mapping[str, bytes]:
    return {file.name: file.read_bytes() for file in STATIC.iterdir() if file.suffix in _MEDIA_TYPES}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printed,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        age=_age, since=_since, counted=count, path=visible_name, marked=marked, kept=_kept, money=_money
    )
    environment.filters.update(doubts=lambda spent: marks_of(msgspec.convert(spent, Spending)))
    environment.globals.update(static_url=static_url, version=VERSION)
    return environment


def _printed(value: object) -> object:
    """Show what hides in a text; every value that a template prints comes through here."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return value if value.isascii() and value.isprintable() else visible_lines(value)


def marked(line: str) -> Markup:
    """Return one line in which characters that hide stand out."""
    parts = (
        escape(part.text) if not part.escaped else Markup('<b class="esc">{}</b>').format(part.text)
        for part in pieces(line)
    )
    return Markup("").join(parts)


def _kept(content: Markup, name: str, have: Container[str]) -> Markup:
    """Return a part of a page under its digest; without its content if the page that asks still has that."""
    digest = sha256(content.encode()).hexdigest()[:12]
    shown = Markup("") if digest in have else content
    return Markup('<div id="{}" data-keep="{}">{}</div>').format(name, digest, shown)


def _age(moment: str, now: datetime) -> Markup:
    """Return how long ago a moment was, with the moment itself for the mouse."""
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(moment, age(moment, now))


def _since(moment: str, now: datetime) -> Markup:
    """Return for how long something lasts, in a form that the page itself keeps up to date."""
    return Markup('<time datetime="{0}" title="since {0}" data-runs>{1}</time>').format(moment, span_since(moment, now))


def _money(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:.2f} USD"
