"""Loops and branches of the language: plans that run bodies, against the interpreter, bit for bit."""

import re
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
import torch

import dlc
import dlc.backend  # (the compiler wants to know of torch)
from dlc import ir
from dlc.compiler import compile_with
from dlc.options import parse
from dlc.repro import Repro
from dlc.run import _outputs

TIERS = ["tcc", "gcc"]


def compiled(text: str, tier: str, **options: Any) -> Any:
    """The program as a callable of tensors that returns a list of arrays."""
    function = ir.parse(text)
    parts = {
        "text": text,
        "inputs": [("tensor", k) for k in range(len(function.params))],
        "outputs": _outputs(Repro(text))[0],
        "calls": [],
    }

    def refused(*args: Any) -> Any:
        raise AssertionError("the plan does not take these arguments")

    run = compile_with(parse({"tier": tier, "verify": True, **options}), parts, refused, report={})

    def call(*args: Any) -> Any:
        with torch.no_grad():
            made = run(*(a if isinstance(a, torch.Tensor) else torch.from_numpy(np.array(a)) for a in args))
        return [t.numpy() for t in made]

    call.report = run.report  # type: ignore[attr-defined]
    return call


def array(a: Any) -> Any:
    return a.numpy() if isinstance(a, torch.Tensor) else np.array(a)


def same(text: str, tier: str, *args: Any) -> list[Any]:
    """What the plan makes, which is what the interpreter does; the arguments stay as they are."""
    before = [array(a).copy() for a in args]
    want = ir.parse(text)(*before)
    want = list(want) if isinstance(want, tuple) else [want]
    made = compiled(text, tier)(*args)
    for mine, theirs in zip(made, want, strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        assert mine.tobytes() == np.ascontiguousarray(theirs).tobytes()
    for a, b in zip(args, before, strict=True):
        assert np.array_equal(array(a), b)
    return made


def floats(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


SCAN = """dlc 1 graph

fn f[T, N](x: f32[N], xs: f32[T, N], w: f32[N]) -> (f32[N], f32[T, N]) {
  let y: f32[N], ys: f32[T, N] = loop x, xs, w carries=1 rows=1 steps=[T]
    (i: i64, c: f32[N], s: f32[N], w: f32[N]) {
    let a: f32[N] = mul c, w
    let b: f32[N] = add a, s
    let d: f32[N] = sub b, 0.5
    ret b, d
  }
  ret y, ys
}
"""


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 7, 3000])
def test_rows_and_carried_values(tier: str, steps: int, n: int) -> None:
    _, rows = same(SCAN, tier, floats(n), floats(steps, n), floats(n))
    assert rows.shape == (steps, n)


ADDRESSES = """dlc 1 graph

fn f[T, N](x: f32[N], z: f32[N], xs: f32[T, N], ws: f32[T]) -> (f32[N], f32[N], f32[N], f32[T, N], f32[T]) {
  let p: f32[N], q: f32[N], r: f32[N], ys: f32[T, N], ms: f32[T] = loop x, z, z, xs, ws, z
    carries=3 rows=2 steps=[T]
    (i: i64, a: f32[N], b: f32[N], c: f32[N], s: f32[N], w: f32, z: f32[N]) {
    let j: f32 = cast i
    let k: f32 = add w, j
    let kk: f32[N] = expand k to=[]
    let u: f32[N] = mul s, kk
    let m: f32 = amax u axes=[0]
    let mm: f32[N] = expand m to=[]
    let d: f32[N] = sub u, mm
    let e: f32[N] = add d, a
    let g: f32[N] = add c, z
    ret b, e, g, d, m
  }
  ret p, q, r, ys, ms
}
"""


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 8, 33])
@pytest.mark.parametrize("n", [1, 7, 3000])
def test_what_differs_from_step_to_step(tier: str, steps: int, n: int) -> None:
    """Two values that change places, one that is read once, rows of two sizes, the number of the step."""
    same(ADDRESSES, tier, floats(n), floats(n) + 1, floats(steps, n), floats(steps))


WHILE = """dlc 1 graph

fn f[N](go: bool, n: i64, x: f32[N]) -> (i64, f32[N]) {
  let m: i64, y: f32[N] = loop go, n, x carries=2 while=1
    (i: i64, n: i64, c: f32[N]) {
    let n1: i64 = add n, 1
    let d: f32[N] = add c, 1.0
    let more: bool = lt n1, 7
    ret more, n1, d
  }
  ret m, y
}
"""


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("start", [0, 5, 6, 9])
@pytest.mark.parametrize("go", [True, False])
def test_while_data_says_so(tier: str, start: int, go: bool) -> None:
    n, _ = same(WHILE, tier, go, start, floats(5))
    assert n == (max(start + 1, 7) if go else start)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("start", [0, 3, 4, 5, 7])
def test_while_values_are_read_after_others_are_written(tier: str, start: int) -> None:
    text = """dlc 1 graph

fn f(go: bool, n: i64, x: f32[4], z: f32[4]) -> (i64, f32[4], f32[4]) {
  let m: i64, y: f32[4], v: f32[4] = loop go, n, x, z carries=3 while=1
    (i: i64, n: i64, a: f32[4], b: f32[4]) {
    let n1: i64 = add n, 1
    let c: f32[4] = flip a axes=[0]
    let d: f32[4] = add c, b
    let more: bool = lt n1, 6
    ret more, n1, b, d
  }
  ret m, y, v
}
"""
    same(text, tier, True, start, floats(4), floats(4) + 1)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("limit", [0, 3, 100])
def test_while_with_a_number_of_steps(tier: str, limit: int) -> None:
    text = WHILE.replace("while=1\n    (", f"while=1 steps=[{limit}]\n    (")
    n, _ = same(text, tier, True, 0, floats(5))
    assert n == min(7, limit)


def in_body(body: str, results: str = "f32[4], f32[4]", steps: int = 3) -> str:
    """A loop that carries two values of four, a and b, and reads w."""
    body = "".join(f"    {line}\n" for line in body.splitlines())
    return (
        f"dlc 1 graph\n\nfn f(x: f32[4], z: f32[4], w: f32[4]) -> ({results}) {{\n"
        f"  let p: f32[4], q: f32[4] = loop x, z, w carries=2 steps=[{steps}] "
        f"(i: i64, a: f32[4], b: f32[4], w: f32[4]) {{\n{body}  }}\n  ret p, q\n}}\n"
    )


ALIASES = {
    "input": "ret a, b",
    "swapped": "ret b, a",
    "swapped_made": "let c: f32[4] = add a, w\nret b, c",
    "twice": "let c: f32[4] = add a, b\nret c, c",
    "stays": "ret w, a",
    "reversed": "let c: f32[4] = flip a axes=[0]\nlet d: f32[4] = add c, b\nret d, c",
    "constant": "let c: f32[4] = const 2.0\nret c, a",
    "number": "let n: f32[] = cast i\nlet c: f32[4] = expand n to=[]\nlet d: f32[4] = add a, c\nret d, b",
    "read_later": "let c: f32[4] = exp a\nlet s: f32 = amax c axes=[0]\nlet t: f32[4] = expand s to=[]\n"
    "let d: f32[4] = div c, t\nret c, d",
    "cat": "let c: f32[1] = slice a axis=0 start=3 step=1\nlet d: f32[3] = slice a axis=0 start=0 step=1\n"
    "let e: f32[4] = cat c, d axis=0\nlet g: f32[4] = add b, e\nret e, g",
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("steps", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ALIASES)
def test_what_a_body_returns(tier: str, name: str, steps: int) -> None:
    same(in_body(ALIASES[name], steps=steps), tier, floats(4), floats(4) + 1, floats(4) * 2)


WRITES = """dlc 1 graph

fn f[T, N in 4..inf](x: f32[N, 4], t: f32[T], go: bool) -> (f32[N, 4], f32[N, 4], f32[T, 4]) {
  let y: f32[N, 4], z: f32[N, 4], r: f32[T, 4] = loop x, x carries=2 steps=[T]
    (i: i64, c: f32[N, 4], o: f32[N, 4]) {
    let a: f32[1, 4] = slice c axis=0 start=0 step=1
    let b: f32[1, 4] = slice c axis=0 start=1 step=1
    let d: f32[1, 4] = add a, b
    let e: f32[N - 1, 4] = slice c axis=0 start=1 step=1
    let n: f32[N, 4] = cat d, e axis=0
    let j: i64[1, 4] = expand i to=[]
    let k: i64[1, 4] = minimum j, 2
    let v: f32[1, 4] = cast k
    let m: f32[N, 4] = scatter n, k, v op=store axis=0
    let p: f32[N - 1, 4] = slice o axis=0 start=0 step=1
    let q: f32[N - 1, 4] = mul p, 0.5
    let s: f32[N - 1, 4] = add p, q
    let l: f32[1, 4] = slice o axis=0 start=N - 1 step=1
    let h: f32[N, 4] = cat s, l axis=0
    let row: f32[4] = reshape d
    ret m, h, row
  }
  ret y, z, r
}
"""


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
@pytest.mark.parametrize("n", [4, 700])
def test_parts_of_carried_values_are_written_in_place(tier: str, steps: int, n: int) -> None:
    same(WRITES, tier, floats(n, 4), floats(steps), True)


def test_a_carried_value_that_is_written_in_place_has_one_place() -> None:
    plan = compiled(WRITES, "tcc").report["plan"]
    results, places = re.search(r"loop \((.*)\) = .* beside \((.*)\)", plan).groups()
    assert results.split(", ")[:2] == places.split(", ")


def test_one_argument_twice() -> None:
    x = torch.from_numpy(floats(4))
    same(in_body(ALIASES["swapped_made"]), "tcc", x, x, x)


def test_initial_value_is_a_result_too() -> None:
    text = in_body("let c: f32[4] = add a, w\nret c, b").replace("ret p, q\n}\n", "ret p, e\n}\n")
    text = text.replace("  let p:", "  let e: f32[4] = exp x\n  let p:").replace("loop x, z", "loop e, e")
    same(text, "tcc", floats(4), floats(4), floats(4))


@pytest.mark.parametrize("tier", TIERS)
def test_operands_that_are_views(tier: str) -> None:
    text = """dlc 1 graph

fn f(x: f32[4, 6] strides=[1, 4], n: i64) -> (f32[6, 4], f32[4], f32[2, 4]) {
  let t: f32[6, 4] = permute x perm=[1, 0]
  let h: f32[3, 4] = slice t axis=0 start=0 step=2
  let w0: f32[1, 4] = slice t axis=0 start=5 step=1
  let r: f32[4] = reshape w0
  let e: f32[6, 4], g: f32[4], rows: f32[3, 4] = loop t, r, h carries=2 rows=1 steps=[3]
    (i: i64, a: f32[6, 4], b: f32[4], s: f32[4]) {
    let c: f32[4] = add b, s
    let v: f32[6, 4] = expand c to=[1]
    let d: f32[6, 4] = add a, v
    ret d, c, s
  }
  let k: f32[2, 4] = slice rows axis=0 start=1 step=1
  ret e, g, k
}
"""
    x = torch.from_numpy(floats(6, 4)).t()
    same(text, tier, x, np.array(1))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("choice", [True, False])
def test_branches(tier: str, choice: bool) -> None:
    text = """dlc 1 graph

fn f[N](p: bool, x: f32[N], y: f32[N]) -> (f32[N], f32[N], f32) {
  let a: f32[N], b: f32[N], s: f32 = branch p, x, y (x: f32[N], y: f32[N]) {
    let s: f32 = sum x axes=[0]
    ret x, y, s
  } else (x: f32[N], y: f32[N]) {
    let d: f32[N] = sub x, y
    let s: f32 = amax d axes=[0]
    ret d, d, s
  }
  ret a, b, s
}
"""
    same(text, tier, choice, np.arange(9, dtype=np.float32), np.ones(9, np.float32))


def wholes(n: int) -> Any:
    """Numbers whose sums are exact."""
    return np.round(floats(n) * 8)


STACKED = """dlc 1 graph

fn f[N](go: bool, n: i64, x: f32[N]) -> (i64, f32[N], i64, f32[N], f32[N]) {
  let [K in 0..99] m: i64, y: f32[N], ns: i64[K], ys: f32[K, N], zs: f32[K, N] = loop go, n, x
    carries=2 while=1 (i: i64, n: i64, c: f32[N]) {
    let n1: i64 = add n, 1
    let d: f32[N] = sub c, 1.0
    let more: bool = lt n1, 20
    ret more, n1, d, n, d, c
  }
  let s: i64 = sum ns axes=[0]
  let e: f32[N] = neg y
  let t: f32[N] = sum ys axes=[0]
  let u: f32[N] = sum zs axes=[0]
  let v: f32[N] = sub t, u
  let k: i64 = size dim=K
  let a: i64 = add s, k
  ret m, y, a, e, v
}
"""


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("start", [-30, 0, 18, 30])  # (memory for rows grows after 16 and 32 steps)
@pytest.mark.parametrize("go", [True, False])
@pytest.mark.parametrize("n", [0, 3000])
def test_rows_of_a_number_of_steps_that_data_says(tier: str, start: int, go: bool, n: int) -> None:
    _, _, sizes, _, _ = same(STACKED, tier, go, start, wholes(n))
    steps = (max(start + 1, 20) - start) if go else 0
    assert sizes == sum(range(start, start + steps)) + steps


@pytest.mark.parametrize("tier", TIERS)
def test_rows_are_a_result(tier: str) -> None:
    text = STACKED.replace("-> (i64, f32[N], i64, f32[N], f32[N])", "-> (i64, f32[N])")
    text = text.replace("ret m, y, a, e, v", "ret a, v")
    same(text, tier, True, 4, wholes(5))


def test_a_number_of_steps_that_the_size_excludes() -> None:
    run = compiled(STACKED.replace("lt n1, 20", "lt n1, 200"), "tcc")
    with pytest.raises(RuntimeError, match="the size K is 200, which the graph excludes"):
        run(True, 0, floats(4))
    assert run(True, 199, floats(4))[0] == 200


INNER_ROWS = """dlc 1 graph

fn f[N](n: i64, x: f32[N]) -> (f32[N], f32[4, N]) {
  let start: i64 = const 0
  let go: bool = const 1
  let y: f32[N], r: f32[4, N] = loop x, n, start, go carries=1 steps=[4]
    (i: i64, c: f32[N], n: i64, z: i64, go: bool) {
    let [K in 0..99] m: i64, d: f32[N], ys: f32[K, N] = loop go, z, c, i carries=2 while=1
      (j: i64, n: i64, c: f32[N], i: i64) {
      let n1: i64 = add n, 1
      let h: f32[N] = sub c, 1.0
      let more: bool = lt n1, i
      ret more, n1, h, h
    }
    let s: f32[N] = sum ys axes=[0]
    let e: f32[N] = add s, d
    ret e, s
  }
  ret y, r
}
"""


@pytest.mark.parametrize("tier", TIERS)
def test_such_rows_in_the_body_of_a_loop(tier: str) -> None:
    same(INNER_ROWS, tier, 3, wholes(70))


NESTED = """dlc 1 graph

fn f[N in 0..8](x: f32[N, N], k: i64) -> (f32[N, N], i64) {
  let y: f32[N, N], m: i64 = loop x, k carries=2 steps=[N]
    (i: i64, a: f32[N, N], m: i64) {
    let even: i64 = bit_and i, 1
    let p: bool = eq even, 0
    let b: f32[N, N], n: i64 = branch p, a, m (a: f32[N, N], m: i64) {
      let c: f32[N, N], n: i64 = loop a, m carries=2 steps=[3] (j: i64, a: f32[N, N], m: i64) {
        let s: f32[N] = amax a axes=[1]
        let e: f32[N, N] = expand s to=[0]
        let d: f32[N, N] = mul a, 0.25
        let g: f32[N, N] = sub e, d
        let n: i64 = add m, j
        ret g, n
      }
      ret c, n
    } else (a: f32[N, N], m: i64) {
      let t: f32[N, N] = permute a perm=[1, 0]
      let n: i64 = mul m, 2
      ret t, n
    }
    ret b, n
  }
  ret y, m
}
"""


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_nested(tier: str, n: int) -> None:
    same(NESTED, tier, np.arange(n * n, dtype=np.float32).reshape(n, n), 5)


@pytest.mark.parametrize("threads", [1, 2])
def test_large_values(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        same(SCAN, "tcc", floats(70_000), floats(3, 70_000), floats(70_000))
    finally:
        torch.set_num_threads(before)


def test_an_error_in_a_step() -> None:
    text = """dlc 1 graph

fn f(x: f32[4], at: i64[3]) -> (f32) {
  let start: f32 = const 0.0
  let s: f32 = loop start, at, x carries=1 rows=1 steps=[3]
    (i: i64, c: f32, k: i64, x: f32[4]) {
    let v: f32 = gather x, k axis=0 wrap=1
    let d: f32 = add c, v
    ret d
  }
  ret s
}
"""
    run = compiled(text, "tcc")
    x = floats(4)
    assert run(x, np.array([0, 1, -1]))[0] == x[0] + x[1] + x[3]
    with pytest.raises(IndexError):
        run(x, np.array([0, 9, 1]))
    assert run(x, np.array([2, 2, 2]))[0] == x[2] + x[2] + x[2]


def test_a_loop_without_end_is_interrupted() -> None:
    text = WHILE.replace("lt n1, 7", "gt n1, 0")
    run = compiled(text, "tcc")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    begin = time.monotonic()
    timer = threading.Timer(0.5, lambda: __import__("_thread").interrupt_main())
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(True, 1, floats(4))
    assert time.monotonic() - begin < 20


HOURS = """dlc 1 graph

fn f[N in 1..inf](x: f32[N], p: bool) -> (f32[N]) {
  let y: f32[N] = loop x, p carries=1 steps=[1000000000] (i: i64, c: f32[N], p: bool) {
    let d: f32[N] = loop c, p carries=1 steps=[LONG] (j: i64, c: f32[N], p: bool) {
      let d: f32[N] = branch p, c (c: f32[N]) {
        let e: f32[N] = mul c, 0.5
        ret e
      } else (c: f32[N]) {
        ret c
      }
      ret d
    }
    ret d
  }
  ret y
}
"""


@pytest.mark.parametrize("inner", ["3", "1000000"])
def test_a_long_loop_of_loops_and_branches_is_interrupted(inner: str) -> None:
    run = compiled(HOURS.replace("LONG", inner), "tcc")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    begin = time.monotonic()
    timer = threading.Timer(0.5, lambda: __import__("_thread").interrupt_main())
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(floats(4), True)
    assert time.monotonic() - begin < 20


YEARS = """dlc 1 graph

fn f[N in 1..inf, M](x: f32[N], k: i64[M]) -> (f32[N]) {
  let y: f32[N] = loop x carries=1 steps=[OUTER] (i: i64, c: f32[N]) {
    let d: f32[N] = loop c carries=1 steps=[INNER] (j: i64, c: f32[N]) {
      let a: f32[N] = scan c op=sum axis=0
      let s: f32 = sum a axes=[0]
      let e: f32[N] = expand s to=[]
      let d: f32[N] = div a, e
      ret d
    }
    ret d
  }
  ret y
}
"""


@pytest.mark.parametrize("inner", ["M", "2147483648"])
@pytest.mark.parametrize("outer", ["M", "2147483648*M", "1073741824*M*M"])
def test_a_loop_that_would_take_years_is_refused(outer: str, inner: str) -> None:
    """Before its first step, if sizes say how many there are. With M = 0, or few steps, it runs."""
    run = compiled(YEARS.replace("OUTER", outer).replace("INNER", inner), "tcc")
    x = np.ones(1, np.float32)
    assert run(x, np.zeros(0, np.int64))[0] == 1
    if outer == inner:
        assert run(x, np.zeros(3, np.int64))[0] == 1
    if inner != "M" and outer != "M":
        with pytest.raises(AssertionError, match="does not take these arguments"):
            run(x, np.zeros(1, np.int64))


def test_the_report_shows_bodies() -> None:
    run = compiled(NESTED, "tcc")
    report = run.report
    assert report["kernel_count"] == 4
    assert report["kernels"].count("kernel {") == 6  # two are in the kernel that the inner loop is
    for name in ("graph", "kernels"):
        assert "loop x, k carries=2" in report[name] and "} else (" in report[name]
    assert "  loop (" in report["plan"] and "  branch (" in report["plan"]
    assert report["plan"].count("plan f") == 4
    assert report["loops"].count("for i") >= 4


def test_memory_of_bodies_counts() -> None:
    text = """dlc 1 graph

fn f[N](x: f32[N]) -> (f32[N]) {
  let y: f32[N] = loop x carries=1 steps=[2]
    (i: i64, c: f32[N]) {
    let a: f32[N] = scan c op=sum axis=0
    let s: f32 = sum a axes=[0]
    let e: f32[N] = expand s to=[]
    let d: f32[N] = div a, e
    ret d
  }
  ret y
}
"""
    run = compiled(text, "tcc")
    assert dlc.ir.parse(text).name == "f"
    same(text, "tcc", np.abs(floats(1000)) + 1)
    assert run(np.ones(10, np.float32))[0].shape == (10,)
