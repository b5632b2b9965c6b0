"""Lowering writes the plain nest of a product; rewrites make its tiles, and select calls of microkernels."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.dlc_opt import opt
from tests.structure.test_product_forms import GELU

BUILD = Path(__file__).parents[2] / "build"
ANY = GELU.format(sizes="M, N, K in 1..inf", m="M", n="N", k="K")

#: Sums of products in plain loops: of computed columns, of integers backwards, and with a constant.
SUMS = """dlc 1 loops

fn f[M, N, K](x: f32[M, K], w: i8[N, K], s: f32[N], i: i8[M, K], d: f64[K, N]) ->
    (f32[M, N], i32[M, N], f64[M, N]) {
  let y: f32[M, N], z: i32[M, N], v: f64[M, N] = kernel {
    for i0 in M parallel {
      for j0 in N {
        let t: f32 = reduce sum p in K fused {
          let a: f32 = load x[i0, p]
          let b: i8 = load w[j0, p]
          let c: f32 = load s[j0]
          let e: f32 = cast b
          let g: f32 = mul e, c
          let q: f32 = mul a, g
          ret q
        }
        store y[i0, j0] = t
        let u: i32 = reduce sum p1 in K fused {
          let a1: i8 = load i[i0, K - p1 - 1]
          let b1: i8 = load w[j0, p1]
          let c1: i32 = cast a1
          let e1: i32 = cast b1
          let q1: i32 = mul c1, e1
          ret q1
        }
        store z[i0, j0] = u
        let o: f64 = reduce sum p2 in K fused {
          let a2: f64 = load d[p2, j0]
          let q2: f64 = mul a2, 0.1
          ret q2
        }
        store v[i0, j0] = o
      }
    }
  }
  ret y, z, v
}
"""


def calls(text: str) -> tuple[int, int]:
    lines = [line for line in text.splitlines() if " for " in f" {line}"]
    return sum(" micro" in line for line in lines), sum(" pack" in line for line in lines)


def renamed(text: str) -> str:
    """With numbers for the names of values, in their order: what is in a line of loops has no names."""
    names = {name: f"v{k}" for k, name in enumerate(re.findall(r"let (\w+):", text))}
    return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text)


def body(text: str) -> list[str]:
    """The lines of the kernel, without its own and those around it."""
    lines = text.splitlines()
    first = next(k for k, line in enumerate(lines) if line.endswith("= kernel {"))
    return [line.strip() for line in lines[first + 1 :]]


def test_lowering_writes_a_plain_nest() -> None:
    """A loop for each letter, one sum, and what is computed of it; `tile` costs fuel."""
    plain = opt(ANY, "--pass", "lower")
    assert [line for line in body(plain) if " in " in line and line.endswith("{")] == [
        "for i0 in M rows {",
        "for i1 in N columns {",
        "let sum: f32 = reduce sum p0 in K fused {",
    ]
    assert body(opt(plain, "--pass", "tile", "--fuel", "0")) == body(plain)
    tiled = opt(plain, "--pass", "tile")
    assert not re.search(r" (batch|rows|columns) {", tiled)
    assert tiled == opt(ANY, "--pass", "lower,tile")


#: Letters that both operands have, in any order and with one element, and letters that are no axis of memory.
LETTERS = {
    "bmk,bnk->bmn": ("f32[B, M, K], w: f32[B, N, K]", "f32[B, M, N]", "batch rows columns"),
    "mk,nk->nm": ("f32[M, K], w: f32[N, K]", "f32[N, M]", "rows columns"),
    "mk,nk->mn": ("f32[1, K], w: f32[1, K]", "f32[1, 1]", "rows columns"),
    "ak,k->a": ("f32[M, K], w: f32[K]", "f32[M]", "rows columns"),
    "ambk,ank->mban": ("f32[B, M, 3, K], w: f32[B, N, K]", "f32[M, 3, B, N]", "batch rows columns"),
    "bk,bk->b": ("f32[B, K], w: f32[B, K]", "f32[B]", "batch rows columns"),
    "cm,cmk->mck": ("f32[B, M], w: f32[B, M, 5]", "f32[M, B, 5]", "batch batch rows columns"),
}


@pytest.mark.parametrize("over", LETTERS)
def test_the_nest_says_the_class_of_each_letter(over: str) -> None:
    """With any sizes: of tiles, 0 and 1.  The tiles have the values of the nest."""
    given, made, classes = LETTERS[over]
    text = (
        f"dlc 1 kernels\n\nfn f[B, M, N, K](x: {given}) -> ({made}) {{\n  let y: {made} = kernel {{\n"
        f'    let z: {made} = contract x, w over="{over}"\n    ret z\n  }}\n  ret y\n}}\n'
    )
    nest = opt(text, "--pass", "lower")
    assert " ".join(re.findall(r" (batch|rows|columns) {", nest)) == classes
    for sizes in (
        "B=2,M=3,N=5,K=4",
        "B=1,M=15,N=33,K=257",
        "B=3,M=29,N=1,K=1",
        "B=2,M=0,N=7,K=2",
        "B=1,M=2,N=40,K=0",
    ):
        few = opt(text, "--size", sizes)
        opt(few, "--pass", "lower,tile,micro", "--emit", "none", "--eval", "1")
    opt(nest, "--pass", "tile,micro", "--emit", "none", "--eval", "2")


def test_lowering_writes_loops_and_a_rewrite_selects_the_calls() -> None:
    plain = opt(ANY, "--pass", "lower,tile")
    assert calls(plain) == (0, 0)
    selected = opt(plain, "--pass", "micro")
    assert calls(selected) == (4, 3)
    assert calls(opt(ANY, "--pass", "lower,schedule")) == (4, 3)
    bare = opt(re.sub(r" (micro|pack)$", "", selected, flags=re.MULTILINE))
    assert renamed(bare) == renamed(plain), "nothing but marks"


def test_each_call_is_a_rewrite() -> None:
    """A panel is packed by a call only where a call reads it: with fuel for the four products, none is."""
    plain = opt(ANY, "--pass", "lower,tile")
    made = [calls(opt(plain, "--pass", "micro", "--fuel", str(fuel))) for fuel in range(9)]
    assert made == [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (4, 1), (4, 2), (4, 3), (4, 3)]


def test_loops_around_a_product_are_no_vectors() -> None:
    """The order of its sum is part of the program: no element of a vector has such a sum."""
    for passes, count in (("lower", 1), ("lower,tile", 4)):
        plain = opt(ANY, "--pass", passes)
        for target in ("cc", "tcc", "c"):
            text = opt(opt(plain, "--pass", "vectorise"), "--pass", f"parallelise,{target}")
            lines = text.splitlines()
            sums = [k for k, line in enumerate(lines) if " fused {" in line]
            assert len(sums) + text.count(" buffer registers") == count  # the latter are interchanged
            assert not any(" vector" in lines[k - 1] for k in sums)


@pytest.mark.parametrize("sizes", ["M=3 N=5 K=700", "M=1 N=2 K=0", "M=2 N=3 K=256", "M=2 N=2 K=2049"])
def test_sums_in_plain_loops(tmp_path: Path, sizes: str) -> None:
    """They have the interpreter's value, and on all targets the same bits."""
    file = tmp_path / "sums.dlc"
    file.write_text(SUMS)
    done = subprocess.run([BUILD / "test-emit", file, *sizes.split()], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_sum_has_the_bits_of_a_call(tmp_path: Path) -> None:
    """The same loops with and without a call, evaluated by the interpreter and run by each target."""
    file = tmp_path / "plain.dlc"
    for passes in ("lower", "lower,tile", "lower,tile,micro"):
        text = opt(GELU.format(sizes="N in 1..40", m="9", n="N", k="300"), "--pass", passes)
        file.write_text(opt(text, "--pass", "vectorise,parallelise"))
        done = subprocess.run([BUILD / "test-emit", file, "N=37"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_panels_of_bytes_hold_bytes(dtype: str) -> None:
    """Calls read and fill panels of the operand's own bytes, for any number of rows."""
    text = f"""dlc 1 graph

fn f[M](x: {dtype}[M, 300], w: {dtype}[70, 300]) -> (i32[M, 70]) {{
  let y: i32[M, 70] = contract x, w over="mk,nk->mn"
  ret y
}}
"""
    loops = opt(opt(text, "--pipeline"), "--pass", "lower,tile,schedule")
    buffers = dict(re.findall(r"(\w+): (\w+)\[[^]]*, 32\] = buffer", loops))
    micro, pack = calls(loops)
    assert pack >= 1 and micro >= 2
    filled = re.findall(r": (\w+)\[.* pack$", loops, re.MULTILINE)
    assert {buffers[panel] for panel in filled} == {dtype}
