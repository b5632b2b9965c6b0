"""Linear layers inside a compiled graph beside torch's, in both tiers and with frozen weights.

What a compiled call costs without any work is measured in the same run and subtracted."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import torch
from rich.table import Table
from torch import Tensor, nn
from tqdm import tqdm

from benchmarks import steady
from benchmarks.measure import interleaved, seconds
from benchmarks.report import Row
from benchmarks.ulp.strips import CSRC, ISA_FLAGS, build, processor_has

# M, N, K of a linear layer
SHAPES = [
    (256, 768, 256),
    (256, 1024, 256),
    (256, 256, 1024),
    (192, 1152, 384),
    (64, 1024, 784),
    (128, 4096, 1024),
    (512, 512, 512),
    (2048, 2048, 2048),
    (197, 768, 768),
    (100, 300, 200),
    (1024, 1024, 64),
    (32, 128, 128),
    (16, 4096, 1024),
    (8, 1024, 256),
    (4, 1024, 1024),
    (2, 2048, 2048),
    (1, 2048, 2048),
    (1, 1024, 1024),
    (64, 10, 784),
]
FORMS: dict[str, dict[str, Any]] = {
    "gcc": {"tier": "gcc"},
    "tcc": {"tier": "tcc"},
    "frozen": {"tier": "gcc", "freeze": True},
}


@cache
def library() -> ctypes.CDLL:
    isa = [isa for isa in ISA_FLAGS if processor_has(isa)][-1]
    source = Path(__file__).with_name("drive.c")
    flags = [f"-I{CSRC}", "-O3", f"-DDLC_ISA={isa}", "-fopenmp", *ISA_FLAGS[isa]]
    made = build(f"products-{isa}", source, *flags)
    made.drive_peak.restype = made.drive_alone.restype = made.drive_threads.restype = ctypes.c_double
    return made


def best(name: str, *arguments: int) -> float:
    """FLOP/s; what else runs on the machine only takes away."""
    function = getattr(library(), name)
    return max(function(*map(ctypes.c_int64, arguments)) for _ in range(30))


def multiply_adds() -> tuple[list[Callable[[], Any]], float]:
    """A call of some milliseconds that does nothing else in all threads, and how many operations it does.

    In turns with a program it says what the processor can do at most meanwhile. The fastest of many short
    calls (`best`) is of the highest clock, which no program keeps.
    """
    sizes = ctypes.c_int64(1_000_000), ctypes.c_int64(torch.get_num_threads())
    call = functools.partial(library().drive_threads, *sizes)
    return [call], call()


def products(m: int, n: int, k: int) -> dict[str, Callable[[], Any]]:
    """torch's call, dlc's in each form, and the floor of dlc's."""
    layer, x = nn.Linear(k, n).eval(), torch.randn(m, k)
    calls: dict[str, Callable[[], Any]] = {"torch": lambda: layer(x)}
    for form, options in FORMS.items():

        def linear(x: Tensor) -> Tensor:
            return layer(x)

        # Code of its own for each form: else the guards of all of them would be tried.
        linear.__code__ = linear.__code__.replace(co_name=f"linear_{form}")
        made = torch.compile(linear, backend="dlc", options={"products": "own"} | options)
        calls[form] = lambda made=made: made(x)
        torch.testing.assert_close(calls[form](), calls["torch"](), rtol=1e-4, atol=1e-4)
    assert all(torch.equal(calls[form](), calls["gcc"]()) for form in FORMS)
    one = torch.randn(1)
    floor = torch.compile(lambda x: layer.bias[:1] + x, backend="dlc", options={"tier": "gcc"})
    calls["floor"] = lambda: floor(one)
    return calls


def run(only: str, budget: float) -> list[dict[str, Any]]:
    """A row for each shape, by torch's threads."""
    threads, peak = torch.get_num_threads(), best("drive_peak", 200_000)
    rows = []
    for m, n, k in tqdm(SHAPES, disable=None, leave=False):
        name = f"{m}x{n}x{k}"
        if only in name:
            torch._dynamo.reset()
            with torch.no_grad():
                timings = interleaved(products(m, n, k), budget)
            took = {peer: t.median for peer, t in timings.items()}
            for form in FORMS:
                took[form] -= took["floor"]
            share = 2 * m * n * k / took["frozen"] / (peak * threads)
            rows.append({"case": name, "threads": threads, "seconds": took, "share": share, "peak": peak})
    return rows


class NormFirst(nn.Module):
    """What stands before a product and after it: layer norm, linear, GELU."""

    def __init__(self, k: int, n: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(k), nn.Linear(k, n)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.gelu(self.linear(self.norm(x)))


class NormLast(nn.Module):
    """A product, a residual and a norm of whole rows."""

    def __init__(self, k: int, n: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(k, n), nn.LayerNorm(n)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.norm(self.linear(x) + residual)


FUSED_SHAPES = [(256, 768, 256), (16, 4096, 1024)]
FUSED_PEERS = ["eager", "dlc", "frozen", "freezing"]


def fused(only: str, budget: float) -> list[Row]:
    """Layers around products beside eager and TorchInductor with frozen weights."""
    cases: list[steady.Case] = []
    for m, n, k in FUSED_SHAPES:
        cases.append((f"norm, linear, GELU {m}x{n}x{k}", NormFirst(k, n), (torch.randn(m, k),)))
        inputs = torch.randn(m, k), torch.randn(m, n)
        cases.append((f"linear, residual, norm {m}x{n}x{k}", NormLast(k, n), inputs))
    with torch.no_grad():
        return steady.run([case for case in cases if only in case[0]], FUSED_PEERS, budget)


def alone() -> str:
    """The kernels by themselves, with a panel that stays in the caches."""
    peak = best("drive_peak", 200_000)
    shares = ", ".join(
        f"{r} rows {best('drive_alone', r, 512, 300) / peak:.1%}" for r in (14, 12, 8, 6, 4, 2, 1)
    )
    return f"one panel of 512 steps, of {peak / 1e9:.0f} GFLOP/s between registers: {shares}"


def table(rows: list[dict[str, Any]]) -> Table:
    shown = Table(title="linear layers of floats", caption="\u00d7: torch's time over it")
    for name in ("M x N x K", "threads", "torch", *FORMS, "of the peak"):
        shown.add_column(name, justify="right", no_wrap=True)
    for r in rows:
        took = r["seconds"]
        forms = [f"{seconds(took[f])} {took['torch'] / took[f]:5.2f}\u00d7" for f in FORMS]
        shown.add_row(r["case"], str(r["threads"]), seconds(took["torch"]), *forms, f"{r['share']:.0%}")
    if rows:
        means = [geometric_mean(r["seconds"]["torch"] / r["seconds"][f] for r in rows) for f in FORMS]
        shown.add_section()
        shown.add_row("geometric mean", "", "", *(f"{m:.2f}\u00d7" for m in means), "")
    return shown
