"""One HTTP request that carries a secret: it follows no redirect, and what is said of a failure names no address."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Post(Struct, frozen=True, kw_only=True):
    """What is sent."""

    url: str
    headers: Mapping[str, str]
    body: bytes


class PostAnswer(Struct, frozen=True, kw_only=True):
    """What came back: a status, or why nothing did."""

    status: int = 0
    problem: str = ""


def post(what: Post, environ: Mapping[str, str], *, timeout_seconds: float) -> PostAnswer:
    """Send it once, through the proxy that the environment names."""
    # Few commands tell anybody: what it takes is imported by those that do.
    from http.client import HTTPException
    from urllib import error, request

    class NoRedirect(request.HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    proxies = {
        scheme: proxy
        for scheme in ("http", "https")
        if (proxy := environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY"))
    }
    try:
        asked = request.Request(what.url, data=what.body, headers=dict(what.headers), method="POST")  # noqa: S310 - the scheme is checked by the caller
        opener = request.build_opener(request.ProxyHandler(proxies), NoRedirect)
        with opener.open(asked, timeout=timeout_seconds) as answer:
            return PostAnswer(status=answer.status)
    except error.HTTPError as refused:
        refused.close()
        return PostAnswer(status=refused.code)
    except error.URLError as unreachable:
        return PostAnswer(problem=f"It was not reached: {type(unreachable.reason).__name__}.")
    except (OSError, HTTPException, ValueError) as broken:
        return PostAnswer(problem=f"It was not reached: {type(broken).__name__}.")
