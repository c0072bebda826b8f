"""Entrance: the addresses of this server, and the threads that answer."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

from starlette.datastructures import Headers

from aop.core import errors
from aop.core.redaction.redactor import Redactor
from aop.kernel.ports.handed_in import NewId

T = TypeVar("T")


class Entrance:
    """Lets requests in that name this server, and come from no page of another site."""

    def __init__(
        self,
        origin: str,
        log: Callable[[str], None],
        *,
        new_id: NewId,
        redact: Redactor,
        names: Sequence[str] = (),
        full_disk: Callable[[BaseException], str | None] = lambda _fault: None,
    ) -> None:
        """Know the names of this machine, and `names` in addition; `full_disk` tells faults of a disk without space."""
        self.new_id = new_id
        self._redact = redact
        port = origin.rpartition(":")[2]
        self._hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", *names)]
        self._origins = [f"http://{host}" for host in self._hosts]
        self._log = log
        self._full_disk = full_disk

    def check_address(self, headers: Headers) -> None:
        """Refuse what a page of another site sends. Raises: HostNotAllowed, OriginNotAllowed."""
        if headers.getlist("host") not in [[host] for host in self._hosts]:
            raise errors.HostNotAllowed("The request names another server in its header `Host`.")
        if any(origin not in self._origins for origin in headers.getlist("origin")):
            raise errors.OriginNotAllowed("The request comes from a page of another site.")

    async def in_thread(self, do: Callable[..., T], *values: object) -> T:
        """Call a function in a thread. Raises: a refusal; a fault is logged as `InternalError`, or is `DiskFull`."""
        return await asyncio.to_thread(self._log_faults, do, *values)

    def _log_faults(self, do: Callable[..., T], *values: object) -> T:
        try:
            return do(*values)
        except errors.Refusal:
            raise
        except Exception as fault:
            if full := self._full_disk(fault):
                raise errors.DiskFull(f"The disk cannot be written: {full}.") from fault
            reference = self.new_id("fault")
            self._log(f"{reference}: {self._redact(''.join(traceback.format_exception(fault)))}")
            raise errors.InternalError(
                f"AOP broke while doing this; reference `{reference}`.", reference=reference
            ) from fault
