"""Memory stays flat over calls and over compiles."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dlc


def resident_kib() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() // 1024


def assert_memory_stays_flat(step: Callable[[], object], warm: int, times: int) -> None:
    """Step ``times`` times, three times over: what leaks grows in each of them.

    What grows once is the allocator's: a pool that other tests of the process have left in pieces.
    """
    for _ in range(warm):
        step()
    dlc.wait()
    grown = []
    for _ in range(3):
        gc.collect()
        before = resident_kib()
        for _ in range(times):
            step()
        gc.collect()
        grown.append(resident_kib() - before)
    assert min(grown) < 1024, f"KiB more after each {times} steps: {grown}"


def test_ten_thousand_calls() -> None:
    torch._dynamo.reset()
    f = torch.compile(lambda x, y: (torch.softmax(x @ y, -1), x.t(), (x + 1).sum()), backend="dlc")
    x, y = torch.randn(16, 16), torch.randn(16, 16)
    assert_memory_stays_flat(lambda: f(x, y), warm=1000, times=10000)


@pytest.mark.in_turn(3)
def test_two_hundred_compiles() -> None:
    from dlc import _C

    graph = torch.fx.experimental.proxy_tensor.make_fx(
        lambda x: torch.softmax(x.sin() + 1, -1).sum(0), tracing_mode="fake"
    )(torch.randn(8, 8))

    def compile_and_run() -> None:
        _C.compile(graph, graph.forward, tier="tcc")([torch.randn(8, 8)])

    assert_memory_stays_flat(compile_and_run, warm=50, times=200)


def test_calls_that_fail() -> None:
    torch._dynamo.reset()
    f = torch.compile(
        lambda x, w, i: torch.linalg.cholesky(x.exp() - 1) + torch.nn.functional.embedding(i, w).sum(0),
        backend="dlc",
    )
    x, w = torch.eye(4) * 2, torch.randn(10, 4)
    f(x, w, torch.tensor([1]))

    def fail() -> None:
        for bad_x, bad_i in ((-x, 1), (x, 20)):
            with pytest.raises((torch._C._LinAlgError, IndexError)):
                f(bad_x, w, torch.tensor([bad_i]))

    assert_memory_stays_flat(fail, warm=300, times=2000)


STEPS = {
    "matmul": lambda a, b: a @ b / 8,
    "add": lambda a, b: a + b,
    "softmax": lambda a, b: torch.softmax(a, -1),
    "transpose": lambda a, b: a.t() * b,
    "columns": lambda a, b: b - a.sum(0),
    "slice": lambda a, b: a[:1] + b,
}


@pytest.mark.in_turn(3)
@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 99), st.integers(0, 99)),
        min_size=3,
        max_size=20,
    )
)
def test_values_alive_at_the_same_time_share_no_memory(steps: list[tuple[str, int, int]]) -> None:
    """One value that overwrote another would show in what is made of both."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        values = [x]
        for name, a, b in steps:
            values.append(STEPS[name](values[a % len(values)], values[b % len(values)]))
        return torch.stack(values).double().sum(0)

    torch._dynamo.reset()
    x = torch.rand(9, 9)
    f = torch.compile(fn, backend="dlc", options={"tier": "tcc", "strict": True})
    torch.testing.assert_close(f(x), fn(x), rtol=1e-4, atol=1e-4)
