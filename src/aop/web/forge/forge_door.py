"""Forge door: address, key, scope and rate of a request, before it is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response

from aop.core import errors
from aop.core.clock import timestamp
from aop.forge.projects.documents import ForgeKey
from aop.forge.projects.keys import principal_of_key, the_key
from aop.kernel.gateway.calls import Kernel, refusal_envelope
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.documents.base import revise
from aop.kernel.record.port import Snapshot
from aop.web.entrance import Entrance
from aop.web.forge.rate_limits import PER_BUILD, PER_KEY, Rate, RateLimits

LONGEST_KEY = 200
NOTED_EVERY = timedelta(minutes=1)
"""How exact the last use of a key is: a read does not write the record each time."""

_STATUSES: Mapping[type[errors.Refusal], int] = {
    errors.ForgeKeyInvalid: 401,
    errors.TokenInvalid: 401,
    errors.ForbiddenToolForRole: 403,
    errors.ForgeKeyScopeMissing: 403,
    errors.OriginNotAllowed: 403,
    errors.TerminalOnly: 403,
    errors.AlreadyAnswered: 404,
    errors.NoActiveBuild: 404,
    errors.BuildNotBegun: 404,
    errors.BuildNotSealed: 404,
    errors.NoContracts: 404,
    errors.UnknownBatch: 404,
    errors.UnknownBuildError: 404,
    errors.UnknownContract: 404,
    errors.UnknownForgeBuild: 404,
    errors.UnknownForgeKey: 404,
    errors.UnknownForgeProject: 404,
    errors.UnknownQuestion: 404,
    errors.UnknownScanRun: 404,
    errors.UnknownRoute: 404,
    errors.MethodNotAllowed: 405,
    errors.UnsupportedContentType: 415,
    errors.HostNotAllowed: 421,
    errors.TooManyRequests: 429,
    errors.InternalError: 500,
    errors.ServerStopping: 503,
    errors.DatabaseUnavailable: 503,
    errors.DiskFull: 507,
}
STATUS_OF_CODE: Mapping[str, int] = {refusal.code: status for refusal, status in _STATUSES.items()}
"""Other refusals are 400: the request has to change."""


class KeyHolder(Struct, frozen=True, kw_only=True):
    """The sender of a request."""

    key: ForgeKey
    principal: Principal


class ForgeDoor(Entrance):
    """Lets requests with a key in, and counts what comes."""

    def __init__(
        self,
        kernel: Kernel,
        origin: str,
        log: Callable[[str], None],
        *,
        per_key: Rate = PER_KEY,
        per_build: Rate = PER_BUILD,
    ) -> None:
        super().__init__(origin, log, new_id=kernel.new_id, redact=kernel.redact)
        self.kernel = kernel
        self._of_key = RateLimits(per_key, kernel.clock)
        self._of_build = RateLimits(per_build, kernel.clock)

    def holder(self, view: Snapshot, headers: Headers, scope: str) -> KeyHolder:
        """Return the sender, and count its request. Raises: ForgeKeyInvalid, ForgeKeyScopeMissing, TooManyRequests."""
        key = the_key(view, offered_key(headers))
        if scope not in key.scopes:
            raise errors.ForgeKeyScopeMissing(
                f"The key `{key.prefix}` has no scope `{scope}`.", prefix=key.prefix, scope=scope
            )
        self._of_key.count(f"key {key.prefix}")
        return KeyHolder(key=key, principal=principal_of_key(key))

    def count_build(self, build_id: str) -> None:
        """Count a request for a build of the record. Raises: TooManyRequests."""
        self._of_build.count(f"build {build_id}")

    def note_use(self, key: ForgeKey) -> None:
        """Keep when a key was last used, without a wait for the disk."""
        now = self.kernel.clock.now()
        if key.last_used > timestamp(now - NOTED_EVERY):
            return
        # What was asked for is answered also where the disk is full.
        with suppress(errors.Fault), self.kernel.record.write(durable=False) as tx:
            newest = tx.get(ForgeKey, key.prefix)
            if newest is not None:
                tx.put(revise(newest, last_used=timestamp(now)), key.prefix)


def offered_key(headers: Headers) -> str:
    """Return the key that a request brings. Raises: ForgeKeyInvalid."""
    offered = headers.getlist("authorization")
    kind, _, text = offered[0].partition(" ") if len(offered) == 1 else ("", "", "")
    if kind.lower() != "bearer" or not 0 < len(text) <= LONGEST_KEY:
        raise errors.ForgeKeyInvalid("The request has no key.")
    return text


def status_of(code: str) -> int:
    """Return the status of a refusal."""
    return STATUS_OF_CODE.get(code, 400)


def refused(refusal: errors.Refusal) -> Response:
    """Return a refusal as a response."""
    status = status_of(refusal.code)
    headers = {"cache-control": "no-store"}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status in (429, 503):
        headers["retry-after"] = str(refusal.facts.get("retry_after_seconds", 5))
    return JSONResponse(refusal_envelope(refusal).as_json(), status, headers)
