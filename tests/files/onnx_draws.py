"""Random nodes of ONNX, a function for each kind of operators, for tests/files/onnx_fuzz.py."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.files.onnx_program import FLOATS, SIZES, WHOLES, Program, Unfit

Draw = Callable[[Program, str], None]
DRAWS: dict[str, Draw] = {}


def draws(*names: str) -> Callable[[Draw], Draw]:
    def keep(draw: Draw) -> Draw:
        DRAWS.update(dict.fromkeys(names, draw))
        return draw

    return keep


@draws(
    "Exp",
    "Sin",
    "Cos",
    "Tanh",
    "Sigmoid",
    "Erf",
    "Softplus",
    "Softsign",
    "Atan",
    "Sinh",
    "Cosh",
    "Asinh",
    "Mish",
    "HardSwish",
    "Selu",
)
def smooth(p: Program, op: str) -> None:
    p.node(op, [p.one(FLOATS)], False)


@draws("Log", "Sqrt", "Reciprocal", "Acos", "Asin", "Atanh", "Acosh", "Tan")
def partial(p: Program, op: str) -> None:
    low, high = {"Log": (1, 20), "Sqrt": (0, 30), "Acosh": (9, 30)}.get(op, (-6, 6))
    p.node(op, [p.new(p.array(p.rng.choice(FLOATS), p.shape(), low, high))], op == "Sqrt")


@draws("Neg", "Abs", "Sign", "Relu", "Identity")
def numbers(p: Program, op: str) -> None:
    p.node(op, [p.one((*FLOATS, "int64", "int32", "int8"), exact=op == "Sign")], True)


@draws("Floor", "Ceil", "Round", "IsNaN")
def steps(p: Program, op: str) -> None:
    p.node(op, [p.one(FLOATS, exact=True)], True)


@draws("Elu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Gelu", "Shrink", "Swish")
def activations(p: Program, op: str) -> None:
    named: dict[str, Any] = {"alpha": p.rng.choice([0.5, 1.0, 2.0])} if p.chance() else {}
    if op in ("Gelu", "Swish", "Shrink"):
        named = {
            "Gelu": {"approximate": p.rng.choice(["tanh", "none"])},
            "Shrink": {"lambd": 0.75, "bias": 0.5},
        }.get(op, {})
    exact = op in ("ThresholdedRelu", "Shrink")
    p.node(op, [p.one(FLOATS, exact=exact)], exact, **named)


@draws("Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean")
def pairs(p: Program, op: str) -> None:
    types = FLOATS if op in ("Sum", "Mean") else (*FLOATS, "int64", "int32")
    x = p.one(types)
    more = [p.like(x) for _ in range(p.rng.randint(0, 2))] if op in ("Max", "Min", "Sum", "Mean") else []
    y = p.like(x)
    p.node(op, [y, x, *more] if p.chance(0.3) else [x, y, *more], op not in ("Mean", "Sum"))


@draws("Div", "Mod", "Pow", "PRelu")
def guarded(p: Program, op: str) -> None:
    floats = op in ("Pow", "PRelu") or p.chance()
    x = p.one(FLOATS if floats else ("int64", "int32"), exact=op == "Mod")
    if op == "Mod":
        p.node(op, [x, p.like(x, 1, 9)], True, fmod=1 if floats else p.rng.randint(0, 1))
    elif op == "Pow":
        p.node(
            op,
            [
                p.new(p.array(p.rng.choice(FLOATS), p.shape(), 1, 16)),
                p.new(np.array(p.rng.choice([0.5, 2, 3, -1]), np.float32)),
            ],
            False,
        )
    else:
        p.node(op, [x, p.like(x, 1, 9)], True)


@draws("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
def compares(p: Program, op: str) -> None:
    x = p.one((*FLOATS, "int64", "int32"), exact=True)
    p.node(op, [x, p.like(x, -2, 2)], True)


@draws("And", "Or", "Xor", "Not")
def logic(p: Program, op: str) -> None:
    x = p.one(("bool",))
    p.node(op, [x] if op == "Not" else [x, p.like(x)], True)


@draws("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift")
def bits(p: Program, op: str) -> None:
    if op == "BitShift":
        x = p.one(("uint8",))
        p.node(op, [x, p.like(x, 0, 8)], True, direction=p.rng.choice(["LEFT", "RIGHT"]))
    else:
        x = p.one(WHOLES)
        p.node(op, [x] if op == "BitwiseNot" else [x, p.like(x)], True)


@draws("Where")
def where(p: Program, op: str) -> None:
    x = p.one((*FLOATS, *WHOLES, "bool"))
    y = p.like(x)
    q = p.new(p.array("bool", tuple(1 if p.chance(0.3) else n for n in x.array.shape)))
    p.node(op, [q, x, y], True)


@draws("Clip")
def clip(p: Program, op: str) -> None:
    x = p.one((*FLOATS, "int32", "int64"))
    low, high = (p.new(np.array(n, x.array.dtype)) if p.chance(0.7) else None for n in (-1, 1))
    p.node(op, [x, low, high], True)


@draws("Cast")
def cast(p: Program, op: str) -> None:
    to = p.rng.choice((*FLOATS, *WHOLES, "bool"))
    x = p.one((*FLOATS, *WHOLES, "bool"), exact=True)
    if to == "uint8" and x.array.dtype.kind != "b" and (x.array < 0).any():
        raise Unfit  # not defined
    p.node(op, [x], True, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


@draws(
    "ReduceSum",
    "ReduceMean",
    "ReduceProd",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
)
def reduces(p: Program, op: str) -> None:
    types = (*FLOATS[:3], "int32") if op in ("ReduceSum", "ReduceMax", "ReduceMin") else FLOATS[:3]
    x = p.one(types)
    if op == "ReduceLogSum":
        x = p.new(p.array("float32", p.shape(1, 4), 1, 9))
    axes = p.axes(x) if p.chance(0.8) else None
    keep: dict[str, Any] = {"keepdims": p.rng.randint(0, 1)} if p.chance() else {}
    exact = op in ("ReduceMax", "ReduceMin")
    if p.opset >= 18 or (op == "ReduceSum" and p.opset >= 13):
        if p.chance(0.3):
            keep["noop_with_empty_axes"] = p.rng.randint(0, 1)
        p.node(op, [x] if axes is None else [x, p.whole(*axes)], exact, **keep)
    else:
        p.node(op, [x], exact, **keep, **({} if axes is None else {"axes": axes}))


@draws("ArgMax", "ArgMin")
def extremes(p: Program, op: str) -> None:
    x = p.one((*FLOATS, "int32"), (1, 4), exact=True)
    last = {"select_last_index": p.rng.randint(0, 1)} if p.opset >= 12 else {}
    p.node(op, [x], True, axis=p.axis(x), keepdims=p.rng.randint(0, 1), **last)


@draws("CumSum")
def cumulates(p: Program, op: str) -> None:
    x = p.one(("float32", "float64", "int32", "int64"), (1, 4))
    axis = p.new(np.array(p.axis(x), np.int64), True)
    p.node(op, [x, axis], False, exclusive=p.rng.randint(0, 1), reverse=p.rng.randint(0, 1))


@draws("Softmax", "LogSoftmax", "Hardmax")
def softmaxes(p: Program, op: str) -> None:
    if p.opset < 13:
        raise Unfit  # the reference has the newer meaning
    x = p.one(FLOATS, (1, 4), exact=op == "Hardmax", sizes=(1, 2, 3, 4, 5))
    p.node(op, [x], op == "Hardmax", **({"axis": p.axis(x)} if p.chance(0.8) else {}))


@draws("Shape", "Size")
def shapes(p: Program, op: str) -> None:
    x = p.one((*FLOATS, *WHOLES, "bool"))
    ends = {}
    if op == "Shape" and p.opset >= 15:
        ends = {"start": p.rng.randint(-3, 3), "end": p.rng.randint(-3, 4)}
        rank = x.array.ndim
        low, high = (min(max(n + rank if n < 0 else n, 0), rank) for n in ends.values())
        if low >= high:
            raise Unfit  # nothing, and the reference has some
    p.node(op, [x], True, **ends)


@draws("Reshape")
def reshape(p: Program, op: str) -> None:
    x = p.one((*FLOATS, *WHOLES, "bool"))
    shape = [*x.array.shape]
    if shape and p.chance():
        at = p.rng.randrange(len(shape))
        shape[at : at + 2] = [int(np.prod(shape[at : at + 2]))]
    if p.chance():
        shape.insert(p.rng.randint(0, len(shape)), 1)
    if shape and p.chance() and 0 not in shape:
        shape[p.rng.randrange(len(shape))] = -1
    allow = {"allowzero": 1} if p.opset >= 14 and 0 in shape else {}
    p.node(op, [x, p.whole(*shape)], True, **allow)


@draws("Flatten")
def flatten(p: Program, op: str) -> None:
    x = p.one((*FLOATS, "int64"))
    p.node(op, [x], True, axis=p.rng.randint(-x.array.ndim, x.array.ndim))


@draws("Squeeze", "Unsqueeze")
def squeezes(p: Program, op: str) -> None:
    x = p.one((*FLOATS, *WHOLES, "bool"))
    rank = x.array.ndim
    if op == "Squeeze":
        axes = [axis for axis in range(rank) if x.array.shape[axis] == 1 and p.chance(0.7)]
    else:
        axes = sorted(p.rng.sample(range(rank + 2), 2))
    if p.opset >= 13:
        p.node(op, [x] if op == "Squeeze" and p.chance(0.3) else [x, p.whole(*axes)], True)
    else:
        p.node(op, [x], True, axes=axes)


@draws("Transpose")
def transpose(p: Program, op: str) -> None:
    x = p.one((*FLOATS, *WHOLES, "bool"))
    perm = p.rng.sample(range(x.array.ndim), x.array.ndim)
    p.node(op, [x], True, **({"perm": perm} if p.chance(0.8) and perm else {}))


@draws("Expand", "Tile")
def repeats(p: Program, op: str) -> None:
    x = p.one((*FLOATS, *WHOLES, "bool"))
    if op == "Tile":
        p.node(op, [x, p.whole(*(p.rng.choice([0, 1, 2, 3]) for _ in x.array.shape))], True)
    else:
        shape = [p.rng.choice([n, 3]) if n == 1 else p.rng.choice([n, 1]) for n in x.array.shape]
        p.node(op, [x, p.whole(*([2] if p.chance(0.3) else []), *shape)], True)


@draws("Slice")
def slices(p: Program, op: str) -> None:
    x = p.one((*FLOATS, *WHOLES, "bool"), (1, 4))
    axes = p.axes(x)
    starts, ends = ([p.rng.choice([-9, -2, -1, 0, 1, 2, 9]) for _ in axes] for _ in range(2))
    more = [p.whole(*axes)]
    if p.chance():
        more.append(p.whole(*(p.rng.choice([-2, -1, 1, 2, 3]) for _ in axes)))
    p.node(op, [x, p.whole(*starts), p.whole(*ends), *more], True)


@draws("Concat")
def concat(p: Program, op: str) -> None:
    x = p.one((*FLOATS, *WHOLES, "bool"), (1, 4))
    axis = p.axis(x)
    shape = list(x.array.shape)
    shape[axis] = p.rng.choice(SIZES)
    p.node(
        op, [x, p.new(p.array(x.array.dtype.name, tuple(shape))), x][: p.rng.randint(1, 3)], True, axis=axis
    )


@draws("Split")
def split(p: Program, op: str) -> None:
    x = p.one((*FLOATS, "int64"), (1, 4))
    axis = p.axis(x)
    size = x.array.shape[axis]
    first = p.rng.randint(0, size)
    if p.opset >= 18 and p.chance(0.3):
        p.node(op, [x], True, 2, axis=axis, num_outputs=2)
    elif p.opset >= 13:
        p.node(op, [x, p.whole(first, size - first)], True, 2, axis=axis)
    else:
        p.node(op, [x], True, 2, axis=axis, split=[first, size - first])


@draws("Pad")
def pad(p: Program, op: str) -> None:
    mode = p.rng.choice(["constant", "constant", "edge", "reflect"])
    x = p.one((*FLOATS, "int64", "int32"), (1, 3), sizes=SIZES if mode == "constant" else (3, 4, 5))
    pads = [p.rng.choice([0, 1, 2, -1] if mode == "constant" else [0, 1, 2]) for _ in range(2 * x.array.ndim)]
    if any(a + b + n < 0 for a, b, n in zip(pads, pads[x.array.ndim :], x.array.shape, strict=False)):
        raise Unfit
    fill = [p.new(np.array(3, x.array.dtype), True)] if mode == "constant" and p.chance() else []
    p.node(op, [x, p.whole(*pads), *fill], True, mode=mode)


@draws("DepthToSpace", "SpaceToDepth")
def blocks(p: Program, op: str) -> None:
    x = p.new(p.array("float32", (p.rng.randint(1, 2), 8, 2, 4)))
    mode = {"mode": p.rng.choice(["DCR", "CRD"])} if op == "DepthToSpace" else {}
    p.node(op, [x], True, blocksize=2, **mode)


@draws("ConstantOfShape", "Range", "EyeLike", "Trilu")
def makers(p: Program, op: str) -> None:
    if op == "ConstantOfShape":
        value = onnx.numpy_helper.from_array(p.array(p.rng.choice(["float32", "int64", "bool"]), (1,)))
        p.node(op, [p.whole(*p.shape(1, 3))], True, value=value)
    elif op == "Range":
        ends = [
            p.new(np.array(n, np.int64), True)
            for n in (p.rng.randint(-4, 4), p.rng.randint(-4, 9), p.rng.choice([-2, -1, 1, 3]))
        ]
        p.node(op, list(ends), True)
    elif op == "EyeLike":
        p.node(op, [p.one(FLOATS, (2, 2))], True, k=p.rng.randint(-2, 2))
    else:
        k = [p.new(np.array(p.rng.randint(-3, 3), np.int64), True)] if p.chance(0.7) else []
        p.node(op, [p.one((*FLOATS, "int64", "bool"), (2, 4)), *k], True, upper=p.rng.randint(0, 1))


@draws("Gather", "GatherElements", "GatherND")
def gathers(p: Program, op: str) -> None:
    x = p.one((*FLOATS, *WHOLES, "bool"), (1, 4), sizes=(1, 2, 3, 4, 5))
    shape, rank = x.array.shape, x.array.ndim
    if op == "GatherND":
        depth = p.rng.randint(1, rank)
        index = np.array([[p.rng.randrange(-n, n) for n in shape[:depth]] for _ in range(3)], np.int64)
        p.node(op, [x, p.new(index)], True)
        return
    axis = p.axis(x)
    n = shape[axis]
    of = p.shape(0, 2) if op == "Gather" else tuple(p.rng.randint(1, m) for m in shape)
    p.node(op, [x, p.new(p.array(p.rng.choice(["int64", "int32"]), of, -n, n - 1))], True, axis=axis)


@draws("ScatterElements", "ScatterND")
def scatters(p: Program, op: str) -> None:
    x = p.one((*FLOATS[:2], "int64"), (1, 3), sizes=(1, 2, 3, 4, 5))
    shape, rank = x.array.shape, x.array.ndim
    ways = ["none"] + (["add", "mul"] if p.opset >= 16 else []) + (["max", "min"] if p.opset >= 18 else [])
    way = p.rng.choice(ways)
    named = {"reduction": way} if p.opset >= 16 else {}
    if op == "ScatterND":
        depth = p.rng.randint(1, rank)
        places = p.rng.sample(list(np.ndindex(shape[:depth])), 1)
        values = p.array(x.array.dtype.name, (1, *shape[depth:]))
        p.node(op, [x, p.new(np.array(places, np.int64)), p.new(values)], way != "add", **named)
        return
    axis = p.axis(x)
    of = list(shape)
    of[axis] = p.rng.randint(1, shape[axis])
    order = np.argsort(np.array([p.rng.random() for _ in range(int(np.prod(shape)))]).reshape(shape), axis)
    index = np.take(order, range(of[axis]), axis).astype(np.int64)  # no place twice
    p.node(
        op, [x, p.new(index), p.new(p.array(x.array.dtype.name, tuple(of)))], way != "add", axis=axis, **named
    )


@draws("OneHot")
def one_hot(p: Program, op: str) -> None:
    index = p.new(p.array("int64", p.shape(0, 3), -3, 3))
    values = p.new(p.array(p.rng.choice(["float32", "int64"]), (2,)))
    p.node(op, [index, p.new(np.array(4, np.int64), True), values], True, axis=p.axis(index, 1))


@draws("MatMul")
def matmul(p: Program, op: str) -> None:
    x = p.one(("float32", "float64", "int32"), (1, 4))
    k, n = x.array.shape[-1], p.rng.choice(SIZES)
    batch = x.array.shape[:-2] if p.chance() else ()
    batch = tuple(1 if p.chance(0.3) else m for m in batch)
    shape = (k,) if p.chance(0.2) else (*batch, k, n)
    p.node(op, [x, p.new(p.array(x.array.dtype.name, shape))], x.array.dtype.kind == "i")


@draws("Gemm")
def gemm(p: Program, op: str) -> None:
    m, k, n = (p.rng.choice(SIZES) for _ in range(3))
    a, b = p.rng.randint(0, 1), p.rng.randint(0, 1)
    x, y = (
        p.new(p.array("float32", shape[::-1] if turned else shape))
        for shape, turned in (((m, k), a), ((k, n), b))
    )
    c = [p.new(p.array("float32", p.rng.choice([(), (n,), (1, n), (m, 1), (m, n)])))] if p.chance() else []
    p.node(op, [x, y, *c], False, transA=a, transB=b, alpha=0.5, beta=2.0)


@draws("Einsum")
def einsum(p: Program, op: str) -> None:
    equation = p.rng.choice(
        [
            "ij,jk->ik",
            "bij,bjk->bik",
            "ij->ji",
            "ij,kj->ik",
            "i,j->ij",
            "bi,bi->b",
            "ij->i",
            "...ij,...jk->...ik",
            "ii->i",
            "bii",
            "bjj,jk->bjk",
            "iji,k->jk",
        ]
    )
    sizes = {letter: p.rng.choice(SIZES) for letter in "bijk"}
    terms = equation.split("->")[0].replace("...", "b").split(",")
    p.node(
        op,
        [p.new(p.array("float32", tuple(sizes[c] for c in term))) for term in terms],
        False,
        equation=equation,
    )


@draws("Conv", "ConvTranspose")
def convs(p: Program, op: str) -> None:
    axes, group = p.rng.randint(1, 2), p.rng.choice([1, 1, 2])
    channels, outs = 2 * group, 2 * group
    image = tuple(p.rng.randint(3, 7) for _ in range(axes))
    window = tuple(p.rng.randint(1, 3) for _ in range(axes))
    x = p.new(p.array("float32", (p.rng.choice([1, 2]), channels, *image)))
    w = p.new(
        p.array(
            "float32",
            (outs, channels // group, *window) if op == "Conv" else (channels, outs // group, *window),
        )
    )
    named: dict[str, Any] = {"group": group}
    if p.chance():
        named["strides"] = [p.rng.randint(1, 2) for _ in range(axes)]
    if p.chance() and op == "Conv":
        named["dilations"] = [p.rng.randint(1, 2) for _ in range(axes)]
        if any(d * (k - 1) >= n for d, k, n in zip(named["dilations"], window, image, strict=True)):
            raise Unfit  # a window that is larger than the image is refused
    if p.chance():
        named["pads"] = [p.rng.randint(0, 1) for _ in range(2 * axes)]
    elif p.chance(0.3) and op == "Conv" and "dilations" not in named:
        named["auto_pad"] = p.rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    b = [p.new(p.array("float32", (outs,)))] if p.chance() else []
    p.node(op, [x, w, *b], False, **named)


@draws("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool")
def pools(p: Program, op: str) -> None:
    axes = 2 if op == "GlobalMaxPool" else p.rng.randint(1, 2)  # the reference drops the only axis
    x = p.new(p.array("float32", (p.rng.choice([1, 2]), 2, *(p.rng.randint(3, 7) for _ in range(axes)))))
    named: dict[str, Any] = {}
    if not op.startswith("Global"):
        named["kernel_shape"] = [p.rng.randint(1, 3) for _ in range(axes)]
        if p.chance():
            named["strides"] = [p.rng.randint(1, 2) for _ in range(axes)]
        if p.chance():
            named["pads"] = [p.rng.randint(0, min(k - 1, 1)) for k in named["kernel_shape"]] * 2
            # The reference exchanges pads of axes (tests/files/test_onnx_ops.py asks onnxruntime).
            if op == "MaxPool" and len(set(named["pads"])) > 1:
                raise Unfit
        # With pads, and before version 19, the reference rounds otherwise.
        if p.chance(0.3) and op != "LpPool" and p.opset >= 19 and "pads" not in named:
            named["ceil_mode"] = 1
        if op == "AveragePool":
            named["count_include_pad"] = p.rng.randint(0, 1)
    p.node(op, [x], op.endswith("MaxPool"), **named)


@draws("BatchNormalization", "InstanceNormalization", "LayerNormalization", "LRN", "LpNormalization")
def norms(p: Program, op: str) -> None:
    x = p.one(("float32",), (3, 4), sizes=(1, 2, 3, 4, 5))
    c = x.array.shape[1]
    scale, bias, mean = (p.new(p.array("float32", (c,))) for _ in range(3))
    variance = p.new(p.array("float32", (c,), 4, 16))
    if op == "BatchNormalization":
        if p.opset < 15:
            raise Unfit  # the reference mixes in means of the images
        p.node(op, [x, scale, bias, mean, variance], False)
    elif op == "InstanceNormalization":
        p.node(op, [x, scale, bias], False)
    elif op == "LayerNormalization":
        axis = p.axis(x)
        shape = x.array.shape[axis:]
        p.node(op, [x, p.new(p.array("float32", shape)), p.new(p.array("float32", shape))], False, axis=axis)
    elif op == "LRN":
        x = p.new(p.array("float32", (c, c, 3)))  # of more channels than images the reference has some alone
        p.node(op, [x], False, size=p.rng.choice([1, 3, 5]), alpha=0.1)
    else:
        p.node(
            op,
            [p.new(p.array("float32", x.array.shape, 1, 16))],
            False,
            axis=p.axis(x),
            p=p.rng.randint(1, 2),
        )


@draws("QuantizeLinear", "DequantizeLinear", "MatMulInteger")
def codes(p: Program, op: str) -> None:
    if op == "QuantizeLinear":
        x = p.one(("float32",), (1, 4), exact=True)
        p.node(
            op, [x, p.new(np.array(0.25, np.float32)), p.new(np.array(p.rng.randint(0, 200), np.uint8))], True
        )
    elif op == "DequantizeLinear":
        x = p.one(("uint8", "int8"), (1, 4))
        axis = p.axis(x)
        n = x.array.shape[axis]
        p.node(
            op,
            [x, p.new(p.array("float32", (n,), 1, 9)), p.new(p.array(x.array.dtype.name, (n,)))],
            True,
            axis=axis,
        )
    else:
        m, k, n = (p.rng.choice(SIZES) for _ in range(3))
        x, y = p.new(p.array("uint8", (m, k))), p.new(p.array(p.rng.choice(["uint8", "int8"]), (k, n), 0))
        more = [p.new(np.array(3, np.uint8))] if p.chance() else []
        p.node(op, [x, y, *more], True)


@draws("TfIdfVectorizer")
def tf_idf(p: Program, op: str) -> None:
    most, pool, counts, grams = p.rng.randint(1, 3), [], [], 0
    for n in range(1, most + 1):
        counts.append(len(pool))
        every = list(itertools.product(range(3), repeat=n))
        chosen = p.rng.sample(every, p.rng.randint(0 if n < most else 1, min(5, len(every))))
        pool += [number for gram in chosen for number in gram]
        grams += len(chosen)
    places = p.rng.sample(range(grams + 2), grams) if p.chance() else [p.rng.randrange(grams + 1)] * grams
    weights = {"weights": [p.rng.randint(-4, 4) / 4 for _ in range(max(places) + 1)]} if p.chance() else {}
    shape = p.shape(1, 2, (1, 2, 5, 9))
    p.node(
        op,
        [p.new(p.array(p.rng.choice(["int32", "int64"]), shape, 0, 2))],
        True,
        mode=p.rng.choice(["TF", "IDF", "TFIDF"]),
        min_gram_length=p.rng.randint(1, most),
        max_gram_length=p.rng.choice([most, p.rng.randint(1, most)]),
        max_skip_count=p.rng.randint(0, 4),
        ngram_counts=counts,
        ngram_indexes=places,
        pool_int64s=pool,
        **weights,
    )
