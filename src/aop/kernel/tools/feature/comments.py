"""Tools for comments: drafts of a person, and what workers say of those sent."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.core.errors import InvalidArguments
from aop.core.ids import ObjectId, TreeId
from aop.core.structs import copy_fields
from aop.kernel.features.lifecycle import LIVING, refuse_build, require_status
from aop.kernel.features.requests.change_requests import (
    ChangeRequest,
    CommentAnswer,
    Side,
    WorkerWord,
    record_words,
    requests_of,
)
from aop.kernel.features.requests.clauses import CLAUSE
from aop.kernel.features.requests.comment_places import Place, Places
from aop.kernel.features.requests.drafts import (
    LARGEST_COMMENT,
    MOST_COMMENTS,
    add_draft,
    delete_draft,
    draft_named,
    edit_draft,
)
from aop.kernel.features.requests.quotes import LINES, with_clause, with_quote
from aop.kernel.features.tree.tree_history import WITH_TREES
from aop.kernel.gateway.calls import Call, ChangeArguments, FeatureArguments, Outcome, Tool, committed, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS, WORKERS
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import Snapshot, Transaction

CommentText = Annotated[str, Meta(min_length=1, max_length=LARGEST_COMMENT)]


class CommentArguments(ChangeArguments, frozen=True, kw_only=True):
    text: CommentText
    """The comment; secrets in it are masked."""
    file: str | None = None
    """The file that it is about; null for the whole feature, or a clause."""
    lines: Annotated[str, Meta(pattern=LINES)] | None = None
    """The lines of that file: `7`, or `3-5`; null for the whole file."""
    side: Side = "new"
    """Whether file and lines are those of the feature's tree, or of its base."""
    clause: Annotated[str, Meta(pattern=CLAUSE)] | None = None
    """The clause of the plan that it is about: `summary`, `criterion-2`, `risk-1`, `file-3`."""
    tree: Annotated[str, Meta(pattern="^[0-9a-f]{40,64}$")] | None = None
    """The tree of the feature that the lines were read in; null for its newest."""


class CommentResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    comment: ChangeRequest
    """The draft as it is stored, with what is quoted."""
    drafts: int
    """The number of drafts of the caller now; `feature.request_changes` sends them."""


@committed
def comment(call: Call, arguments: CommentArguments, tx: Transaction) -> Outcome:
    """Store a comment as a draft of the caller; agents see it when it is sent."""
    state = the_feature(tx, arguments)
    refuse_build(state, "it has no plan that could be changed")
    require_status(state, *LIVING, to="be commented on")
    draft = add_draft(tx, state.feature_id, _draft(call, arguments, state, tx))
    tx.append(call.event("comment_drafted", state.feature_id, number=draft.number))
    return _result(tx, call, state, draft)


def _draft(call: Call, arguments: CommentArguments, state: FeatureState, view: Snapshot) -> ChangeRequest:
    _refuse_unclear_place(arguments)
    kernel, plan = call.kernel, view.get(AcceptedPlan, state.feature_id)
    draft = ChangeRequest(
        number=0,
        kind="changes",
        text=_clean(call, arguments.text),
        tree=_tree_of(view, state, arguments.tree),
        asked_by=call.principal.actor,
        asked_at=kernel.now(),
        side=arguments.side,
        base=kernel.git.objects.tree_of(state.base_commit) if arguments.side == "old" else "",
        plan_version=0 if plan is None else plan.version,
    )
    if arguments.clause is not None:
        return with_clause(kernel, draft, arguments.clause, None if plan is None else plan.plan)
    return draft if arguments.file is None else with_quote(kernel, draft, arguments.file, arguments.lines)


def _refuse_unclear_place(arguments: CommentArguments) -> None:
    if arguments.file is None and (arguments.lines is not None or arguments.side == "old"):
        raise InvalidArguments("Lines or the old side are given without a file.", hint="Name the file too.")
    if arguments.file is not None and arguments.clause is not None:
        raise InvalidArguments("A comment is about a file or about a clause of the plan, not both.")


def _tree_of(view: Snapshot, state: FeatureState, named: str | None) -> TreeId:
    """Return the tree that a comment was made on. Raises: InvalidArguments."""
    if named is None or named == state.tree:
        return state.tree
    entries = view.journal(feature_id=state.feature_id, kinds=WITH_TREES)
    if named not in {str(entry.event.payload.get("tree")) for entry in entries}:
        raise InvalidArguments(
            f"`{named[:12]}` is no tree of `{state.feature_id}`.", hint="`feature.trees` lists its trees.", tree=named
        )
    return TreeId(ObjectId(named))


def _clean(call: Call, said: str) -> str:
    text = call.kernel.redact(said).strip()
    if not text:
        raise InvalidArguments("The text is only white space.", tool=call.tool.name)
    return text


class EditCommentArguments(ChangeArguments, frozen=True, kw_only=True):
    number: Annotated[int, Meta(ge=1)]
    """The number of a draft of the caller."""
    text: CommentText
    """The new text; secrets in it are masked."""
    revision: Annotated[int, Meta(ge=1)] | None = None
    """The revision that was read; one that was edited meanwhile is refused. Null: whatever it is now."""


@committed
def comment_edit(call: Call, arguments: EditCommentArguments, tx: Transaction) -> Outcome:
    """Replace the text of a draft."""
    state = the_feature(tx, arguments)
    old = draft_named(tx, state.feature_id, call.principal.actor, arguments.number)
    text = _clean(call, arguments.text)
    new = edit_draft(tx, state.feature_id, old, text=text, revision=arguments.revision)
    tx.append(call.event("comment_edited", state.feature_id, number=new.number))
    return _result(tx, call, state, new)


class DeleteCommentArguments(ChangeArguments, frozen=True, kw_only=True):
    number: Annotated[int, Meta(ge=1)]
    """The number of a draft of the caller."""


@committed
def comment_delete(call: Call, arguments: DeleteCommentArguments, tx: Transaction) -> Outcome:
    """Delete a draft; what was sent stays."""
    state = the_feature(tx, arguments)
    old = draft_named(tx, state.feature_id, call.principal.actor, arguments.number)
    delete_draft(tx, state.feature_id, old)
    tx.append(call.event("comment_deleted", state.feature_id, number=old.number))
    return _result(tx, call, state, old)


def _result(tx: Transaction, call: Call, state: FeatureState, shown: ChangeRequest) -> CommentResult:
    own = [each for each in requests_of(tx, state.feature_id).drafts if each.asked_by == call.principal.actor]
    return CommentResult(feature_id=state.feature_id, comment=shown, drafts=len(own))


class PlacedComment(Struct, frozen=True, kw_only=True):
    comment: ChangeRequest
    """The comment as it was written, with what is quoted."""
    standing: Literal["draft", "waiting", "open", "done", "declined"]
    """A draft; sent, and the agent's turn is not over; or what the worker last said: nothing, done, declined."""
    place: Place
    """Its place in the newest tree or plan, and whether its lines changed, as AOP sees it."""


class Comments(Struct, frozen=True, kw_only=True):
    feature_id: str
    tree: str
    """The feature's newest tree, which the places are in."""
    drafts: tuple[PlacedComment, ...]
    """The caller's own drafts, oldest first."""
    sent: tuple[PlacedComment, ...]
    """Those of all people that were sent, oldest first."""
    drafts_of_others: int
    """The number of drafts of other people."""


def comments(call: Call, arguments: FeatureArguments) -> Outcome:
    """Return the caller's drafts, and all comments that were sent, each with its place in the newest tree."""
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
        known = requests_of(view, state.feature_id)
        accepted = view.get(AcceptedPlan, state.feature_id)
    places = Places(call.kernel, state, None if accepted is None else accepted.plan)
    own = tuple(each for each in known.drafts if each.asked_by == call.principal.actor)
    waiting = {each.number for each in known.requests}
    sent = sorted((*known.closed, *known.requests), key=lambda each: each.number)
    return Comments(
        feature_id=state.feature_id,
        tree=state.tree,
        drafts=tuple(PlacedComment(comment=each, standing="draft", place=places.place_of(each)) for each in own),
        sent=tuple(
            PlacedComment(comment=each, standing=_standing(each, waiting), place=places.place_of(each)) for each in sent
        ),
        drafts_of_others=len(known.drafts) - len(own),
    )


def _standing(comment: ChangeRequest, waiting: set[int]) -> Literal["waiting", "open", "done", "declined"]:
    if comment.number in waiting:
        return "waiting"
    return comment.words[-1].word if comment.words else "open"


class AnswerCommentsArguments(ChangeArguments, frozen=True, kw_only=True):
    comments: Annotated[tuple[CommentAnswer, ...], Meta(min_length=1, max_length=MOST_COMMENTS)]
    """The word of the worker on each comment, by its number."""


class AnsweredComments(Struct, frozen=True, kw_only=True):
    feature_id: str
    answered: tuple[int, ...]
    """The numbers of the comments whose answer is stored."""
    unknown: tuple[int, ...]
    """The numbers that name no comment that was sent."""
    settled: bool
    """Whether nothing that was asked for is open any more."""


@committed
def answer_comments(call: Call, arguments: AnswerCommentsArguments, tx: Transaction) -> Outcome:
    """Store what a worker says of comments; AOP compares the lines itself."""
    state = the_feature(tx, arguments)
    words = {each.number: _word(call, each, state) for each in arguments.comments}
    known = requests_of(tx, state.feature_id)
    sent = {each.number for each in (*known.requests, *known.closed)}
    answered = {number: word for number, word in words.items() if number in sent}
    plan = tx.get(AcceptedPlan, state.feature_id)
    version = 0 if plan is None else plan.version
    settled = record_words(tx, call, state.feature_id, answered, plan_version=version)
    facts = [{"number": number, "word": word.word, "reason": word.reason} for number, word in answered.items()]
    tx.append(call.event("comments_answered", state.feature_id, comments=list(facts)))
    return AnsweredComments(
        feature_id=state.feature_id,
        answered=tuple(sorted(answered)),
        unknown=tuple(sorted(words.keys() - sent)),
        settled=settled,
    )


def _word(call: Call, said: CommentAnswer, state: FeatureState) -> WorkerWord:
    reason = call.kernel.redact(said.reason).strip()
    if said.word == "declined" and not reason:
        raise InvalidArguments(
            f"The comment {said.number} is declined without a reason.", hint="Say in `reason` why.", number=said.number
        )
    return copy_fields(WorkerWord, said, reason=reason, by=call.principal.actor, at=call.kernel.now(), tree=state.tree)


TOOLS = (
    Tool(
        name="feature.comment",
        summary="Comment on lines, a file, a clause of the plan or the whole feature; a draft until it is sent.",
        arguments=CommentArguments,
        output=CommentResult,
        roles=COORDINATORS,
        run=comment,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="feature.comment_edit",
        summary="Replace the text of a comment that is not sent.",
        arguments=EditCommentArguments,
        output=CommentResult,
        roles=COORDINATORS,
        run=comment_edit,
        mutates=True,
        brief=True,
        person_only=True,
    ),
    Tool(
        name="feature.comment_delete",
        summary="Delete a comment that is not sent.",
        arguments=DeleteCommentArguments,
        output=CommentResult,
        roles=COORDINATORS,
        run=comment_delete,
        mutates=True,
        brief=True,
        person_only=True,
    ),
    Tool(
        name="feature.comments",
        summary="List your drafts and all sent comments, with the worker's word and what became of the lines.",
        arguments=FeatureArguments,
        output=Comments,
        roles=COORDINATORS,
        run=comments,
        person_only=True,
    ),
    Tool(
        name="feature.answer_comments",
        summary="Say of people's comments, by their numbers: done, or declined with a reason.",
        arguments=AnswerCommentsArguments,
        output=AnsweredComments,
        roles=WORKERS,
        run=answer_comments,
        mutates=True,
        brief=True,
    ),
)
