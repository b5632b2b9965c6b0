"""Views of inputs among the results of a graph without gradients: it is taken directly."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.capture.direct import check, check_indirect, run

G = torch.Generator().manual_seed(7)
X, Y = torch.randn(4, 6, generator=G), torch.randn(4, 6, generator=G)

CASES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "rows": lambda x, y: (x[1:], y + 1),
    "two views": lambda x, y: (x.t(), x[0], x + y),
    "parts": lambda x, y: (*x.unbind(0), *y.split(3, 1), y * 2),
    "repeated": lambda x, y: (x[0].expand(4, 6), *torch.meshgrid(x[0], y[0], indexing="ij")),
    "windows": lambda x, y: (x.unfold(0, 2, 1), y.diagonal(), x.as_strided((2, 2), (1, 2))),
    "steps": lambda x, y: (x[:, ::2], y[::3, 1::2], x[2:2]),
    "shapes": lambda x, y: (x.reshape(-1), y.view(2, 2, 6), x.movedim(0, 1)),
    "axes of one element": lambda x, y: (x.t()[..., None], y[:1].t(), x.unsqueeze(0)),
    "of an intermediate": lambda x, y: (lambda z: (z, z.t()[..., None]))(x + y),
    "written": lambda x, y: (x.add_(y), x[0], y * 2),
    "written later": lambda x, y: (x[1:], x.add_(y)),
    "written through a view": lambda x, y: (x.t()[1:].mul_(2), x[0] + 1),
    "broadcast": lambda x, y: (*torch.broadcast_tensors(x, y[0]), torch.as_tensor(y) + 1, torch.asarray(2.5)),
    "beside a call": lambda x, y: (x[1:], torch.sort(y)[0]),
}


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_directly(name: str, dynamic: bool | None) -> None:
    check(CASES[name], X, Y, dynamic=dynamic)


def test_by_a_c_compiler() -> None:
    options = {"strict": True, "capture": "direct", "tier": "gcc"}
    x = X.clone()
    with torch.no_grad():
        a, b = torch.compile(lambda x: (x.t()[1:], x * 2), backend="dlc", options=options)(x)
    assert a._base is x
    torch.testing.assert_close((a, b), (x.t()[1:], x * 2))


@pytest.mark.parametrize("function", [CASES["rows"], CASES["beside a call"]], ids=["kernel", "call"])
def test_autograd_knows_them(function: Callable[[Tensor, Tensor], Any]) -> None:
    """A write to the view counts as one to the input, and gradients pass through it."""
    x = X.clone()
    (part, _), _, reports = run(lambda y: function(x, y), (Y,), "direct")
    compiled = torch.compile(function, backend="dlc", options={"strict": True, "capture": "direct"})
    part, _ = compiled(x, Y)
    assert [r["kind"] for r in reports] == ["direct"]
    assert part._base is x and torch.is_grad_enabled()
    w = torch.ones(3, 6, requires_grad=True)
    part.mul_(w)
    assert x._version == 1
    x.sum().backward()
    torch.testing.assert_close(w.grad, X[1:])


def test_in_inference_mode() -> None:
    with torch.inference_mode():
        (part, _), _, reports = run(CASES["rows"], (X.clone(), Y.clone()), "auto")
    assert part.is_inference()
    assert [r["kind"] for r in reports] == ["direct"]


LEFT = {
    "another dtype": (lambda x, y: (x.view(torch.int32), y + 1), "without its history"),
    "without its history": (lambda x, y: (x.detach(), y + 1), "without its history"),
}


@pytest.mark.parametrize("name", LEFT)
def test_goes_through_aot(name: str) -> None:
    function, reason = LEFT[name]
    assert reason in check_indirect(function, X, Y)


def test_inputs_in_one_storage() -> None:
    """The next call may have two storages."""
    z = torch.randn(5, 6, generator=G)
    assert "shares its storage with another" in check_indirect(lambda x, y: (y.t(), x + 1), z[:3], z[2:])
