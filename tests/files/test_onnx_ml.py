"""Operators of ai.onnx.ml, whose tables are attributes, against onnx.reference."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from dlc import FileError
from dlc.files.onnx import translated

KINDS = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16}
LEQ, MEMBER, MODES = 0, 6, 7


class Drawn:
    """A forest: nodes in the order in which a walk meets them, the first branch before the second."""

    def __init__(self, rng: random.Random, features: int, targets: int) -> None:
        self.rng, self.features, self.targets = rng, features, targets
        self.modes = rng.choice([[LEQ], list(range(MEMBER)), list(range(MODES))])
        self.nodes: list[dict[str, Any]] = []
        self.leaves: list[tuple[float, int]] = []
        self.members: list[float] = []
        self.roots = [self.node(rng.randint(0, 4)) for _ in range(rng.randint(1, 4))]

    def branch(self, depth: int) -> tuple[int, int]:
        """The number of a node or a leaf, and whether it is a leaf."""
        if depth > 0 and self.rng.random() < 0.8:
            return self.node(depth - 1), 0
        self.leaves.append((self.rng.randint(-16, 16) / 8, self.rng.randrange(self.targets)))
        return len(self.leaves) - 1, 1

    def node(self, depth: int) -> int:
        at, mode = len(self.nodes), self.rng.choice(self.modes)
        self.nodes.append({})
        if mode == MEMBER:
            self.members += self.rng.sample([-1.0, -0.5, 0.5, 1.0, 2.0], self.rng.randint(0, 3))
            self.members.append(np.nan)
        split = self.rng.randint(-8, 8) / 4
        row = {"mode": mode, "feature": self.rng.randrange(self.features), "split": split}
        row["true"], row["true leaf"] = self.branch(depth)
        row["false"], row["false leaf"] = self.branch(depth)
        self.nodes[at] = row
        return at

    def of(self, name: str) -> list[Any]:
        return [row[name] for row in self.nodes]


def tensor(name: str, kind: int, values: Any) -> TensorProto:
    return helper.make_tensor(name, kind, (len(values),), values)


def ensemble(d: Drawn, dtype: str, rows: Any, missing: list[int] | None, **more: Any) -> onnx.ModelProto:
    kind = KINDS[dtype]
    attributes = {
        "n_targets": d.targets,
        "tree_roots": d.roots,
        "nodes_modes": tensor("m", TensorProto.UINT8, np.array(d.of("mode"), np.uint8)),
        "nodes_featureids": d.of("feature"),
        "nodes_splits": tensor("s", kind, d.of("split")),
        "nodes_truenodeids": d.of("true"),
        "nodes_trueleafs": d.of("true leaf"),
        "nodes_falsenodeids": d.of("false"),
        "nodes_falseleafs": d.of("false leaf"),
        "leaf_targetids": [target for _, target in d.leaves],
        "leaf_weights": tensor("w", kind, [weight for weight, _ in d.leaves]),
    }
    if d.members:
        attributes["membership_values"] = tensor("v", kind, d.members)
    if missing is not None:
        attributes["nodes_missing_value_tracks_true"] = missing
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **attributes | more)
    x = helper.make_tensor_value_info("x", kind, [rows, d.features])
    y = helper.make_tensor_value_info("y", kind, [rows, d.targets])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 5)]
    return helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("seed", range(60))
def test_forests(seed: int) -> None:
    """Modes, aggregates, missing values, targets, dtypes; as many rows as there are, and any number."""
    rng = random.Random(seed)
    d = Drawn(rng, rng.randint(1, 5), rng.randint(1, 3))
    dtype = rng.choice(["float32", "float64"])
    missing = [rng.randint(0, 1) for _ in d.nodes] if rng.random() < 0.5 else None
    count = rng.choice([1, 2, 7, 33])
    x = np.array([[rng.randint(-8, 8) / 4 for _ in range(d.features)] for _ in range(count)], dtype)
    x[np.array([[rng.random() < 0.1 for _ in range(d.features)] for _ in range(count)])] = np.nan
    how = rng.randrange(4)
    proto = ensemble(d, dtype, rng.choice([count, "N"]), missing, aggregate_function=how)
    with np.errstate(all="ignore"):
        (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
    got = translated(proto, ".", {}, {}, "tcc")(x)
    assert got.dtype == x.dtype and got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted.astype(dtype), rtol=1e-5, atol=1e-6)


def drawn() -> Drawn:
    rng = random.Random(3)
    made = Drawn(rng, 2, 2)
    while len(made.nodes) < 3:
        made = Drawn(rng, 2, 2)
    return made


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("in a cycle", lambda d: dict.fromkeys(("nodes_truenodeids", "nodes_trueleafs"), [0] * len(d.nodes))),
        ("a branch to no node", lambda d: {"nodes_truenodeids": [10**6] * len(d.nodes)}),
        ("a branch to no node", lambda d: {"nodes_falsenodeids": [-1] * len(d.nodes)}),
        ("a feature", lambda d: {"nodes_featureids": [2] * len(d.nodes)}),
        ("a feature", lambda d: {"nodes_featureids": [-1] * len(d.nodes)}),
        ("of target", lambda d: {"leaf_targetids": [2] * len(d.leaves)}),
        ("unlike another", lambda d: {"leaf_targetids": [0] * (len(d.leaves) + 1)}),
        ("root", lambda d: {"tree_roots": [len(d.nodes)]}),
        ("targets", lambda d: {"n_targets": 0}),
        ("targets", lambda d: {"n_targets": 2**62}),
        ("post_transform", lambda d: {"post_transform": 1}),
    ],
)  # fmt: skip
def test_forests_that_are_none(name: str, change: Any) -> None:
    d = drawn()
    with pytest.raises(FileError, match=name):
        translated(ensemble(d, "float32", 3, None, **change(d)), ".", {}, {}, "tcc")


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("ii", [(3, 3)]), ("ii->i", [(4, 4)]), ("...ii->...i", [(2, 3, 3)]), ("...ii->...i", [(3, 3)]),
     ("i...i", [(3, 2, 3)]), ("iijj->ij", [(2, 2, 3, 3)]), ("iii->i", [(3, 3, 3)]),
     ("iji,jkk->kj", [(2, 3, 2), (3, 4, 4)]), ("ii,i", [(3, 3), (3,)]), ("jii,i", [(2, 3, 3), (3,)]),
     ("ii->i", [(0, 0)]), ("jii", [(2, 0, 0)]), ("iij->ji", [(0, 0, 2)]), ("jjii->ij", [(2, 2, 0, 0)])],
)  # fmt: skip
@pytest.mark.parametrize("rows", [None, "N"])
def test_diagonals(equation: str, shapes: list[tuple[int, ...]], rows: str | None) -> None:
    """Of axes that an operand names twice; with and without the letters of the result."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    repeated = {c for c in "ijk" if equation.split("->")[0].count(c) > 1}
    dims = []
    for term, shape in zip(equation.split("->")[0].split(","), shapes, strict=True):
        letters = term.replace("...", "." * (len(shape) - len(term.replace("...", ""))))
        pairs = zip(letters, shape, strict=True)
        dims.append([f"{rows}_{c}" if rows and n and c in repeated and c == "i" else n for c, n in pairs])
    names = [f"x{k}" for k in range(len(arrays))]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dim)
        for name, dim in zip(names, dims, strict=True)
    ]
    wanted = np.einsum(equation, *arrays)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Einsum", names, ["y"], equation=equation)
    graph = helper.make_graph([node], "g", infos, [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    got = translated(proto, ".", {}, {}, "tcc")(*arrays)
    assert got.shape == wanted.shape and (got == wanted).all()


def test_diagonals_that_are_none() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Einsum", ["x"], ["y"], equation="ii->i")], "g", [x], [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    with pytest.raises(FileError):
        translated(proto, ".", {}, {}, "tcc")


@pytest.mark.parametrize("low", [-(2**63), -3, 0, 2**53, 2**60, 2**63 - 3])
def test_words_that_a_double_has_not(low: int) -> None:
    """Two words that are next to each other are two, whatever their numbers."""
    options: dict[str, Any] = {
        "mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0,
        "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2], "pool_int64s": [low, low + 1, low + 1, low],
    }  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.INT64, [4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **options)
    graph = helper.make_graph([node], "g", [x], [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    row = np.array([low, low + 1, low, low + 2])
    assert translated(proto, ".", {}, {}, "tcc")(row).tolist() == [2, 1, 1]
