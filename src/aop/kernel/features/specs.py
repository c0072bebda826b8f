"""Specs: the file in which a person says what a feature should do."""

from __future__ import annotations

import re
from collections.abc import Mapping

from aop.core.errors import InvalidFeatureSlug, SpecIngestFailed
from aop.core.ids import FeatureId, feature_id
from aop.core.text.front_matter import split_front_matter
from aop.core.text.json import MalformedText
from aop.core.text.yaml import parse_yaml
from aop.kernel.gateway.calls import Kernel
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.specs import SpecText
from aop.kernel.record.port import Transaction
from aop.kernel.record.projections import FEATURES

LARGEST_SPEC = 256 * 1024
LONGEST_TITLE = 120
_HEADING = re.compile(r"^#{1,3}\s+(?P<title>\S.*?)\s*#*\s*$", re.MULTILINE)


def spec_path(feature_id: str) -> str:
    """Return the path of a feature's spec, from the repository's root."""
    return f"{FEATURES}/{feature_id}/spec.md"


def spec_text(kernel: Kernel, feature_id: str) -> str | None:
    """Return a feature's spec without secrets, or None. Raises: FileNotFound for a link, a folder or a huge file."""
    data = kernel.files.read(spec_path(feature_id), limit=LARGEST_SPEC)
    if data is not None:
        return kernel.redact.mask_secrets(data.decode(errors="replace"))
    return _text_of_others(kernel, feature_id) if kernel.is_shared else None


def share_spec(tx: Transaction, kernel: Kernel, feature_id: FeatureId) -> None:
    """Store the text of a spec for other machines, if there are any."""
    text = spec_text(kernel, feature_id) if kernel.is_shared else None
    known = tx.get(SpecText, feature_id)
    if text is not None and (known is None or known.text != text):
        tx.put(SpecText(version=next_version(known), feature_id=feature_id, text=text), feature_id)


def _text_of_others(kernel: Kernel, feature_id: str) -> str | None:
    with kernel.record.read() as view:
        known = view.get(SpecText, feature_id)
    return None if known is None else known.text


def title_in(text: str) -> str:
    """Return the first heading of a spec, shortened; empty without one."""
    found = _HEADING.search(text)
    title = found["title"] if found else ""
    return title if len(title) <= LONGEST_TITLE else f"{title[:LONGEST_TITLE]}..."


def dependencies_of(name: FeatureId, text: str) -> tuple[FeatureId, ...]:
    """Return the features that a spec depends on. Raises: SpecIngestFailed."""
    if not text.startswith("---\n"):
        return ()
    try:
        front = parse_yaml(split_front_matter(text.encode())[0]).value
    except MalformedText as error:
        raise SpecIngestFailed(f"The front matter of the spec `{name}` is invalid: {error}.") from error
    named = front.get("depends_on", []) if isinstance(front, Mapping) else []
    words = [named] if isinstance(named, str) else named
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise SpecIngestFailed(f"`depends_on` of the spec `{name}` must be a list of feature ids.", feature_id=name)
    try:
        return tuple(feature_id(str(word)) for word in words)
    except InvalidFeatureSlug as invalid:
        raise SpecIngestFailed(f"`depends_on` of the spec `{name}`: {invalid.message}", feature_id=name) from invalid
