"""The table of functions against torch: each exists, and takes the parameters that its row names."""

import builtins
import inspect
import operator
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from expecttest import assert_expected_inline

from dlc import _C
from tests.capture.test_table import overload

PLACES = {"t": torch, "f": F, "n": torch._C._nn, "o": operator, "b": builtins, "m": torch.Tensor}


def places() -> Iterator[tuple[str, Any, str | None]]:
    """Where each row is found: its name, the function or None, and the row's parameters."""
    for where, name, parameters, _ in _C.functions():
        for place in where:
            if place in PLACES:
                form = name if hasattr(PLACES[place], name) or place != "m" else name + "_"
                yield f"{place} {form}", getattr(PLACES[place], form, None), parameters


def test_every_row_is_a_function_of_torch() -> None:
    assert [name for name, function, _ in places() if function is None] == []


def test_no_row_twice() -> None:
    names = [name for name, _, _ in places()]
    assert sorted(names) == sorted(set(names))


def names_of(parameters: str) -> list[str]:
    return [p.lstrip("*").partition("=")[0] for p in parameters.split()]


def test_parameters_are_those_of_the_python_functions() -> None:
    """In their order; builtin functions of torch have no signature. What is operated on has many names."""
    wrong = []
    for name, function, parameters in places():
        if parameters is None or not inspect.isfunction(function):
            continue
        have, want = names_of(parameters), list(inspect.signature(function).parameters)
        if have[1:] != want[1 : len(have)] and "args" not in want:
            wrong.append(f"{name}: {have}, not {want}")
    assert wrong == [
        "t split: ['input', 'split_size', 'dim'], not ['tensor', 'split_size_or_sections', 'dim']"
    ]


def test_parameters_are_those_of_the_overload() -> None:
    """In the order of its schema, by other names here and there."""
    renamed = []
    for _, name, parameters, of in _C.functions():
        if of is None:
            continue
        have = [p for p in names_of(parameters) if p != "inplace"]
        want = ["input" if a.name == "self" else a.name for a in overload(of)._schema.arguments]
        assert len(have) <= len(want), name
        if have != want[: len(have)]:
            renamed.append(f"{name}: {' '.join(have)} | {' '.join(want)}")
    assert_expected_inline(
        "\n".join(sorted(renamed)),
        """\
chunk: input chunks dim | input split_size dim
einsum: equation operands | equation tensors path
split_with_sizes: input split_sizes dim | input split_size dim
swapaxes: input axis0 axis1 | input dim0 dim1""",
    )


def test_rows_that_draw_random_numbers() -> None:
    """Are those with an r, and keep their order; but for dropout, alone or in others, which is taken where
    nothing is dropped. Functions of Python that call an operator which draws are written out.
    """
    calling = {
        *("dropout1d", "dropout2d", "dropout3d", "gumbel_softmax", "svd_lowrank", "pca_lowrank"),
        *("fractional_max_pool2d", "fractional_max_pool3d"),
    }
    dropping = {"dropout", "scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu"}
    packets = {name: getattr(torch.ops.aten, name, None) for _, name, _, _ in _C.functions()}
    drawing = {
        name
        for name, packet in packets.items()
        if packet is not None
        and any(
            torch.Tag.nondeterministic_seeded in getattr(packet, kind).tags for kind in packet.overloads()
        )
    }
    rows = {name for where, name, _, _ in _C.functions() if "r" in where}
    assert rows - dropping - calling == drawing - dropping - calling
    assert calling <= rows
