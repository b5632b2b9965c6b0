"""The ops that have a strip of their own, and what their strips are called with."""

from __future__ import annotations

import re

from benchmarks.ulp.strips import ROOT

COUNT = 1024  # elements
MAP = re.compile(r"MAP\(\s*(\w+),\s*(\d),\s*(\w+),")
RULES = {
    "SAME": "i32 i64 f32 f64", "NUM": "i32 i64 f32 f64", "FLOAT": "f32 f64", "INT": "i32 i64",
    "CMP": "i32 i64 f32 f64", "PRED": "f32 f64", "SEL": "i32 i64 f32 f64", "CAST": "i32 i64 f32 f64",
}  # fmt: skip
CAST_TO = {"i32": "f32", "i64": "f32", "f32": "f64", "f64": "f32"}
Op = tuple[str, int, str, str]


def ops() -> list[Op]:
    """(name, operands, rule, dtype) of each op that has a strip of its own for the dtype."""
    rows = MAP.findall((ROOT / "csrc/ir/ops.def").read_text())
    return [(name, int(n), rule, d) for name, n, rule in rows for d in RULES.get(rule, "").split()]


def function(op: Op) -> str:
    """The name of its strip."""
    name, _, rule, dtype = op
    return f"strip_{name}_{dtype}_{CAST_TO[dtype]}" if rule == "CAST" else f"strip_{name}_{dtype}"


def dtypes(op: Op) -> list[str]:
    """Those of its operands."""
    _, arity, rule, dtype = op
    return ["bool" if rule == "SEL" and k == 0 else dtype for k in range(arity)]


def least(op: Op) -> int:
    """Operands are numbers from this one to the next: there the function is defined."""
    return 0 if op[0] in ("asin", "acos", "atanh", "erfinv") else 1
