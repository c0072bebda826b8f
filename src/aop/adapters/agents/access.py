"""Where the model of a coding agent is: behind a meter on this machine, which alone has the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from aop.adapters.agents.vendors import Vendor
from aop.adapters.metering.kept import Kept, KeptUsage
from aop.core.errors import ProviderAuthMissing
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.calls import Kernel
from aop.kernel.usage import Usage, left_of_caps

if TYPE_CHECKING:  # it brings a web server along
    from aop.adapters.metering.sessions import Meter


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
        from aop.adapters.metering.forwarding import Upstream
        from aop.adapters.metering.sessions import metered
        from aop.adapters.metering.tallies import Caps
        from aop.adapters.models.settings import known_prices

        with kernel.record.read() as view:
            dollars, tokens = left_of_caps(view, kernel.config().policy.cost, feature_id)
        upstream = Upstream(
            provider=vendor.family,
            base_url=environ.get(vendor.url_variable) or vendor.url,
            key=key_of(vendor, environ, config_ref),
        )
        caps = Caps(cost_usd=dollars, tokens=tokens)
        kept, since = KeptUsage(root), kernel.now()

        def keep(usage: Usage) -> None:
            kept.keep(feature_id, role, Kept(since=since, usage=usage))

        with metered(upstream, prices=known_prices(environ), caps=caps, keep=keep) as meter:
            yield meter

    return access
