"""Functions at three sizes, and what their times are held against.

In the first cache of a core a call is mostly Dynamo's. So there a peer's floor takes turns with it, a
call that returns a tensor that is ready, and is not counted; in the second cache it is counted, and
said. In memory a function is as fast as memory is. So there a copy that moves as many bytes takes turns
with it: one of fewer would find them in caches that hold them all.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch._dynamo
from torch import Tensor
from tqdm import tqdm

from benchmarks import xla
from benchmarks.cases import CASES, IMAGES, SIZES, Case
from benchmarks.measure import Timing, interleaved
from benchmarks.peers import available, ready
from benchmarks.report import Row

COPY, FLOOR, TRAIN_FLOOR, XLA_FLOOR = "copy", "floor", "floor_train", "xla_floor"
FLOORS = {"xla": XLA_FLOOR, "eager": ""}  # of all others: FLOOR, or TRAIN_FLOOR


def chosen(only: str) -> list[Case]:
    """Cases by their whole titles, or by parts of them; a comma stands between."""
    cases = (*CASES, *IMAGES)
    titles, wanted = {c.title for c in cases}, only.split(",")
    return [c for c in cases if any(w == c.title or (w not in titles and w in c.title) for w in wanted)]


def leaves(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value or ())


def gradients(run: Callable[..., Tensor], inputs: tuple[Tensor, ...], seed: Tensor) -> Any:
    with torch.enable_grad():
        return torch.autograd.grad(run(*inputs), [x for x in inputs if x.requires_grad], seed)


def through(case: Case, inputs: tuple[Tensor, ...]) -> Callable[..., Any] | None:
    """What is called with the compiled function: its gradients, where the case wants them."""
    return functools.partial(gradients, seed=torch.ones_like(case.call(*inputs))) if case.train else None


def peer_calls(case: Case, inputs: tuple[Tensor, ...], peers: list[str]) -> dict[str, Any]:
    torch._dynamo.reset()
    calls = {p: ready(p, case.call, inputs, through(case, inputs)) for p in available(peers) if p != "xla"}
    jitted = xla.ready(case, inputs) if "xla" in available(peers) else None
    return calls | ({"xla": jitted} if jitted else {})


def bases(case: Case, inputs: tuple[Tensor, ...], n: int, peers: list[str]) -> dict[str, Any]:
    """What the peers are held against: of large inputs a copy, of others their floors."""
    if n > SIZES["l2"]:
        x = torch.ones(moved(case, inputs) // 2, dtype=torch.uint8)
        return {COPY: functools.partial(torch.empty_like(x).copy_, x)}
    if case.train:
        return {TRAIN_FLOOR: ready(TRAIN_FLOOR, case.call, inputs, through(case, inputs))}
    calls = {FLOOR: ready(FLOOR, case.call, inputs)}
    return calls | ({XLA_FLOOR: xla.floor(inputs)} if "xla" in peers and n <= SIZES["l1"] else {})


def moved(case: Case, inputs: tuple[Tensor, ...]) -> int:
    """Bytes that have to be read and written: each input and each result once."""
    results = leaves(case.call(*inputs)) or list(inputs)
    grads = [x for x in inputs if x.requires_grad] * (2 if case.train else 0)
    return sum(t.nbytes for t in (*inputs, *results, *grads))


def share(timings: dict[str, Timing], bases: dict[str, Timing]) -> float:
    """Of the bandwidth that a copy of as many bytes had, how much dlc reached."""
    return bases[COPY].median / timings["dlc"].median if COPY in bases else 0.0


def row(case: Case, n: int, peers: list[str], budget: float) -> Row:
    inputs = case.arguments(n)
    calls, others = peer_calls(case, inputs, peers), bases(case, inputs, n, peers)
    timings = interleaved(calls | others, budget)
    held = {k: timings.pop(k) for k in others}
    floor = TRAIN_FLOOR if case.train else FLOOR
    floors = {p: held[f] for p in calls if (f := FLOORS.get(p, floor)) in held}
    if n <= SIZES["l1"] or not floors:
        return Row(case.title, timings, size_name(n), floors, share(timings, held))
    return Row(case.title, timings, size_name(n), call=held[floor].median)


def size_name(n: int) -> str:
    return next((name for name, size in SIZES.items() if size == n), str(n))


def sizes(text: str) -> list[int]:
    """`all`, names between commas, or numbers of elements."""
    return [SIZES[t] if t in SIZES else int(t) for t in (SIZES if text == "all" else text.split(","))]


def run(only: str, size: str, peers: list[str], budget: float) -> list[Row]:
    jobs: Iterable[tuple[Case, int]] = [(c, n) for n in sizes(size) for c in chosen(only)]
    rows = []
    with tqdm(jobs, disable=None, leave=False) as line:
        for case, n in line:
            line.set_description(f"{case.title}, {size_name(n)}")
            rows.append(row(case, n, peers, budget))
    return rows
