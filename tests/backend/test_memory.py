"""Memory stays flat over calls and over compiles."""

from __future__ import annotations

import gc
import resource

import torch

import dlc


def resident_kib() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() // 1024


def test_ten_thousand_calls() -> None:
    torch._dynamo.reset()
    f = torch.compile(lambda x, y: (torch.softmax(x @ y, -1), x.t(), (x + 1).sum()), backend="dlc")
    x, y = torch.randn(16, 16), torch.randn(16, 16)
    for _ in range(1000):
        f(x, y)
    dlc.wait()
    before = resident_kib()
    for _ in range(10000):
        f(x, y)
    assert resident_kib() - before < 2048


def test_two_hundred_compiles() -> None:
    from dlc import _C

    graph = torch.fx.experimental.proxy_tensor.make_fx(
        lambda x: torch.softmax(x.sin() + 1, -1).sum(0), tracing_mode="fake"
    )(torch.randn(8, 8))

    def compile_and_run() -> None:
        _C.compile(graph, graph.forward, tier="tcc")([torch.randn(8, 8)])

    for _ in range(50):
        compile_and_run()
    gc.collect()
    before = resident_kib()
    for _ in range(200):
        compile_and_run()
    gc.collect()
    assert resident_kib() - before < 2048
