"""Tool `repo.read_file`: one file of a feature's tree."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.core.errors import FileNotFound
from aop.core.paths.names import canonical_path
from aop.core.structs import copy_fields
from aop.kernel.features.trees import LARGEST_READ, masked_bytes, text_or_base64
from aop.kernel.gateway.calls import Call, FeatureArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.ports.git import FileMode


class ReadFileArguments(FeatureArguments, frozen=True, kw_only=True):
    path: str
    offset: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=LARGEST_READ)] = LARGEST_READ


class FileText(Struct, frozen=True, kw_only=True):
    feature_id: str
    path: str
    tree: str
    oid: str
    mode: str
    size: int
    encoding: Literal["utf-8", "base64"]
    content: str
    offset: int
    truncated: bool


def read_file(call: Call, arguments: ReadFileArguments) -> Outcome:
    """Read a file of the feature's tree from git; no link is followed."""
    git, path = call.kernel.git, canonical_path(arguments.path)
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
    entry = git.objects.entry(state.tree, path)
    named = call.kernel.redact.mask_secrets(path)
    if entry is None or entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE):
        raise FileNotFound(f"The tree of `{state.feature_id}` has no file `{named}`.", path=named)
    shown = masked_bytes(git.objects.blob(entry.oid), call.kernel.redact)
    part = shown[arguments.offset : arguments.offset + arguments.limit]
    content, encoding = text_or_base64(part)
    return copy_fields(
        FileText,
        entry,
        feature_id=state.feature_id,
        path=named,
        tree=state.tree,
        size=len(shown),
        encoding=encoding,
        content=content,
        offset=arguments.offset,
        truncated=arguments.offset + len(part) < len(shown),
    )


TOOLS = (
    Tool(
        name="repo.read_file",
        summary="Read a file as it is in the feature's tree.",
        arguments=ReadFileArguments,
        output=FileText,
        roles=READERS,
        run=read_file,
    ),
)
