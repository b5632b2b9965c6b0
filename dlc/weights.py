"""Option weights: frozen weights that become codes of few bits, and what became of each. docs/fewer_bytes.md.

The compiler in C decides and rewrites (csrc/capture/weights.c); here are the rows that it gets and makes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from .inputs import word_of
from .options import Options, warn

_MOST = 3  # weights that a warning names

#: What the compiler is told of an input: position, values, format, decibels, powers of a profile, rows.
Row = tuple[int, "torch.Tensor | None", str, "float | None", "list[float] | None", str]


@dataclasses.dataclass(frozen=True)
class Weight:
    """A weight that products read, and what became of it."""

    name: str
    format: str  # "int8", "int4", "int4 with zero points"; "float": it stays as it is
    before: int  # bytes
    after: int
    decibels: float  # signal above noise of the codes; NaN: not measured
    why: str | None  # it stays float
    rows: str = "exact"  # what dlc.quantize made of the rows of its products: "i8", "i16", "i32"

    def __str__(self) -> str:
        noise = "" if self.decibels != self.decibels else f", {self.decibels:.1f} dB"
        if self.why:
            return f"{self.name} stays float: {self.why}{noise}"
        rows = "" if self.rows == "exact" else f", rows {self.rows}"
        return f"{self.name}: {self.format}{rows}, {self.before:,} to {self.after:,} bytes{noise}"


class Wanted:
    """What is asked of each weight: by the option the same of all."""

    def __init__(self, format: str) -> None:
        self.format = format

    def row(self, position: int, tensor: torch.Tensor | None) -> Row:
        return position, tensor, self.format, None, None, "exact"

    def __str__(self) -> str:
        return self.format


def rows_of(options: Options, frozen: Sequence[int], values: Sequence[Any]) -> list[Row]:
    """Those for the compiler. values: the inputs of the graph, as far as they are known."""
    if options.weights is None:
        return []
    wanted = Wanted(options.weights) if isinstance(options.weights, str) else options.weights
    known = (values[k] if k < len(values) else None for k in frozen)
    plain = (t if type(t) in (torch.Tensor, torch.nn.Parameter) else None for t in known)
    return [wanted.row(k, t) for k, t in zip(frozen, plain, strict=True)]


def _name(gm: GraphModule, position: int, name: str) -> str:
    """As the user writes it: l.0.weight."""
    placeholder = gm.graph.find_nodes(op="placeholder")[position]
    source = getattr(placeholder, "_dynamo_source", None)
    word = word_of(str(getattr(source, "name", "")))
    return word.split(" ", 1)[-1].strip("'") if word else name


def say(
    options: Options, gm: GraphModule, rows: Sequence[Row], coded: Sequence[tuple[Any, ...]]
) -> list[Weight]:
    """What became of the weights of a graph; warns if the option changed nothing."""
    weights = [Weight(_name(gm, k, name), *rest) for k, name, *rest in coded]
    if not isinstance(options.weights, str):
        weights = options.weights.hear(rows, [(row[0], w) for row, w in zip(coded, weights, strict=True)])
    if weights and all(weight.why for weight in weights):
        shown = "; ".join(map(str, weights[:_MOST]))
        more = f"; and {len(weights) - _MOST} more" if len(weights) > _MOST else ""
        warn(f"dlc option weights={str(options.weights)!r} changes nothing in a graph: {shown}{more}")
    return weights


def say_gradients(options: Options) -> None:
    """That the option does nothing where gradients are recorded."""
    if options.weights is not None:
        warn(
            f"dlc option weights={str(options.weights)!r} changes nothing in a graph that records gradients: "
            "call it under torch.no_grad() or torch.inference_mode()"
        )
