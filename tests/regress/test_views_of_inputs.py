"""Views of inputs among the results of a graph without gradients: it is taken directly."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.capture.direct import assert_same_results, check, check_indirect, run

pytestmark = pytest.mark.in_turn(2)

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
    "without its history": lambda x, y: (x.detach(), y + 1),
    "without its history, twice": lambda x, y: (x.detach(), x.detach()[1:], x.data, y * 2),
    "a view without its history": lambda x, y: (x.t()[1:].detach(), y.detach().t(), x + y),
    "without its history and written": lambda x, y: (x.add_(y).detach(), y * 2),
    "without its history and written later": lambda x, y: (x.detach(), x.t().detach(), x.mul_(y)),
    "intermediates without their history": lambda x, y: ((z := x + y), z.detach(), (x * y).detach()),
    "parts without a history": lambda x, y: (*x.unsafe_split(2), *torch.unsafe_chunk(y, 3, 1)),
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


BITS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "inputs": lambda x, y: (x.view(torch.int32), y.view(torch.int16), x + 1),
    "wider": lambda x, y: (x.view(torch.float64), y.view(torch.int64)[1:], y[1:].view(torch.complex64)),
    "columns": lambda x, y: (x.t()[1:].view(torch.int32), y.view(torch.int32).t()),
    "twice": lambda x, y: (x.view(torch.int32), x.view(torch.int32), x.view(torch.int16).view(torch.int32)),
    "written": lambda x, y: (x.add_(y), x.view(torch.int32), x[0].view(torch.uint8)),
    "intermediates": lambda x, y: (
        (x * 2).view(torch.int32) & 255,
        (z := x + y),
        z.view(torch.int16),
        (z.view(torch.int64) >> 3).view(torch.int32)[:, ::2],
    ),
    "numbers that are none": lambda x, y: ((x.view(torch.int32) | 0x7F800001).view(torch.float32), y * 1),
    "halves": lambda x, y: (
        x.bfloat16().view(torch.float16),
        (y.half().view(torch.int16) + 1).view(torch.half),
    ),
    "signs": lambda x, y: torch.where(x.view(torch.int32) < 0, y, x) + (y.view(torch.int32) >> 23),
}


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", BITS)
def test_bits_in_another_dtype(name: str, dynamic: bool | None) -> None:
    """Views of the same memory, in a dtype of as many bytes or of another number."""
    for x, y in ((X, Y), (torch.cat([X, X]), torch.cat([Y, Y]))):
        with torch.no_grad():
            mine = run(BITS[name], (x, y), "auto", dynamic=dynamic)
            args = (x.clone(), y.clone())
            made = BITS[name](*args)
        assert [r["kind"] for r in mine[2]] == ["direct"], mine[2][0].get("indirect")
        eager = list(made) if isinstance(made, tuple) else [made]
        assert_same_results(mine, (eager, list(args), []))


@pytest.mark.parametrize(
    "function", [lambda x: (x + 1, x * 2), lambda x: (x + 1, x.argsort())], ids=["kernel", "call"]
)
def test_views_of_a_result_share_its_version(function: Callable[[Tensor], Any]) -> None:
    """Else autograd would not notice that a tensor it has saved is written to."""

    def views(x: Tensor) -> tuple[Tensor, ...]:
        a, b = function(x)
        return a, a.t()[1:], b, b[0], b[0].detach()

    compiled = torch.compile(views, backend="dlc", options={"strict": True, "capture": "direct"})
    a, at, b, part, detached = compiled(X)
    w = torch.ones(4, 6, requires_grad=True)
    loss = (w * a).sum()
    at.mul_(2)
    part.add_(1)
    assert (a._version, b._version) == (1, 1) and torch.equal(part, detached)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_without_the_history_of_a_weight() -> None:
    """Autograd knows of no view: a write to the result afterwards is neither refused nor recorded."""
    w = nn.Parameter(X.clone())
    functions = {
        "whole": lambda w: w.detach(),
        "part": lambda w: w.detach()[1:],
        "bits": lambda w: w.view(torch.int32),
    }
    for name, function in functions.items():
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="dlc", options={"strict": True, "capture": "direct"})
        with torch.no_grad():
            result, eager = compiled(w), function(w)
        assert not result.requires_grad, name
        version = w._version
        result.mul_(1)
        assert w._version == version + 1, name
        assert result.data_ptr() == eager.data_ptr() and result.is_leaf, name
        torch.testing.assert_close(result, eager, rtol=0, atol=0, check_stride=True)


def test_inputs_in_one_storage() -> None:
    """The next call may have two storages."""
    z = torch.randn(5, 6, generator=G)
    assert "shares its storage with another" in check_indirect(lambda x, y: (y.t(), x + 1), z[:3], z[2:])
