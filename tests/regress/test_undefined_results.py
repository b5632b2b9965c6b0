"""Results of operators that are undefined, or no tensors, were taken for tensors: a crash, or garbage."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo
from torch import Tensor, nn

import dlc

Compiler = Callable[..., Any]


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with torch._dynamo.config.patch(allow_rnn=True, capture_scalar_outputs=True):
        yield


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("undefined", "FRAGMENT") as made:
        yield made


LAYERS: dict[str, dict[str, Any]] = {
    "one": {},
    "two": {"num_layers": 2},
    "bidirectional": {"bidirectional": True},
    "batch_first": {"batch_first": True, "bias": False},
}


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_an_lstm(compiler: Compiler, name: str, wants: bool, dynamic: bool) -> None:
    """Its workspace was an empty tensor, which the backward wrote to."""
    module = nn.LSTM(4, 6, **LAYERS[name])
    compiled = compiler(lambda x: module(x), dynamic=dynamic)
    for length in (3, 5):
        x = torch.randn(length, 2, 4, requires_grad=wants)
        inputs = [x, *module.parameters()] if wants else list(module.parameters())
        eager = module(x)
        loss, expected_loss = compiled(x), eager
        for got, expected in zip([loss[0], *loss[1]], [expected_loss[0], *expected_loss[1]], strict=True):
            torch.testing.assert_close(got, expected)
        grads = torch.autograd.grad(loss[0].square().sum() + loss[1][1].sum(), inputs)
        expected_grads = torch.autograd.grad(eager[0].square().sum() + eager[1][1].sum(), inputs)
        for got, expected in zip(grads, expected_grads, strict=True):
            torch.testing.assert_close(got, expected)


def test_an_lstm_without_gradients(compiler: Compiler) -> None:
    module, x = nn.LSTM(4, 6), torch.randn(3, 2, 4)
    with torch.no_grad():
        got, expected = compiler(lambda x: module(x))(x), module(x)
    torch.testing.assert_close(got, expected)
    assert not got[0].requires_grad


def define(library: torch.library.Library) -> Any:
    """An operator whose second result is undefined, as a workspace that is not needed."""
    library.define("pair(Tensor x) -> (Tensor, Tensor)")
    library.impl("pair", lambda x: (x * 2, None), "CPU")
    torch.library.register_fake(
        "undefined::pair", lambda x: (torch.empty_like(x), x.new_empty(0)), lib=library
    )
    return torch.ops.undefined.pair.default


# AOTAutograd's wrapper of dynamic sizes takes no None, whatever the backend.
@pytest.mark.parametrize(("capture", "dynamic"), [("auto", False), ("auto", True), ("aot", False)])
def test_an_undefined_result_is_returned_as_eager_returns_it(
    compiler: Compiler, library: torch.library.Library, capture: str, dynamic: bool
) -> None:
    pair, x = define(library), torch.randn(3)
    made = compiler(
        lambda x: (pair(x + 1)[0] * 3, pair(x)[1]), dynamic=dynamic, options={"capture": capture}
    )(x)
    assert made[1] is None
    torch.testing.assert_close(made[0], (x + 1) * 6)


def test_an_undefined_result_saved_for_the_backward(
    compiler: Compiler, library: torch.library.Library
) -> None:
    """The forward says so; the backward is not run with something else."""
    pair = define(library)
    library.define("back(Tensor g, Tensor kept) -> Tensor")
    library.impl("back", lambda g, kept: g * 2 if kept is not None else None, "CPU")
    torch.library.register_fake("undefined::back", lambda g, kept: torch.empty_like(g), lib=library)
    torch.library.register_autograd(
        "undefined::pair",
        lambda ctx, g, _: torch.ops.undefined.back.default(g, ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output[1]),
        lib=library,
    )
    x = torch.randn(3, requires_grad=True)
    with pytest.raises(AssertionError, match="to be Tensors"):
        compiler(lambda x: pair(x.sin())[0].cos())(x)


NUMBERS: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x.argmax().item(),
    "truth": lambda x: bool((x > 3).any().item()),
    "float": lambda x: x.sum().item(),
    "count": lambda x: torch.bincount(x.long(), minlength=4)[0].item(),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_operators_return(
    compiler: Compiler, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch._dynamo.config, "capture_scalar_outputs", True)
    fn, x = NUMBERS[name], torch.tensor([1.0, 4.0, 2.0])
    assert compiler(fn)(x) == fn(x) and type(compiler(fn)(x)) is type(fn(x))


@pytest.mark.parametrize("kind", ["tensors", "arrays", "numbers"])
def test_a_profiler_is_shown_tensors_only(kind: str) -> None:
    """An array, and a tensor that was made of a number."""
    given = {
        "tensors": (torch.ones(5), 2.0),
        "arrays": (np.ones(5, np.float32), 2.0),
        "numbers": (torch.ones(5), torch.tensor(2.0)),
    }[kind]
    f = dlc.jit(lambda x, a: (x * a + 1) / (x + a))
    f(*given)
    with torch.profiler.profile(record_shapes=True):
        made = f(*given)
    np.testing.assert_array_equal(np.asarray(made), np.ones(5, np.float32))
