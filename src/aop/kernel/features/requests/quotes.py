"""Quotes: the lines or the clause that a comment is about, as the person saw them."""

from __future__ import annotations

import msgspec

from aop.core.errors import Fault, FileNotFound, InvalidArguments
from aop.core.ids import ObjectId, TreeId
from aop.core.paths.names import canonical_path
from aop.core.text.counts import count
from aop.core.text.suggestions import did_you_mean
from aop.kernel.features.requests.change_requests import ChangeRequest
from aop.kernel.features.requests.clauses import clauses_of
from aop.kernel.features.requests.comment_places import range_of
from aop.kernel.features.trees import masked_bytes
from aop.kernel.gateway.calls import Kernel
from aop.kernel.ports.git import FileMode, TreeEntry
from aop.kernel.record.documents.plans import Plan

LARGEST_QUOTE = 8_000
LINES = "^[1-9][0-9]{0,6}(-[1-9][0-9]{0,6})?$"
_FILES = (FileMode.FILE, FileMode.EXECUTABLE)


def with_quote(kernel: Kernel, request: ChangeRequest, file: str, lines: str | None) -> ChangeRequest:
    """Return the request with a file and its quoted lines. Raises: FileNotFound, PathOutOfBounds, InvalidArguments."""
    path = canonical_path(file)
    named = kernel.redact.mask_secrets(path)
    tree, whose = (request.tree, "feature's tree") if request.side == "new" else (_base(request), "feature's base")
    try:
        entry = kernel.git.objects.entry(tree, path)
    except Fault as error:
        raise FileNotFound(f"The tree `{tree[:12]}` is no longer in the repository.", tree=tree) from error
    if entry is None or entry.mode not in _FILES:
        known = (kernel.redact.mask_secrets(each.path) for each in kernel.git.objects.entries(tree))
        raise FileNotFound(f"The {whose} has no file `{named}`.{did_you_mean(named, known)}", path=named)
    if lines is None:
        return msgspec.structs.replace(request, file=named)
    return msgspec.structs.replace(request, file=named, lines=lines, quoted=_quoted(kernel, entry, named, lines))


def with_clause(kernel: Kernel, request: ChangeRequest, clause: str, plan: Plan | None) -> ChangeRequest:
    """Return a request about a clause of the accepted plan, for the planner. Raises: InvalidArguments."""
    known = {} if plan is None else clauses_of(plan)
    if clause not in known:
        listed = ", ".join(known) or "none: there is no accepted plan"
        raise InvalidArguments(f"The plan has no clause `{clause}`.", hint=f"Its clauses are {listed}.", clause=clause)
    quoted = kernel.redact.mask_secrets(known[clause])[:LARGEST_QUOTE]
    return msgspec.structs.replace(request, kind="plan", clause=clause, quoted=quoted)


def _base(request: ChangeRequest) -> TreeId:
    return TreeId(ObjectId(request.base))


def _quoted(kernel: Kernel, entry: TreeEntry, named: str, lines: str) -> str:
    content = masked_bytes(kernel.git.objects.blob(entry.oid), kernel.redact)
    try:
        found = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise InvalidArguments(
            f"`{named}` is not text; its lines cannot be named.", hint="Leave out `lines`."
        ) from error
    total = len(found) - (found[-1] == "")
    begin, last = range_of(lines)
    if not begin <= last <= total:
        raise InvalidArguments(
            f"`{named}` has {count(total, 'line')}; there are no lines {lines}.", hint="Name lines that it has."
        )
    return "\n".join(found[begin - 1 : last])[:LARGEST_QUOTE]
