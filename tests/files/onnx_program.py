"""A random graph of ONNX under construction, for tests/files/onnx_fuzz.py."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

OPSETS = (11, 13, 17, 18, 20, 21, 22, 23)
SIZES = (0, 1, 1, 2, 3, 3, 4, 5)
FLOATS, WHOLES = ("float32", "float32", "float64", "float16"), ("int64", "int32", "int8", "uint8")
LARGEST = 1e3


@dataclass(frozen=True)
class Some:
    """A value of the program, with the array that it is in this run."""

    name: str
    array: np.ndarray
    exact: bool
    constant: bool


class Unfit(Exception):
    """The operator takes none of the values that there are."""


class Program:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.opset = self.rng.choice(OPSETS)
        self.values: list[Some] = []
        self.inputs: list[Some] = []
        self.nodes: list[Any] = []
        self.made: list[Some] = []
        self.named = 0
        #: Axes of inputs that have this size are of a size that changes.
        self.dynamic = self.rng.choice((0, 2, 3, 4, 5)) if self.rng.random() < 0.5 else None

    # -- drawing

    def chance(self, share: float = 0.5) -> bool:
        return self.rng.random() < share

    def fresh(self, stem: str) -> str:
        self.named += 1
        return f"{stem}{self.named}"

    def shape(self, least: int = 0, most: int = 4, sizes: Any = SIZES) -> tuple[int, ...]:
        return tuple(self.rng.choice(sizes) for _ in range(self.rng.randint(least, most)))

    def array(self, dtype: str, shape: tuple[int, ...], low: int = -16, high: int = 16) -> np.ndarray:
        n = int(np.prod(shape, dtype=np.int64))
        if dtype == "bool":
            flat = [self.rng.random() < 0.5 for _ in range(n)]
        elif dtype.startswith(("int", "uint")):
            flat = [self.rng.randint(max(low, 0) if dtype[0] == "u" else low, high) for _ in range(n)]
        else:
            flat = [self.rng.randint(low, high) / 8 for _ in range(n)]
        return np.array(flat, dtype).reshape(shape)

    def new(self, array: np.ndarray, constant: bool | None = None) -> Some:
        """An input or a weight."""
        is_constant = self.chance(0.3) and self.dynamic not in array.shape if constant is None else constant
        some = Some(self.fresh("w" if is_constant else "x"), array, True, is_constant)
        self.inputs.append(some)
        self.values.append(some)
        return some

    def whole(self, *values: int) -> Some:
        """Numbers that decide a size: a weight."""
        return self.new(np.array(values, np.int64), True)

    def one(
        self, dtypes: Any, rank: tuple[int, int] = (0, 4), exact: bool = False, sizes: Any = SIZES
    ) -> Some:
        """A value with one of the types, or a new one."""
        fits = [
            v
            for v in self.values
            if v.array.dtype.name in dtypes
            and rank[0] <= v.array.ndim <= rank[1]
            and (v.exact or not exact)
            and (sizes is SIZES or all(n in sizes for n in v.array.shape))
        ]
        if fits and self.chance(0.8):
            return self.rng.choice(fits[-4:])
        return self.new(self.array(self.rng.choice(dtypes), self.shape(*rank, sizes)))

    def like(self, v: Some, low: int = -16, high: int = 16) -> Some:
        """A value that is broadcast with it."""
        shape = list(v.array.shape)[self.rng.randint(0, v.array.ndim) :] if v.array.ndim else []
        shape = [1 if self.chance(0.3) else n for n in shape]
        if self.chance(0.1) and len(shape) == v.array.ndim and len(shape) < 4:
            shape = [2, *shape]
        return self.new(self.array(v.array.dtype.name, tuple(shape), low, high))

    def axis(self, v: Some, more: int = 0) -> int:
        rank = v.array.ndim + more
        if not rank:
            raise Unfit
        return self.rng.randrange(-rank, rank)

    def axes(self, v: Some) -> list[int]:
        rank = v.array.ndim
        chosen = self.rng.sample(range(rank), self.rng.randint(1, rank)) if rank else []
        return [axis - rank if self.chance(0.3) else axis for axis in chosen]

    # -- nodes

    def node(
        self, op: str, inputs: list[Some | None], exact: bool, outputs: int = 1, **attributes: Any
    ) -> None:
        names = ["" if v is None else v.name for v in inputs]
        outs = [self.fresh("y") for _ in range(outputs)]
        if any(value == [] for value in attributes.values()):
            raise Unfit  # it would have no type
        node = helper.make_node(op, names, outs, **attributes)
        feeds = {v.name: v.array for v in inputs if v is not None}
        graph = helper.make_graph(
            [node],
            "g",
            [
                helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for k, a in feeds.items()
            ],
            [helper.make_empty_tensor_value_info(name) for name in outs],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                onnx.shape_inference.infer_shapes(model, strict_mode=True, check_type=True)
                results = ReferenceEvaluator(model).run(None, feeds)
        except Exception as error:
            raise Unfit from error
        arrays = [np.asarray(result) for result in results]
        for array in arrays:
            wide = array.astype(np.float64) if array.dtype.kind in "iufb" else None
            if wide is None or not np.isfinite(wide).all() or np.abs(wide).max(initial=0) > LARGEST:
                raise Unfit
            if array.size > 4096 or array.ndim > 6:
                raise Unfit
        self.nodes.append(node)
        every = exact and all(v is None or v.exact for v in inputs)
        for name, array in zip(outs, arrays, strict=True):
            some = Some(name, array, every, False)
            self.values.append(some)
            self.made.append(some)

    def build(self, count: int, draws: Mapping[str, Callable[[Program, str], None]]) -> None:
        """So many nodes, or fewer; draws: by operator, a function that draws a node of it."""
        for _ in range(40):
            if len(self.nodes) >= count:
                return
            kept = len(self.inputs), len(self.values)
            try:
                name = self.rng.choice(list(draws))
                draws[name](self, name)
            except Unfit:
                del self.inputs[kept[0] :], self.values[kept[1] :]

    def model(self, dynamic: bool) -> Any:
        used = {name for node in self.nodes for name in node.input}
        inputs = [v for v in self.inputs if v.name in used]
        infos = []
        for v in inputs:
            shape = ["size" if dynamic and n == self.dynamic else n for n in v.array.shape]
            if not v.constant:
                number = helper.np_dtype_to_tensor_dtype(v.array.dtype)
                infos.append(helper.make_tensor_value_info(v.name, number, shape))
        graph = helper.make_graph(
            self.nodes,
            "g",
            infos,
            [helper.make_empty_tensor_value_info(v.name) for v in self.made],
            [onnx.numpy_helper.from_array(v.array, v.name) for v in inputs if v.constant],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
