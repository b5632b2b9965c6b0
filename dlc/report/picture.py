"""The pictures of a report's page, memory over a call and the roofline: with units on axes, and legends."""

from __future__ import annotations

import math
from html import escape
from typing import NamedTuple

from .model import Graph, Machine, Step, duration, share_text, size

_WIDTH = 520
_LETTER, _LINE = 6.2, 12  # pixels of a letter and of a line of a label, about
_NAMED = 6  # dots of the roofline that have a label
_KINDS = {"kernel": "kernels", "library": "PyTorch's library", "eager": "eager operators", "copy": "copies"}


def _text(x: float, y: float, said: str, anchor: str = "start", more: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'{more}>{escape(said)}</text>"


def _line(x: tuple[float, float], y: tuple[float, float], colour: str, more: str = "") -> str:
    ends = f"x1='{x[0]:.1f}' x2='{x[1]:.1f}' y1='{y[0]:.1f}' y2='{y[1]:.1f}'"
    return f"<line {ends} stroke='var(--{colour})'{more}/>"


def _upright(y: float, said: str) -> str:
    """The title of an axis that goes up."""
    return _text(0, 0, said, "middle", f" transform='translate(11 {y:.0f}) rotate(-90)'")


# ---- memory ----


def memory(graph: Graph) -> str:
    """The bytes that are alive at each step of the plan."""
    height, left, top, base = 210, 84, 14, 168
    curve = graph.curve()
    at, most, holders = graph.peak()
    across, up = (_WIDTH - left - 8) / max(len(curve), 1), (base - top) / max(most, 1)
    right = left + len(curve) * across
    points = " ".join(
        f"{left + k * across:.1f},{base - n * up:.1f} {left + (k + 1) * across:.1f},{base - n * up:.1f}"
        for k, n in enumerate(curve)
    )
    x = left + (at + 0.5) * across
    parts = [
        f"<svg viewBox='0 0 {_WIDTH} {height}' width='{_WIDTH}' role='img' aria-label='memory over a call'>",
        f"<polygon points='{left},{base} {points} {right:.1f},{base}' "
        "fill='var(--library)' fill-opacity='.22' stroke='var(--library)'/>",
        _line((x, x), (top, base), "break", " stroke-dasharray='3 3'"),
        _line((left, right), (base, base), "line"),
    ]
    for n in (0, most / 2, most):
        parts.append(_text(left - 6, base - n * up + 4, size(n) if n else "0", "end"))
    parts += [
        _upright((top + base) / 2, "bytes alive"),
        _text(left, base + 14, "first"),
        _text(right, base + 14, "last", "end"),
        _text((left + right) / 2, base + 30, "steps of the call, in order", "middle"),
        "</svg>",
    ]
    names = "".join(f"<li>{escape(held.what)}: {size(held.bytes)}</li>" for held in holders[:5])
    more = f"<li>and {len(holders) - 5} more</li>" if len(holders) > 5 else ""
    key = (
        "<b class='library'>area</b> what the call has made and still needs, beside its inputs; "
        f"<b class='break'>dashed line</b> the step with the most, {size(most)}, held by"
    )
    return f"{''.join(parts)}<p class='dim key'>{key}</p><ul>{names}{more}</ul>"


# ---- roofline ----


class Box(NamedTuple):
    """A rectangle of the picture: of a label or around a dot."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


class Dot(NamedTuple):
    step: Step
    x: float  # operations a byte, later pixels
    y: float  # operations a second, later pixels
    radius: float = 0.0

    def box(self) -> Box:
        r = self.radius
        return Box(self.x - r, self.y - r, self.x + r, self.y + r)


def _ticks(low: float, high: float) -> list[float]:
    return [10.0**k for k in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


class Axes:
    """Both axes are logarithmic: x operations a byte, y operations a second."""

    left, right, top, base, height = 64, _WIDTH - 8, 12, 216, 256

    def __init__(self, xs: tuple[float, float], ys: tuple[float, float]) -> None:
        self.xs, self.ys = xs, ys

    def across(self, x: float) -> float:
        return self.left + (self.right - self.left) * math.log(x / self.xs[0]) / math.log(
            self.xs[1] / self.xs[0]
        )

    def up(self, y: float) -> float:
        share = math.log(max(y, self.ys[0]) / self.ys[0]) / math.log(self.ys[1] / self.ys[0])
        return self.base - (self.base - self.top) * share

    def drawn(self) -> list[str]:
        parts = []
        for x in _ticks(*self.xs):
            at = self.across(x)
            parts.append(_line((at, at), (self.top, self.base), "line"))
            parts.append(_text(at, self.base + 14, f"{x:g}", "middle"))
        for y in _ticks(*self.ys):
            at = self.up(y)
            parts.append(_line((self.left, self.right), (at, at), "line"))
            parts.append(_text(self.left - 6, at + 4, f"{y / 1e9:g}", "end"))
        middle = (self.left + self.right) / 2
        parts.append(_text(middle, self.base + 32, "operations per byte moved", "middle"))
        parts.append(_upright((self.top + self.base) / 2, "GFLOP/s"))
        return parts

    def roof(self, machine: Machine) -> str:
        ridge = machine.flops / machine.bandwidth
        low = max(self.xs[0], self.ys[0] / machine.bandwidth)
        corners = [(low, low * machine.bandwidth), (ridge, machine.flops), (self.xs[1], machine.flops)]
        line = " ".join(f"{self.across(x):.1f},{self.up(y):.1f}" for x, y in corners)
        return f"<polyline points='{line}' fill='none' stroke='var(--fg)' stroke-width='1.5'/>"


def _axes(dots: list[Dot], machine: Machine) -> Axes:
    ridge = machine.flops / machine.bandwidth
    xs, ys = [ridge * 4, *(dot.x for dot in dots)], [machine.flops * 2, *(dot.y for dot in dots)]
    low = min(min(ys) / 2, machine.flops / 1e3)
    return Axes((min(xs) / 2, max(xs) * 2), (low, max(ys) * 1.2))


def _places(dot: Dot, name: str) -> list[tuple[float, float, str, Box]]:
    """Where a label may stand: right of its dot, left of it, above, below."""
    wide, gap = _LETTER * len(name), dot.radius + 3
    found = []
    for x, y, anchor in (
        (dot.x + gap, dot.y + 4, "start"),
        (dot.x - gap, dot.y + 4, "end"),
        (dot.x, dot.y - gap, "middle"),
        (dot.x, dot.y + gap + 8, "middle"),
    ):
        begin = x - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        found.append((x, y, anchor, Box(begin, y - _LINE + 2, begin + wide, y + 2)))
    return found


def _labels(dots: list[Dot]) -> list[str]:
    """Names of the dots that take longest, each where it meets no other label and no dot but its own."""
    taken: list[Box] = []
    parts = []
    for dot in dots[:_NAMED]:
        name = dot.step.name[:16]
        others = taken + [other.box() for other in dots if other is not dot]
        for x, y, anchor, box in _places(dot, name):
            inside = Axes.left < box.left and box.right < Axes.right and box.bottom < Axes.base
            if inside and not any(box.meets(other) for other in others):
                parts.append(_text(x, y, name, anchor))
                taken.append(box)
                break
    return parts


def roofline(graph: Graph, machine: Machine) -> str:
    """Operations a second over operations a byte, each step a dot."""
    found = [
        Dot(step, step.operations / step.bytes, step.operations / step.seconds)
        for step in graph.steps
        if step.seconds and step.bytes and step.operations
    ]
    if not found:
        return "<p class='dim'>Nothing here computes.</p>"
    found.sort(key=lambda dot: -(dot.step.seconds or 0))  # smaller dots are drawn over larger ones
    longest = found[0].step.seconds or 1
    axes = _axes(found, machine)
    dots = [
        Dot(d.step, axes.across(d.x), axes.up(d.y), 3 + 6 * math.sqrt((d.step.seconds or 0) / longest))
        for d in found
    ]
    parts = [
        f"<svg viewBox='0 0 {_WIDTH} {Axes.height}' width='{_WIDTH}' role='img' aria-label='roofline'>",
        *axes.drawn(),
        axes.roof(machine),
    ]
    for dot in dots:
        said = escape(f"{dot.step.label}: {duration(dot.step.seconds or 0)}, {share_text(dot.step, machine)}")
        parts.append(
            f"<circle cx='{dot.x:.1f}' cy='{dot.y:.1f}' r='{dot.radius:.1f}' fill='var(--{dot.step.kind})' "
            f"fill-opacity='.55' stroke='var(--bg)'><title>{said}</title></circle>"
        )
    kinds = dict.fromkeys(dot.step.kind for dot in dots)
    key = ", ".join(f"<b class='{kind}'>&#9679;</b> {_KINDS[kind]}" for kind in kinds)
    limits = (
        f"the slope is memory ({machine.bandwidth / 1e9:.1f} GB/s), "
        f"the flat part the processor ({machine.flops / 1e9:.0f} GFLOP/s)"
    )
    said = f"{key}; a larger dot takes longer. The line is the most that this machine does: {limits}."
    return "".join([*parts, *_labels(dots), f"</svg><p class='dim key'>{said}</p>"])
