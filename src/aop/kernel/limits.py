"""How much of the machine one gate step may use."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Amount = Annotated[int, Meta(ge=0, le=2**62)]


class StepLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`execution.limits` of the policy; 0 is no limit."""

    memory_bytes: Amount
    processes: Amount
    file_bytes: Amount
    open_files: Amount
    tmp_bytes: Amount


NO_LIMITS = StepLimits(memory_bytes=0, processes=0, file_bytes=0, open_files=0, tmp_bytes=0)
