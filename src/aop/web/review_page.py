"""A review as one page that stands alone: no script, no request, light or dark, and readable on a phone."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

from aop.core.text.counts import count
from aop.core.text.visible import pieces, visible_name
from aop.core.version import VERSION
from aop.kernel.features.opened_paths import YES, PathAnswer
from aop.kernel.gates.summaries import RunSummary
from aop.kernel.record.documents.features import Status
from aop.kernel.record.spending import spending_text
from aop.kernel.tools.repo.diff_bundle import DiffBundle, TouchedFile
from aop.kernel.tools.report.feature_summary import ApprovalFacts, EvidenceLinks, FeatureSummary
from aop.web.review_view import (
    AGENT_TEXT,
    WORD_OF_STANDING,
    DiffRow,
    base_text,
    figures_of,
    files_with_lines,
    how_to_see_all,
    notes_of,
    obligation_counts,
    outcome_of,
    outcome_of_path,
    rows_of,
    seconds_of,
    subject_of,
    warnings_of,
)

FOLDED_FROM = 500
"""A file with more lines than these is shown folded."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
TONE_OF_STATUS = {
    Status.READY_TO_MERGE: "ok",
    Status.MERGED: "ok",
    Status.BLOCKED: "warn",
    Status.FAILED: "bad",
}
TONE_OF_OUTCOME = {"passed": "ok", "stale": "warn", "failed": "bad"}
TONE_OF_STANDING = {"unaccounted": "bad", "missing": "bad", "claimed": "warn", "deferred": "warn", "met": "ok"}
TONE_OF_KIND = {"create": "ok", "modify": "warn", "delete": "bad"}
CLASS_OF_MARK = {"+": "a", "-": "d", "@": "h", "\\": "x"}


def review_page(summary: FeatureSummary, bundle: DiffBundle) -> str:
    """Return the whole page; every text in it is escaped, and what cannot be seen is made visible."""
    name = escape(bundle.feature_id)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>Review of {name} - AOP</title>
<style>
{_stylesheet()}</style>
</head>
<body>
<nav aria-label="Changed files"><h1><i>◆</i> AOP</h1>
{_joined(_file_link(number, file) for number, file in enumerate(bundle.files, start=1))}
</nav>
<main>
{_top(summary, bundle)}
{_warnings(summary, bundle)}
<div class="split">
<div>
{_plan(summary)}
{_obligations(summary)}
{_files(bundle)}
</div>
<aside>
{_missing(summary)}
{_gates(summary, bundle)}
{_evidence(summary)}
{_path_answers(summary)}
{_approvals(summary)}
</aside>
</div>
<footer>Made by AOP {VERSION} from trees and the record, of {name} at version {bundle.version}.</footer>
</main>
</body>
</html>
"""


def _stylesheet() -> str:
    return Path(__file__).with_name("static").joinpath("review.css").read_text(encoding="utf-8")


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(parts)


def _text(line: str) -> str:
    """Escape one line of somebody's text; what cannot be seen for what it is stands out."""
    return "".join(
        f'<b class="esc">{escape(piece.text)}</b>' if piece.escaped else escape(piece.text) for piece in pieces(line)
    )


def _paragraph(text: str) -> str:
    return "<br>".join(map(_text, text.split("\n")))


def _pill(tone: str, text: str) -> str:
    return f'<span class="pill p-{tone}">{_text(text)}</span>'


def _panel(title: str, body: str, *, tone: str = "") -> str:
    return f'<section class="panel {tone}"><h3>{title}</h3>{body}</section>'


def _counts(added: int, removed: int) -> str:
    return f'<span class="counts"><ins>+{added}</ins> <del>&minus;{removed}</del></span>'


def _file_link(number: int, file: TouchedFile) -> str:
    return f'<a href="#f{number}">{_name(file)}{_counts(file.added, file.removed)}</a>'


def _name(file: TouchedFile) -> str:
    # A long path breaks between its folders.
    return f'<span class="file">{escape(visible_name(file.path)).replace("/", "/<wbr>")}</span>'


def _top(summary: FeatureSummary, bundle: DiffBundle) -> str:
    state = summary.state
    gaps = len(summary.missing)
    pills = [_pill(TONE_OF_STATUS.get(state.status, "run"), state.status.replace("_", " "))]
    if gaps:
        pills.append(_pill("warn", f"{count(gaps, 'thing is', 'things are')} missing"))
    files = count(len(bundle.files), "file")
    reason = f'<span class="stat">{_paragraph(state.status_reason)}</span>' if state.status_reason else ""
    return (
        f'<div class="top"><h2>{escape(state.feature_id)}</h2>{"".join(pills)}'
        f'<span class="stat"><b>{files}</b> {_counts(bundle.added, bundle.removed)}</span>{reason}</div>'
    )


def _warnings(summary: FeatureSummary, bundle: DiffBundle) -> str:
    items = "".join(f"<li>{_text(warning)}</li>" for warning in warnings_of(summary, bundle))
    return _panel("Look twice", f"<ul>{items}</ul>", tone="err") if items else ""


# --- the left side: what is said, and what is changed --------------------------------------------


def _plan(summary: FeatureSummary) -> str:
    words = summary.agent_text
    if words is None:
        return ""
    criteria = "".join(f"<li>{_paragraph(each)}</li>" for each in words.acceptance_criteria)
    risks = "".join(f"<li>{_paragraph(each)}</li>" for each in words.risk)
    body = (
        f"<p>{_paragraph(words.summary)}</p><h4>Acceptance criteria</h4><ol>{criteria}</ol>"
        + (f"<h4>Risks</h4><ul>{risks}</ul>" if risks else "")
        + f'<p class="sub">{AGENT_TEXT}</p>'
    )
    title = f"Plan {words.plan_version} <small>in the words of {_text(words.written_by)}</small>"
    return _panel(title, body, tone="said")


def _obligations(summary: FeatureSummary) -> str:
    review = summary.obligations
    if review is None:
        return ""
    items = "".join(
        f'<li><div class="fact"><span>{_text(row.id)}: {_paragraph(row.text)}</span>'
        f"{_pill(TONE_OF_STANDING[row.standing], WORD_OF_STANDING[row.standing])}</div>"
        f'<div class="sub">line {row.line}. {_paragraph(row.why)}</div></li>'
        for row in review.rows
    )
    title = f"Obligations of the spec <small>{obligation_counts(review)}</small>"
    return _panel(title, f"<ul>{items}</ul>", tone="att" if review.counts["unaccounted"] else "")


def _files(bundle: DiffBundle) -> str:
    return _joined(
        _file(number, file, _content(bundle, file, lines))
        for number, (file, lines) in enumerate(files_with_lines(bundle), start=1)
    )


def _file(number: int, file: TouchedFile, content: str) -> str:
    notes = "".join(_pill("warn", note) for note in notes_of(file))
    is_open = "" if file.shown_lines > FOLDED_FROM else " open"
    head = f"{_pill(TONE_OF_KIND[file.kind], file.kind)}{_name(file)}{notes}{_counts(file.added, file.removed)}"
    return f'<details class="panel file" id="f{number}"{is_open}><summary>{head}</summary>{content}</details>'


def _content(bundle: DiffBundle, file: TouchedFile, lines: list[str]) -> str:
    # The header of a diff repeats what stands above it.
    rows = "".join(_row(row) for row in rows_of(lines) if row.mark)
    table = f'<table class="diff">{rows}</table>' if rows else ""
    if file.left_out_lines:
        command = escape(how_to_see_all(bundle, file))
        return f'{table}<p class="sub">{file.left_out_lines} more lines: <code>{command}</code></p>'
    return table or f'<p class="sub">{"Its bytes differ" if file.binary else "No line differs"}.</p>'


def _row(row: DiffRow) -> str:
    numbers = f'<td class="n o">{row.old or ""}</td><td class="n">{row.new or ""}</td>'
    mark = row.mark if row.mark in ("+", "-") else ""
    return (
        f'<tr class="{CLASS_OF_MARK.get(row.mark, "")}">{numbers}<td class="m">{mark}</td>'
        f'<td class="t">{_text(row.text)}</td></tr>\n'
    )


# --- the right side: what AOP itself knows -------------------------------------------------------


def _missing(summary: FeatureSummary) -> str:
    title = "Before it can be merged"
    merge = summary.state.evidence.merge
    if merge is not None:
        body = f'<p>Merged by {escape(merge.strategy)} as <span class="hash">{merge.merge_commit}</span></p>'
        return _panel("Merged", body, tone="okk")
    if not summary.missing:
        return _panel(title, "<p>Nothing that shows before the merge itself.</p>", tone="okk")
    items = "".join(f"<li>{_text(missing.message)}</li>" for missing in summary.missing)
    return _panel(title, f"<ul>{items}</ul>", tone="att")


def _gates(summary: FeatureSummary, bundle: DiffBundle) -> str:
    runs = "".join(_gate(summary, run) for run in bundle.gates.values())
    return _panel("Gates <small>run by AOP, not by an agent</small>", runs or '<p class="sub">None has run.</p>')


def _gate(summary: FeatureSummary, run: RunSummary) -> str:
    outcome = outcome_of(summary, run)
    facts = [(step.name, f"{step.outcome.replace('_', ' ')}, {step.seconds:.2f} s") for step in run.steps]
    rows = "".join(
        f'<div class="fact"><span>{_text(name)}</span><span class="sub">{_text(value)}</span></div>'
        for name, value in (*facts, *figures_of(run))
    )
    return (
        f'<div class="gate"><div class="fact"><b>{escape(run.mode)}</b>'
        f"{_pill(TONE_OF_OUTCOME[outcome], outcome)}</div>"
        f'<div class="sub">{subject_of(summary, run)}, {seconds_of(run)}, sandbox {escape(run.sandbox_level)}</div>'
        f"{rows}{_failure(run)}</div>"
    )


def _failure(run: RunSummary) -> str:
    if not run.failure:
        return ""
    lines = "\n".join(map(_text, run.log_tail.removesuffix("\n").split("\n")))
    log = f'<details><summary>The end of its log</summary><pre class="log">{lines}</pre></details>'
    return f"<p>{_paragraph(run.failure)}</p>{log if run.log_tail else ''}"


def _evidence(summary: FeatureSummary) -> str:
    facts = {
        "tree": summary.state.tree,
        "base": base_text(summary),
        "worktree": visible_name(summary.state.worktree_path),
        "cost": spending_text(summary.spent) or "no turns",
    }
    listed = "".join(f'<dt>{name}</dt><dd class="hash">{_text(value)}</dd>' for name, value in facts.items())
    return _panel("Evidence", f"<dl>{listed}</dl>" + "".join(map(_paths, summary.evidence)))


def _paths(link: EvidenceLinks) -> str:
    paths = "<br>".join(escape(visible_name(path)) for path in (link.evidence_path, *link.log_paths))
    return (
        f'<details><summary>{escape(link.mode)} gates: record and logs</summary><p class="hash">{paths}</p></details>'
    )


def _path_answers(summary: FeatureSummary) -> str:
    items = "".join(map(_path_answer, summary.path_answers))
    return _panel("Guarded paths <small>that a worker asked for</small>", f"<ul>{items}</ul>") if items else ""


def _path_answer(said: PathAnswer) -> str:
    pill = _pill("warn" if said.answer == YES else "ok", outcome_of_path(said))
    who = f"{_text(said.answered_by)}, {escape(said.answered_at)}, {escape(said.question_id)}"
    return (
        f'<li><div class="fact"><span class="file">{escape(visible_name(said.path))}</span>{pill}</div>'
        f'<div class="sub">{who}</div><div class="sub">Its reason: {_paragraph(said.reason)}</div></li>'
    )


def _approvals(summary: FeatureSummary) -> str:
    items = "".join(map(_approval, summary.approvals))
    return _panel("Approvals", f"<ul>{items}</ul>") if items else ""


def _approval(approval: ApprovalFacts) -> str:
    void = ", and ".join(approval.void_because)
    state = _pill("warn", "void") if void else _pill("ok", "opens one merge")
    when = f'{escape(approval.approved_at)}, tree <span class="hash">{approval.tree[:12]}</span>'
    why = f'<div class="sub">{_text(void)}</div>' if void else ""
    return (
        f'<li><div class="fact"><span>{_text(approval.approved_by)}</span>{state}</div>'
        f'<div class="sub">{when}</div>{why}</li>'
    )
