"""What the record keeps of a run of the supervisor: who began it, with which agents, under which configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from aop.core.ids import FEATURE_ID_PATTERN
from aop.kernel.documents import Document

Word = Annotated[str, Meta(min_length=1, max_length=200)]


class RunProvider(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which coding agent works in a role of a run."""

    provider: Word
    """The coding agent."""
    model: Word | None = None
    """The model that was asked for; null when nobody said."""
    provider_config_ref: Word | None = None
    """The name of the variable that holds the provider's settings; never the settings themselves."""


class RunOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run begins with."""

    run: Word
    """The run's name."""
    started_by: Word
    """The person, or the program in their name."""
    features: Annotated[tuple[Annotated[str, Meta(pattern=FEATURE_ID_PATTERN)], ...], Meta(max_length=10_000)]
    """What the run begins with, and what it goes on with."""
    providers: Mapping[Word, RunProvider]
    """Who works in which role."""
    limits: Mapping[Word, int]
    """How much goes on at once."""


class RunMetadata(RunOrder, frozen=True, kw_only=True):
    """What a run began with, and under what."""

    started_at: str
    aop_version: str
    """The AOP that supervises."""
    config_hash: str
    """The hash of the configuration in force at the start."""


class NewestRun(Document, frozen=True, kw_only=True):
    """The run that began last; the journal tells of all of them (`run_began`)."""

    kind: ClassVar[str] = "run"
    key: ClassVar[str] = "newest"

    facts: RunMetadata
