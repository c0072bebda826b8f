"""Texts of a seal: for a terminal, and one HTML page without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from aop.core.text.visible import visible
from aop.forge.builds.audit.audit_verdicts import NAMES
from aop.forge.builds.documents import Seal, SealDimension
from aop.forge.builds.seal.dimensions import verdict_line

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1f24; background: #fff; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .35rem .6rem; vertical-align: top;
  border-bottom: 1px solid #d8dee4; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
code { overflow-wrap: anywhere; } .CERTIFIED, .PASS { color: #116329; } .CONDITIONAL, .WARN { color: #7d4e00; }
.FLAGGED, .FAIL, .ERROR { color: #a40e26; }
@media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #0d1117; } th, td { border-color: #30363d; }
  .CERTIFIED, .PASS { color: #56d364; } .CONDITIONAL, .WARN { color: #e3b341; }
  .FLAGGED, .FAIL, .ERROR { color: #ff7b72; } }
"""


def seal_text(seal: Seal) -> str:
    """Return a seal for a terminal."""
    lines = [
        f"{seal.build_id}: {verdict_line(seal.verdict, seal.score, seal.dimensions)}",
        "",
        f"  commit  {seal.commit}",
        f"  tree    {seal.tree}",
        f"  batch   {seal.batch}, {seal.batch_sha256}",
        f"  runs    {', '.join(seal.gate_runs) or 'none'}",
        "",
        *(_dimension_line(name, each) for name, each in seal.dimensions.items()),
        "",
        f"  audit   {'  '.join(f'{code} {verdict}' for code, verdict in seal.audit.items())}",
    ]
    if seal.reasons:
        lines += ["", "Why not 100:", *(f"  - {visible(reason)}" for reason in seal.reasons)]
    return "\n".join(lines)


def _dimension_line(name: str, each: SealDimension) -> str:
    told = f"{each.score:6.1f}" if each.known else "unknown"
    delta = "" if each.delta is None else f"  {each.delta:+.1f} since the baseline"
    return f"  {name:<17}{told:>7}  x {each.weight:.2f}{delta}"


def seal_page(seal: Seal) -> str:
    """Return a seal as a page; every text is escaped, and invisible characters are made visible."""
    title = f"Seal of {_shown(seal.build_id)}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title} - AOP</title>
<style>
{_STYLE}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p><strong class="{seal.verdict}">{_shown(verdict_line(seal.verdict, seal.score, seal.dimensions))}</strong>,
sealed {_shown(seal.sealed_at)}</p>
<table>
<caption>What was sealed</caption>
{"".join(_row(name, value) for name, value in _facts(seal))}</table>
<h2>Dimensions</h2>
<table>
<tr><th scope="col">Dimension</th><th scope="col">Score</th><th scope="col">Weight</th><th scope="col">Since the
baseline</th><th scope="col">Formula and figures</th></tr>
{"".join(_dimension_row(name, each) for name, each in seal.dimensions.items())}</table>
<h2>Audit</h2>
<table>
{"".join(_audit_row(code, verdict) for code, verdict in seal.audit.items())}</table>
<h2>Why not 100</h2>
<ul>
{"".join(_item(reason) for reason in seal.reasons or ("Nothing was lost.",))}</ul>
</main>
</body>
</html>
"""


def _facts(seal: Seal) -> Iterator[tuple[str, str]]:
    yield "Commit", seal.commit
    yield "Tree", seal.tree
    yield "Contracts", f"batch {seal.batch}, {seal.batch_sha256}"
    yield "Gate runs", ", ".join(seal.gate_runs) or "none"
    yield "Signature", seal.signature


def _item(text: str) -> str:
    return f"<li>{_shown(text)}</li>\n"


def _row(name: str, value: str) -> str:
    return f'<tr><th scope="row">{name}</th><td><code>{_shown(value)}</code></td></tr>\n'


def _dimension_row(name: str, each: SealDimension) -> str:
    score = f"{each.score:g}" if each.known else "0, unknown"
    delta = "" if each.delta is None else f"{each.delta:+g}"
    figures = ", ".join(f"{key} {value}" for key, value in each.figures.items())
    evidence = f"<br>Evidence: <code>{_shown(', '.join(each.evidence))}</code>" if each.evidence else ""
    return (
        f'<tr><th scope="row">{_shown(name)}</th><td class="n">{score}</td><td class="n">{each.weight:g}</td>'
        f'<td class="n">{delta}</td><td>{_shown(each.formula)}<br>{_shown(figures)}{evidence}</td></tr>\n'
    )


def _audit_row(code: str, verdict: str) -> str:
    name = _shown(f"{code} {NAMES.get(code, '')}")
    return f'<tr><th scope="row">{name}</th><td class="{_shown(verdict)}">{_shown(verdict)}</td></tr>\n'


def _shown(text: str) -> str:
    return escape(visible(text))
