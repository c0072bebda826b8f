"""Settings of the person that decide how git writes files into a checkout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from aop.adapters.git.process.output import join_names, split_names
from aop.adapters.git.process.program import GitDir

_KEYS = r"^(core\.filemode|filter\..*\.(clean|smudge|process))$"


class CheckoutSettings(Struct, frozen=True, kw_only=True):
    """What git's configuration says about the files of a checkout."""

    trusts_modes: bool
    """Whether the executable bit of a file counts."""
    filters: frozenset[str]
    """The filters that are defined: programs, which AOP does not start."""


def checkout_settings(git: GitDir) -> CheckoutSettings:
    """Read the settings, of the system, the person and the repository."""
    out = git.run("config", "-z", "--get-regexp", _KEYS, fine=(0, 1)).out
    values = dict(line.partition("\n")[::2] for line in split_names(out))
    names = (key.removeprefix("filter.").rpartition(".")[0] for key in values if key.startswith("filter."))
    trusted = values.get("core.filemode", "true").lower() not in ("false", "no", "off", "0")
    return CheckoutSettings(trusts_modes=trusted, filters=frozenset(names))


def without_filters(settings: CheckoutSettings) -> tuple[str, ...]:
    """Return the options for git under which no filter starts."""
    keys = ("clean=", "smudge=", "process=", "required=false")
    return tuple(word for name in sorted(settings.filters) for key in keys for word in ("-c", f"filter.{name}.{key}"))


def filtered_paths(git: GitDir, paths: Iterable[str], settings: CheckoutSettings) -> Sequence[tuple[str, str]]:
    """Return the paths whose attributes name a defined filter, each with the filter."""
    if not settings.filters:
        return ()
    fields = split_names(git.run("check-attr", "-z", "--stdin", "filter", stdin=join_names(paths)).out)
    found = zip(fields[::3], fields[2::3], strict=True)
    return [(path, name) for path, name in found if name in settings.filters]
