"""Graphs that only AOTAutograd takes: gradients, subclasses, and others."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing._internal.two_tensor import TwoTensor

import dlc
from tests.capture.direct import check, check_indirect, run

X, Y = torch.randn(4, 6, generator=torch.Generator().manual_seed(4)), torch.randn(4, 6)


def metadata(x: Tensor, y: Tensor) -> Tensor:
    z = x + y
    z.t_()
    return z + 1


def selected(x: Tensor, y: Tensor) -> Tensor:
    return x[y > 0]


UNSAFE: dict[str, tuple[Callable[..., Any], str]] = {
    "metadata": (metadata, "the function is not in the table"),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_goes_through_aot(name: str) -> None:
    function, reason = UNSAFE[name]
    assert reason in check_indirect(function, X, Y)


@pytest.mark.parametrize("name", UNSAFE)
def test_is_refused_where_only_direct_will_do(name: str) -> None:
    with pytest.raises(Exception, match="CaptureError"), torch.no_grad():
        run(UNSAFE[name][0], (X, Y), "direct")


def test_gradients() -> None:
    w = nn.Parameter(torch.linspace(0.5, 2, 6))  # of one sign: a sum that cancels has no digits
    assert check_indirect(lambda x: (x * w).sum(), X, grad=True) == "it needs gradients"
    check(lambda x: (x * w).sum(), X)


def test_gradients_of_none_are_enabled() -> None:
    """What needs no gradient is taken directly with gradients enabled too."""
    (result,), _, reports = run(lambda x: x * 2 + 1, (X,), "auto")
    assert torch.is_grad_enabled() and not result.requires_grad
    assert [r["kind"] for r in reports] == ["direct"]


def test_random_numbers() -> None:
    for function in (lambda x: F.dropout(x, 0.5) * 2, lambda x: x + torch.rand_like(x), torch.bernoulli):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="dlc")
        x = torch.rand(4, 6)
        torch.manual_seed(3)
        mine = compiled(x)
        torch.manual_seed(3)
        assert torch.equal(mine, function(x))


def test_batch_norm_in_training() -> None:
    """The buffers change."""
    torch.manual_seed(0)
    models = nn.BatchNorm1d(6), nn.BatchNorm1d(6)
    mine, theirs = torch.compile(models[0], backend="dlc"), models[1]
    with torch.no_grad():
        torch.testing.assert_close(mine(X), theirs(X))
    torch.testing.assert_close(models[0].running_mean, models[1].running_mean)


def test_subclass() -> None:
    torch._dynamo.reset()
    x = TwoTensor(torch.ones(3), torch.zeros(3))
    report = dlc.explain(lambda x: x * 2 + 1, x)
    assert report.graphs[0].indirect == "an input is a TwoTensor"
    result = torch.compile(lambda x: x * 2 + 1, backend="dlc")(x)
    assert torch.equal(result.a, torch.full((3,), 3.0)) and torch.equal(result.b, torch.ones(3))


def test_autocast() -> None:
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        (result,), _, reports = run(lambda x, y: x @ y.t(), (X, Y), "auto")
    assert result.dtype == torch.bfloat16
    assert reports[0]["indirect"] == "autocast is on"


def test_a_custom_operator() -> None:
    """It runs as it is; one that writes to an argument is not taken."""

    @torch.library.custom_op("dlc_test::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x * 2

    @twice.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    @torch.library.custom_op("dlc_test::fill", mutates_args={"x"})
    def fill(x: Tensor) -> None:
        x.fill_(7)

    def filled(x: Tensor) -> Tensor:
        y = x + 1
        fill(y)
        return y * 2

    check(lambda x: twice(x + 1) + 1, X)
    assert "fill" in check_indirect(filled, X)


def test_control_flow() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    check_indirect(function, X)


def test_a_number_that_data_decides() -> None:
    def function(x: Tensor) -> Tensor:
        return x * 2 + x.sum().item()

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True), torch.no_grad():
        torch.testing.assert_close(torch.compile(function, backend="dlc")(X), function(X))


def test_modes_without_effect() -> None:
    """What turns off what is not on, as rotary embeddings do."""

    @torch.no_grad()
    def rotary(x: Tensor) -> Tensor:
        with torch.autocast(device_type="cpu", enabled=False):
            return x.float().cos()

    def function(x: Tensor) -> Tensor:
        return rotary(x) * x

    check(function, X)
    (result,), _, reports = run(function, (X,), "auto")
    assert [r["kind"] for r in reports] == ["direct"]
    assert torch.is_grad_enabled()
    torch.testing.assert_close(result, X.cos() * X)


def test_modes_with_an_effect() -> None:
    def autocast(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ x.t()

    def grad(x: Tensor) -> Tensor:
        with torch.enable_grad():
            return x * 2

    assert "switches autocast on" in check_indirect(autocast, X)
    x = X.clone().requires_grad_()
    with torch.no_grad():
        (result,), _, reports = run(grad, (x,), "auto")
    assert result.requires_grad
    assert "switches gradients on" in reports[0]["indirect"]


def test_inference_mode() -> None:
    with torch.inference_mode():
        (result,), _, reports = run(lambda x: (x @ x.t()).relu(), (X.clone(),), "auto")
    assert result.is_inference()
    assert [r["kind"] for r in reports] == ["direct"]


def test_an_option_that_is_none() -> None:
    with pytest.raises(Exception, match="dlc option 'capture' is"):
        run(torch.exp, (X,), "sometimes")


def test_explain_says_why() -> None:
    report = dlc.explain(metadata, X, Y)
    assert "through AOTAutograd: " in str(report) and "not in the table" in str(report)
    assert dlc.explain(lambda x: x + 1, X).as_dict()["graphs"][0]["indirect"] is None
