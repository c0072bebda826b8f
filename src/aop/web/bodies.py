"""Bodies of requests, read up to a size and within a time."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from aop.core.errors import InvalidArguments, UnsupportedContentType

BODY_SECONDS = 10.0
MOST_FIELDS = 50


async def read_body(request: Request, media_type: str, *, largest: int) -> bytes:
    """Return the body of a request of one media type. Raises: UnsupportedContentType, InvalidArguments."""
    kind = request.headers.get("content-type", media_type).partition(";")[0].strip().lower()
    if kind != media_type:
        raise UnsupportedContentType(f"The content type is not `{media_type}`.")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > largest:
                    raise InvalidArguments(f"The body is larger than {largest} bytes.")
    except (TimeoutError, ClientDisconnect) as error:
        raise InvalidArguments(f"The body did not arrive within {BODY_SECONDS:.0f} seconds.") from error
    return bytes(body)


def form_fields(body: bytes) -> dict[str, str]:
    """Return the fields of a form. Raises: InvalidArguments."""
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise InvalidArguments("The form cannot be read.") from error
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise InvalidArguments("A field of the form is there twice.")
    # Browsers end the lines of a text with two characters.
    return {name: value.replace("\r\n", "\n") for name, value in fields.items()}
