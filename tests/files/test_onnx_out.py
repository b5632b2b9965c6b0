"""Model.save to ONNX: each operation that ONNX has, run by onnxruntime and by the reference evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import dlc
from dlc import FileError
from dlc.files.onnx_out import operations, save

#: By operation, programs of one let or a few: parameters, results, lets. F is f32, f64, f16 in turns.
PROGRAMS: dict[str, list[str]] = {}


def lets(types: str, result: str, *body: str, sizes: str = "") -> str:
    """The text of a program; the last let is y."""
    inside = "".join(f"  let {line}\n" for line in body)
    return f"dlc 1 graph\n\nfn f{sizes}({types}) -> ({result}) {{\n{inside}  ret y\n}}\n"


def unary(op: str, dtype: str = "f32", result: str = "") -> str:
    return lets(f"x: {dtype}[3, 5]", f"{result or dtype}[3, 5]", f"y: {result or dtype}[3, 5] = {op} x")


def binary(op: str, dtype: str = "f32", result: str = "") -> str:
    return lets(
        f"x: {dtype}[3, 5], z: {dtype}[3, 5]",
        f"{result or dtype}[3, 5]",
        f"y: {result or dtype}[3, 5] = {op} x, z",
    )


FUNCTIONS = [
    "neg",
    "abs",
    "sign",
    "floor",
    "ceil",
    "trunc",
    "round",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "phi",
    "sigmoid",
]
for name in FUNCTIONS:
    PROGRAMS[name] = [unary(name), unary(name, "f16")]
    if name not in {
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "expm1",
        "log1p",
        "erf",
        "phi",
    }:
        PROGRAMS[name].append(unary(name, "f64"))
for name in ("neg", "abs", "sign"):
    PROGRAMS[name] += [unary(name, dtype) for dtype in ("i32", "i64", "i8", "i16")]
for name in ("isnan", "isinf", "signbit"):
    PROGRAMS[name] = [unary(name, dtype, "bool") for dtype in ("f32", "f64", "f16")]
for name in ("add", "sub", "mul", "maximum", "minimum", "fmax", "fmin"):
    PROGRAMS[name] = [binary(name, dtype) for dtype in ("f32", "f64", "f16", "i32", "i64", "i8", "u8")]
for name in ("div_trunc", "div_floor", "fmod", "remainder"):
    PROGRAMS[name] = [binary(name, dtype) for dtype in ("f32", "f64", "i32", "i64", "i8", "u8")]
for name in ("div", "pow", "copysign"):
    PROGRAMS[name] = [binary(name, dtype) for dtype in ("f32", "f64", "f16")]
for name in ("eq", "ne", "lt", "le", "gt", "ge"):
    PROGRAMS[name] = [
        binary(name, dtype, "bool") for dtype in ("f32", "f64", "f16", "i32", "i64", "u8", "bool")
    ]
for name in ("bit_and", "bit_or", "bit_xor"):
    PROGRAMS[name] = [binary(name, dtype) for dtype in ("i32", "i64", "u8", "bool")]
for name in ("maximum", "minimum"):
    PROGRAMS[name].append(binary(name, "bool"))
PROGRAMS |= {
    "bit_not": [unary("bit_not", dtype) for dtype in ("i32", "i64", "bool")],
    "not": [unary("not", "bool")],
    "shl": [binary("shl", t) for t in ("i64", "i32", "u8")]
    + [
        lets(f"x: {t}[4]", f"{t}[4]", f"y: {t}[4] = shl x, {n}")
        for t, n in (("i64", 3), ("i8", 5), ("i64", 63))
    ],
    "shr": [binary("shr", t) for t in ("i64", "i32", "u8", "i8")]
    + [
        lets(f"x: {t}[4]", f"{t}[4]", f"y: {t}[4] = shr x, {n}")
        for t, n in (("i64", 3), ("i32", 1), ("i32", 31))
    ],
    "where": [
        lets(
            f"q: bool[3, 5], a: {t}[3, 5], b: {t}[5]",
            f"{t}[3, 5]",
            f"c: {t}[3, 5] = expand b to=[1]",
            f"y: {t}[3, 5] = where q, a, c",
        )
        for t in ("f32", "f16", "i64", "bool", "u8")
    ]
    + [lets("q: bool[3]", "f32[3]", "a: f32[3] = const 1.5", "y: f32[3] = where q, a, -inf")],
    "cast": [
        unary("cast", a, b)
        for a, b in (
            ("f32", "i32"),
            ("i64", "f32"),
            ("bool", "f32"),
            ("f32", "bool"),
            ("i32", "i8"),
            ("f32", "f16"),
            ("u8", "i64"),
            ("f64", "f32"),
        )
    ],
    "sum": [
        lets(f"x: {t}[3, 4, 5]", f"{t}[4]", f"y: {t}[4] = sum x axes=[0, 2]")
        for t in ("f32", "f16", "i32", "i64", "u8")
    ],
    "prod": [lets(f"x: {t}[3, 4]", f"{t}[4]", f"y: {t}[4] = prod x axes=[0]") for t in ("f32", "i64")],
    "amax": [
        lets(f"x: {t}[3, 4]", f"{t}[3]", f"y: {t}[3] = amax x axes=[1]") for t in ("f32", "f16", "i64", "u8")
    ],
    "amin": [
        lets(f"x: {t}[3, 4]", f"{t}[3]", f"y: {t}[3] = amin x axes=[1]") for t in ("f32", "f64", "i32", "i8")
    ],
    "any": [lets(f"x: {t}[3, 4]", "bool[3]", "y: bool[3] = any x axes=[1]") for t in ("bool",)],
    "all": [lets(f"x: {t}[3, 4]", "bool[3]", "y: bool[3] = all x axes=[1]") for t in ("bool",)],
    "argmax": [
        lets(f"x: {t}[3, 4, 5]", "i64[3, 5]", "y: i64[3, 5] = argmax x axes=[1]")
        for t in ("f32", "i32", "f16")
    ],
    "argmin": [lets("x: f32[3, 4]", "i64[3]", "y: i64[3] = argmin x axes=[1]")],
    "scan": [
        lets(f"x: {t}[3, 4]", f"{t}[3, 4]", f"y: {t}[3, 4] = scan x op=sum axis=1")
        for t in ("f32", "f64", "i64", "f16")
    ],
    "expand": [
        lets("x: f32[4]", "f32[3, 4, 2]", "y: f32[3, 4, 2] = expand x to=[1]"),
        lets("x: f32", "f32[3]", "y: f32[3] = expand x to=[]"),
        lets("x: i64", "i64[2, 0]", "e: i64[2, 3, 0] = expand x to=[]", "y: i64[2, 0] = sum e axes=[1]"),
        lets(
            "x: f32[N], z: f32[N, M]",
            "f32[N, M]",
            "e: f32[N, M] = expand x to=[0]",
            "y: f32[N, M] = add e, z",
            sizes="[N, M]",
        ),
        lets(
            "x: f32[N], z: f32[M]",
            "f32[N, M]",
            "a: f32[N, M] = expand x to=[0]",
            "b: f32[N, M] = expand z to=[1]",
            "y: f32[N, M] = mul a, b",
            sizes="[N, M]",
        ),
    ],
    "reshape": [
        lets("x: f32[N, 6]", "f32[2*N, 3]", "y: f32[2*N, 3] = reshape x", sizes="[N]"),
        lets("x: f32[N, M]", "f32[N*M]", "y: f32[N*M] = reshape x", sizes="[N, M]"),
        lets("x: f32[N, M, 4]", "f32[M, N, 2, 2]", "y: f32[M, N, 2, 2] = reshape x", sizes="[N, M]"),
        lets("x: f32[0, 4]", "f32[2, 0]", "y: f32[2, 0] = reshape x"),
    ],
    "permute": [lets("x: f32[2, 3, 4]", "f32[4, 2, 3]", "y: f32[4, 2, 3] = permute x perm=[2, 0, 1]")],
    "slice": [
        lets("x: f32[9, 3]", "f32[3, 3]", "y: f32[3, 3] = slice x axis=0 start=2 step=3"),
        lets(
            "x: f32[N, 3]", "f32[N // 2, 3]", "y: f32[N // 2, 3] = slice x axis=0 start=1 step=2", sizes="[N]"
        ),
        lets("x: f32[4]", "f32[0]", "y: f32[0] = slice x axis=0 start=2 step=1"),
    ],
    "flip": [lets("x: f32[3, 4, 2]", "f32[3, 4, 2]", "y: f32[3, 4, 2] = flip x axes=[0, 2]")],
    "as_strided": [
        lets("x: f32[9]", "f32[4, 3]", "y: f32[4, 3] = as_strided x offset=1 strides=[1, 2]"),
        lets(
            "x: f32[N, N]",
            "f32[N]",
            "y: f32[N] = as_strided x offset=0 strides=[N + 1]",
            sizes="[N in 1..inf]",
        ),
    ],
    "const": [
        lets("x: f32[3]", "f32[3]", "c: f32[3] = const 2.5", "y: f32[3] = pow c, x"),
        lets("x: f32[N]", "i64[N]", "y: i64[N] = const 7", sizes="[N]"),
    ],
    "iota": [
        lets("x: f32[N, 3]", "i64[N, 3]", "y: i64[N, 3] = iota axis=0", sizes="[N]"),
        lets("x: f32[3]", "i32[2, 4]", "y: i32[2, 4] = iota axis=1"),
    ],
    "size": [
        lets("x: f32[N, M]", "i64", f"y: i64 = size dim={d}", sizes="[N in 1..inf, M in 1..inf]")
        for d in (
            "N*M + 3",
            "(N - 7) // 2",
            "(N - 7) % 3",
            "max(N, M)",
            "min(N, 2)",
            "N // M",
            "scale(N, 1.7)",
        )
    ],
    "cat": [
        lets(
            "x: f32[2, 3], z: f32[2, N]", "f32[2, N + 3]", "y: f32[2, N + 3] = cat x, z axis=1", sizes="[N]"
        ),
        lets("x: bool[2], z: bool[1]", "bool[3]", "y: bool[3] = cat x, z axis=0"),
    ],
    "pad": [
        lets("x: f32[2, 3]", "f32[4, 4]", "y: f32[4, 4] = pad x, 1.5 lo=[1, 0]"),
        lets("x: i64[N]", "i64[N + 3]", "y: i64[N + 3] = pad x, 7 lo=[2]", sizes="[N]"),
        lets("x: f32[6]", "f32[3]", "y: f32[3] = pad x, 0.0 lo=[-2]"),
    ],
    "gather": [
        lets("x: f32[5, 3], i: i64[2, 4]", "f32[2, 4, 3]", "y: f32[2, 4, 3] = gather x, i axis=0 wrap=1"),
        lets("x: i64[2, 5], i: i32[3]", "i64[2, 3]", "y: i64[2, 3] = gather x, i axis=1 wrap=0"),
    ],
    "scatter": [
        lets(
            "x: f32[5, 3], i: i64[2, 3], v: f32[2, 3]",
            "f32[5, 3]",
            f"y: f32[5, 3] = scatter x, i, v op={op} axis=0 wrap=1",
        )
        for op in ("sum", "prod", "amax", "amin")
    ]
    + [
        lets(
            "x: f16[5], i: i64[1], v: f16[1]", "f16[5]", "y: f16[5] = scatter x, i, v op=store axis=0 wrap=1"
        )
    ],
    "contract": [
        lets(
            f"a: {t}[{a}], b: {t}[{b}]",
            f"{r}[{o}]",
            f'y: {r}[{o}] = contract a, b over="{over}"',
            sizes="[" + ", ".join(d for d in "NMK" if d in a + b) + "]",
        )
        for t, r, a, b, o, over in (
            ("f32", "f32", "M, K", "K, N", "M, N", "mk,kn->mn"),
            ("f32", "f32", "M, K", "N, K", "M, N", "mk,nk->mn"),
            ("f32", "f32", "2, M, K", "2, K, N", "2, M, N", "bmk,bkn->bmn"),
            ("f64", "f64", "K", "K", "", "k,k->"),
            ("f32", "f32", "2, M, 3, K", "K, N", "N, 2, M, 3", "amck,kn->namc"),
            ("f32", "f32", "M, K, 2", "2, K", "M", "mkl,lk->m"),
            ("f32", "f32", "M", "N", "M, N", "m,n->mn"),
            ("i32", "i32", "M, K", "K, N", "M, N", "mk,kn->mn"),
            ("u8", "i32", "M, K", "N, K", "M, N", "mk,nk->mn"),
            ("f16", "f32", "M, K", "N, K", "N, M", "mk,nk->nm"),
            ("f16", "f16", "M, K", "K, N", "M, N", "mk,kn->mn"),
            ("f32", "f32", "M, 2, K", "K, 2, N, 3", "M, 2, 3, N", "mbk,kbnc->mbcn"),
        )
    ],
    "loop": [
        lets(
            "s0: f32[3], xs: f32[T, 3], w: f32[3]",
            "f32[3], f32[T, 3]",
            "y: f32[3], z: f32[T, 3] = loop s0, xs, w carries=1 rows=1 steps=[T] "
            "(i: i64, c: f32[3], x: f32[3], w: f32[3]) {\n"
            "    let p: f32[3] = mul c, w\n    let n: f32[3] = add p, x\n    let e: f32[3] = tanh n\n"
            "    ret n, e\n  }",
            sizes="[T]",
        ).replace("ret y\n", "ret y, z\n"),
        lets(
            "x: f32[N]",
            "f32[N]",
            "q: bool = const 1",
            "k0: i64 = const 0",
            "m: i64, y: f32[N] = loop q, k0, x carries=2 while=1 (i: i64, n: i64, c: f32[N]) {\n"
            "    let n1: i64 = add n, 1\n    let d: f32[N] = mul c, 0.5\n"
            "    let more: bool = lt n1, 4\n    ret more, n1, d\n  }",
            sizes="[N]",
        ),
    ],
    "branch": [
        lets(
            "p: bool, a: f32[N], b: f32[N]",
            "f32[N]",
            "y: f32[N] = branch p, a, b (x: f32[N], z: f32[N]) {\n    let s: f32[N] = add x, z\n    ret s\n"
            "  } else (x: f32[N], z: f32[N]) {\n    ret x\n  }",
            sizes="[N]",
        )
    ],
}

CASES = [(name, k) for name, texts in PROGRAMS.items() for k in range(len(texts))]


def arguments(
    function: Any, rng: np.random.Generator, op: str, numbers: tuple[int, ...] = (4, 3, 5)
) -> list[np.ndarray]:
    """Numbers that each operation takes; sizes in their order, indices in range."""
    sizes = dict(zip(function.sizes, numbers, strict=False))
    made: list[np.ndarray] = []
    for param in function.params:
        dtype, _, rest = param.type.partition("[")
        shape = tuple(eval(dim, {}, sizes) for dim in rest.rstrip("]").split(", ") if dim)
        kind = np.dtype(dlc.ir._NUMPY[dtype])
        if param.name == "i":
            array = np.stack(
                [rng.permutation(5)[: shape[0]] for _ in range(int(np.prod(shape[1:])))], -1
            ).reshape(shape)
        elif kind.kind == "b":
            array = rng.random(shape) < 0.5
        elif kind.kind in "iu":
            array = rng.integers(0 if kind.kind == "u" else -9, 9, shape)
            if op in ("shl", "shr") and param.name == "z":  # counts, and what is none
                array = rng.choice([0, 1, 5, 7, 8, 31, 32, 62, 63, 64] + [-1] * (kind.kind == "i"), shape)
            if op.startswith(("div", "fmod", "rem")) and param.name == "z":
                array[array == 0] = 2
        else:
            low, high = {"acosh": (1, 4), "pow": (0.1, 2)}.get(op, (0.01, 0.9))
            array = rng.uniform(low, high, shape)
            if op in {
                "floor",
                "ceil",
                "trunc",
                "round",
                "neg",
                "abs",
                "sign",
                "exp",
                "sin",
                "tanh",
                "maximum",
                "add",
                "lt",
                "where",
                "expm1",
                "phi",
                "sigmoid",
                "copysign",
                "signbit",
                "div_floor",
                "fmod",
                "remainder",
                "div_trunc",
                "amax",
                "cast",
            }:
                array = np.asarray(array) * 8 - 4
        made.append(np.asarray(array).astype(kind))
    return made


def model_of(text: str, path: Path) -> Any:
    """A program of text as a model of a file."""
    dlc.save(dlc.ir.parse(text), path)
    return dlc.load(path, tier="tcc")


def tuple_of(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize(("name", "k"), CASES)
def test_operation(name: str, k: int, tmp_path: Path) -> None:
    """onnxruntime and the reference have the results of dlc's interpreter, with sizes of 0 and 1 too."""
    import onnxruntime

    function = dlc.ir.parse(PROGRAMS[name][k])
    model = model_of(PROGRAMS[name][k], tmp_path / "m.dlc")
    model.save(tmp_path / "m.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", options, providers=["CPUExecutionProvider"])
    for numbers in ((4, 3, 5), (1, 1, 1), (0, 2, 3), (3, 0, 0))[: 4 if function.sizes else 1]:
        if any(n < low for n, (low, _, _) in zip(numbers, model.sizes.values(), strict=False)):
            continue
        arrays = arguments(function, np.random.default_rng(k), name, numbers)
        wanted = tuple_of(function(*arrays))
        feeds = dict(zip([param.name for param in function.params], arrays, strict=True))
        runs = [session.run(None, {value.name: feeds[value.name] for value in session.get_inputs()})]
        # The reference calls numpy.pad, which takes nothing away, and does not join the rows of a loop.
        if "lo=[-2]" not in PROGRAMS[name][k] and "rows=1" not in PROGRAMS[name][k]:
            runs.append(ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, feeds))
        for results in runs:
            for got, want in zip(results, wanted, strict=True):
                got = np.asarray(got)
                assert (got.dtype, got.shape) == (want.dtype, want.shape), numbers
                limit = {"f": 2e-6, "d": 1e-12, "e": 2e-3}.get(want.dtype.char, 0)
                np.testing.assert_allclose(
                    got.astype(np.float64), want.astype(np.float64), rtol=limit, atol=limit
                )


def test_each_operation_has_a_program() -> None:
    assert set(PROGRAMS) == set(operations())


@pytest.mark.parametrize(
    "name", ["maximum", "minimum", "amax", "amin", "fmax", "fmin", "argmax", "argmin", "sign"]
)
def test_nan(name: str, tmp_path: Path) -> None:
    """Of an extreme it is the result, and fmax and fmin take the other one; its sign is 0."""
    import onnxruntime

    function = dlc.ir.parse(PROGRAMS[name][0])
    model_of(PROGRAMS[name][0], tmp_path / "m.dlc").save(tmp_path / "m.onnx")
    arrays = arguments(function, np.random.default_rng(0), name)
    for array, at in zip(arrays, (0, 3), strict=False):
        array.flat[at] = np.nan
        array.flat[7] = np.nan
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    feeds = dict(zip([param.name for param in function.params], arrays, strict=True))
    (got,) = session.run(None, feeds)
    np.testing.assert_array_equal(got, function(*arrays))


def test_whole_numbers_divided_by_nothing(tmp_path: Path) -> None:
    """As the language has it: no process ends."""
    import onnxruntime

    for name in ("div_trunc", "div_floor", "fmod", "remainder"):
        text = lets("x: i32[6], z: i32[6]", "i32[6]", f"y: i32[6] = {name} x, z")
        model_of(text, tmp_path / "m.dlc").save(tmp_path / "m.onnx")
        x = np.array([7, -(2**31), -(2**31), 2**31 - 1, -7, 7], np.int32)
        z = np.array([0, -1, 3, -3, -2, -2], np.int32)
        session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
        np.testing.assert_array_equal(session.run(None, {"x": x, "z": z})[0], dlc.ir.parse(text)(x, z))


# -- what is refused -----------------------------------------------------------------------------------


def test_what_onnx_lacks_is_refused_by_line(tmp_path: Path) -> None:
    text = lets(
        "x: f32[3]",
        "f32[3]",
        'a: f32[3] = lgamma x  @lgamma "model.py:12: y = torch.lgamma(x)"',
        "b: f32[3] = exp a",
        "c: f32[3] = scan b op=amax axis=0",
        "y: f32[3] = nextafter b, b",
    )
    model = model_of(text, tmp_path / "m.dlc")
    with pytest.raises(FileError) as error:
        model.save(tmp_path / "m.onnx")
    first, *rest = str(error.value).splitlines()
    assert first.endswith("ONNX has no counterpart of 1 operation:") and "m.onnx" in first
    assert rest == [
        '  line 4: let a: f32[3] = lgamma x  @lgamma "model.py:12: y = torch.lgamma(x)": ONNX has no lgamma'
    ]
    assert not (tmp_path / "m.onnx").exists() and len(list(tmp_path.iterdir())) == 1


def test_all_are_named(tmp_path: Path) -> None:
    ops = [f"a{k}: f32[3] = {op} x" for k, op in enumerate(("lgamma", "erfinv", "exp"))]
    text = lets("x: f32[3]", "f32[3]", *ops, "b: f32[3] = add a0, a1", "y: f32[3] = add b, a2")
    with pytest.raises(FileError, match=r"2 operations:\n  line 4: .*no lgamma\n  line 5: .*no erfinv$"):
        model_of(text, tmp_path / "m.dlc").save(tmp_path / "m.onnx")


def test_element_types_that_onnx_lacks(tmp_path: Path) -> None:
    text = lets("x: c64[3]", "f32[3]", "y: f32[3] = real x")
    with pytest.raises(FileError, match=r"line 4: .*ONNX has no real"):
        model_of(text, tmp_path / "m.dlc").save(tmp_path / "m.onnx")


# -- files ---------------------------------------------------------------------------------------------

WEIGHTS = lets(
    "x: f32[N, 4], w: f32[4, 300], b: bf16[300]",
    "f32[N, 300]",
    'm: f32[N, 300] = contract x, w over="mk,kn->mn"',
    "c: f32[300] = cast b",
    "d: f32[N, 300] = expand c to=[1]",
    "y: f32[N, 300] = add m, d",
    sizes="[N]",
)


def with_weights(tmp_path: Path) -> tuple[Any, np.ndarray]:
    """A model that has been loaded from ONNX, so that w and b are its weights."""
    model_of(WEIGHTS, tmp_path / "m.dlc").save(tmp_path / "a.onnx")
    made = onnx.load(tmp_path / "a.onnx")
    w = np.arange(1200, dtype=np.float32).reshape(4, 300) / 64
    b = onnx.TensorProto(
        name="b", data_type=onnx.TensorProto.BFLOAT16, dims=[300], raw_data=b"\x80\x3f" * 300
    )
    made.graph.initializer.extend([onnx.numpy_helper.from_array(w, "w"), b])
    del made.graph.input[1:]
    onnx.save(made, tmp_path / "a.onnx")
    return dlc.load(tmp_path / "a.onnx", tier="tcc"), w


@pytest.mark.parametrize("most", [2**31, 1000])
def test_weights(most: int, tmp_path: Path) -> None:
    """In the file, or beside it where they are more than protobuf has room for."""
    model, w = with_weights(tmp_path)
    (tmp_path / "to").mkdir()
    for _ in range(2):  # the second takes the place of the first
        save(model, tmp_path / "to" / "m.onnx", most)
        names = {file.name for file in (tmp_path / "to").iterdir()}
        assert names == ({"m.onnx"} if most > 2**20 else {"m.onnx", "m.onnx.data"})
    x = np.ones((2, 4), np.float32)
    (tmp_path / "moved").mkdir()
    for file in (tmp_path / "to").iterdir():
        file.rename(tmp_path / "moved" / file.name)
    again = dlc.load(tmp_path / "moved" / "m.onnx", tier="tcc")
    np.testing.assert_array_equal(again(x), x @ w + 1)
    assert {"w", "b"} <= {
        tensor.name for tensor in onnx.load(tmp_path / "moved" / "m.onnx").graph.initializer
    }


def test_no_half_file(tmp_path: Path) -> None:
    model, _ = with_weights(tmp_path)
    with pytest.raises(OSError):
        model.save(tmp_path / "none" / "m.onnx")
    (tmp_path / "dir.onnx").mkdir()
    with pytest.raises(OSError):
        model.save(tmp_path / "dir.onnx")
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_results_in_containers_and_states(tmp_path: Path) -> None:
    """Names of a dict are names of outputs; an input and a result that is there twice are outputs too."""
    import onnxruntime
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: torch.Tensor, more: dict[str, torch.Tensor]) -> Any:
            self.total += x
            y = x * more["scale"]
            return {"double": y, "given": x, "pair": (y, y.sum())}

    x, scale = np.array([1, 2, 3], np.float32), np.array([2, 2, 2], np.float32)
    dlc.save(Model(), tmp_path / "m.dlc", (torch.from_numpy(x), {"scale": torch.from_numpy(scale)}))
    model = dlc.load(tmp_path / "m.dlc", tier="tcc")
    model.save(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    inputs = [value.name for value in session.get_inputs()]
    outputs = [value.name for value in session.get_outputs()]
    assert "x" in inputs and "total" in inputs and {"double", "given", "total_new"} <= set(outputs)
    (other,) = set(inputs) - {"x", "total"}
    made = dict(zip(outputs, session.run(None, {"x": x, "total": x, other: scale}), strict=True))
    np.testing.assert_array_equal(made["double"], 2 * x)
    np.testing.assert_array_equal(made["given"], x)
    np.testing.assert_array_equal(made["total_new"], 2 * x)
