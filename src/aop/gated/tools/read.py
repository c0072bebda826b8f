"""Read tools: `read_file`, `list_directory` and `search_code` on the judged tree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from aop.core.errors import FileNotFound
from aop.core.ids import TreeId
from aop.core.paths.names import canonical_path
from aop.core.text.search import first_match
from aop.gated.machine.position import GET_TASK, SUBMIT_WORK
from aop.gated.machine.state import Phase
from aop.gated.session.documents import ACTIVE_PR, ORCHESTRATION_STATE, GatedWorkflow
from aop.gated.session.session import workflow_of
from aop.gated.tools import answers
from aop.gated.tools.answers import SWE
from aop.kernel.features.trees import LARGEST_READ, masked_bytes, masked_names, text_or_base64
from aop.kernel.gateway.calls import Call, Kernel, Outcome, Tool
from aop.kernel.ports.git import FileMode, GitObjects
from aop.kernel.tools.repo.search import SearchArguments, search_tree

WORKING = frozenset(
    {Phase.INITIALIZING, Phase.EXECUTING_TDD, Phase.DEBUGGING, Phase.REPLANNING, Phase.FINALIZE_COMPLETE}
)
"""The phases with something to write."""


@contextmanager
def _known(call: Call) -> Iterator[GatedWorkflow]:
    with call.kernel.record.read() as view:
        yield workflow_of(view, call.principal)


def next_call_of(known: GatedWorkflow) -> str:
    """Return the call that follows reading or writing."""
    is_open = known.workflow.status in WORKING and not known.workflow.escalated
    return f"safe_patch or {SUBMIT_WORK}" if is_open else GET_TASK


def content_of(objects: GitObjects, known: GatedWorkflow, path: str) -> bytes | None:
    """Return the content of a file; None if there is none."""
    if path in (ACTIVE_PR, ORCHESTRATION_STATE):
        return known.files()[path]
    entry = objects.entry(known.tree, path)
    if entry is None or entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE):
        return None
    return objects.blob(entry.oid)


def state_of(kernel: Kernel, known: GatedWorkflow, path: str, content: bytes | None) -> answers.FileState:
    """Return a file's state for an answer."""
    shown = masked_bytes(content or b"", kernel.redact)
    text, encoding = text_or_base64(shown[:LARGEST_READ])
    return answers.FileState(
        file_path=kernel.redact.mask_secrets(path),
        version=known.version,
        sha256=hashlib.sha256(content or b"").hexdigest(),
        content=text,
        encoding="utf-8" if encoding == "utf-8" else "base64",
        exists=content is not None,
        truncated=len(shown) > LARGEST_READ,
    )


def read_file(call: Call, arguments: answers.ReadFile) -> Outcome:
    """Read a file, with the hash that `safe_patch` asks for."""
    path = canonical_path(arguments.file_path)
    with _known(call) as known:
        content = content_of(call.kernel.git.objects, known, path)
        if content is None:
            missing = call.kernel.redact.mask_secrets(path)
            raise FileNotFound(f"There is no file `{missing}`.", path=missing)
        shown = state_of(call.kernel, known, path, content)
        fields = {name: getattr(shown, name) for name in answers.FileState.__struct_fields__}
        return answers.FileRead(**fields, next_call=next_call_of(known))


def list_directory(call: Call, arguments: answers.ListDirectory) -> Outcome:
    """List a folder."""
    path = canonical_path(arguments.path) if arguments.path not in ("", ".", "./") else ""
    git = call.kernel.git
    with _known(call) as known:
        names = git.objects.names(known.tree, path)
        if not names and path:
            raise FileNotFound(f"There is no folder `{path}`.", path=path)
        own = [] if path else [name for name, content in known.files().items() if content is not None]
        entries = [f"{name}/" if _is_folder(git.objects, known.tree, path, name) else name for name in names]
        shown = masked_names(sorted([*entries, *own]), call.kernel.redact)
        return answers.DirectoryListed(path=path, entries=tuple(shown), next_call=next_call_of(known))


def _is_folder(objects: GitObjects, tree: TreeId, folder: str, name: str) -> bool:
    entry = objects.entry(tree, f"{folder}/{name}" if folder else name)
    return entry is not None and entry.mode is FileMode.TREE


def search_code(call: Call, arguments: answers.SearchCode) -> Outcome:
    """Find the lines that hold a text or match an RE2 pattern."""
    paths = tuple(canonical_path(path) for path in arguments.paths)
    first = first_match(arguments.query, regex=arguments.regex, ignore_case=False)
    with _known(call) as known:
        asked = SearchArguments(feature_id=known.feature_id, query=arguments.query, regex=arguments.regex)
        found = search_tree(call, known.tree, asked, paths, first)
        lines = tuple(answers.Line(path=each.path, line=each.line, text=each.text) for each in found.matches)
        return answers.CodeFound(matches=lines, truncated=found.truncated, next_call=next_call_of(known))


TOOLS = (
    Tool(
        name="read_file",
        summary="Read a file of your worktree, with the hash that `safe_patch` asks for.",
        arguments=answers.ReadFile,
        output=answers.FileRead,
        roles=SWE,
        run=read_file,
    ),
    Tool(
        name="list_directory",
        summary="List a folder of your worktree.",
        arguments=answers.ListDirectory,
        output=answers.DirectoryListed,
        roles=SWE,
        run=list_directory,
    ),
    Tool(
        name="search_code",
        summary="Find the lines of your worktree that hold a text, or match an RE2 pattern.",
        arguments=answers.SearchCode,
        output=answers.CodeFound,
        roles=SWE,
        run=search_code,
    ),
)
