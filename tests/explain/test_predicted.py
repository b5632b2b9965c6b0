"""Predicted bytes and times, on machines that do not exist: then a figure can be computed by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

import dlc
from dlc import _C
from dlc.report.machine import measured_machine
from tests.dlc_opt import opt

LEVELS = 8  # working sets, from 16 kB, each four times the one before
FAST, SLOW = 1e30, 1.0


def speeds(
    clock: float = FAST,
    fork: float = 0.0,
    traffic: list[float] | None = None,
    streamed: float = 0.0,
    jumping: float = 0.0,
) -> list[float]:
    rates = traffic or LEVELS * [FAST]
    each = [*rates, *rates, streamed or rates[-1], jumping or rates[-1]]  # read and copied by working set
    return [clock, fork, *each, *each]


def predict(
    text: str, sizes: dict[str, int], launch: float = 0.0, product: float = FAST, **of: Any
) -> list[Any]:
    """The steps of a graph with its usual loops."""
    loops = opt(opt(text, "--pipeline"), "--pass", "lower,schedule")
    return _C.predict(loops, sizes, 1, launch, product, speeds(**of))


def graph(signature: str, result: str, *lets: str) -> str:
    body = "\n".join(f"  let {let}" for let in lets)
    name = lets[-1].partition(":")[0]
    return f"dlc 1 graph\n\nfn f{signature} -> ({result}) {{\n{body}\n  ret {name}\n}}\n"


def doubled(n: int | str, dtype: str = "f32", sizes: str = "") -> str:
    return graph(f"{sizes}(x: {dtype}[{n}])", f"{dtype}[{n}]", f"y: {dtype}[{n}] = add x, x")


# -- bytes -----------------------------------------------------------------------------------------


STRIDED = """dlc 1 graph

fn f(x: f32[{n}] strides=[64]) -> (f32[{n}]) {{
  let y: f32[{n}] = add x, x
  ret y
}}
"""
BROADCAST = graph(
    "(x: f32[50, 40], b: f32[40])",
    "f32[50, 40]",
    "e: f32[50, 40] = expand b to=[1]",
    "y: f32[50, 40] = add x, e",
)
TWICE = graph(
    "(x: f32[50, 400])",
    "f32[50, 400]",
    "m: f32[50] = amax x axes=[1]",
    "e: f32[50, 400] = expand m to=[0]",
    "y: f32[50, 400] = sub x, e",
)
IN_PLACE = (
    "dlc 1 graph\n\nfn f(x: f32[500]) -> (f32[500] into x) {\n  let y: f32[500] = add x, x\n  ret y\n}\n"
)

BYTES = {
    "dense": (doubled(1000), 2 * 4 * 1000),
    "one element": (doubled(1), 2 * 4),
    "none": (doubled(0), 0),
    "half the bytes": (doubled(1000, "bf16"), 2 * 2 * 1000),
    "twice the bytes": (doubled(1000, "f64"), 2 * 8 * 1000),
    "broadcast": (BROADCAST, 4 * (2 * 50 * 40 + 40)),
    "read twice, counted once": (TWICE, 2 * 4 * 50 * 400),
    "in place": (IN_PLACE, 4 * 500),
}  # fmt: skip


@pytest.mark.parametrize("name", BYTES)
def test_bytes_are_those_of_the_elements_that_are_reached(name: str) -> None:
    text, expected = BYTES[name]
    ((op, moved, *_),) = predict(text, {})
    assert op == "kernel" and moved == expected


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 1000])
def test_a_column_reads_whole_lines(n: int) -> None:
    ((_, moved, *_),) = predict(STRIDED.format(n=n), {})
    assert moved == min(64 * n, 4 * (64 * (n - 1) + 1)) + 4 * n


@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_sizes_that_are_symbols_are_those_of_the_call(n: int) -> None:
    of = {"clock": 1e6, "traffic": LEVELS * [1e6], "launch": 1e-3}
    dynamic = predict(doubled("N", sizes="[N in 0..inf]"), {"N": n}, **of)
    assert [row[1:3] for row in dynamic] == [row[1:3] for row in predict(doubled(n), {}, **of)]


def test_a_size_that_is_not_given_is_a_typical_one() -> None:
    assert predict(doubled("N", sizes="[N in 0..inf]"), {})[0][1] == 2 * 4 * 256


# -- limits ----------------------------------------------------------------------------------------


def limit(**of: Any) -> str:
    return predict(doubled(4096), {}, **of)[0][-1]


def test_the_slowest_part_is_the_limit() -> None:
    assert limit(clock=SLOW) == "arithmetic"
    assert limit(traffic=LEVELS * [SLOW]) == "memory"
    assert limit(launch=SLOW) == "launch"


def test_the_time_is_the_longer_part_a_part_of_the_other_and_the_start() -> None:
    ((_, _, moving, computing, starting, seconds, _),) = predict(
        doubled(4096), {}, clock=1e9, traffic=LEVELS * [1e10], launch=1e-6
    )
    assert moving == pytest.approx(2 * 4 * 4096 / 1e10) and starting == 1e-6 and 0 < computing < moving
    assert moving + starting < seconds < moving + computing + starting


def test_a_dear_operation_takes_more_cycles() -> None:
    def cycles(op: str) -> float:
        text = graph("(x: f32[4096])", "f32[4096]", f"y: f32[4096] = {op}")
        return predict(text, {}, clock=1.0)[0][3]

    assert cycles("neg x") < cycles("exp x") < cycles("lgamma x")


def product(dtype: str, n: int = 64) -> str:
    t = f"{dtype}[{n}, {n}]"
    return graph(f"(x: {t}, y: {t})", t, f'z: {t} = contract x, y over="mk,kn->mn"')


def test_a_product_counts_by_its_multiply_adds() -> None:
    """The last tile has fewer rows than the one in the middle, which counts for all."""
    ((*_, seconds, reason),) = predict(product("f32"), {}, product=1e6)
    assert seconds == pytest.approx(2 * 64**3 / 1e6, rel=0.05) and reason == "arithmetic"
    ((*_, wide, _),) = predict(product("f64"), {}, product=1e6)
    assert wide == pytest.approx(2 * seconds, rel=0.01)


# -- working sets ----------------------------------------------------------------------------------


def test_bytes_come_from_where_the_program_left_them() -> None:
    """A tensor that was just made is near; what a call touched long ago has to come from far away."""
    n = 1 << 20
    chain = graph(
        f"(x: f32[{n}], w: f32[64, 64])",
        "f32[64, 64]",
        f"a: f32[{n}] = exp x",
        "s: f32[] = sum a axes=[0]",
        "e: f32[64, 64] = expand s to=[]",
        "y: f32[64, 64] = mul w, e",
        'z: f32[64, 64] = contract y, w over="mk,kn->mn"',
    )
    near_is_fast = {"traffic": [1e12, 1e12, *(LEVELS - 2) * [1e6]]}
    first, *_, last = predict(chain, {}, **near_is_fast)
    assert first[1] >= 4 * n and first[2] == pytest.approx(first[1] / 1e6, rel=0.01)  # all of it from far
    assert last[1] >= 2 * 64 * 64 * 4 and last[2] < 0.9 * last[1] / 1e6  # y and z are near


def test_a_small_program_stays_in_the_first_cache() -> None:
    traffic = [1e12, *(LEVELS - 1) * [1.0]]
    assert predict(doubled(1000), {}, traffic=traffic)[0][2] == pytest.approx(8000 / 1e12)


def test_between_two_working_sets_the_rate_is_between_theirs() -> None:
    traffic = [1e12, 1e10, *(LEVELS - 2) * [1.0]]
    moving = [predict(doubled(n), {}, traffic=traffic)[0][2] * 1e12 / (8 * n) for n in (2048, 4096, 8192)]
    assert moving == pytest.approx([1, 10, 100], rel=0.01)


# -- how loops run ---------------------------------------------------------------------------------


def of_loops(text: str, **of: Any) -> Any:
    """The only kernel of a program of loops."""
    (found,) = _C.predict(text, {}, 1, 0.0, FAST, speeds(**of))
    return found


JOINED = """dlc 1 loops

fn f(x: f32[100, 64], z: f32[100, 64]) -> (f32[100, 128]) {
  let y: f32[100, 128] = kernel {
    for i in 100 {
      for j in 64 vector {
        let a: f32 = load x[i, j]
        store y[i, j] = a
      }
      for k in 64 vector {
        let b: f32 = load z[i, k]
        store y[i, k + 64] = b
      }
    }
  }
  ret y
}
"""


def test_what_two_loops_store_is_counted_once() -> None:
    assert of_loops(JOINED)[1] == 4 * (2 * 100 * 64 + 100 * 128)
    apart = JOINED.replace("      }\n      for k", "      }\n    }\n    for i2 in 100 {\n      for k")
    assert of_loops(apart.replace("z[i, k]", "z[i2, k]").replace("y[i, k +", "y[i2, k +"))[1] == 4 * 25600


def row_sum(marks: str, n: int = 1 << 16) -> str:
    return f"""dlc 1 loops

fn f(x: f32[8, {n}]) -> (f32[8]) {{
  let y: f32[8] = kernel {{
    for i in 8 {{
      let s: f32 = reduce sum k in {n} lanes{marks} {{
        let a: f32 = load x[i, k]
        ret a
      }}
      store y[i] = s
    }}
  }}
  ret y
}}
"""


def test_parts_of_a_row_overlap() -> None:
    """A step of a sum waits for the one before it, unless others go on, as those of the next short row do."""
    one, four = (of_loops(row_sum(marks), clock=1.0)[3] for marks in ("", " parts=4"))
    assert one > 1.5 * four
    short, parts = (of_loops(row_sum(marks, 64), clock=1.0)[3] for marks in ("", " parts=4"))
    assert short == parts


def test_what_a_row_reads_again_comes_from_where_the_row_leaves_it() -> None:
    """A row of 16 kB stays in the first cache, and one of 256 kB comes from the second each time."""
    for n, slower in ((1 << 12, False), (1 << 16, True)):
        once = row_sum("", n)
        again = once.split("\n")[5:9]
        again = [line.replace("s:", "s2:").replace("k", "k2", 1).replace("a:", "b:") for line in again]
        again = [line.replace("[i, k]", "[i, k2]").replace("ret a", "ret b") for line in again]
        twice = once.replace("      store y[i] = s", "\n".join(again) + "\n      store y[i] = s2")
        traffic = [1e12, 1e12, *(LEVELS - 2) * [1e9]]
        moving = [of_loops(text, traffic=traffic)[2] for text in (once, twice)]
        assert (moving[1] > 1.5 * moving[0]) == slower, moving


SCALED = """dlc 1 loops

fn f(x: f32[{n}]) -> (f32[{n}]) {{
  let y: f32[{n}] = kernel {{
    for i in {n} vector streams {{
      let a: f32 = load x[i]
      let b: f32 = mul a, 2.0
      store y[i] = b nontemporal=1048576 footprint=2097152 array=16
    }}
  }}
  ret y
}}
"""


def test_stores_that_bypass_caches_have_a_rate_of_their_own() -> None:
    """From the sizes of the marks on: a copy that streams has read behind what it takes to read."""
    traffic = [*5 * [1e12], *(LEVELS - 5) * [1e9]]
    for n, bypasses in ((1 << 17, False), (1 << 24, True)):
        slow, fast = (of_loops(SCALED.format(n=n), traffic=traffic, streamed=rate)[2] for rate in (1e9, 2e9))
        assert (fast < 0.6 * slow) == bypasses and (fast == slow) == (not bypasses)


def test_memory_that_is_read_in_short_runs_is_slow() -> None:
    """Rows of 4 kB that lie 64 kB apart, and the same ones in a row."""
    traffic = [*6 * [1e12], *(LEVELS - 6) * [1e10]]
    text = """dlc 1 loops

fn f(x: f32[16, 4096, 1024]) -> (f32[4096, 16]) {
  let y: f32[4096, 16] = kernel {
    for i in 4096 {
      for j in 16 {
        let s: f32 = reduce sum k in 1024 lanes {
          let a: f32 = load x[j, i, k]
          ret a
        }
        store y[i, j] = s
      }
    }
  }
  ret y
}
"""
    in_a_row = text.replace("16, 4096, 1024", "4096, 16, 1024").replace("x[j, i, k]", "x[i, j, k]")
    apart, adjacent = (of_loops(t, traffic=traffic, jumping=5e9)[2] for t in (text, in_a_row))
    assert apart == pytest.approx(2 * adjacent, rel=0.05)


# -- what is refused -------------------------------------------------------------------------------


def test_what_is_no_program_of_loops_is_refused() -> None:
    with pytest.raises(ValueError, match="kernels"):
        _C.predict(opt(doubled(8), "--pipeline"), {}, 1, 0.0, 1.0, speeds())
    with pytest.raises(dlc.ParseError):
        _C.predict("no program", {}, 1, 0.0, 1.0, speeds())
    with pytest.raises(ValueError, match="38 numbers"):
        _C.predict(doubled(8), {}, 1, 0.0, 1.0, [1.0])
    with pytest.raises(TypeError):
        _C.predict(doubled(8), {"N": "8"}, 1, 0.0, 1.0, speeds())


# -- the machine, and the report -------------------------------------------------------------------


def test_what_the_machine_is_measured_to_do() -> None:
    clock, fork, *traffic = _C.speeds()
    assert (
        len(traffic) == 2 * (2 * LEVELS + 2) and min(traffic) > 1e6 and 1e8 < clock < 1e11 and 0 <= fork < 10
    )


def test_a_report_has_predictions_beside_times() -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return torch.softmax(x @ w, -1).cumsum(0)

    x, w = torch.randn(96, 64), torch.randn(64, 48)
    with torch.no_grad():
        report = dlc.explain(f, x, w)
    (found,) = report.graphs
    machine = measured_machine()
    assert found.predicted == pytest.approx(sum(step.predicted for step in found.steps))
    for step in found.steps:
        assert step.predicted and step.predicted >= machine.launch and step.predicted_bytes > 0
        assert step.limit in ("memory", "arithmetic", "launch")
    text = str(report)
    assert ", predicted " in text and "limit" in text
    assert f">{found.steps[0].limit}<" in report._repr_html_()


def test_kernels_that_use_the_same_names_are_predicted() -> None:
    """Of two units, whose names were made apart."""
    layer = torch.nn.LayerNorm(1024).bfloat16()
    with torch.no_grad():
        report = dlc.explain(layer, torch.randn(64, 1024).bfloat16())
    assert report.graphs[0].predicted


def test_the_peak_is_of_all_threads_on_a_busy_machine() -> None:
    """A thread that came first counted alone, as it did the share of the others too: half of the peak."""
    if (os.cpu_count() or 1) < 2:
        pytest.skip("needs two processors")
    loop = "import time\nend = time.time() + 60\nwhile time.time() < end: pass"
    others = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(2)]
    script = (
        "import torch, dlc\nfor n in 1, 2:\n  torch.set_num_threads(n)\n"
        "  print(max(dlc._C.peak() for _ in range(5)))"
    )
    try:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    finally:
        for other in others:
            other.kill()
            other.wait()
    one, two = map(float, done.stdout.split())
    assert two > 1.5 * one
