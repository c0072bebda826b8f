"""Model access of coding agents: through a meter, which alone holds the key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from aop.adapters.agents.turn_logs import AGENT_LOGS, fresh_log
from aop.adapters.agents.vendors.catalogue import Vendor
from aop.adapters.models.metering.tallies import Caps, MeterReport, Outcome
from aop.adapters.models.metering.usage_files import MeterCount, UsageFiles
from aop.core.errors import Fault, ProviderAuthMissing
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.kernel.gateway.calls import Kernel
from aop.kernel.record.documents.usage import Usage
from aop.kernel.record.spending import left_of_caps, uncapped_models

if TYPE_CHECKING:  # it brings a web server along
    from aop.adapters.models.metering.sessions import Meter


_REFUSED = (Outcome.PROVIDER_TOOL, Outcome.UNKNOWN_PART)
Access: TypeAlias = Callable[[Vendor, FeatureId, Role, str | None], "AbstractContextManager[Meter]"]
"""Opens a meter between a session and its model; the last argument names the variable that holds the key."""


_HOMES = {"anthropic": "anthropic.com", "openai": "openai.com", "google": "googleapis.com"}
"""The hosts of those who gave a family of protocols its name; others speak it, too."""


def model_provider_of(vendor: Vendor) -> str:
    """Return the provider of an agent's models: the family's own, or the one that the agent itself stands for."""
    endpoint = vendor.row.endpoint
    is_own = endpoint is not None and (urlsplit(endpoint.url).hostname or "").endswith(_HOMES[endpoint.family])
    return endpoint.family if endpoint is not None and is_own else vendor.provider


def key_of(vendor: Vendor, environ: Mapping[str, str], config_ref: str | None) -> str:
    """Return the user's key, which no agent sees. Raises: ProviderAuthMissing."""
    variable = config_ref or vendor.row.key_variable or ""
    key = environ.get(variable, "").strip()
    if not key:
        raise ProviderAuthMissing(
            f"The provider `{vendor.provider}` needs a key in `{variable}`, which is not set.",
            hint=f"Set `{variable}` to your key, or name another variable with --provider-config-env.",
            variable=variable,
        )
    return key


def metered_access(kernel: Kernel, root: Path, environ: Mapping[str, str]) -> Access:
    """Return a function that opens a meter, capped at the feature's remaining budget."""

    @contextmanager
    def access(vendor: Vendor, feature_id: FeatureId, role: Role, config_ref: str | None) -> Iterator[Meter]:
        from aop.adapters.models.metering.forwarder import SILENCE_SECONDS, ProviderEndpoint, RequestTimeouts
        from aop.adapters.models.metering.sessions import open_meter
        from aop.adapters.models.settings import known_prices, timeout_seconds

        policy, endpoint = kernel.config().policy, vendor.row.endpoint
        if endpoint is None:
            raise Fault(f"`{vendor.provider}` has no endpoint for a meter.")
        with kernel.record.read() as view:
            dollars, tokens = left_of_caps(view, policy.cost, feature_id)
            uncapped = uncapped_models(view)
        upstream = ProviderEndpoint(
            provider=endpoint.family,
            base_url=environ.get(endpoint.url_variable) or endpoint.url,
            key=key_of(vendor, environ, config_ref),
        )
        caps = Caps(cost_usd=dollars, tokens=tokens, uncapped=uncapped)
        usage_files, since = UsageFiles(root), kernel.now()

        def keep(usage: Usage) -> None:
            usage_files.store(feature_id, role, MeterCount(since=since, usage=usage))

        allowed = policy.execution.provider_tools == "allow"
        log = fresh_log(root / AGENT_LOGS, feature_id, f"{role}-meter")
        prices, timeouts = (
            known_prices(environ),
            RequestTimeouts(silence_seconds=timeout_seconds(environ, SILENCE_SECONDS)),
        )
        with open_meter(
            upstream, prices=prices, caps=caps, timeouts=timeouts, keep=keep, provider_tools=allowed
        ) as meter:
            try:
                yield meter
            finally:
                _log_refusals(meter.report(), log, kernel.redact)

    return access


def _log_refusals(report: MeterReport, log: Path, redact: Callable[[str], str]) -> None:
    """Log the provider's own tools that an agent asked for and did not get, and the provider's troubles."""
    lines = [
        f"Removed from {count(n, 'request')}: the provider's own tool `{name}`." for name, n in report.removed.items()
    ]
    refused = Counter(each.said for each in report.exchanges if each.outcome in _REFUSED)
    lines += [f"Refused {count(n, 'request')}: {said}" for said, n in refused.items()]
    troubles = Counter(
        (each.trouble.kind, each.trouble.status, each.trouble.words) for each in report.exchanges if each.trouble
    )
    for (kind, status, words), n in troubles.items():
        lines.append(
            f"Trouble of the provider with {count(n, 'request')}: {kind}, status {status or 'none'}: {redact(words)}"
        )
    if lines:
        log.write_text("\n".join(lines) + "\n")
