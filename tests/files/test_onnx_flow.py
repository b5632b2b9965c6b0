"""Bodies of ONNX, results with as many elements as data says, recurrences: against onnxruntime, with sizes of
0 and 1, static and not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, parser

from dlc import FileError
from dlc.files.model import Model
from dlc.files.onnx import translated

RNG = np.random.default_rng(0)


def read(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')


def load(model: onnx.ModelProto, **sizes: Any) -> Model:
    return translated(model, ".", {}, sizes, "tcc")


def check(model: onnx.ModelProto, *calls: dict[str, np.ndarray], **sizes: Any) -> Model:
    """The same arguments to onnxruntime and dlc."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    loaded = load(model, **sizes)
    for arguments in calls:
        made = loaded(**arguments)
        wanted = session.run(None, arguments)
        for got, want in zip(made if isinstance(made, tuple) else (made,), wanted, strict=True):
            empty = got.size == want.size == 0  # of no rows, onnxruntime does not know other sizes
            assert got.dtype == want.dtype and got.ndim == want.ndim
            assert empty or got.shape == want.shape, (got.shape, want.shape)
            np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-5, atol=1e-5)
    return loaded


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


# -- If, Loop, Scan ------------------------------------------------------------------------------------

IF = """g (bool p, float[N, 3] x, float[N, 3] w) => (float[N, 3] y) {
  y = If (p) <
    then_branch = t () => (a) { s = Mul(x, w)  a = Exp(s) },
    else_branch = e () => (a) { a = Neg(x) }
  >
}"""


def test_if_reads_what_is_around_it() -> None:
    calls = [{"p": np.array(p), "x": f32(n, 3), "w": f32(n, 3)} for p in (True, False) for n in (0, 1, 4)]
    loaded = check(read(IF), *calls, N=(0, None))
    assert " = branch " in loaded.text


def test_if_in_if() -> None:
    text = """g (bool p, bool q, float[4] x) => (float[4] y) {
      y = If (p) <
        then_branch = t () => (a) {
          a = If (q) < then_branch = u () => (b) { b = Add(x, x) }, else_branch = v () => (b) { b = Exp(x) } >
        },
        else_branch = e () => (a) { a = Neg(x) }
      >
    }"""
    x = f32(4)
    check(
        read(text),
        *[{"p": np.array(p), "q": np.array(q), "x": x} for p in (0 > 1, 1 > 0) for q in (0 > 1, 1 > 0)],
    )


def test_if_with_a_known_condition_is_no_branch() -> None:
    text = """g (float[N, 3] x) => (float[M] y) {
      s = Shape(x)
      two = Constant<value_int = 2> ()
      n = Size(s)
      p = Equal(n, two)
      y = If (p) <
        then_branch = t () => (a) { m = Constant<value_ints = [-1]> ()  a = Reshape(x, m) },
        else_branch = e () => (a) { z = Constant<value_ints = [0]> ()  a = ReduceSum(x, z) }
      >
    }"""
    loaded = load(read(text))
    assert "branch" not in loaded.text
    assert loaded(x=f32(2, 3)).shape == (6,)


def test_branches_of_two_shapes_are_refused() -> None:
    text = """g (bool p, float[3] x) => (float[M] y) {
      y = If (p) <
        then_branch = t () => (a) { z = Constant<value_int = 0> ()  a = Concat<axis = 0>(x, x) },
        else_branch = e () => (a) { a = Neg(x) }
      >
    }"""
    with pytest.raises(FileError, match=r"its branches give output 1 as f32\[6\] and as f32\[3\]"):
        load(read(text))


LOOP = """g (int64 n, bool go, float[N] x, float[N] w) => (float[N] y, float[K, N] rows) {
  y, rows = Loop (n, go, x) <
    body = b (int64 i, bool p, float[N] c) => (q, d, row) {
      half = Constant<value_float = 0.5> ()
      least = Constant<value_float = 0.01> ()
      e = Mul(c, half)
      d = Add(e, w)
      a = Abs(d)
      axes = Constant<value_ints = [0]> ()
      m = ReduceMax<keepdims = 0>(a, axes)
      q = Greater(m, least)
      row = Exp(d)
    }
  >
}"""


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("go", [False, True])
def test_a_loop_that_data_ends(steps: int, go: bool) -> None:
    """How many rows there are is known in the call alone."""
    given = {"n": np.array(steps), "go": np.array(go)}
    loaded = check(
        read(LOOP),
        *[{**given, "x": x, "w": w} for x, w in ((f32(4), f32(4)), (f32(1) * 0.1, np.zeros(1, np.float32)))],
    )
    assert "while=1" in loaded.text


def test_a_loop_of_so_many_steps_is_counted() -> None:
    text = """g (float[N] x) => (float[N] y) {
      n = Constant<value_int = 7> ()
      y = Loop (n, , x) <
        body = b (int64 i, bool p, float[N] c) => (p, d) { f = Cast<to = 1>(i)  e = Mul(c, f)  d = Add(e, x) }
      >
    }"""
    loaded = check(read(text), {"x": f32(5)}, {"x": f32(1)})
    assert "while=0" in loaded.text or "steps=[7]" in loaded.text


def test_a_loop_that_grows_what_it_carries_is_written_out() -> None:
    text = """g (float[2] x) => (float[M] y) {
      n = Constant<value_int = 3> ()
      y = Loop (n, , x) <
        body = b (int64 i, bool p, float[L] c) => (p, d) { d = Concat<axis = 0>(c, x) }
      >
    }"""
    loaded = load(read(text))
    assert "loop" not in loaded.text
    x = f32(2)
    np.testing.assert_array_equal(loaded(x=x), np.tile(x, 4))


def test_unsupported_nodes_in_bodies_are_named() -> None:
    text = IF.replace("Exp(s)", "RandomNormalLike(s)").replace("Neg(x)", "Multinomial(x)")
    with pytest.raises(FileError, match="RandomNormalLike of opset 20"):
        load(read(text))


def test_bodies_that_are_none() -> None:
    """Inputs and outputs without a name, too few of them, and steps in steps: an error each."""
    model = read(LOOP)
    for field in ("input", "output"):
        other = onnx.ModelProto()
        other.CopyFrom(model)
        body = other.graph.node[0].attribute[0].g
        getattr(body, field)[0].name = ""
        with pytest.raises(FileError):
            load(other)
        del getattr(body, field)[0]
        with pytest.raises(FileError):
            load(other)
    inner = """n = Constant<value_int = 1000> ()
        d = Loop (n, , c) <
          body = b2 (int64 j, bool q, float[M] e) => (q, f) { f = Concat<axis = 0>(e, x) }
        >"""
    text = f"""g (float[2] x) => (float[M] y) {{
      m = Constant<value_int = 1000> ()
      y = Loop (m, , x) <body = b (int64 i, bool p, float[L] c) => (p, d) {{ {inner} }}>
    }}"""
    with pytest.raises(FileError, match="more than 1024 steps would be written out"):
        load(read(text))


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scans(back: int, axis: int) -> None:
    text = f"""g (float[3] s, float[A, B, 3] x) => (float[3] y, float[P, Q, 3] rows) {{
      y, rows = Scan<num_scan_inputs = 1, scan_input_axes = [{axis}], scan_input_directions = [{back}],
                     scan_output_axes = [{1 - axis}], scan_output_directions = [{1 - back}],
        body = b (float[3] c, float[L, 3] v) => (d, e) {{
          z = Constant<value_ints = [0]> ()
          w = ReduceSum<keepdims = 0>(v, z)
          d = Add(c, w)
          e = Sub(v, d)
        }}
      > (s, x)
    }}"""
    calls = [{"s": f32(3), "x": f32(*shape, 3)} for shape in ((4, 5), (1, 2), (2, 1))]
    check(read(text), *calls)


# -- as many elements as data says ---------------------------------------------------------------------


def one(op: str, dtype: int, shape: list[Any], outputs: int = 1, **attributes: Any) -> onnx.ModelProto:
    names = [f"y{k}" for k in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], names, **attributes)],
        "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_empty_tensor_value_info(name) for name in names],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 4), (2, 1, 5), (3, 0)])
def test_non_zero(shape: tuple[int, ...]) -> None:
    names = [f"n{k}" for k in range(len(shape))]
    model = one("NonZero", TensorProto.FLOAT, names)
    full = f32(*shape)
    calls = [{"x": x.astype(np.float32)} for x in (full, full * 0, np.where(full > 0, full, 0))]
    check(model, *calls, **dict.fromkeys(names, (0, None)))


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique(is_sorted: int, axis: int | None) -> None:
    more = {} if axis is None else {"axis": axis}
    model = one("Unique", TensorProto.FLOAT, ["A", "B"], 4, sorted=is_sorted, **more)
    x = RNG.integers(-2, 2, (5, 3)).astype(np.float32)
    check(model, {"x": x}, {"x": x[:1]}, {"x": x[:, :1]}, {"x": np.concatenate([x, x])})


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
def test_top_k_of_the_worst_numbers(largest: int, dtype: Any) -> None:
    """What is gone has the least number there is, as others may have."""
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=1, largest=largest)],
        "g",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["A", 6])],
        [helper.make_empty_tensor_value_info(name) for name in "vi"],
        [onnx.numpy_helper.from_array(np.array([5]), "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    x = RNG.integers(0, 4, (3, 6)).astype(dtype)
    if dtype == np.float32:
        x[0, :4] = -np.inf
        x[1, 2:] = np.inf
    else:
        x[0, :4] = np.iinfo(dtype).min
        x[1, 2:] = np.iinfo(dtype).max
    made, at = load(model)(x)
    order = np.argsort(-x.astype(np.float64) if largest else x.astype(np.float64), axis=1, kind="stable")
    np.testing.assert_array_equal(at, order[:, :5])
    np.testing.assert_array_equal(made, np.take_along_axis(x, order[:, :5], 1))


# -- recurrences ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("full", [False, True])
def test_recurrences(op: str, direction: str, full: bool) -> None:
    """full: with lengths, first states, biases, and what else the operator has."""
    n, gates, hidden, size = 1 + (direction == "bidirectional"), {"RNN": 1, "GRU": 3, "LSTM": 4}[op], 4, 3
    weights = {"w": f32(n, gates * hidden, size), "r": f32(n, gates * hidden, hidden)}
    inputs = {"x": ["T", "B", size]}
    names = ["x", "w", "r", "", "", ""]
    more: dict[str, Any] = {}
    if full:
        weights["b"] = f32(n, 2 * gates * hidden)
        names[3:] = ["b", "lengths", "h"]
        inputs["h"] = [n, "B", hidden]
        if op == "LSTM":
            weights["p"] = f32(n, 3 * hidden)
            names += ["c", "p"]
            inputs["c"] = [n, "B", hidden]
        if op == "GRU":
            more["linear_before_reset"] = 1
        if op == "RNN":
            more |= {"activations": ["Relu"] * n, "clip": 0.9}
    outputs = ["y", "last", "cell"][: 3 if op == "LSTM" else 2]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    if full:
        values.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, ["B"]))
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, hidden_size=hidden, direction=direction, **more)],
        "g",
        values,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    calls = []
    for steps, batch in ((5, 2), (1, 1), (3, 4)):
        given = {"x": f32(steps, batch, size)}
        if full:
            given |= {
                "h": f32(n, batch, hidden),
                "lengths": RNG.integers(1, steps + 1, batch).astype(np.int32),
            }
            if op == "LSTM":
                given["c"] = f32(n, batch, hidden)
        calls.append(given)
    check(model, *calls)


# -- element types of other bits -----------------------------------------------------------------------


@pytest.mark.parametrize("op", ["Div", "Mod", "Less", "Greater", "Max", "Min", "Add", "Mul"])
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_integers_without_a_sign(op: str, bits: int) -> None:
    """Up to the greatest: arrays are numbers of the same bits."""
    dtype, signed = np.dtype(f"uint{bits}"), np.dtype(f"int{bits}")
    most = 2**bits - 1
    numbers = np.array([0, 1, 2, 7, most // 2, most // 2 + 1, most // 2 + 2, most - 1, most], dtype)
    a, b = (x.reshape(-1) for x in np.meshgrid(numbers, numbers[1:]))
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    graph = helper.make_graph(
        [helper.make_node(op, ["a", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info(name, kind, ["N"]) for name in "ab"],
        [helper.make_empty_tensor_value_info("y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    made = load(model)(a.view(signed), b.view(signed))
    how = {"Div": np.floor_divide, "Mod": np.remainder, "Less": np.less, "Greater": np.greater,
           "Max": np.maximum, "Min": np.minimum, "Add": np.add, "Mul": np.multiply}[op]  # fmt: skip
    wanted = how(a, b)
    np.testing.assert_array_equal(made if made.dtype == bool else made.view(dtype), wanted)
