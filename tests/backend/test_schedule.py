"""dlc.schedule: kernels with a schedule that is written, compiled; and what dlc.explain prints of one."""

import pickle
import re

import numpy as np
import pytest
import torch

import dlc

DOUBLE = "Y[j,i] = 2 * X[i,j]"
TILES = "for i2 split=32 reorder\nfor i3 split=32\nfor i2_out parallel\nfor i2_in vector\n"
SOFTMAX = "E[i,j] = exp(X[i,j] - max[l] X[i,l])\nY[i,j] = E[i,j] / sum[k] E[i,k]"


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("sizes", [(0, 3), (1, 1), (31, 33), (32, 64), (100, 70), (5, 200)])
def test_it_runs_with_the_same_bits(
    tier: str, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLC_TIER", tier)
    x = torch.randn(sizes)
    mine = dlc.schedule(dlc.kernel(DOUBLE), TILES + "target cc\nfor i2_in width=32")
    wants = 2 * x.T
    assert torch.equal(mine(x), wants)
    assert torch.equal(mine(torch.randn(sizes[1], sizes[0]).copy_(x.T).T), wants)  # another layout
    assert np.array_equal(mine(x.numpy()), wants.numpy())


def test_the_lines_are_those_of_the_kernel() -> None:
    kernel = dlc.kernel(DOUBLE)
    lines = kernel.schedule(torch.float32)
    assert "for i2 parallel tile\n" in lines and "split" not in lines
    mine = dlc.schedule(kernel, TILES)
    printed = mine.schedule(torch.float32)
    assert "  for i3_in in min(X_0 - 32*i3_out, 32) {" in printed
    assert dlc.schedule(kernel, lines).schedule(torch.float32) == lines
    assert kernel.schedule(torch.float32) == lines
    again = pickle.loads(pickle.dumps(mine))
    assert again.schedule(torch.float32) == printed
    assert repr(again).startswith("dlc.schedule(dlc.kernel(")


def test_the_name_of_a_kernel_ends_what_is_said_of_a_target() -> None:
    mine = dlc.schedule(dlc.kernel(DOUBLE), "kernel k0\ntarget cc\nfor i2_in width=32\nkernel k0\n" + TILES)
    plain = dlc.schedule(dlc.kernel(DOUBLE), TILES + "target cc\nfor i2_in width=32")
    assert mine.schedule(torch.float32) == plain.schedule(torch.float32)
    x = torch.randn(40, 50)
    assert torch.equal(mine(x), 2 * x.T)


def test_a_gradient_and_a_compiled_function_have_it_without_its_schedule() -> None:
    mine = dlc.schedule(dlc.kernel(DOUBLE), TILES)
    x = torch.randn(40, 50, requires_grad=True)
    mine(x).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 2))
    compiled = torch.compile(lambda x: mine(x) + 1, backend="dlc", fullgraph=True)
    assert torch.equal(compiled(x.detach()), 2 * x.detach().T + 1)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("for i9 vector", "line 1 of the schedule, `for i9 vector`: there is no 'for i9' here"),
        ("for i2 split=4 split=5", "line 1 of the schedule, `for i2 split=4 split=5`: it has 'split' twice"),
        ("for i2 split=4294967297", "behind = stands a number from 1 to 2147483647"),
        ("\nfor i2 vector\nfor i3 parallel", "line 3 of the schedule, `for i3 parallel`: V18"),
        ("kernel k1\nfor i0 parallel", "line 1 of the schedule, `kernel k1`: the program has 1 kernels"),
    ],
)
def test_a_mistake_is_an_error_with_its_line(lines: str, why: str) -> None:
    mine = dlc.schedule(dlc.kernel(DOUBLE), lines)
    for call in lambda: mine(torch.randn(4, 4)), lambda: mine.schedule(torch.float32):
        with pytest.raises(ValueError, match=re.escape(why)):
            call()


def test_what_is_no_kernel_or_no_text() -> None:
    with pytest.raises(TypeError, match=r"takes a dlc\.kernel or a program of dlc\.ir, not a value of type"):
        dlc.schedule(torch.relu, "")  # type: ignore[type-var]
    with pytest.raises(TypeError, match="a schedule is a text of lines"):
        dlc.schedule(dlc.kernel(DOUBLE), 3)  # type: ignore[arg-type]


def test_programs_of_the_language() -> None:
    graph = dlc.ir.parse(dlc.kernel(DOUBLE).program(torch.float32))
    assert graph.schedule() == dlc.kernel(DOUBLE).schedule(torch.float32)
    with pytest.raises(ValueError, match="not for a program of the graph stage"):
        dlc.schedule(graph, "for i0 parallel")
    loops = dlc.ir.parse("""dlc 1 loops
fn f[N, M](x: f32[N, M]) -> (f32[M, N]) {
  let y: f32[M, N] = kernel {
    for i in N { for j in M { let a: f32 = load x[i, j] store y[j, i] = a } }
  }
  ret y
}
""")
    tiled = dlc.schedule(loops, "for i split=4 reorder\nfor j split=4\nfor i_out parallel")
    assert "for j_in in min(M - 4*j_out, 4)" in tiled.text
    x = np.random.rand(7, 9).astype(np.float32)
    assert np.array_equal(tiled(x), x.T)
    with pytest.raises(ValueError, match="not for a program of the loops stage"):
        tiled.schedule()


def test_a_report_has_the_schedule_of_each_kernel() -> None:
    """With several kernels; each part gives the loops that it was printed with."""
    with torch.no_grad():
        report = dlc.explain(
            lambda x, y: (torch.softmax(x, -1), y.sum(0), (y @ y.T).relu()),
            torch.randn(20, 30),
            torch.randn(64, 64),
            options={"tier": "tcc", "products": "own"},
        )
    kernels = [step for graph in report.graphs for step in graph.steps if step.kind == "kernel"]
    assert len(kernels) >= 3
    for step in kernels:
        assert step.texts["schedule"].startswith("# let ")
        assert re.search(r"^for \w+ .*parallel", step.texts["schedule"], re.MULTILINE)
    whole = dlc.kernel(SOFTMAX).schedule(torch.float32)
    assert dlc.schedule(dlc.kernel(SOFTMAX), whole).schedule(torch.float32) == whole
