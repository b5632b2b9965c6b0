"""dlc.kernel: each text of docs/kernels.md beside the same in torch, compiled by dlc for its sizes and for
any size; all settled."""

import functools
import types
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

import dlc
from benchmarks.measure import Timing, interleaved, seconds, timed
from examples.kernels import TORCH, page

Row = tuple[str, dict[str, Timing], float]

#: Sizes of the arguments; a number alone: so many indices below 4096.
SIZES: dict[str, tuple[Any, ...]] = {
    "matmul": ((256, 256), (256, 256)),
    "attention": ((256, 64), (256, 64), (256, 64)),
    "stencil": ((1024, 1024),),
    "histogram": ((4096, 64), 8192, (8192,)),
    "bodies": ((512, 3), (512,)),
    "gaussian": ((512, 8), (512, 8), (512,)),
    "average": ((1 << 20,),),
    "tropical": ((128, 128), (128, 128)),
    "distance": ((512, 16), (512, 16)),
    "convolution": ((32, 4096), (32, 32, 5)),
}


def argument(size: Any, generator: torch.Generator) -> Tensor:
    if isinstance(size, int):
        return torch.randint(0, 4096, (size,), generator=generator)
    return torch.randn(size, generator=generator)


def row(name: str, kernel: Any, budget: float) -> Row:
    generator = torch.Generator().manual_seed(0)
    args = [argument(size, generator) for size in SIZES[name]]
    compiled = torch.compile(TORCH[name], backend="dlc", dynamic=False)
    plain = TORCH[name]
    again = types.FunctionType(plain.__code__.replace(), plain.__globals__)  # Dynamo goes by the code object
    symbols = torch.compile(again, backend="dlc", dynamic=True)
    first, made = timed(lambda: dlc.kernel(kernel.text)(*args))
    for other in (compiled, symbols):
        torch.testing.assert_close(made, other(*args), rtol=1e-3, atol=1e-3)
    dlc.wait()
    calls = {"kernel": kernel, "torch": compiled, "symbols": symbols}
    bound = {name: functools.partial(call, *args) for name, call in calls.items()}
    return name, interleaved(bound, budget), first


def run(only: str, budget: float) -> list[Row]:
    kernels = page()
    return [row(name, kernels[name], budget) for name in TORCH if only in name]


def table(rows: list[Row]) -> Table:
    made = Table(
        "kernel",
        "first call",
        "a call",
        "torch, for its sizes",
        "kernel / it",
        "torch, any size",
        "kernel / it",
    )
    for name, t, first in rows:
        cells = [seconds(first), str(t["kernel"])]
        for peer in ("torch", "symbols"):
            cells += [str(t[peer]), f"{t['kernel'].median / t[peer].median:.2f}"]
        made.add_row(name, *cells)
    return made


def data(rows: list[Row]) -> list[dict[str, Any]]:
    return [
        {"case": name, "first": first, "timings": {k: v.data() for k, v in t.items()}}
        for name, t, first in rows
    ]
