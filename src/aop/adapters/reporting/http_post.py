"""HTTP POST with a secret: no redirects, and no address in error texts."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Post(Struct, frozen=True, kw_only=True):
    """The request."""

    url: str
    headers: Mapping[str, str]
    body: bytes


class PostAnswer(Struct, frozen=True, kw_only=True):
    """The status, or the reason why there is none."""

    status: int = 0
    problem: str = ""


def post(what: Post, environ: Mapping[str, str], *, timeout_seconds: float) -> PostAnswer:
    """Send a request once, through the proxy of the environment."""
    # Imported here: few commands send a notification.
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
        return PostAnswer(problem=f"The target was not reached: {type(unreachable.reason).__name__}.")
    except (OSError, HTTPException, ValueError) as broken:
        return PostAnswer(problem=f"The target was not reached: {type(broken).__name__}.")
