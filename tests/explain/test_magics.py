"""%dlc_explain and %%dlc: what a cell makes, what it shows, what it does not compile again."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import dlc
from dlc.report import Report
from tests.test_docs import DOCS, blocks

pytest.importorskip("IPython", reason="IPython is not installed")
from IPython.core.interactiveshell import InteractiveShell

PRODUCT = "C[m,n] = sum[k] A[m,k] * B[k,n]\n"
DOUBLE = "fn double[N](x: f32[N]) -> (f32[N]) {\n  let y: f32[N] = add x, x\n  ret y\n}\n"
COMPILES = ("graphs", "kernels", "tcc_compiles", "gcc_compiles")


@pytest.fixture
def shell() -> Iterator[Any]:
    made = InteractiveShell()
    made.run_line_magic("load_ext", "dlc")
    made.user_ns.update(torch=torch, dlc=dlc, a=torch.ones(8, 8), b=torch.ones(8, 8))
    yield made
    made.run_line_magic("unload_ext", "dlc")
    InteractiveShell.clear_instance()


@pytest.fixture
def said(shell: Any, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    def run(cell: str) -> str:
        capsys.readouterr()
        shell.run_cell(cell)
        out = capsys.readouterr()
        return re.sub(r"\x1b\[[\d;]*m", "", out.out + out.err)

    return run


def test_a_text_becomes_a_callable_with_its_report(shell: Any) -> None:
    result = shell.run_cell(f"%%dlc mm(a, b)\n{PRODUCT}").result
    torch.testing.assert_close(shell.user_ns["mm"](torch.eye(8), torch.eye(8)), torch.eye(8))
    assert "1 kernel, 1 product" in repr(result) and "contract" in repr(result)
    assert "<table>" in result._repr_html_() and "<script" not in result._repr_html_()


def test_what_no_call_has_measured_is_not_reported(shell: Any) -> None:
    report = repr(shell.run_cell(f"%%dlc mm\n{PRODUCT}").result)
    assert "1 kernel, 1 product, compiled in" in report
    assert re.search(r"k0 .* own *(the first step)?\n", report), report


def test_a_program_becomes_a_callable(shell: Any) -> None:
    result = shell.run_cell(f"%%dlc twice\n{DOUBLE}").result
    assert "twice(x)" in repr(result) and "      3   let y: f32[N] = add x, x   # k0" in repr(result)
    twice = shell.user_ns["twice"]
    assert twice(torch.ones(3)).tolist() == [2, 2, 2]
    assert twice(torch.ones(5).numpy()).tolist() == [2] * 5
    with pytest.raises(TypeError, match="'x' is f32 of 2 axes: the program takes f32"):
        twice(torch.ones(3, 3))
    with pytest.raises(TypeError, match=r"double takes \(x\)"):
        twice()


@pytest.mark.parametrize("cell", [f"%%dlc mm(a, b)\n{PRODUCT}", f"%%dlc twice(a[0])\n{DOUBLE}"])
def test_a_cell_that_is_run_again_compiles_nothing(shell: Any, cell: str) -> None:
    shell.run_cell(cell)
    dlc.wait()
    before = dlc.counters()
    shell.run_cell(cell)
    after = dlc.counters()
    assert {name: after[name] for name in COMPILES} == {name: before[name] for name in COMPILES}
    assert after["calls"] > before["calls"]


def test_a_definition_that_is_run_again_compiles_no_machine_code(shell: Any) -> None:
    cell = "@dlc.jit\ndef f(x):\n    return x.sin() * 3.5 + x\nf(a)"
    shell.run_cell(cell)
    dlc.wait()
    before = dlc.counters()
    assert shell.run_cell(cell).success
    after = dlc.counters()
    assert [after[n] - before[n] for n in ("tcc_compiles", "gcc_compiles")] == [0, 0]


@pytest.mark.parametrize("call", ["", "(a, b)"])
def test_a_report_shows_the_lines_of_the_cell(shell: Any, call: str) -> None:
    """Of a kernel each statement, also one of two lines; not the program that became of it."""
    cell = (
        f"%%dlc relu_of_product{call}\n"
        "# rows by columns\n"
        "C[m,n] = sum[k] A[m,k] * B[k,n]\n"
        "D[m,n] = max(C[m,n],\n"
        "  0)\n"
        "E[m] = max[n] D[m,n]\n"
    )
    cell = cell.replace(",\n  0", ", 0") if call else cell
    result = shell.run_cell(cell).result
    assert result is not None
    text, page = repr(result), result._repr_html_()
    assert "      3 C[m,n] = sum[k] A[m,k] * B[k,n]   # k0" in text and "cell:3" in text
    last = 5 if call else 6
    assert f"      {last} E[m] = max[n] D[m,n]   # k1" in text
    assert "let t0" not in text and "C[m,n] = sum[k] A[m,k] * B[k,n]" in page


def test_a_magic_in_a_cell_is_shown_as_it_was_written(shell: Any) -> None:
    cell = "def f(x):\n    return x.sin()\nreport = %dlc_explain f(a)\nz = f(a)\nreport"
    report = shell.run_cell(cell).result
    assert "      3 report = %dlc_explain f(a)" in repr(report) and "cell " in repr(report)
    assert "get_ipython" not in repr(report) + report._repr_html_()


def test_explain_takes_a_call_or_an_expression(shell: Any, said: Callable[[str], str]) -> None:
    shell.run_cell("def f(x):\n    return x.sin() + 1")
    report = shell.run_cell("%dlc_explain -o tier=tcc f(a)").result
    assert isinstance(report, Report) and report.graphs[0].steps[0].tier == "tcc"
    text = said("%dlc_explain (a * 2).sum()")
    assert "mul + sum" in text and "lambda a: ((a * 2).sum())   # k0" in text
    assert len(text.splitlines()) < 20


@pytest.mark.parametrize(
    ("cell", "lines"),
    [
        (
            "%%dlc c\n\nC[m] = A[m,k]\n",
            ["cell:3:12: index 'k' is neither on the left", "  C[m] = A[m,k]", "             ^"],
        ),
        (f"%%dlc t\n{DOUBLE.replace('add', 'ad')}", ["cell:3:19: 'ad' is not an operation", "    ^"]),
        ("%dlc_explain (a", ["    (a", "'(' was never closed"]),
        ("dlc.kernel('C[m] = A[m,k]')", ["1 dlc.kernel(", "index 'k' is neither"]),
        ("%dlc_explain", ["TypeError: %dlc_explain takes a call"]),
        ("%dlc_explain torch.sin", ["takes a call or an expression of tensors: torch.sin computes nothing"]),
        ("%dlc_explain -o torch.sin(a)", ["has one option, -o name=value: %dlc_explain -o freeze=True f(x)"]),
        ("%%dlc\nC[m] = A[m]", ["TypeError: %%dlc takes the name to bind"]),
    ],
)
def test_an_error_has_its_line_and_nothing_of_dlc(
    said: Callable[[str], str], cell: str, lines: list[str]
) -> None:
    text = said(cell)
    assert all(line in text for line in lines), text
    assert "magics.py" not in text and "notation.py" not in text and "get_ipython" not in text


def test_an_error_of_the_users_own_is_left_as_it_is(said: Callable[[str], str]) -> None:
    assert "----> 1 1 / 0" in said("1 / 0").replace("1/0", "1 / 0")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell starts what runs in its background with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.in_turn(3)
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_a_working_state(shell: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """While the C compiler is waited for, and between calls."""
    begun = tmp_path / "begun"
    cc = tmp_path / "cc"
    cc.write_text(f"#!/bin/sh\ntouch {begun}\nsleep 15\n")
    cc.chmod(0o755)
    monkeypatch.setenv("DLC_CC", str(cc))
    monkeypatch.setenv("DLC_CACHE", "0")

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    result = shell.run_cell("f = dlc.jit(lambda x: x.cos() * 1.25, tier='gcc')\nf(a)\ndlc.wait()")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    monkeypatch.delenv("DLC_CC")
    assert shell.run_cell("f(b)").success
    torch.testing.assert_close(shell.user_ns["f"](torch.zeros(2)), torch.full((2,), 1.25))


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_of_calls_leaves_a_working_state(shell: Any) -> None:
    shell.run_cell(
        "g = dlc.jit(lambda x: (x.sin() * x.cos()).sum(0), tier='tcc')\nx = torch.ones(999, 999)\ng(x)"
    )
    main, begun = threading.main_thread().ident or 0, threading.Event()
    shell.user_ns["begun"] = begun

    def interrupt() -> None:  # not before the loop runs: IPython keeps an interrupt of its own work to itself
        begun.wait(60)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    result = shell.run_cell("for _ in range(20000):\n    g(x)\n    begun.set()")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    torch.testing.assert_close(shell.user_ns["g"](torch.zeros(3, 3)), torch.zeros(3))


def test_the_page_about_schedules_runs_in_cells(shell: Any) -> None:
    cells = [block.text for block in blocks(DOCS / "howto/schedule.md") if block.kind == "python"]
    shown = [cell for cell in cells if "import re" not in cell and "check(" not in cell]
    assert len(shown) > 8
    for cell in shown:
        assert shell.run_cell(cell).success, cell
