"""The reference interpreter, through dlc.ir, against NumPy and the standard library."""

import math
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dlc

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
Array = np.ndarray


def ops(kind: str) -> list[tuple[str, ...]]:
    rows = re.findall(rf"^{kind}\( *(\w+), *([^,]*), *([^,]*),", (ROOT / "csrc/ir/ops.def").read_text(), re.M)
    assert rows
    return rows


def each(f: Callable[..., float]) -> Callable[..., Array]:
    return lambda *a: np.vectorize(f, otypes=[np.float64])(*a)


def erfinv(y: float) -> float:
    """By Newton's method from the middle of an interval that shrinks."""
    if abs(y) >= 1 or y != y:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    lo, hi = -6.0, 6.0
    for _ in range(200):
        lo, hi = ((lo + hi) / 2, hi) if math.erf((lo + hi) / 2) < y else (lo, (lo + hi) / 2)
    return (lo + hi) / 2


def fma(a: float, b: float, c: float) -> float:
    """a * b + c, rounded once."""
    plain = a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c) if math.isfinite(plain) else 0
    return float(exact) if exact else plain


MAPS: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "div_trunc": lambda a, b: np.trunc(a / b) if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype),
    "div_floor": lambda a, b: a // b, "fmod": np.fmod, "remainder": np.remainder,
    "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin,
    "fma": each(fma),
    "neg": np.negative, "abs": np.abs, "sign": lambda a: np.sign(np.where(np.isnan(a), 0, a)),
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint,
    "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a), "reciprocal": lambda a: 1 / a,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "atan2": np.arctan2,
    "erf": each(math.erf), "erfc": each(math.erfc), "erfinv": each(erfinv),
    "phi": each(lambda a: math.erfc(-a * math.sqrt(0.5)) / 2),
    "lgamma": each(lambda a: math.inf if a <= 0 and (a == -math.inf or a == int(a)) else math.lgamma(a)),
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)), "pow": np.power, "hypot": np.hypot, "logaddexp": np.logaddexp,
    "loghypot": lambda a, b: np.log(np.hypot(a.astype(np.longdouble), b)).astype(a.dtype),
    "copysign": np.copysign, "nextafter": np.nextafter,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "isnan": np.isnan, "isinf": np.isinf, "signbit": np.signbit,
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
    "bit_not": np.invert, "shl": lambda a, b: a & ~b if a.dtype == bool else a << b,
    "shr": lambda a, b: a & ~b if a.dtype == bool else a >> b, "not": np.logical_not,
    "where": np.where, "cast": lambda a: a.astype(np.int32),
    "bitcast": lambda a: a.view(NUMPY[BITS[a.dtype.name]]),
    "real": np.real, "imag": np.imag, "complex": lambda a, b: np.stack([a, b], -1).view(np.complex128)[:, 0],
}  # fmt: skip

CLASSES = {
    "SAME": "bif", "NUM": "if", "FLOAT": "f", "INT": "bi", "CMP": "bif", "BOOL": "b", "PRED": "f",
    "SEL": "bif", "CAST": "bif", "PART": "c", "PAIR": "p", "BITS": "w",
}  # fmt: skip
BITS = {  # by NumPy's name
    "int16": "f16", "int32": "f32", "int64": "f64", "float16": "i16", "float32": "i32", "float64": "i64",
}  # fmt: skip
DTYPES = {
    "b": ["bool"],
    "i": ["u8", "i8", "i16", "i32", "i64"],
    "f": ["f16", "f32", "f64"],
    "c": ["c64", "c128"],
    "p": ["f32", "f64"],
    "w": ["i16", "i32", "i64", "f16", "f32", "f64"],
}
NUMPY = {
    "bool": np.bool_, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128,
}  # fmt: skip
ROWS = {name: (int(arity), rule.strip()) for name, arity, rule in ops("MAP")}


def graph(signature: str, *lets: str, ret: str = "y") -> dlc.ir.Function:
    body = "".join(f"  {let}\n" for let in lets)
    return dlc.ir.parse(f"dlc 1 graph\n\nfn f{signature} {{\n{body}  ret {ret}\n}}\n")


def operands(dtype: str, arity: int, name: str) -> list[Array]:
    """Values on a grid and at random, the interesting ones crossed."""
    rng = np.random.default_rng(len(name))
    kind = np.dtype(NUMPY[dtype]).kind
    if kind == "b":
        values = np.array([False, True])
    elif kind in "fc":
        values = np.concatenate([rng.normal(0, 2, 40), [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan]])
    else:
        small = np.arange(-9 if kind == "i" else 0, 10)
        values = small if name in ("shl", "shr") else np.concatenate([small, rng.integers(0, 127, 20)])
    if kind == "c":
        values = np.stack([values, values[::-1]], -1).view(np.complex128)[:, 0]
    if name in ("shl", "shr"):
        values = np.abs(values) % 8
    crossed = np.meshgrid(*[values.astype(NUMPY[dtype])] * max(arity - (name == "where"), 1))
    arrays = [np.ascontiguousarray(a.reshape(-1)) for a in crossed]
    if name.startswith(("div_", "fmod", "remainder")) and kind != "f":
        arrays = [a[arrays[1] != 0] for a in arrays]
    return [arrays[0].astype(np.float64) > 0, *arrays] if name == "where" else arrays


def test_every_map_op_has_a_reference() -> None:
    assert set(MAPS) == set(ROWS)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n, (_, rule) in ROWS.items() for kind in CLASSES[rule] for d in DTYPES[kind]
     if (n, d) != ("nextafter", "f16")],  # computed in f32, where the neighbour is another
)  # fmt: skip
def test_map(name: str, dtype: str) -> None:
    arity, rule = ROWS[name]
    is_float = np.dtype(NUMPY[dtype]).kind == "f"
    part = {"c64": "f32", "c128": "f64", "f32": "c64", "f64": "c128"}.get(dtype, "")
    bits = BITS.get(np.dtype(NUMPY[dtype]).name, "")
    outs = {"CMP": "bool", "PRED": "bool", "CAST": "i32", "PART": part, "PAIR": part, "BITS": bits}
    out = outs.get(rule, dtype)
    kinds = ["bool" if name == "where" and k == 0 else dtype for k in range(arity)]
    params = ", ".join(f"a{k}: {d}[N]" for k, d in enumerate(kinds))
    args = ", ".join(f"a{k}" for k in range(arity))
    fn = graph(f"[N]({params}) -> ({out}[N])", f"let y: {out}[N] = {name} {args}")
    arrays = operands(dtype, arity, name)
    if rule == "CAST":
        arrays = [np.nan_to_num(a, posinf=7, neginf=-7) for a in arrays]
    with np.errstate(all="ignore"):
        narrow = ("nextafter", "bitcast")
        wide = [a.astype(np.float64) if is_float and name not in narrow else a for a in arrays]
        want = MAPS[name](*wide).astype(NUMPY[out])
    got = fn(*arrays)
    assert got.dtype == want.dtype
    if rule in ("PART", "PAIR", "BITS"):
        assert got.tobytes() == want.tobytes()
    elif want.dtype.kind == "f":
        size = np.finfo(want.dtype)
        good = np.isclose(got, want, rtol=4 * size.eps, atol=8 * float(size.smallest_normal), equal_nan=True)
        hard = set("tan lgamma sin cos fmod remainder div_floor pow erfinv erfc phi".split())  # noqa: SIM905
        if name in hard:  # near a root or a jump, or absolute
            with np.errstate(invalid="ignore"):
                good |= np.abs(got - want) <= 64 * size.eps * np.maximum(1, np.abs(want))
        where = np.flatnonzero(~good)[:5]
        assert good.all(), [(*(a[k] for a in arrays), got[k], want[k]) for k in where]
    else:
        assert np.array_equal(got, want)


REDS: dict[str, Callable[..., Array]] = {
    "sum": np.sum, "prod": np.prod, "amax": np.max, "amin": np.min, "any": np.any, "all": np.all,
    "argmax": np.argmax, "argmin": np.argmin,
}  # fmt: skip


def test_every_reduction_has_a_reference() -> None:
    assert set(REDS) == {row[0] for row in ops("RED")}


@pytest.mark.parametrize(
    ("name", "axes", "dtype"),
    [(n, axes, d) for n in REDS for axes in ([], [0], [1], [0, 2], [0, 1, 2])
     for d in (["bool"] if n in ("any", "all") else ["i8", "i64", "f16", "f32", "f64"])
     if not n.startswith("arg") or len(axes) == 1],
)  # fmt: skip
def test_reduction(name: str, axes: list[int], dtype: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2, (3, 4, 5)) if dtype == "bool" else rng.integers(-3, 4, (3, 4, 5))
    x = x.astype(NUMPY[dtype])
    if dtype[0] == "f":
        x[1, 2, 3] = np.nan if name.endswith(("max", "min")) else 0.25
    axis = axes[0] if name.startswith("arg") else tuple(axes)
    options = {"dtype": x.dtype} if name in ("sum", "prod") and dtype[0] != "f" else {}
    want = np.asarray(REDS[name](x, axis=axis, **options))
    dims = ", ".join(str(n) for k, n in enumerate(x.shape) if k not in axes)
    kind = "i64" if name.startswith("arg") else dtype
    out = f"{kind}[{dims}]"
    got = graph(f"(x: {dtype}[3, 4, 5]) -> ({out})", f"let y: {out} = {name} x axes={axes}")(x)
    assert got.shape == want.shape
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-3)


def test_sums_are_accumulated_in_double() -> None:
    x = np.full(1 << 16, 0.1, np.float32)
    got = graph("[N](x: f32[N]) -> (f32)", "let y: f32 = sum x axes=[0]")(x)
    assert got == np.float32(x.astype(np.float64).sum())


def test_views() -> None:
    x = np.arange(24, dtype=np.int64).reshape(2, 3, 4)

    def run(out: str, op: str) -> Array:
        return graph(f"(x: i64[2, 3, 4]) -> (i64{out})", f"let y: i64{out} = {op}")(x)

    assert np.array_equal(run("[4, 2, 3]", "permute x perm=[2, 0, 1]"), x.transpose(2, 0, 1))
    assert np.array_equal(run("[6, 4]", "reshape x"), x.reshape(6, 4))
    assert np.array_equal(run("[2, 3, 4]", "flip x axes=[0, 2]"), x[::-1, :, ::-1])
    assert np.array_equal(run("[2, 3, 2]", "slice x axis=2 start=1 step=2"), x[:, :, 1::2])
    assert np.array_equal(run("[2, 2, 4]", "slice x axis=1 start=2 step=-1"), x[:, 2:0:-1])
    assert np.array_equal(run("[2, 5, 3, 4]", "expand x to=[0, 2, 3]"), np.stack([x] * 5, 1))
    windows = np.lib.stride_tricks.sliding_window_view(x.reshape(-1), 3)[::2]
    assert np.array_equal(run("[11, 3]", "as_strided x offset=0 strides=[2, 1]"), windows)


def test_nodes() -> None:
    x, t = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([[2, -1], [0, -3]])
    fn = graph(
        "[B, N](x: f32[B, N], t: i64[2, 2]) -> (f32[B, 2*N], f32[B + 3, N + 1], f32[2, 2, N], u8[B, N], i64)",
        "let c: f32[B, 2*N] = cat x, x axis=1",
        "let p: f32[B + 3, N + 1] = pad x, -1.5 lo=[1, 1]",
        "let g: f32[2, 2, N] = gather x, t axis=0 wrap=1",
        "let i: u8[B, N] = iota axis=1",
        "let n: i64 = size dim=B*N - 2",
        ret="c, p, g, i, n",
    )
    c, p, g, i, n = fn(x, t)
    assert np.array_equal(c, np.concatenate([x, x], 1))
    assert np.array_equal(p, np.pad(x, [(1, 2), (1, 0)], constant_values=-1.5))
    assert np.array_equal(g, x[t])
    assert np.array_equal(i, np.tile(np.arange(4, dtype=np.uint8), (3, 1)))
    assert n.shape == () and n == 10


def test_out_of_range_indices_fail() -> None:
    fn = graph("[N](x: f32[N], t: i64[2]) -> (f32[2])", "let y: f32[2] = gather x, t axis=0")
    with pytest.raises(RuntimeError, match="index 3 is out of range for axis 0 of 'x', which has 3 elements"):
        fn(np.ones(3, np.float32), np.array([0, 3]))
    with pytest.raises(RuntimeError, match="index -1 is out of range"):
        fn(np.ones(3, np.float32), np.array([-1, 0]))


def test_reductions_of_nothing() -> None:
    assert graph("[N](x: f32[N]) -> (f32)", "let y: f32 = sum x axes=[0]")(np.ones(0, np.float32)) == 0
    with pytest.raises(RuntimeError, match="amax of no elements"):
        graph("[N](x: f32[N]) -> (f32)", "let y: f32 = amax x axes=[0]")(np.ones(0, np.float32))


def test_bfloat16_travels_as_its_bits() -> None:
    fn = graph("[N](x: bf16[N]) -> (bf16[N])", "let y: bf16[N] = mul x, 1.0078125")
    x = np.linspace(-3, 3, 50).astype(np.float32)
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    exact = (bits.astype(np.uint32) << 16).view(np.float32) * np.float32(1.0078125)
    even = (exact.view(np.uint32) >> 16) & 1
    assert np.array_equal(fn(bits), ((exact.view(np.uint32) + 0x7FFF + even) >> 16).astype(np.uint16))


def test_arrays_are_read_with_their_strides_and_sizes_are_solved() -> None:
    fn = graph(
        "[B, N](x: f32[2*B, N + 1]) -> (i64, i64)",
        "let b: i64 = size dim=B",
        "let n: i64 = size dim=N",
        ret="b, n",
    )
    assert fn(np.zeros((6, 5), np.float32)) == (3, 4)
    with pytest.raises(ValueError, match="the size 'B' is not the size of an axis of any argument"):
        fn(np.zeros((5, 5), np.float32))
    neg = graph("[B, N](x: f32[B, N]) -> (f32[B, N])", "let y: f32[B, N] = neg x")
    x = np.random.default_rng(1).normal(size=(6, 8)).astype(np.float32)
    for view in (x.T, x[::-1, ::2], np.broadcast_to(x[0], (4, 8)), x[:, :0]):
        assert np.array_equal(neg(view), -view)


def test_sizes_that_no_shape_tells_are_given_by_name() -> None:
    fn = graph("[K in 1..9](x: f32) -> (f32[K])", "let y: f32[K] = expand x to=[]")
    assert np.array_equal(fn(2.5, K=3), np.full(3, 2.5, np.float32))
    with pytest.raises(ValueError, match="K=10 is not in its range"):
        fn(2.5, K=10)
    with pytest.raises(ValueError, match="has no size 'Q'"):
        fn(2.5, Q=1)


def test_results_into_parameters() -> None:
    fn = graph("[N](x: f32[N], s: f32[N]) -> (f32[N] into s, f32[N])", "let y: f32[N] = add x, s", ret="y, x")
    base = np.zeros(6, np.float32)
    target = base[::2]
    first, second = fn(np.ones(3, np.float32), target)
    assert first is target and np.array_equal(base, [1, 0, 1, 0, 1, 0])
    assert np.array_equal(second, np.ones(3))
    target.flags.writeable = False
    with pytest.raises(ValueError, match="argument 2 is read-only, and the function writes to it"):
        fn(np.ones(3, np.float32), target)


def test_arguments_that_do_not_match() -> None:
    fn = graph("[N in 2..8 % 2](x: f32[N], b: f32[N]) -> (f32[N])", "let y: f32[N] = add x, b")
    four, six = np.ones(4, np.float32), np.ones(6, np.float32)
    with pytest.raises(
        ValueError, match=r"argument 2 \('b'\) is f32\[6\], which does not match f32\[N\] with N=4"
    ):
        fn(four, six)
    with pytest.raises(ValueError, match="f64"):
        fn(four, four.astype(np.float64))
    with pytest.raises(ValueError, match="takes 2 arrays, not 1"):
        fn(four)
    with pytest.raises(ValueError, match=r"N=3 is not in its range 2\.\.8 or not a multiple of 2"):
        fn(four[:3], four[:3])
    with pytest.raises(ValueError, match="not supported"):
        fn(four.astype(">f4"), four)


def test_stages_agree() -> None:
    """Softmax with a bias, written as kernels and as loops by hand."""
    x = np.random.default_rng(5).normal(size=(3, 16)).astype(np.float32)
    texts = {
        "graph": """
  let m: f32[B] = amax x axes=[1]
  let n: f32[B, N] = expand m to=[0]
  let d: f32[B, N] = sub x, n
  let e: f32[B, N] = exp d
  let s: f32[B] = sum e axes=[1]
  let r: f32[B, N] = expand s to=[0]
  let y: f32[B, N] = div e, r
""",
        "loops": """
  let y: f32[B, N] = kernel {
    for i in B parallel {
      let row: f32[N] = buffer
      let m: f32 = reduce amax j in N lanes {
        let a: f32 = load x[i, j]
        ret a
      }
      let s: f32 = reduce sum j in N lanes {
        let b: f32 = load x[i, j]
        let d: f32 = sub b, m
        let e: f32 = exp d
        store row[j] = e
        ret e
      }
      for j in N vector {
        let c: f32 = load row[j]
        let q: f32 = div c, s
        store y[i, j] = q
      }
    }
  }
""",
    }
    texts["kernels"] = "  let y: f32[B, N] = kernel {" + texts["graph"].replace(" y:", " z:") + "  ret z\n}\n"
    head = "fn f[B, N in 1..inf](x: f32[B, N]) -> (f32[B, N])"
    got = {
        stage: dlc.ir.parse(f"dlc 1 {stage}\n{head} {{{text}  ret y\n}}")(x) for stage, text in texts.items()
    }
    want = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    np.testing.assert_allclose(got["graph"], want, rtol=1e-5)
    assert np.array_equal(got["graph"], got["kernels"])
    assert np.array_equal(got["graph"], got["loops"])


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("for i in N {\n let [p] = bind v extent=N\n store y[p] = 1.0\n}", "stored twice"),
        ("for i in N//2 {\n store y[i] = 1.0\n}", "element 2 of 'y' was never stored"),
        (
            "let b: f32[N] = buffer\n for i in N {\n let a: f32 = load b[i]\n store y[i] = a\n}",
            "read before it is stored",
        ),
        (
            "for i in N {\n let [p] = bind v extent=i\n store y[i] = 1.0\n}",
            "index 0 is out of range for 0 elements",
        ),
    ],
)
def test_loops_that_go_wrong(store: str, message: str) -> None:
    head = "dlc 1 loops\nfn f[N in 2..inf](z: i64) -> (f32[N]) {\n let y: f32[N] = kernel {\n"
    bound = store.replace("let [p]", "let v: i64 = load z[]\n let [p]")
    text = f"{head}{bound}\n}}\n ret y\n}}"
    with pytest.raises(RuntimeError, match=message):
        dlc.ir.parse(text)(np.array(0), N=4)


def test_calls_cannot_be_evaluated() -> None:
    fn = dlc.ir.parse((HERE / "valid" / "calls.dlc").read_text())
    with pytest.raises(RuntimeError, match=r"aten\.nonzero\.default"):
        fn(np.ones((2, 3), np.float32))


def test_what_a_function_tells() -> None:
    text = (HERE / "valid" / "softmax.dlc").read_text()
    fn = dlc.ir.parse(text)
    assert (fn.name, fn.stage, fn.text, str(fn)) == ("softmax_bias", "graph", text, text)
    assert fn.params == (("x", "f32[B, N]"), ("b", "f32[N]")) and fn.params[0].name == "x"
    assert (fn.results, fn.sizes) == (("f32[B, N]",), ("B", "N"))
    assert repr(fn) == "<dlc.ir.Function softmax_bias(x: f32[B, N], b: f32[N]) -> (f32[B, N]), graph>"
    assert "&quot;x\\&quot;" in fn._repr_html_() and "<pre>" in fn._repr_html_()
    fn.verify()
    assert pickle.loads(pickle.dumps(fn)) == fn and hash(fn) == hash(dlc.ir.parse(text))
    with pytest.raises(AttributeError):
        fn.name = "other"  # type: ignore[misc]


def test_errors_have_their_kind() -> None:
    with pytest.raises(dlc.ir.ParseError, match=r"model:1:7: expected 'graph'.*\n  dlc 1 grap\n        \^"):
        dlc.ir.parse("dlc 1 grap", file="model")
    with pytest.raises(dlc.InternalError, match="V07: neg: the op wants integers or floating point"):
        graph("(x: bool) -> (bool)", "let y: bool = neg x")
    with pytest.raises(ValueError, match="there is no pass 'frobnicate'"):
        graph("(x: f32) -> (f32)", "let y: f32 = neg x").run_pass("frobnicate")


def test_threads_share_a_function() -> None:
    fn = dlc.ir.parse((HERE / "valid" / "softmax.dlc").read_text())
    x = np.random.default_rng(2).normal(size=(4, 64)).astype(np.float32)
    want, wrong = fn(x, x[0]), []

    def work() -> None:
        for _ in range(10):
            if not np.array_equal(fn(x, x[0]), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_torch_is_not_imported() -> None:
    code = "import sys, dlc; dlc.ir.parse(open(sys.argv[1]).read()); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code, HERE / "valid" / "softmax.dlc"], check=True, cwd=ROOT)
