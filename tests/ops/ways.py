"""Which operators, as functions, methods and in place, send a graph without gradients through AOTAutograd:
python -m tests.ops.ways [PART/OF]

Each is compiled with one sample that needs no gradient. What differs from INDIRECT is printed: NEW is what
it does not list, DIRECT what it lists and is taken directly. INDIRECT may only shrink.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dlc.report import collect
from tests.ops.check import Way, call, entries, samples

#: Operators that go through AOTAutograd, by the reason. `name.in_place` is the method that writes.
INDIRECT: dict[str, str] = {
    "a complex value that is written in place": "nn.functional.silu.in_place",
    "results that share the memory of one another": "unravel_index",
    "results of another kind than a tensor": "histogramdd",
    "an operator without a row, whose own name was called": "native_dropout_backward",
    "numbers that depend on data inside": "masked.prod",
}

PARTS = 60  # of the names of entries; a part takes some ten seconds


def variants(op: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The names and functions of an entry."""
    yield op.name, op.op
    if op.method_variant is not None:
        yield op.name, op.method_variant
    if op.inplace_variant is not None:
        yield f"{op.name}.in_place", op.inplace_variant


def sample_of(op: Any) -> Any:
    """The first sample of an entry in its first dtype of these; None: it has none."""
    for dtype in ("float32", "int64", "bool", "complex64"):
        if getattr(torch, dtype) in op.supported_dtypes("cpu"):
            return next(iter(samples(op, Way(dtype=dtype))), None)
    return None


def reasons(function: Callable[..., Any], sample: Any) -> list[str]:
    """Why graphs of the call went through AOTAutograd; none where eager raises, or Dynamo."""

    def inner(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return function(value, *args, **kwargs)

    torch._dynamo.reset()
    options = {"tier": "tcc", "cache": False}
    with collect() as reports:
        try:
            call(inner, sample)
            call(torch.compile(inner, backend="dlc", options=options), sample)
        except Exception:
            return []
    return [str(r["indirect"]) for r in reports if r.get("indirect")]


def allowed() -> set[str]:
    return {name for names in INDIRECT.values() for name in names.split()}


def indirect(op: Any) -> dict[str, str]:
    """Of an entry, the names that go through AOTAutograd, with their reason."""
    sample = sample_of(op)
    found: dict[str, str] = {}
    for name, function in variants(op) if sample is not None else ():
        for why in reasons(function, sample):
            found[name] = why.splitlines()[0]
    return found


def part(number: int, of: int = PARTS) -> Iterator[list[Any]]:
    """Every so manieth name, as its entries."""
    named: dict[str, list[Any]] = {}
    for op in entries():
        named.setdefault(op.name, []).append(op)
    yield from (named[name] for name in sorted(named)[number::of])


def differences(named: list[Any]) -> list[str]:
    """What INDIRECT says wrongly of the entries of one name."""
    found: dict[str, str] = {}
    for op in named:
        found |= indirect(op)
    listed = allowed() & {named[0].name, f"{named[0].name}.in_place"}
    new = [f"{name} (NEW): {why}" for name, why in found.items() if name not in listed]
    return new + [f"{name} (DIRECT): INDIRECT lists it" for name in sorted(listed - set(found))]


if __name__ == "__main__":
    number, of = map(int, (sys.argv[1] if len(sys.argv) > 1 else "0/1").split("/"))
    for ops in part(number, of):
        for line in differences(ops):
            print(line, flush=True)
