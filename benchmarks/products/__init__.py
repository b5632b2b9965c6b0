"""Matrix products by dlc's microkernels beside torch's linear: panels that are ready, and W as it lies.

The loops around the microkernels (drive.c) are no part of dlc: what is measured is what the kernels allow."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import torch
from rich.table import Table
from tqdm import tqdm

from benchmarks.measure import interleaved, seconds
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
FORMS = {"panels": "panels ready", "lying": "W as it lies"}


class Drive(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("m", "n", "k")),
        *((name, ctypes.c_void_p) for name in ("a", "w", "panels", "c")),
        ("threads", ctypes.c_int64),
    ]


@cache
def library() -> ctypes.CDLL:
    isa = [isa for isa in ISA_FLAGS if processor_has(isa)][-1]
    source = Path(__file__).with_name("drive.c")
    flags = [f"-I{CSRC}", "-O3", f"-DDLC_ISA={isa}", "-fopenmp", *ISA_FLAGS[isa]]
    made = build(f"products-{isa}", source, *flags)
    made.drive_peak.restype = made.drive_alone.restype = ctypes.c_double
    return made


def best(name: str, *arguments: int) -> float:
    """FLOP/s; what else runs on the machine only takes away."""
    function = getattr(library(), name)
    return max(function(*map(ctypes.c_int64, arguments)) for _ in range(30))


def products(m: int, n: int, k: int, threads: int) -> tuple[dict[str, Callable[[], Any]], list[Any]]:
    """Calls, with what must outlive them.  Both forms have the same bits, near to torch's result."""
    a, w = torch.randn(m, k), torch.randn(n, k) / k**0.5
    panels = torch.empty((n + 31) // 32 * 32 * k + 16)
    start = panels[(-panels.data_ptr() // 4) % 16 :]
    made = {form: torch.empty(m, n) for form in FORMS}
    drives = {
        form: Drive(m, n, k, a.data_ptr(), w.data_ptr(), None, c.data_ptr(), threads)
        for form, c in made.items()
    }
    library().drive_pack(ctypes.byref(drives["panels"]), ctypes.c_void_p(start.data_ptr()))
    drives["panels"].panels = start.data_ptr()
    pointers = {form: ctypes.byref(d) for form, d in drives.items()}
    drive = library().drive
    calls: dict[str, Callable[[], Any]] = {"torch": lambda: torch.nn.functional.linear(a, w)}
    calls |= {form: (lambda p=p: drive(p)) for form, p in pointers.items()}
    for form in FORMS:
        calls[form]()
    torch.testing.assert_close(made["panels"], calls["torch"](), rtol=1e-4, atol=1e-4)
    assert torch.equal(*made.values())
    return calls, [a, w, panels, made, drives]


def run(only: str, budget: float) -> list[dict[str, Any]]:
    """A row for each shape, by torch's threads."""
    threads, peak = torch.get_num_threads(), best("drive_peak", 200_000)
    rows = []
    for m, n, k in tqdm(SHAPES, disable=None, leave=False):
        name = f"{m}x{n}x{k}"
        if only in name:
            calls, keep = products(m, n, k, threads)
            timings = {peer: t.median for peer, t in interleaved(calls, budget).items()}
            share = 2 * m * n * k / timings["panels"] / (peak * threads)
            rows.append({"case": name, "threads": threads, "seconds": timings, "share": share, "peak": peak})
            del calls, keep
    return rows


def alone() -> str:
    """The kernels by themselves, with a panel that stays in the caches."""
    peak = best("drive_peak", 200_000)
    shares = ", ".join(
        f"{r} rows {best('drive_alone', r, 512, 300) / peak:.1%}" for r in (14, 12, 8, 6, 4, 2, 1)
    )
    return f"one panel of 512 steps, of {peak / 1e9:.0f} GFLOP/s between registers: {shares}"


def table(rows: list[dict[str, Any]]) -> Table:
    shown = Table(title="products of floats", caption="\u00d7: torch's time over it")
    for name in ("M x N x K", "threads", "torch", *FORMS.values(), "of the peak"):
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
