"""Recurrent layers as lets of their steps, taken directly from Dynamo's graph."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dlc
from tests.capture.products import check
from tests.capture.test_products import tensor

STEPS, BATCH, INPUTS, HIDDEN = 4, 3, 5, 6
GATES = {torch.lstm: 4, torch.gru: 3, torch.rnn_tanh: 1, torch.rnn_relu: 1}


def layer(
    kind: Callable[..., Any], layers: int = 1, both: bool = False, first: bool = False, **options: Any
) -> tuple[Callable[..., Any], list[Tensor]]:
    """A function of tensors, and these."""
    biases, projects = options.get("biases", True), options.get("projects", 0)
    dtype, directions = options.get("dtype", torch.float32), 1 + both
    out = projects or HIDDEN
    shapes: list[tuple[int, ...]] = [(BATCH, STEPS, INPUTS) if first else (STEPS, BATCH, INPUTS)]
    shapes += [(layers * directions, BATCH, out)]
    shapes += [(layers * directions, BATCH, HIDDEN)] if kind is torch.lstm else []
    states = len(shapes)
    for k in range(layers * directions):
        rows = GATES[kind] * HIDDEN
        shapes += [(rows, INPUTS if k < directions else out * directions), (rows, out)]
        shapes += [(rows,), (rows,)] if biases else []
        shapes += [(projects, HIDDEN)] if projects else []

    def function(*args: Tensor) -> Any:
        state = args[1:states] if kind is torch.lstm else args[1]
        parameters = list(args[states:])
        return kind(args[0], state, parameters, biases, layers, 0.0, False, both, first)

    return function, [tensor(shape, dtype, k) / 2 for k, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.lstm, {}),
        (torch.lstm, {"layers": 2, "both": True, "first": True}),
        (torch.lstm, {"layers": 2, "both": True, "projects": 2}),
        (torch.gru, {"layers": 2, "first": True}),
        (torch.gru, {"both": True, "biases": False, "dtype": torch.float64}),
        (torch.rnn_tanh, {"biases": False}),
        (torch.rnn_relu, {"layers": 2, "both": True}),
    ],
)
def test_layers(kind: Callable[..., Any], options: dict[str, Any]) -> None:
    function, args = layer(kind, **options)
    text = check(function, *args, capture="direct")
    directions = options.get("layers", 1) * (1 + options.get("both", False))
    assert text.count(" = contract ") == directions * (1 + STEPS * (2 if options.get("projects") else 1))


def compiled(module: nn.Module, x: Tensor, backend: str = "dlc", **options: Any) -> Any:
    torch._dynamo.reset()
    mine = {"options": {"strict": True, **options}} if backend == "dlc" else {}
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        return torch.compile(module, backend=backend, fullgraph=True, **mine)(x)


@pytest.mark.parametrize("module", [nn.LSTM(INPUTS, HIDDEN, 2), nn.GRU(INPUTS, HIDDEN)], ids=["lstm", "gru"])
def test_modules(module: nn.Module) -> None:
    x = tensor((STEPS, BATCH, INPUTS), torch.float32, 0)
    before = dlc.counters()["eager_calls"]
    y, state = compiled(module, x, products="own", tier="tcc")
    with torch.no_grad():
        like, like_state = module(x)
    torch.testing.assert_close(y, like)
    torch.testing.assert_close(state, like_state)
    assert dlc.counters()["eager_calls"] == before


def test_dropout_is_left_to_the_overloads() -> None:
    """Dropout between layers draws random numbers, which no let does."""
    module = nn.LSTM(INPUTS, HIDDEN, 2, dropout=0.5)
    x = tensor((STEPS, BATCH, INPUTS), torch.float32, 0)
    torch.manual_seed(3)
    mine = compiled(module, x)[0]
    torch.manual_seed(3)
    torch.testing.assert_close(mine, compiled(module, x, backend="aot_eager")[0])


def test_lengths_that_change_run_in_eager() -> None:
    module = nn.GRU(INPUTS, HIDDEN)
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        run = torch.compile(module, backend="dlc", dynamic=True, options={"strict": True})
        for steps in (4, 7):
            x = tensor((steps, BATCH, INPUTS), torch.float32, 0)
            torch.testing.assert_close(run(x), module(x))


class Cell(nn.Module):
    """An LSTM's cell in a loop, as Dynamo unrolls it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.x, self.h = nn.Linear(size, 4 * size), nn.Linear(size, 4 * size)

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[1:])
        states = []
        for t in range(x.shape[0]):
            add, keep, new, out = (self.x(x[t]) + self.h(h)).chunk(4, 1)
            c = torch.sigmoid(keep) * c + torch.sigmoid(add) * torch.tanh(new)
            h = torch.sigmoid(out) * torch.tanh(c)
            states.append(h)
        return torch.stack(states)


def test_another_number_of_steps_compiles_nothing() -> None:
    """The states are copied together: a kernel that did so would be another one for each number of them."""
    cell, before = Cell(64), dlc.counters()
    torch._dynamo.reset()
    with torch.no_grad():
        run = torch.compile(cell, backend="dlc", dynamic=False, options={"tier": "tcc"})
        for steps in (24, 17):
            x = tensor((steps, 8, 64), torch.float32, 0)
            before = dlc.counters()
            torch.testing.assert_close(run(x), cell(x))
    after = dlc.counters()
    assert after["graphs"] == before["graphs"] + 1
    assert after["tcc_compiles"] == before["tcc_compiles"]
