"""Metrics: figures of repositories, queues and workers as Prometheus reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from aop.core.version import VERSION
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.usage import Spending
from aop.kernel.record.platforms import Fleet

WORKER_STATES = ("live", "draining", "gone")
METRICS = "/metrics"
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]


class Gauge(Struct, frozen=True, kw_only=True):
    """One figure, with a sample for each set of labels; all of them can rise and fall."""

    name: str
    help: str
    samples: Sequence[tuple[Labels, float]]


class RepositoryFigures(Struct, frozen=True, kw_only=True):
    """The figures of one repository."""

    name: str
    statuses: Mapping[str, int]
    """How many features have each status."""
    questions: int
    is_led: bool
    spent: Spending


def metrics_text(gauges: Iterable[Gauge]) -> str:
    """Return gauges in the text format of Prometheus."""
    lines = []
    for gauge in gauges:
        lines += [f"# HELP {gauge.name} {_escaped(gauge.help)}", f"# TYPE {gauge.name} gauge"]
        lines += [f"{gauge.name}{_labels(labels)} {_number(value)}" for labels, value in gauge.samples]
    return "".join(f"{line}\n" for line in lines)


def build_gauge() -> Gauge:
    """Return the gauge that names the version."""
    return Gauge(name="aop_build_info", help="The version of AOP that answers.", samples=[({"version": VERSION}, 1)])


def repository_gauges(repositories: Sequence[RepositoryFigures]) -> list[Gauge]:
    """Return the figures of repositories."""

    def of_each(name: str, words: str, value: Mapping[str, float | None]) -> Gauge:
        samples = [({"repository": key}, known) for key, known in value.items() if known is not None]
        return Gauge(name=name, help=words, samples=samples)

    spent = {each.name: each.spent for each in repositories}
    return [
        Gauge(name="aop_repositories", help="Repositories that the token opens.", samples=[({}, len(repositories))]),
        Gauge(
            name="aop_features",
            help="Features by their status.",
            samples=[
                ({"repository": each.name, "status": status.value}, each.statuses.get(status.value, 0))
                for each in repositories
                for status in Status
            ],
        ),
        of_each("aop_questions_open", "Questions that wait for a person.", {r.name: r.questions for r in repositories}),
        of_each("aop_leader_live", "1 while a supervisor leads it.", {r.name: int(r.is_led) for r in repositories}),
        of_each("aop_turns", "Turns of agents.", {name: each.turns for name, each in spent.items()}),
        of_each(
            "aop_cost_usd",
            "Known cost of the turns, in US dollars; absent while no turn has a known cost.",
            {name: each.cost_usd.known for name, each in spent.items()},
        ),
        of_each(
            "aop_cost_unknown_turns",
            "Turns whose cost is not known.",
            {name: each.cost_usd.unknown_turns for name, each in spent.items()},
        ),
    ]


def fleet_gauges(fleet: Fleet) -> list[Gauge]:
    """Return the figures of queues and workers."""
    states = Counter(worker.state for worker in fleet.workers)
    places = sum(worker.places for worker in fleet.workers if worker.state != "gone")

    def of_queues(name: str, words: str, value: Mapping[str, float]) -> Gauge:
        return Gauge(name=name, help=words, samples=[({"queue": queue}, number) for queue, number in value.items()])

    def alone(name: str, words: str, value: float) -> Gauge:
        return Gauge(name=name, help=words, samples=[({}, value)])

    queues = fleet.queues
    return [
        of_queues("aop_queue_waiting", "Runs that wait for a worker.", {each.name: each.waiting for each in queues}),
        of_queues("aop_queue_running", "Runs on a worker.", {each.name: each.running for each in queues}),
        of_queues(
            "aop_queue_oldest_seconds",
            "Age of the oldest run that waits; 0 without one.",
            {each.name: each.oldest_seconds for each in queues},
        ),
        Gauge(
            name="aop_workers",
            help="Workers by their state.",
            samples=[({"state": state}, states[state]) for state in WORKER_STATES],
        ),
        alone("aop_worker_places", "Places of the workers that are not gone.", places),
        alone("aop_worker_places_busy", "Places that are taken.", sum(worker.busy for worker in fleet.workers)),
        alone("aop_runs_stranded", "Runs of a shape that no worker serves.", fleet.stranded),
    ]


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
