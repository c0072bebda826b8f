"""Run documents: how a supervisor run began, and requests to it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from aop.core.ids import FEATURE_ID_PATTERN, FeatureId
from aop.kernel.record.documents.base import Document, NonEmpty, Positive
from aop.kernel.record.documents.features import Status


class WorkRequest(Document, frozen=True, kw_only=True):
    """A feature that a person wants worked on; it stays until a supervisor has taken it."""

    kind: ClassVar[str] = "wish"

    feature_id: FeatureId
    again: bool = False
    """Whether it begins again where the kernel has it, instead of going on where its run is."""
    depends_on: tuple[FeatureId, ...] = ()
    wished_by: NonEmpty
    wished_at: NonEmpty


class Pause(Document, frozen=True, kw_only=True):
    """A pause: no new turn and no new gate begins, across restarts, until it is lifted."""

    kind: ClassVar[str] = "pause"
    all: ClassVar[str] = "*"
    """The key of the pause of everything."""

    feature_id: FeatureId | None
    """None: everything is paused."""
    paused_by: NonEmpty
    paused_at: NonEmpty


class ProviderWait(Document, frozen=True, kw_only=True):
    """The wait of all features for one provider of models, across restarts, until a moment of the wall clock.

    It stays when it is over, until a turn at the provider is answered: the next wait in a row may be longer.
    """

    kind: ClassVar[str] = "provider_wait"

    provider: NonEmpty
    until: NonEmpty
    trouble: NonEmpty
    """The provider's trouble, for a person to read."""
    number: Positive = 1
    """How many waits in a row there were, this one included."""
    features: tuple[FeatureId, ...] = ()
    """The features that wait; empty when the wait is over."""

    def reason(self, now: datetime) -> str:
        """Return why its features do not move, and until when; with the day if that is another one."""
        day, _, time = self.until[:19].partition("T")
        when = time if day == f"{now:%Y-%m-%d}" else f"{day} {time}"
        return f"Waits for {self.provider} until {when} UTC: {self.trouble}"

    def is_over(self, now: datetime) -> bool:
        """Tell whether the moment has come."""
        return datetime.fromisoformat(self.until) <= now


Name = Annotated[str, Meta(pattern=FEATURE_ID_PATTERN)]
Word = Annotated[str, Meta(min_length=1, max_length=200)]


class RunProvider(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The coding agent of a role of a run."""

    provider: Word
    """The coding agent."""
    model: Word | None = None
    """The model that was chosen; null for the provider's default."""
    provider_config_ref: Word | None = None
    """The name of the variable that holds the provider's settings; never the settings themselves."""


class RunOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The order for a run."""

    run: Word
    """The run's name."""
    started_by: Word
    """The person, or the program in their name."""
    features: Annotated[tuple[Name, ...], Meta(max_length=10_000)]
    """The features that the run starts or continues."""
    providers: Mapping[Word, RunProvider]
    """The agent of each role."""
    limits: Mapping[Word, int]
    """The limits of parallel work."""
    unfinished_gates: tuple[Name, ...] = ()
    """The features whose gates an earlier run began and did not finish."""
    failing_base: Annotated[str, Meta(max_length=2000)] = ""
    """Why the gates fail on the base branch, which a person accepted; empty if they pass."""


class PendingWork(Struct, frozen=True, kw_only=True):
    """The unfinished work when a run began (AOP-257)."""

    features: Mapping[FeatureId, Status] = {}
    """Every feature that is neither merged nor failed."""
    queued_plans: tuple[str, ...] = ()
    """The features whose plans collide and wait, in their order."""
    unfinished_gates: tuple[str, ...] = ()
    """The features whose gates an earlier run began and did not finish."""
    qa_items: Mapping[str, int] = {}
    """For how many changed files of a feature QA has not said its last word."""
    lost_locks: tuple[str, ...] = ()
    """The features that were blocked now, since a lease of theirs had ended and others got the lock."""


class RunMetadata(RunOrder, frozen=True, kw_only=True):
    """The order, the version and the configuration that a run began with."""

    started_at: str
    aop_version: str
    """The AOP that supervises."""
    config_hash: str
    """The hash of the configuration in force at the start."""
    pending: PendingWork = PendingWork()
    """The unfinished work."""


class NewestRun(Document, frozen=True, kw_only=True):
    """The run that began last; the journal tells of all of them (`run_began`)."""

    kind: ClassVar[str] = "run"
    key: ClassVar[str] = "newest"

    facts: RunMetadata
