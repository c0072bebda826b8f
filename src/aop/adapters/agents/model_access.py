"""Where the model of a coding agent is: behind a meter on this machine, which alone has the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from aop.adapters.agents.turn_logs import AGENT_LOGS, fresh_log
from aop.adapters.agents.vendors.catalogue import Vendor
from aop.adapters.models.metering.tallies import Caps, MeterReport, Outcome
from aop.adapters.models.metering.usage_files import MeterCount, UsageFiles
from aop.core.errors import ProviderAuthMissing
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.gateway.calls import Kernel
from aop.kernel.record.documents.usage import Usage
from aop.kernel.record.spending import left_of_caps

if TYPE_CHECKING:  # it brings a web server along
    from aop.adapters.models.metering.sessions import Meter


Access: TypeAlias = Callable[[Vendor, FeatureId, Role, str | None], "AbstractContextManager[Meter]"]
"""Puts a meter between a session of a role and its model; the last is the variable that holds the key."""


def key_of(vendor: Vendor, environ: Mapping[str, str], config_ref: str | None) -> str:
    """Return the user's key, which no agent gets to see.

    Raises: ProviderAuthMissing.
    """
    variable = config_ref or vendor.key_variable
    key = environ.get(variable, "").strip()
    if not key:
        raise ProviderAuthMissing(
            f"The provider `{vendor.provider}` takes its key from `{variable}`, which is not set.",
            hint=f"Set `{variable}` to your key, or name another variable: `--provider-config-env`.",
            variable=variable,
        )
    return key


def metered_access(kernel: Kernel, root: Path, environ: Mapping[str, str]) -> Access:
    """Return what puts a meter between a session and its model, with what the feature may still use as its caps."""

    @contextmanager
    def access(vendor: Vendor, feature_id: FeatureId, role: Role, config_ref: str | None) -> Iterator[Meter]:
        from aop.adapters.models.metering.forwarder import ProviderEndpoint
        from aop.adapters.models.metering.sessions import open_meter
        from aop.adapters.models.settings import known_prices

        policy = kernel.config().policy
        with kernel.record.read() as view:
            dollars, tokens = left_of_caps(view, policy.cost, feature_id)
        upstream = ProviderEndpoint(
            provider=vendor.family,
            base_url=environ.get(vendor.url_variable) or vendor.url,
            key=key_of(vendor, environ, config_ref),
        )
        caps = Caps(cost_usd=dollars, tokens=tokens)
        usage_files, since = UsageFiles(root), kernel.now()

        def keep(usage: Usage) -> None:
            usage_files.store(feature_id, role, MeterCount(since=since, usage=usage))

        allowed = policy.execution.provider_tools == "allow"
        log = fresh_log(root / AGENT_LOGS, feature_id, f"{role}-meter")
        prices = known_prices(environ)
        with open_meter(upstream, prices=prices, caps=caps, keep=keep, provider_tools=allowed) as meter:
            try:
                yield meter
            finally:
                _log_refused_tools(meter.report(), log)

    return access


def _log_refused_tools(report: MeterReport, log: Path) -> None:
    """Write down what an agent asked its provider to do, and did not get."""
    lines = [f"Taken out of requests: the provider's own tool `{name}` ({n})." for name, n in report.removed.items()]
    refused = report.outcomes.get(Outcome.PROVIDER_TOOL)
    if refused:
        lines.append(f"Refused: requests that would have the provider reach out for the agent ({refused}).")
    if lines:
        log.write_text("\n".join(lines) + "\n")
