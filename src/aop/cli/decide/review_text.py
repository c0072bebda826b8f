"""Review text for a terminal: what matters first, then the whole diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aop.cli.screens.tables import Paint
from aop.core.errors import UserApprovalRequired
from aop.core.text.conflicts import conflict_lines
from aop.core.text.counts import count, list_some
from aop.core.text.visible import pieces, visible, visible_name
from aop.kernel.features.opened_paths import YES
from aop.kernel.gates.base.behaviour import BehaviourChanges
from aop.kernel.record.documents.features import Status
from aop.kernel.record.spending import spending_text
from aop.kernel.tools.repo.diff_bundle import DiffBundle
from aop.kernel.tools.report.feature_summary import FeatureSummary
from aop.web import review_view

STYLE_OF_MARK = {"+": "green", "-": "red", "@": "cyan", "\\": "dim", "": "bold"}
STYLE_OF_OUTCOME = {"passed": "green", "stale": "yellow", "failed": "red"}
STYLE_OF_STANDING = {"unaccounted": "red", "missing": "red", "claimed": "yellow", "deferred": "yellow", "met": "green"}
_MARKS = {"@": "", "\\": "\\ "}
COLUMN = 56
STYLE_OF_KIND = {"create": "green", "modify": "yellow", "delete": "red"}


def review_text(summary: FeatureSummary, bundle: DiffBundle, paint: Paint) -> str:
    """Lay out the whole review."""
    blocks: list[Iterable[str]] = [
        _head(summary, paint),
        _warnings(summary, bundle, paint),
        behaviour_lines(summary.behaviour, paint),
        _requests(summary, paint),
        _gates(summary, bundle, paint),
        _plan(summary, paint),
        _obligations(summary, paint),
        _path_answers(summary, paint),
        _approvals(summary, paint),
        _files(bundle, paint),
        _diff(bundle, paint),
    ]
    return "\n\n".join("\n".join(lines) for block in blocks if (lines := list(block))) + "\n"


def _head(summary: FeatureSummary, paint: Paint) -> Iterator[str]:
    state = summary.state
    yield f"Feature   {paint('bold', state.feature_id)}, {paint(_style_of(summary), state.status)}"
    if state.status_reason:
        yield f"Reason    {_one_line(state.status_reason)}"
    yield f"Tree      {state.tree}"
    yield f"Base      {visible(review_view.base_text(summary))}"
    yield f"Worktree  {state.worktree_path}"
    if summary.spent.turns:
        yield f"Cost      {spending_text(summary.spent)}"
    merge = state.evidence.merge
    if merge is not None:
        yield f"Merged    {merge.merge_commit} ({merge.strategy})"
    elif not summary.missing:
        yield f"Blocking  {paint('green', 'nothing')} (the merge runs the gates again)"
    for number, missing in enumerate(summary.missing):
        yield f"{'' if number else 'Blocking':<10}{paint('yellow', _one_line(missing.message))}"
        yield from conflict_lines(missing.conflicts)
    if merge is None and all(missing.code == UserApprovalRequired.code for missing in summary.missing):
        yield f"Next      {paint('bold', f'aop merge {state.feature_id}')}"


def _style_of(summary: FeatureSummary) -> str:
    if summary.state.status is Status.FAILED:
        return "red"
    return "yellow" if summary.missing else "green"


def _warnings(summary: FeatureSummary, bundle: DiffBundle, paint: Paint) -> Iterator[str]:
    for warning in review_view.warnings_of(summary, bundle):
        yield paint("red", f"Warning   {warning}")


def _requests(summary: FeatureSummary, paint: Paint) -> Iterator[str]:
    if summary.requests:
        yield paint("bold", "Requested by a person, not done yet")
    for request in summary.requests:
        yield f"  {request.asked_at} {visible(request.asked_by)}: {review_view.subject_of_request(request)}"
        yield from (f"    {visible(line)}" for line in request.text.split("\n"))
        yield from (paint("dim", f"    > {visible(line)}") for line in request.quoted.split("\n") if request.lines)


def _gates(summary: FeatureSummary, bundle: DiffBundle, paint: Paint) -> Iterator[str]:
    yield paint("bold", "Gates, run by AOP")
    if not bundle.gates:
        yield "  no gate has run"
    for mode, run in bundle.gates.items():
        outcome = review_view.outcome_of(summary, run)
        proof = f"profile {visible(run.profile)}, sandbox {run.sandbox_level}"
        about = f"{review_view.subject_of(summary, run)}, {review_view.seconds_of(run)}, {proof}"
        yield f"  {mode:<6} {paint(STYLE_OF_OUTCOME[outcome], f'{outcome:<6}')} {about}"
        for step in run.steps:
            took = f"{step.outcome}, {step.seconds:.2f} s"
            yield f"           {visible(step.name)}: {took}, {visible_name(step.log_path)}"
            yield f"             {_one_line(' '.join(step.command))}"
            if step.left:
                yield f"             left behind, and undone: {list_some(list(map(visible_name, step.left)))}"
        for name, figure in review_view.figures_of(run):
            yield f"           {name}: {figure}"
        if run.failure:
            yield f"           {paint('red', _one_line(run.failure))}"


def behaviour_lines(behaviour: BehaviourChanges, paint: Paint) -> Iterator[str]:
    """Return the tests of the base that a feature changes, with old and new text side by side."""
    if behaviour.tests:
        yield paint("bold", review_view.BEHAVIOUR)
    for each in behaviour.tests:
        yield paint("yellow", f"  {visible(each.test)}: {visible(review_view.told_change(each))}")
        yield f"    {_one_line(review_view.reason_for_change(each))}"
        if each.path:
            yield f"    {visible_name(each.path)}"
        for old, new, is_same in review_view.side_by_side(each.old_text, each.new_text):
            left, right = (
                paint("" if is_same else style, _column(line)) for style, line in (("red", old), ("green", new))
            )
            yield f"      {left} | {right}"
    if behaviour.left_out:
        yield paint("red", f"  [{count(behaviour.left_out, 'more test')}]")


def _column(line: str) -> str:
    return visible(line).ljust(COLUMN)


def _plan(summary: FeatureSummary, paint: Paint) -> Iterator[str]:
    words = summary.agent_text
    if words is None:
        return
    yield paint("bold", f"Plan {words.plan_version}, by {visible(words.written_by)}")
    yield f"  {paint('dim', review_view.AGENT_TEXT)}"
    yield from (f"  {visible(line)}" for line in words.summary.split("\n"))
    yield "  Acceptance criteria"
    for number, criterion in enumerate(words.acceptance_criteria, start=1):
        yield f"    {number}. {_one_line(criterion)}"
    for risk in words.risk:
        yield f"  Risk: {_one_line(risk)}"


def _obligations(summary: FeatureSummary, paint: Paint) -> Iterator[str]:
    review = summary.obligations
    if review is None:
        return
    yield f"{paint('bold', 'Obligations of the spec')}, {review_view.obligation_counts(review)}"
    for row in review.rows:
        standing = paint(STYLE_OF_STANDING[row.standing], review_view.WORD_OF_STANDING[row.standing])
        yield f"  {row.id:<4} {standing}, line {row.line}: {_one_line(row.text)}"
        if row.standing != "unaccounted":
            yield f"       {_one_line(row.why)}"


def _path_answers(summary: FeatureSummary, paint: Paint) -> Iterator[str]:
    if summary.path_answers:
        yield paint("bold", "Guarded paths that an agent asked for")
    for said in summary.path_answers:
        outcome = paint("yellow" if said.answer == YES else "green", review_view.outcome_of_path(said))
        who = f"{said.answered_at} {visible(said.answered_by)}, {said.question_id}"
        yield f"  {visible_name(said.path)}: {outcome}, {who}"
        yield f"    Its reason: {_one_line(said.reason)}"


def _approvals(summary: FeatureSummary, paint: Paint) -> Iterator[str]:
    if summary.approvals:
        yield paint("bold", "Approvals")
    for approval in summary.approvals:
        void = ", and ".join(approval.void_because)
        holds = paint("yellow", f"void: {void}") if void else paint("green", "valid for one merge")
        yield f"  {approval.approved_at} {visible(approval.approved_by)}, tree {approval.tree[:12]}: {holds}"


def _files(bundle: DiffBundle, paint: Paint) -> Iterator[str]:
    total = f"{paint('green', f'+{bundle.added}')} {paint('red', f'-{bundle.removed}')}"
    viewed = f", {review_view.viewed_text(bundle)}" if any(file.viewed_by for file in bundle.files) else ""
    yield f"{paint('bold', 'Files')}, {len(bundle.files)} changed, {total}{viewed}"
    names = {file.path: visible_name(file.path) for file in bundle.files}
    width = max(map(len, names.values()), default=0)
    for file in bundle.files:
        counts = f"{paint('green', f'+{file.added}'.rjust(6))} {paint('red', f'-{file.removed}'.rjust(6))}"
        marks = (f"viewed by {visible(file.viewed_by)}",) if file.viewed_by else ()
        notes = "".join(f"  {note}" for note in (*review_view.notes_of(file), *marks))
        yield f"  {paint(STYLE_OF_KIND[file.kind], file.kind)}  {names[file.path]:<{width}} {counts}{notes}"


def _diff(bundle: DiffBundle, paint: Paint) -> Iterator[str]:
    for file, lines in review_view.files_with_lines(bundle):
        for row in review_view.rows_of(lines):
            line, style = f"{_MARKS.get(row.mark, row.mark)}{row.text}", STYLE_OF_MARK.get(row.mark, "")
            yield "".join(paint("escape" if piece.escaped else style, piece.text) for piece in pieces(line))
        if omitted := review_view.omitted_text(file):
            yield paint("red", f"[{omitted}: {review_view.diff_command(bundle, file)}]")


def _one_line(text: str) -> str:
    return visible(" ".join(text.split("\n")))
