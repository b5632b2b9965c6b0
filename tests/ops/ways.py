"""Which operators, as functions, methods and in place, send a graph without gradients through AOTAutograd:
python -m tests.ops.ways [PART/OF]

Each is compiled with one sample that needs no gradient. What INDIRECT does not list is marked as new;
INDIRECT may only shrink.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dlc.report import collect
from tests.ops.check import Way, call, entries, samples

#: Operators that go through AOTAutograd, by the reason. `name.in place` is the method that writes.
INDIRECT: dict[str, str] = {
    # drawn in place, or by a function that has no operator of its own
    "random numbers": """
        bernoulli.in_place cauchy cauchy.in_place exponential exponential.in_place geometric
        geometric.in_place log_normal log_normal.in_place normal.in_place uniform uniform.in_place
        nn.functional.rrelu nn.functional.rrelu.in_place
        nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
        nn.functional.alpha_dropout nn.functional.feature_alpha_dropout
        nn.functional.dropout.in_place nn.functional.dropout2d nn.functional.dropout3d normal
        nn.functional.scaled_dot_product_attention nn.functional.multi_head_attention_forward
    """,
    # a tensor that torch conjugates or negates when it is read
    "lazy views": "conj real imag resolve_conj resolve_neg conj_physical view_as_real view_as_complex",
    "several tensors that share the memory of others": "cartesian_prod",
    "numbers": "broadcast_shapes",
    "the shape of an argument changes": """
        squeeze.in_place unsqueeze.in_place t.in_place transpose.in_place swapaxes.in_place
        resize_ resize_as_ as_strided.in_place
    """,
    "statistics that change": """
        _native_batch_norm_legit native_batch_norm _batch_norm_with_update nn.functional.batch_norm
        nn.functional.instance_norm
    """,
}


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


if __name__ == "__main__":
    part, of = map(int, (sys.argv[1] if len(sys.argv) > 1 else "0/1").split("/"))
    for k, op in enumerate(entries()):
        for name, why in indirect(op).items() if k % of == part else ():
            print(f"{name}{'' if name in allowed() else ' (NEW)'}: {why}", flush=True)
