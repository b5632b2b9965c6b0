"""The same bits: from both tiers, from one and two threads, and from every run.

Some of torch's own kernels, which dlc calls as eager does, depend on the number of threads. So models
are compared across threads where eager's results are equal; functions, which dlc compiles whole, always.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from examples.programs import FUNCTIONS, MODELS
from tests.models.runs import forward, train
from tests.tolerance import assert_same_bits, named

LARGE = 1 << 18  # elements: enough for kernels to run in parallel
TIERS = ("tcc", "gcc")
Results = dict[str, Tensor]


@pytest.fixture
def only_dlc(backend: str) -> None:
    if backend != "dlc":
        pytest.skip("other backends promise nothing about bits")


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def with_threads(run: Callable[[], Results], count: int) -> Results:
    with threads(count):
        return run()


def assert_equal(results: Results, others: Results) -> None:
    assert results.keys() == others.keys()
    for name, result in results.items():
        assert_same_bits(result, others[name], name)


def is_equal(results: Results, others: Results) -> bool:
    return all(torch.equal(t, others[name]) for name, t in results.items())


@pytest.mark.in_turn(2)
@pytest.mark.usefixtures("only_dlc")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str, compiler: Callable[..., Any]) -> None:
    call, inputs = FUNCTIONS[name].call, FUNCTIONS[name].arguments(LARGE)
    first: Results = {}
    for tier in TIERS:
        torch._dynamo.reset()
        compiled = compiler(call, options={"tier": tier}, dynamic=False)
        for count in (2, 1):
            with threads(count):
                result = named(compiled(*inputs))
            assert_equal(result, first or result)
            first = first or result


@pytest.mark.in_turn(8)
@pytest.mark.usefixtures("only_dlc")
@pytest.mark.parametrize("run", [forward, train])
@pytest.mark.parametrize("name", MODELS)
def test_tiers(name: str, run: Callable[..., Results], compiler: Callable[..., Any]) -> None:
    results = [model_run(name, run, compiler, tier) for tier in TIERS]
    assert_equal(*results)


@pytest.mark.in_turn(4)
@pytest.mark.usefixtures("only_dlc")
@pytest.mark.parametrize("run", [forward, train])
@pytest.mark.parametrize("name", MODELS)
def test_threads(name: str, run: Callable[..., Results], compiler: Callable[..., Any]) -> None:
    model, inputs = MODELS[name].build(small=True), MODELS[name].arguments(small=True)
    eager = [with_threads(lambda: run(model, inputs), n) for n in (1, 2)]
    if not is_equal(*eager):
        pytest.skip("eager's own results depend on the number of threads")
    results = [with_threads(lambda: model_run(name, run, compiler, "tcc"), n) for n in (1, 2)]
    assert_equal(*results)


@pytest.mark.in_turn(8)
@pytest.mark.usefixtures("only_dlc")
@pytest.mark.parametrize("name", MODELS)
def test_ten_runs(name: str, compiler: Callable[..., Any]) -> None:
    """Ten calls of one compiled model, in the midst of which gcc's kernels take over."""
    model, inputs = MODELS[name].build(small=True), MODELS[name].arguments(small=True)
    compiled = compiler(model, options={"tier": "auto"})
    first = forward(compiled, inputs)
    for _ in range(9):
        assert_equal(forward(compiled, inputs), first)


def model_run(name: str, run: Callable[..., Results], compiler: Callable[..., Any], tier: str) -> Results:
    """Results of a small model compiled by this tier."""
    torch._dynamo.reset()
    model, inputs = MODELS[name].build(small=True), MODELS[name].arguments(small=True)
    options = {"tier": tier}
    if run is train:
        return train(model, inputs, lambda m: compiler(m, options=options, dynamic=False))
    return forward(compiler(model, options=options, dynamic=False), inputs)


def reductions(x: Tensor) -> tuple[Tensor, ...]:
    """Reductions with a cheap body, an expensive one, and one that stores what it adds."""
    return x.amax(-1), x.amin(-1), x.exp().sum(-1), x.softmax(-1), x.sigmoid().prod(-1)


@pytest.mark.in_turn(6)
@pytest.mark.usefixtures("only_dlc")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rows_of_any_length(dtype: torch.dtype, compiler: Callable[..., Any]) -> None:
    """The last elements of a row, fewer than there are lanes, and NaN wherever it stands in it."""
    compiled = [compiler(reductions, dynamic=True, options={"tier": tier}) for tier in TIERS]
    for length in (1, 2, 15, 16, 17, 31, 40, 1024 + 9):
        x = torch.randn(length + 2, length, generator=torch.Generator().manual_seed(length)).to(dtype)
        for row in range(1, length + 1, max(1, length // 7)):
            x[row, row - 1] = torch.nan
        want = reductions(x)
        first, second = (named(run(x)) for run in compiled)
        assert_equal(first, second)
        for got, wanted in zip(first.values(), want, strict=True):
            assert torch.equal(got.isnan(), wanted.isnan())
            torch.testing.assert_close(got, wanted, equal_nan=True)
