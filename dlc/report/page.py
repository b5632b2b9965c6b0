"""A report as one page: no script, nothing from elsewhere, light and dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from .disassembly import assembly
from .model import Graph, Report
from .picture import memory, roofline
from .source import legend, sources
from .text import HEAD, NUMBERS, break_lines, doubts, heading, nothing, row, taken_lines

_PAGE = 290_000  # bytes; the texts of all stages fill what the rest leaves
_STEPS = 400  # rows of a table
_EACH = 12_000  # of one text
_LABEL = 60  # bytes around a text, about
_MARKS = 6  # of a line of the source
_COLUMNS = {**dict.fromkeys(NUMBERS, " class=n"), 10: " class=b"}  # of the table; numbers to the right
_STAGES = {
    "kernels": "after fusion",
    "loops": "loops",
    "schedule": "schedule",
    "cc": "C for gcc",
    "tcc": "C for libtcc",
}

_STYLE = """
.dlc{--bg:#fff;--fg:#1f2328;--dim:#656d76;--line:#d8dee4;--soft:#f6f8fa;--kernel:#1a7f37;--library:#0969da;
--eager:#9a6700;--copy:#0a7d83;--break:#cf222e;background:var(--bg);color:var(--fg);
font:14px/1.45 system-ui,sans-serif;
padding:1.2em 1.6em;max-width:1240px}
@media (prefers-color-scheme:dark){.dlc{--bg:#0d1117;--fg:#e6edf3;--dim:#8d96a0;--line:#30363d;--soft:#161b22;
--kernel:#3fb950;--library:#58a6ff;--eager:#d29922;--copy:#56d4dd;--break:#f85149}}
.dlc h1{font-size:1.25em;line-height:1.35;margin:0 0 .6em}.dlc h2{font-size:1.05em;margin:1.6em 0 .4em}
.dlc h3{font-size:.95em;margin:1.2em 0 .3em;color:var(--dim);font-weight:600}
.dlc p{margin:.3em 0}.dlc .dim{color:var(--dim)}.dlc .wide{overflow-x:auto}
.dlc table{border-collapse:collapse;table-layout:auto!important;width:100%;font-size:13px;background:none}
.dlc table th,.dlc table td{border-bottom:1px solid var(--line);
padding:.25em .6em;text-align:left!important;vertical-align:top}
.dlc th{color:var(--dim);font-weight:600}.dlc td{color:var(--fg)}
.dlc .n{text-align:right!important;white-space:nowrap;font-variant-numeric:tabular-nums}
.dlc .b{white-space:nowrap}.dlc .s{white-space:nowrap;font-weight:600}
.dlc .kernel{color:var(--kernel)}.dlc .library{color:var(--library)}.dlc .eager{color:var(--eager)}
.dlc .copy{color:var(--copy)}
.dlc .break{color:var(--break)}
.dlc .key b{font-weight:600}
.dlc pre{background:var(--soft);color:var(--fg);border:1px solid var(--line);border-radius:6px;
padding:.6em .8em;overflow:auto;max-height:32em;font:12px/1.5 ui-monospace,monospace;margin:.3em 0}
.dlc pre.src{max-height:none;padding:.4em 0}.dlc pre.src div{padding:0 .8em;white-space:pre}
.dlc pre.src i{color:var(--dim);font-style:normal;user-select:none}
.dlc pre.src div.m{background:color-mix(in srgb,currentColor 9%,transparent)}
.dlc pre.src b{color:var(--fg);font-weight:400}
.dlc pre.src span{margin-left:1.5em;font-weight:600}
.dlc pre.src span.w{display:block;margin-left:3.6em;white-space:normal}
.dlc details{margin:.25em 0 .25em .2em}.dlc summary{cursor:pointer}
.dlc .stop{border-left:4px solid var(--break);background:var(--soft);padding:.4em .8em;margin:.4em 0}
.dlc svg{display:block;max-width:100%;height:auto}
.dlc svg text{fill:var(--dim);font:11px system-ui,sans-serif}
.dlc .two{display:flex;flex-wrap:wrap;gap:1.5em}.dlc .two>div{flex:1 1 440px;min-width:0}
"""


def document(report: Report) -> str:
    """A whole file."""
    head = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>dlc.explain</title>'
    style = "<style>:root{color-scheme:light dark}body{margin:0}.dlc{margin:auto}"
    dark = "@media (prefers-color-scheme:dark){body{background:#0d1117}}</style>"
    return f"{head}{style}{dark}</head><body>{fragment(report)}</body></html>"


def fragment(report: Report) -> str:
    """What a notebook shows."""
    without = sum(len(part.encode()) for part in _parts(report, [0]))
    return "".join(_parts(report, [_PAGE - without]))


def _parts(report: Report, room: list[int]) -> Iterator[str]:
    yield f"<style>{_STYLE}</style><div class='dlc'><h1>{escape(report.headline())}</h1>"
    if report.machine:
        yield f"<p class='dim'>{escape(str(report.machine))}</p>"
    for line in doubts(report):
        yield f"<p class='eager'>{escape(line)}</p>"
    for line in nothing(report):
        yield f"<p>{escape(line)}</p>"
    for line in break_lines(report):
        yield f"<div class='stop'>{escape(line)}</div>"
    if report.failure:
        yield f"<p class='eager'>{escape(report.failure)}</p>"
    yield from _source(report)
    for k, graph in enumerate(report.graphs):
        yield f"<h2>{escape(heading(report, k))}</h2>"
        for note in graph.notes():
            yield f"<p class='dim'>{escape(note)}</p>"
        yield from _table(graph, report)
        yield "<div class='two'>"
        yield from _memory(graph)
        if report.limits and any(step.seconds for step in graph.steps):
            yield f"<div><h3>Roofline</h3>{roofline(graph, report.limits)}</div>"
        yield "</div>"
        yield from _texts(graph, room)
    yield "</div>"


# ---- the source ----


def _source(report: Report) -> Iterator[str]:
    key = "; ".join(
        f"<b class='{kind}'>{escape(sample)}</b> {escape(meaning)}"
        for kind, sample, meaning in legend(report)
    )
    if key:
        yield f"<p class='dim key'>Marks beside the source: {key}.</p>"
    for k, (file, lines) in enumerate(sources(report)):
        body = []
        for line in lines:
            if not line.number:
                body.append("<div><i>   ...</i></div>")
                continue
            kinds = [kind for kind, _ in line.marks]
            kind = next(
                (kind for kind in ("break", "eager", "copy", "library", "kernel") if kind in kinds), ""
            )
            more = f"<span class=dim>+{len(line.marks) - _MARKS}</span>" if len(line.marks) > _MARKS else ""
            said = "".join(
                f"<span class='{kind}{' w' if len(text) > 40 else ''}'>{escape(text)}</span>"
                for kind, text in _first_marks(line.marks)
            )
            text = f"<i>{line.number:5} </i><b>{escape(line.text)}</b>"
            body.append(f"<div class='m {kind}'>{text}{said}{more}</div>" if kind else f"<div>{text}</div>")
        yield (
            f"<details{' open' if k == 0 else ''}><summary>{escape(file)}</summary>"
            f"<pre class='src'>{''.join(body)}</pre></details>"
        )


def _first_marks(marks: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Breaks, and the first of the others."""
    return sorted(marks, key=lambda mark: mark[0] != "break")[:_MARKS]


def _memory(graph: Graph) -> Iterator[str]:
    lines = "".join(f"<p class='dim'>{escape(line)}</p>" for line in taken_lines(graph))
    picture = memory(graph) if graph.memory else ""
    if picture or lines:
        yield f"<div><h3>Memory over the call</h3>{picture}{lines}</div>"


# ---- steps ----


def _table(graph: Graph, report: Report) -> Iterator[str]:
    if not graph.steps:
        return
    yield "<div class='wide'><table><tr>"
    yield "".join(f"<th{_COLUMNS.get(k, '')}>{title}</th>" for k, title in enumerate(HEAD))
    yield "</tr>"
    for step in graph.steps[:_STEPS]:
        cells = row(step, report)
        yield "<tr>"
        for k, cell in enumerate(cells):
            kind = f" class='s {step.kind}'" if k == 0 else _COLUMNS.get(k, "")
            yield f"<td{kind}>{escape(cell)}</td>"
        yield "</tr>"
    yield "</table></div>"
    if len(graph.steps) > _STEPS:
        yield f"<p class='dim'>And {len(graph.steps) - _STEPS} more: report.graphs[..].steps has all.</p>"


def _texts(graph: Graph, room: list[int]) -> Iterator[str]:
    left_out = 0
    for step in graph.steps:
        if step.kind != "kernel":
            continue
        texts = {title: step.texts.get(stage, "") for stage, title in _STAGES.items()}
        texts["assembly"] = assembly(step, graph) if room[0] > 0 else ""
        parts = []
        for title, text in texts.items():
            text = (
                text
                if len(text) <= _EACH
                else text[:_EACH] + "\n... cut: report.graphs[..].steps[..].texts has all"
            )
            part = f"<details><summary>{title}</summary><pre>{escape(text)}</pre></details>" if text else ""
            if part and (needs := len(part.encode()) + _LABEL) <= room[0]:
                room[0] -= needs
                parts.append(part)
        left_out += not parts
        if parts:
            yield f"<details><summary>{escape(step.label[:160])}</summary>{''.join(parts)}</details>"
    if left_out:
        yield f"<p class='dim'>The texts of {left_out} more kernels are left out of the page.</p>"
