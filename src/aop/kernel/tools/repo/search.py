"""Tool `repo.search`: lines of a feature's tree that hold a text."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.core.paths.names import canonical_path
from aop.core.structs import copy_fields
from aop.kernel.features.tree.tree_search import FileMatch, SearchRequest, search_tree
from aop.kernel.gateway.calls import Call, FeatureArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS

MOST_MATCHES = 1000


class SearchArguments(FeatureArguments, frozen=True, kw_only=True):
    query: Annotated[str, Meta(min_length=1, max_length=1000)]
    """The text to find, literally unless `regex` is set."""
    regex: bool = False
    """Read the query as an RE2 pattern; `^` and `$` match the ends of a line."""
    ignore_case: bool = False
    """Ignore upper and lower case."""
    paths: Annotated[tuple[str, ...], Meta(max_length=200)] = ()
    """Files and folders to search; all by default."""
    max_matches: Annotated[int, Meta(ge=1, le=MOST_MATCHES)] = 200
    """The search ends after this many lines."""


class SearchResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    tree: str
    matches: tuple[FileMatch, ...]
    """The lines that match, file by file."""
    truncated: bool
    """Whether there may be more matches; name `paths` to see the rest."""
    binary_files: int
    """How many files were not searched because they hold no text."""
    large_files: tuple[str, ...]
    """The files that were not searched because they are too large."""


def search(call: Call, arguments: SearchArguments) -> Outcome:
    """Find the lines of the feature's tree that hold a text, as `repo.read_file` shows them."""
    paths = tuple(canonical_path(path) for path in arguments.paths)
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
    found = search_tree(call.kernel, state.tree, copy_fields(SearchRequest, arguments, paths=paths))
    return copy_fields(SearchResult, found, feature_id=state.feature_id, tree=state.tree)


TOOLS = (
    Tool(
        name="repo.search",
        summary="Find the lines of the feature's files that hold a text, or match an RE2 pattern.",
        arguments=SearchArguments,
        output=SearchResult,
        roles=READERS,
        run=search,
    ),
)
