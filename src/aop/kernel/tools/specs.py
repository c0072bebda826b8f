"""The tool that finds what people want: one `spec.md` for each feature."""

from __future__ import annotations

from msgspec import Struct

from aop.core.errors import Refusal
from aop.core.ids import feature_id
from aop.kernel.calls import Arguments, Call, Kernel, Outcome, Tool
from aop.kernel.permissions import READERS
from aop.kernel.projections import FEATURES

LARGEST_SPEC = 256 * 1024
MOST_FOLDERS = 10_000


class Spec(Struct, frozen=True, kw_only=True):
    feature_id: str
    spec_path: str
    """Where it lies, from the repository's root."""


class UnusableSpec(Struct, frozen=True, kw_only=True):
    """A spec that no feature can be made of as it is."""

    spec_path: str
    """What is not plain ASCII in it stands there as an escape."""
    code: str
    """The refusal code."""
    message: str
    """The reason, as a sentence."""


class Specs(Struct, frozen=True, kw_only=True):
    specs: tuple[Spec, ...]
    """By feature id."""
    unusable: tuple[UnusableSpec, ...]
    """What a person should rename or repair."""


def discover_specs(call: Call, _arguments: Arguments) -> Outcome:
    """Return every spec of the checkout, by feature, as `feature.get_context` would read it; no link is followed."""
    found: list[Spec] = []
    unusable: list[UnusableSpec] = []
    for name in call.kernel.files.folders(FEATURES, limit=MOST_FOLDERS):
        if not call.principal.reaches(name):
            continue
        path = f"{FEATURES}/{name}/spec.md"
        try:
            if spec_text(call.kernel, name) is not None:
                found.append(Spec(feature_id=feature_id(name), spec_path=path))
        except Refusal as refusal:
            unusable.append(
                UnusableSpec(spec_path=_escaped(path), code=refusal.code, message=_escaped(refusal.message))
            )
    return Specs(specs=tuple(found), unusable=tuple(unusable))


def _escaped(text: str) -> str:
    # A name on disk may hold bytes that are no UTF-8, and an answer cannot.
    return text.encode("ascii", "backslashreplace").decode("ascii")


def spec_text(kernel: Kernel, name: str) -> str | None:
    """Return what somebody wants of a feature, without secrets; None when nobody wrote it down.

    Raises: FileNotFound if the file is a link, no plain file, or far too large.
    """
    data = kernel.files.read(f"{FEATURES}/{name}/spec.md", limit=LARGEST_SPEC)
    return None if data is None else kernel.redact.mask_secrets(data.decode(errors="replace"))


TOOLS = (
    Tool(
        name="feature.discover_specs",
        summary="Return every `agentic/features/*/spec.md` of the checkout, and those that cannot be used.",
        arguments=Arguments,
        output=Specs,
        roles=READERS,
        run=discover_specs,
    ),
)
