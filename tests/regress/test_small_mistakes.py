"""Small mistakes around dlc's functions: each says what was given, to which kernel, and what to write."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dlc
from dlc.report import model
from dlc.report.machine import Machine
from dlc.report.text import doubts
from tests.fresh import run

PRODUCT = dlc.kernel("C[m,n] = sum[k] A[m,k] * B[k,n]")
TAKE = dlc.kernel("Y[n,d] = T[I[n], d]")
ROWS, FAR = torch.ones(3, 2), torch.tensor([5])
TEXT = """dlc 1 graph

fn f[N](a: f32[N], b: f32[N]) -> (f32[N]) {
  let y: f32[N] = add a, b
  ret y
}
"""

MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "an argument twice": (lambda: PRODUCT(ROWS, A=ROWS), TypeError, "'A' is given twice, by its place"),
    "another argument": (lambda: PRODUCT(A=ROWS, D=ROWS), TypeError, "'D' is none of them"),
    "an index that is data": (
        lambda: TAKE(ROWS, FAR),
        IndexError,
        r"dlc\.kernel\('Y\[n,d\] = T\[I\[n\], d\]'\): an index is outside of an argument: write zero",
    ),
    "with a gradient": (
        lambda: TAKE(ROWS.clone().requires_grad_(), FAR),
        IndexError,
        r"dlc\.kernel\('Y.*outside of an argument",
    ),
    "of an array": (lambda: TAKE(np.ones((3, 2)), np.array([5])), IndexError, r"dlc\.kernel\('Y"),
    "a range": (lambda: dlc.kernel("y[t] = X[t] for t in 0..9")(ROWS[0]), IndexError, "write zero, clamp"),
    "a program's type": (lambda: dlc.ir.parse(3), TypeError, "the text of a program, not a value"),  # type: ignore[arg-type]
    "a program's file": (lambda: dlc.ir.parse("a/x.dlc"), ValueError, r"Path\('a/x\.dlc'\)\.read_text\(\)"),
    "a pass": (lambda: dlc.ir.parse(TEXT).run_pass("fus"), ValueError, "no pass 'fus': did you mean 'fuse'"),
    "no pass": (lambda: dlc.ir.parse(TEXT).run_pass("zzz"), ValueError, "no pass 'zzz': `python -m dlc opt"),
    "thaw": (lambda: dlc.thaw(3), TypeError, "a module, a tensor or None, not a value of type int"),
    "a trace's folder": (lambda: dlc.trace_start("/none/x"), FileNotFoundError, "no such folder"),
    "a trace's type": (lambda: dlc.trace_start(3), TypeError, "os.PathLike"),
    "a difference": (lambda: model.Report([]) - 3, TypeError, "unsupported operand"),  # type: ignore[operator]
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake(name: str) -> None:
    do, kind, said = MISTAKES[name]
    with pytest.raises(kind, match=said):
        do()
    assert dlc.trace_stop() is None  # no trace has begun


def item(x: Any, y: Any) -> Any:
    x[0] = y
    return x


def view(x: Any, y: Any) -> Any:
    part = x.view(2, 1)
    part[0].mul_(y)
    return part


def helper(x: Any, y: Any) -> Any:
    return doubled(x) + y


def doubled(x: Any) -> Any:
    return torch.mul(x, 2, out=x)


@pytest.mark.parametrize("fn", [item, view, helper])
def test_a_write_to_an_argument_is_made(fn: Any) -> None:
    given, wanted = torch.ones(2), torch.ones(2)
    torch.testing.assert_close(dlc.jit(fn)(given, 3.0), fn(wanted, 3.0))
    torch.testing.assert_close(given, wanted)


def test_a_name_that_is_nearly_one_of_dlc() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = dlc.explian
    assert caught.value.name == "explian" and caught.value.obj is dlc  # what Python's suggestion is made of


def test_a_trace_that_cannot_be_written_ends_no_program(tmp_path: Path) -> None:
    trace = str(tmp_path / "none" / "trace.json")
    done = run("import dlc; print(dlc.counters()['graphs'])", where={"bare": True}, DLC_TRACE=trace)
    assert done.returncode == 0 and done.stdout == "0\n"
    assert f"cannot write a trace to {trace}" in done.stderr and "DLC_TRACE" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_kernel_that_is_made_in_a_compiled_function(recwarn: Any) -> None:
    def f(x: Any) -> Any:
        return dlc.kernel("y[i] = x[i] * 2")(x) + 1

    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(f, backend="dlc")(ROWS[0]), ROWS[0] * 2 + 1)
    assert not [w for w in recwarn if "file an issue" in str(w.message)]
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="make the kernel once, outside of the compiled"):
        torch.compile(f, backend="dlc", fullgraph=True)(ROWS[0])


def test_a_report_without_shares_says_why() -> None:
    machine = Machine("a processor", "avx2", 2, 1e10, 1e11, 1e-6, "2026-01-01", disturbed=True)
    graph = dlc.explain(lambda x: x + 1, ROWS).graphs[0]
    report = model.Report([graph], machine=machine)
    (said,) = doubts(report)
    assert re.match(
        "no shares are printed: the limits of this machine were measured while other programs", said
    )
    assert not list(
        doubts(dataclasses.replace(report, machine=dataclasses.replace(machine, disturbed=False)))
    )
