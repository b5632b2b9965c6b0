"""Methods that draw random numbers into a tensor, in a graph that is taken directly: eager's numbers."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dlc.report import collect
from tests.capture.direct import storages

X = torch.rand(8, 6, generator=torch.Generator().manual_seed(2))


def argument(x: Tensor) -> Tensor:
    x.normal_()
    return x + 1


def view(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 1
    y[1:3].uniform_()
    y[:, 4].normal_()
    return y, x.t().exponential_() + 1


def twice(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.rand(4, 5)
    y.uniform_()
    z = y * 2
    return z, y.exponential_()


FRESH: dict[str, Callable[[Tensor], Any]] = {
    "bernoulli": lambda x: torch.empty_like(x).bernoulli_(0.3) * x,
    "by probabilities": lambda x: torch.empty_like(x).bernoulli_(x) * 2,
    "by a whole number": lambda x: torch.empty_like(x, dtype=torch.int64).bernoulli_(x[0]) + 1,
    "uniform": lambda x: (torch.empty(4, 5).uniform_(), torch.empty(20).uniform_(-2, to=3) * 2),
    "normal": lambda x: (torch.empty(4, 5).normal_() + 1, torch.empty(3).normal_(2, std=0.5)),
    "exponential": lambda x: -(torch.empty_like(x).exponential_(2.0)).log(),
    "geometric": lambda x: torch.empty_like(x).geometric_(p=0.4) + x,
    "cauchy and log_normal": lambda x: (x.new_empty(4).cauchy_(), x.new_empty(4).log_normal_(0, 0.5)),
    "doubles": lambda x: (x.double().uniform_() + 1, torch.empty(9, dtype=torch.bfloat16).normal_()),
    "not in rows": lambda x: (x.t().clone().normal_(), x[:, ::2].clone().uniform_()),
    "numbers of the shape": lambda x: x.new_empty(x.shape[0], 2).uniform_(0, x.shape[0]) * 2,
    "in order": lambda x: (torch.rand(3), x.new_empty(3).normal_(), torch.randn(3), x[0].uniform_()),
    "initialised": lambda x: nn.init.kaiming_uniform_(torch.empty_like(x)) + nn.init.normal_(x * 2),
    "read later": twice,
}  # fmt: skip

WRITTEN: dict[str, Callable[[Tensor], Any]] = {
    "argument": argument,
    "view": view,
    "returned": lambda x: x.uniform_(1, 2),
    "nothing else": lambda x: x.bernoulli_(0.5) is None or None,
}

DROPOUT: dict[str, Callable[[Tensor], Any]] = {
    "in place": lambda x: F.dropout(x * 2, 0.5, inplace=True) + 1,
    "of the argument": lambda x: F.dropout(x, 0.4, True, True) * 2,
    "of channels": lambda x: F.dropout2d(x.view(1, 8, 3, 2)) + F.dropout3d(x.view(1, 8, 3, 2, 1))[..., 0],
    "of channels in place": lambda x: F.dropout2d(x.view(2, 4, 3, 2), 0.5, inplace=True) + 1,
    "of lines": lambda x: F.dropout1d(x.view(2, 4, 6), 0.5) * 2,
    "alpha": lambda x: F.alpha_dropout(x, 0.3, training=True) + F.alpha_dropout(x, 0.3),
    "alpha in place": lambda x: F.alpha_dropout(x + 1, 0.3, True, inplace=True),
    "alpha of channels": lambda x: F.feature_alpha_dropout(x.view(2, 4, 6), 0.3, True) + 1,
    "off": lambda x: F.dropout2d(x.view(1, 8, 3, 2), 0.5, False) * 2 + F.dropout3d(x.view(1, 8, 3, 2), 0.0),
    "off in place": lambda x: F.dropout(x, 0.5, False, inplace=True) + F.dropout1d(x, 0.0, inplace=True),
    "rrelu": lambda x: F.rrelu(x - 0.5, training=True) + F.rrelu(x - 0.5, 0.1, 0.5),
    "rrelu in place": lambda x: F.rrelu(x - 0.5, training=True, inplace=True) * 2,
    "gumbel_softmax": lambda x: F.gumbel_softmax(x) + F.gumbel_softmax(x, hard=True),
    "fractional pools": lambda x: F.fractional_max_pool2d(x.view(1, 8, 6), 2, output_size=(4, 3)) * 2,
}  # fmt: skip


def check_draws(function: Callable[[Tensor], Any], dynamic: bool | None, tier: str = "tcc") -> None:
    """Eager's results, argument and next number, and who shares storage with whom; taken directly."""
    options = {"strict": True, "tier": tier}
    compiled = torch.compile(function, backend="dlc", dynamic=dynamic, options=options)
    with torch.no_grad(), collect() as reports:
        for seed in (1, 2):
            ran = []
            for each in (compiled, function):
                x = copy.deepcopy(X)
                torch.manual_seed(seed)
                results = each(x)
                flat = list(results) if isinstance(results, tuple) else [results]
                ran.append(([x, *flat, torch.rand(1)], storages([x, *flat])))
            torch.testing.assert_close(ran[0][0], ran[1][0], check_stride=True)
            assert ran[0][1] == ran[1][1]
    assert [r["kind"] for r in reports] == ["direct"], reports[0].get("indirect")


@pytest.fixture(autouse=True)
def forgotten() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", FRESH | WRITTEN | DROPOUT)
def test_directly(name: str, dynamic: bool | None) -> None:
    check_draws((FRESH | WRITTEN | DROPOUT)[name], dynamic)


@pytest.mark.parametrize("name", ["uniform", "view", "in place"])
def test_by_a_c_compiler(name: str) -> None:
    check_draws((FRESH | WRITTEN | DROPOUT)[name], None, "gcc")


METHODS: dict[str, Callable[[Tensor], Tensor]] = {
    "uniform": lambda t: t.uniform_(-1, 2),
    "normal": lambda t: t.normal_(1, 3),
    "exponential": lambda t: t.exponential_(0.5),
    "bernoulli": lambda t: t.bernoulli_(0.3),
    "geometric": lambda t: t.geometric_(0.3),
    "cauchy": lambda t: t.cauchy_(),
    "log_normal": lambda t: t.log_normal_(),
}


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", METHODS)
def test_eagers_bits(name: str, dynamic: bool | None) -> None:
    """In rows and in columns, with gaps, of few elements and of many."""
    method = METHODS[name]

    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = torch.zeros_like(x)
        method(y[:, 1:4])
        method(y.t()[4:])
        return y, method(torch.empty(3)), method(torch.empty(40)), method(torch.empty_like(x.t())), method(x)

    ran = []
    for each in (
        torch.compile(function, backend="dlc", options={"capture": "direct"}, dynamic=dynamic),
        function,
    ):
        torch.manual_seed(5)
        with torch.no_grad():
            ran.append([*each(X.clone()), torch.rand(9)])
    for mine, theirs in zip(*ran, strict=True):
        assert torch.equal(mine, theirs) and mine.stride() == theirs.stride()


def test_a_repeated_element_is_refused_as_eager_refuses_it() -> None:
    def function(x: Tensor) -> Tensor:
        return (x[0] * 1).expand(3, 6).uniform_() + 1

    for each in (function, torch.compile(function, backend="dlc")):
        with pytest.raises(RuntimeError, match="single memory location"), torch.no_grad():
            each(X)


def test_a_module() -> None:
    """Dropout of channels within a model in training, without gradients."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Dropout2d(0.5, inplace=True), nn.ReLU(), nn.Dropout(0.2))
    check_draws(lambda x: model(x.view(1, 1, 8, 6).expand(1, 3, 8, 6)), None)
