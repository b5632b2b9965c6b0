"""Contractions in the interpreter: elements have the bits of ops.def's chains, by the C library's fma."""

import ctypes
import ctypes.util
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import dlc

Array = np.ndarray
CHAIN = 256
NUMPY = {
    "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
WIDE = {"u8": "i32", "i8": "i32", "i16": "i32", "f16": "f32"}
LIBRARY = ctypes.CDLL(ctypes.util.find_library("m"))


def multiply_add(dtype: type) -> Callable[..., float]:
    c_type, name = (ctypes.c_float, "fmaf") if dtype is np.float32 else (ctypes.c_double, "fma")
    fma = getattr(LIBRARY, name)
    fma.restype, fma.argtypes = c_type, [c_type] * 3
    return fma


def parts(over: str) -> tuple[str, str, str, str]:
    letters, _, within = over.partition(" where ")
    left, right, out = re.split("->|,", letters)
    return left, right, out, within


def terms(over: str, a: Array, b: Array) -> Iterator[tuple[tuple[int, ...], list[tuple[float, float]]]]:
    """Each index of the result with the factors of its terms, in order."""
    left, right, out, within = parts(over)
    sizes = dict(zip(left + right, a.shape + b.shape, strict=True))
    summed = [letter for letter in left if letter not in out]
    within = re.sub(r"\|([a-z])\|", lambda m: f"*{sizes[m[1]]}", within)
    within = re.sub("([0-9]+)([a-z])", r"\1*\2", within)
    for index in itertools.product(*(range(sizes[letter]) for letter in out)):
        at = dict(zip(out, index, strict=True))
        pairs = []
        for place in itertools.product(*(range(sizes[letter]) for letter in summed)):
            at.update(zip(summed, place, strict=True))
            if within and not eval(within, {}, dict(at)):
                continue
            pairs.append((a[tuple(at[x] for x in left)], b[tuple(at[x] for x in right)]))
        yield index, pairs


def element(pairs: list[tuple[float, float]], wide: type) -> np.generic:
    if np.dtype(wide).kind == "i":
        bits = np.iinfo(wide).bits
        total = sum(int(x) * int(y) for x, y in pairs) % (1 << bits)
        return wide(total - (1 << bits) if total >> (bits - 1) else total)
    fma, chains = multiply_add(wide), []
    for start in range(0, max(len(pairs), 1), CHAIN):
        chain = 0.0
        for x, y in pairs[start : start + CHAIN]:
            chain = fma(float(x), float(y), chain)
        chains.append(wide(chain))
    total = chains[0]
    for chain in chains[1:]:
        total = wide(total + chain)
    return total


def contract(over: str, a: Array, b: Array, dtype: str, to: str) -> Array:
    left, right, out, _ = parts(over)
    sizes = dict(zip(left + right, a.shape + b.shape, strict=True))
    types = [", ".join(str(sizes[letter]) for letter in letters) for letters in (left, right, out)]
    text = (
        f"dlc 1 graph\n\nfn f(a: {dtype}[{types[0]}], b: {dtype}[{types[1]}]) -> ({to}[{types[2]}]) {{\n"
        f'  let y: {to}[{types[2]}] = contract a, b over="{over}"\n  ret y\n}}\n'
    )
    return dlc.ir.parse(text)(a, b)


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if np.dtype(NUMPY[dtype]).kind == "f":
        return (rng.normal(size=shape) * 2.0 ** rng.integers(-6, 6, shape)).astype(NUMPY[dtype])
    info = np.iinfo(NUMPY[dtype])
    return rng.integers(info.min, info.max, shape, NUMPY[dtype], endpoint=True)


SHAPES = {
    "mk,kn->mn": ((2, 7), (7, 3)), "bmk,nk->bmn": ((2, 3, 5), (4, 5)), "bmk,bkn->nbm": ((2, 3, 5), (2, 5, 4)),
    "k,k->": ((700,), (700,)), "mk,k->m": ((2, 1025), (1025,)), "abc,cab->": ((3, 20, 10), (10, 3, 20)),
    "abc,cbd->da": ((2, 30, 40), (40, 30, 3)), "m,n->nm": ((3,), (4,)), "mk,mk->mk": ((3, 4), (3, 4)),
    "mk,kn->nm": ((2, 0), (0, 3)), "bk,k->b": ((0, 4), (4,)),
    "mpk,npk->mn where 0<=2m+p-1<5": ((4, 3, 120), (2, 3, 120)),
    "mpk,npk->mn where 0<=3m+p-2<2": ((4, 3, 5), (2, 3, 5)),
    "mpk,npk->mn where 0<=2m+p-1<2|m|-1": ((4, 3, 120), (2, 3, 120)),
    "mypqk,npqk->myn where 0<=1m+p-1<3 and 0<=2y+q-1<3": ((3, 2, 3, 3, 256), (2, 3, 3, 256)),
    "mpqlk,npqlk->nm where 0<=1m+q-1<1|m|+0 and 0<=1m+l-0<3": ((3, 2, 3, 2, 256), (2, 2, 3, 2, 256)),
}  # fmt: skip


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("over", SHAPES)
@pytest.mark.parametrize("dtype", NUMPY)
def test_bits(over: str, dtype: str) -> None:
    a, b = (numbers(shape, dtype, k) for k, shape in enumerate(SHAPES[over]))
    wide = WIDE.get(dtype, dtype)
    for to in {dtype, wide}:
        got = contract(over, a, b, dtype, to)
        want = np.zeros(got.shape, NUMPY[to])
        for index, pairs in terms(over, a, b):
            with np.errstate(over="ignore"):
                want[index] = element(pairs, NUMPY[wide]).astype(NUMPY[to])
        assert got.dtype == want.dtype
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("n", [255, 256, 257, 512, 513, 800])
def test_chains_end_at_multiples_of_their_length(n: int) -> None:
    a, b = numbers((n,), "f32", n), numbers((n,), "f32", n + 1)
    ((_, pairs),) = terms("k,k->", a, b)
    assert contract("k,k->", a, b, "f32", "f32") == element(pairs, np.float32)


def test_signs_of_zeros() -> None:
    """A term of -0.0 is added to 0.0; one that is too small to be a number is the term that it rounds to."""
    a, b = np.array([-0.0, 1e-30], np.float32), np.array([1.0, -1e-30], np.float32)
    got = contract("k,k->k", a, b, "f32", "f32")
    assert got.tolist() == [0, 0]
    assert np.signbit(got).tolist() == [False, True]
    assert not np.signbit(
        contract("mk,k->m", np.zeros((1, 0), np.float32), np.zeros(0, np.float32), "f32", "f32")
    )


def test_nan_and_infinity() -> None:
    a = np.array([[np.inf, 1], [np.inf, 0], [np.nan, 0]], np.float32)
    got = contract("mk,k->m", a, np.array([1, 2], np.float32), "f32", "f32")
    assert np.isposinf(got[0]) and np.isposinf(got[1]) and np.isnan(got[2])
    assert np.isnan(contract("k,k->", a[1], np.zeros(2, np.float32), "f32", "f32"))


def test_bfloat16_is_rounded_once() -> None:
    fn = dlc.ir.parse("""dlc 1 graph

fn f(x: f32[3, 600], y: f32[600, 2]) -> (f32[3, 2], f32[3, 2], bf16[3, 2], bf16[3, 2]) {
  let h: bf16[3, 600] = cast x
  let k: bf16[600, 2] = cast y
  let v: f32[3, 600] = cast h
  let w: f32[600, 2] = cast k
  let a: f32[3, 2] = contract h, k over="mk,kn->mn"
  let b: f32[3, 2] = contract v, w over="mk,kn->mn"
  let c: bf16[3, 2] = contract h, k over="mk,kn->mn"
  let d: bf16[3, 2] = cast b
  ret a, b, c, d
}
""")
    a, b, c, d = fn(numbers((3, 600), "f32", 1), numbers((600, 2), "f32", 2))
    assert np.array_equal(a, b)
    assert np.array_equal(c, d)


def test_canonical_form_has_the_same_bits() -> None:
    text, _, _ = (
        (Path(__file__).parents[1] / "passes/canonicalise/contract_views.dlc")
        .read_text()
        .partition("\n---\n")
    )
    fn = dlc.ir.parse(text)
    simple = fn.run_pass("canonicalise")
    assert "expand" in simple.text and simple.text != fn.text
    arrays = [numbers((2, 3, 600), "f32", 1), numbers((4, 600), "f32", 2), numbers((3, 1), "i8", 3),
              numbers((4, 1), "i8", 4), np.zeros((3, 0), np.float32)]  # fmt: skip
    for want, got in zip(fn(*arrays), simple(*arrays), strict=True):
        assert want.tobytes() == got.tobytes()
