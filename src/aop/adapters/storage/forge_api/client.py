"""Client of another AOP's forge routes; it asks again before it reuses an answer."""

from __future__ import annotations

from threading import Lock
from typing import TypeVar
from urllib.parse import quote, urlsplit

import httpx2
import msgspec
from msgspec import Struct

from aop.core import errors
from aop.forge.projects.http_bodies import HttpRefusal

KEY_VARIABLE = "FORGEGUARD_API_KEY"
TIMEOUT = httpx2.Timeout(20.0, connect=5.0)
LARGEST_ANSWER = 32 * 1024 * 1024
MOST_KEPT = 200
LOOPBACK = ("127.0.0.1", "localhost", "::1")

B = TypeVar("B", bound=Struct)


class _Kept(Struct, frozen=True, kw_only=True):
    tag: str
    body: Struct
    never_changes: bool


class ForgeClient:
    """Reads the routes of one server; may be used from many threads."""

    def __init__(self, url: str, key: str) -> None:
        """Connect to a server with a key. Raises: InvalidCliArgs, ForgeKeyInvalid."""
        self._address = _checked_address(url)
        if not key:
            raise errors.ForgeKeyInvalid(f"`{KEY_VARIABLE}` is not set.")
        if not (key.isascii() and key.isprintable()):
            raise errors.ForgeKeyInvalid(f"`{KEY_VARIABLE}` is not a key.")
        self._http = httpx2.Client(headers={"authorization": f"Bearer {key}"}, timeout=TIMEOUT)
        self._kept: dict[str, _Kept] = {}
        self._lock = Lock()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, shape: type[B], *parts: str, never_changes: bool = False) -> B | None:
        """Return the answer of a route; None for what is unknown there, or not of the key's owner.

        A text that never changes is asked for once; everything else each time, and sent again only if it is another.
        Raises: ForgeKeyInvalid, ForgeKeyScopeMissing, TooManyRequests, ForgeUnreachable.
        """
        path = "/" + "/".join(quote(part, safe="") for part in parts)
        kept = self._kept.get(path)
        if kept is not None and kept.never_changes and isinstance(kept.body, shape):
            return kept.body
        response = self._ask(path, None if kept is None else kept.tag)
        if response.status_code == 304 and kept is not None and isinstance(kept.body, shape):
            return kept.body
        if response.status_code == 404:
            self._forget(path)
            return None
        if response.status_code != 200:
            raise self._refusal(response)
        body = self._read(response, shape)
        self._keep(path, _Kept(tag=response.headers.get("etag", ""), body=body, never_changes=never_changes))
        return body

    def _ask(self, path: str, tag: str | None) -> httpx2.Response:
        headers = {"if-none-match": tag} if tag else {}
        try:
            with self._http.stream("GET", self._address + path, headers=headers) as response:
                content = bytearray()
                for chunk in response.iter_bytes():
                    content += chunk
                    if len(content) > LARGEST_ANSWER:
                        raise errors.ForgeUnreachable(f"{self._address} sends more than {LARGEST_ANSWER} bytes.")
                return httpx2.Response(response.status_code, headers=_plain(response.headers), content=bytes(content))
        except httpx2.HTTPError as error:
            why = "did not answer in time" if isinstance(error, httpx2.TimeoutException) else "cannot be reached"
            raise errors.ForgeUnreachable(f"The AOP at {self._address} {why}.") from error

    def _read(self, response: httpx2.Response, shape: type[B]) -> B:
        try:
            return msgspec.json.decode(response.content, type=shape)
        except msgspec.DecodeError as error:
            raise errors.ForgeUnreachable(f"{self._address} answers like no AOP of this version.") from error

    def _refusal(self, response: httpx2.Response) -> errors.Refusal:
        try:
            refused = msgspec.json.decode(response.content, type=HttpRefusal).error
        except msgspec.DecodeError:
            return errors.ForgeUnreachable(f"{self._address} answers with the status {response.status_code}.")
        message = f"The AOP at {self._address} refuses: {refused.message}"
        match response.status_code:
            case 401:
                return errors.ForgeKeyInvalid(message)
            case 403:
                return errors.ForgeKeyScopeMissing(message)
            case 429:
                seconds = refused.details.get("retry_after_seconds", 1)
                return errors.TooManyRequests(message, retry_after_seconds=seconds)
            case _:
                return errors.ForgeUnreachable(message)

    def _keep(self, path: str, kept: _Kept) -> None:
        with self._lock:
            self._kept.pop(path, None)
            self._kept[path] = kept
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]

    def _forget(self, path: str) -> None:
        with self._lock:
            self._kept.pop(path, None)


def _checked_address(url: str) -> str:
    """Return the address without its end; a key is sent over TLS, or within this machine. Raises: InvalidCliArgs."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        parts.port  # noqa: B018  raises if it is not a number
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.query or parts.fragment:
        raise errors.InvalidCliArgs(
            "`--forge` takes the address of another AOP.", hint="Write it like http://127.0.0.1:4777."
        )
    if parts.scheme == "http" and host not in LOOPBACK:
        raise errors.InvalidCliArgs(
            f"The key would go to `{ascii(host[:80])[1:-1]}` unprotected.",
            hint="Use `https://`, or an SSH tunnel to 127.0.0.1.",
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/').removesuffix('/mcp')}"


def _plain(headers: httpx2.Headers) -> dict[str, str]:
    # The content is decoded already.
    return {name: value for name, value in headers.items() if name in ("etag", "content-type")}
