"""A refused input was arg0_1 or primals_2 in the message, and the place of a refusal stood there twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dlc

META = torch.empty(4, device="meta")
AXES = torch.ones([1] * 20)


def twice(inp: Any) -> Any:
    return inp * 2  # here


def of_a_dict(d: Any) -> Any:
    return d["q"] * 2  # here


def of_many(*a: Any) -> Any:
    return a[1] * 2  # here


def of_the_module() -> Any:
    return META * 2  # here


def closed(q: Any) -> Callable[[], Any]:
    return lambda: q * 2  # here


class Model(nn.Module):
    def __init__(self, device: str, buffer: Any) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Linear(4, 4, device=device))
        self.register_buffer("shift", buffer)

    def forward(self, x: Any) -> Any:
        return self.down(x) + self.shift  # here


NO_VALUES = "the tensor is on the device meta, so it has no values"
CASES: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "argument": (twice, (META,), f"argument 'inp': {NO_VALUES}"),
    "with a gradient": (twice, (torch.empty(4, device="meta", requires_grad=True),), "argument 'inp': the"),
    "axes": (twice, (AXES,), "argument 'inp': the tensor has 20 axes, and dlc takes at most 16"),
    "axes with a gradient": (twice, (AXES.clone().requires_grad_(),), "argument 'inp': the tensor has 20"),
    "dict": (of_a_dict, ({"q": META},), f"d['q']: {NO_VALUES}"),
    "one of many": (of_many, (META, META), f"a[1]: {NO_VALUES}"),
    "global": (of_the_module, (), f"global variable 'META': {NO_VALUES}"),
    "of the function around": (closed(META), (), f"variable 'q': {NO_VALUES}"),
    "parameter": (Model("meta", META), (META,), f"parameter 'down.0.weight': {NO_VALUES}"),
    "parameter of a module of torch's": (nn.Linear(4, 4, device="meta"), (META,), "parameter 'weight': the"),
    "buffer": (nn.Module.requires_grad_(Model("cpu", AXES), False), (torch.ones(4),), "buffer 'shift': the"),
}


def refusal(fn: Any, args: tuple[Any, ...]) -> str:
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(fn, backend="dlc", options={"strict": True})(*args)
    return str(caught.value.inner_exception)


@pytest.mark.parametrize("name", CASES)
def test_an_input_is_called_as_the_user_calls_it(name: str) -> None:
    fn, args, said = CASES[name]
    text = refusal(fn, args)
    first, *places = text.splitlines()
    assert first.startswith(said)
    for place in places:  # a module of torch's own has no line of the user's
        file, number, line = place.strip().removeprefix("at ").split(":", 2)
        assert (
            file == Path(__file__).name
            and "# here" in Path(__file__).read_text().splitlines()[int(number) - 1]
        )
        assert line.strip() in Path(__file__).read_text()
    assert len(places) == (name != "parameter of a module of torch's")


def test_a_warning_has_its_place_once_and_at_its_end() -> None:
    torch._dynamo.reset()
    with pytest.warns(dlc.EagerGraphWarning) as caught:
        torch.compile(lambda x: (x + 1).reshape([1] * 20), backend="dlc")(torch.ones(1))
    first, place = str(caught[0].message).splitlines()
    assert first.endswith("Set DLC_STRICT=1 or options={'strict': True} to raise instead.")
    assert first.startswith("dlc runs a graph eagerly: aten.view.default: the tensor has 20 axes")
    assert place.startswith(f"  at view, {Path(__file__).name}:") and "arg0_1" not in first + place


TENSORS = {
    "meta": (META, r"a tensor on the device meta, which has no values: torch\.empty_like\("),
    "sparse": (torch.eye(3).to_sparse(), r"the layout torch.sparse_coo, of which \.to_dense\(\) makes"),
    "conjugated": (torch.ones(3, dtype=torch.complex64).conj(), r"conjugated .*x\.resolve_conj\(\)"),
    "nested": (torch.nested.nested_tensor([torch.ones(3)]), r"that is nested: \.unbind\(\)"),
    "axes": (AXES, "of 20 axes, which are more than 16"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_that_dlc_jit_refuses(name: str) -> None:
    tensor, said = TENSORS[name]
    with pytest.raises(TypeError, match=rf"twice\(\): argument 'inp' is .*{said}"):
        dlc.jit(twice)(tensor)
