"""Attention, a decoding step and recurrences: short products that depend on each other.

Beside the step of a small Llama stands how much of the memory's bandwidth it reached: its weights and the
rows of the cache that the mask lets through have to be read once. The bandwidth is that of a maximum of as
many bytes, which takes turns with the step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch._dynamo
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from benchmarks.measure import interleaved
from benchmarks.peers import available, ready
from benchmarks.report import Row
from examples.generate import GROUP, HEAD, Llama

SHAPES = [(2, 4, 128, HEAD), (1, 6, 192, HEAD), (1, 12, 512, HEAD), (1, 8, 2048, HEAD)]
BY_HAND = (1, 12, 512, HEAD)
HEADS = 16  # of the single query, on HEADS // GROUP of the keys
ROOM, FILLED = 512, 300  # positions of the cache, and those before the new one
READ = "read"


@dataclass(frozen=True)
class Case:
    """What is called with what. bytes: those that a call has to read, where they leave the caches."""

    name: str
    call: Callable[..., Any]
    inputs: tuple[Any, ...]
    bytes: int = 0

    @property
    def weights(self) -> bool:
        return isinstance(self.call, nn.Module)


# ---- attention ----


def whole(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def alibi(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Tensor:
    """As Bloom writes it: a bias that grows with the position of the key, and a causal mask."""
    at = torch.arange(q.shape[2])
    scores = q @ k.mT / HEAD**0.5 + slopes[:, None, None] * at
    scores = scores.masked_fill(at[:, None] < at, torch.finfo(scores.dtype).min)
    return scores.softmax(-1) @ v


def relative(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    """As T5's encoder has it: a bias for each head and distance, from a table."""
    at = torch.arange(q.shape[2])
    distance = (at - at[:, None]).clamp(-64, 64) + 64
    return (q @ k.mT + table[distance].permute(2, 0, 1)).softmax(-1) @ v


def soft_cap(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As Gemma 2 writes it."""
    scores = torch.tanh(q @ k.mT / HEAD**0.5 / 50) * 50
    at = torch.arange(q.shape[2])
    scores = scores.masked_fill(at[:, None] < at, torch.finfo(scores.dtype).min)
    return scores.softmax(-1) @ v


def of_shape(shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    return torch.randn(3, *shape).unbind()


def attention_cases() -> Iterable[Case]:
    for shape in SHAPES:
        for form in (whole, causal):
            yield Case(f"attention {shape}{', causal' * (form is causal)}", form, of_shape(shape))
    heads = BY_HAND[1]
    extra = {alibi: (torch.rand(heads),), relative: (torch.randn(129, heads),), soft_cap: ()}
    for by_hand, more in extra.items():
        name = by_hand.__name__.replace("_", " ")
        yield Case(f"by hand, {name} {BY_HAND}", by_hand, (*of_shape(BY_HAND), *more))
    for keys in (512, 4096):
        k, v = of_shape((1, HEADS // GROUP, keys, HEAD))[:2]
        yield Case(f"one query, {keys} keys", grouped, (torch.randn(1, HEADS, 1, HEAD), k, v))


# ---- a decoding step ----


def decoding_cases() -> Iterable[Case]:
    for width in (1024, 384):
        model = Llama(width, 4, ROOM).eval()
        cache = model.cache()
        weights = sum(p.nbytes for p in model.parameters()) - model.embed.weight.nbytes
        seen = sum(t.nbytes for kv in cache for t in kv) * (FILLED + 1) // ROOM
        inputs = (torch.tensor([[65]]), torch.tensor([FILLED]), cache)
        yield Case(f"decoding step, 4 layers, d={width}", model, inputs, weights + seen)


# ---- recurrences ----


class Recurrent(nn.Module):
    """The sequence that a recurrent layer of torch makes, without its last states."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


class Cell(nn.Module):
    """A gated cell as one writes it oneself, in a loop over the steps."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.of_input, self.of_state = nn.Linear(size, 3 * size), nn.Linear(size, 2 * size)
        self.of_reset = nn.Linear(size, size)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        made = []
        for step in x.unbind(1):
            z, r, n = self.of_input(step).chunk(3, -1)
            update, reset = torch.sigmoid(torch.cat([z, r], -1) + self.of_state(h)).chunk(2, -1)
            h = torch.lerp(torch.tanh(n + self.of_reset(reset * h)), h, update)
            made.append(h)
        return torch.stack(made, 1)


def recurrent_cases() -> Iterable[Case]:
    x = torch.randn(8, 64, 256)
    for layer in (nn.LSTM, nn.GRU):
        made = layer(256, 256, num_layers=2, batch_first=True)
        yield Case(f"{layer.__name__}, 256, 2 layers, 64 steps, batch 8", Recurrent(made).eval(), (x,))
    inputs = (torch.randn(8, 24, 128), torch.zeros(8, 128))
    yield Case("a cell by hand, 128, 24 steps, batch 8", Cell(128).eval(), inputs)


# ---- the whole ----


def cases(only: str) -> list[Case]:
    torch.manual_seed(0)
    made = (*attention_cases(), *decoding_cases(), *recurrent_cases())
    return [case for case in made if only in case.name]


def row(case: Case, peers: list[str], budget: float) -> Row:
    torch._dynamo.reset()
    chosen = [p for p in available(peers) if case.weights or p not in ("frozen", "freezing")]
    calls = {p: ready(p, case.call, case.inputs) for p in chosen}
    if case.bytes:
        calls[READ] = functools.partial(torch.amax, torch.ones(case.bytes // 4))
    timings = interleaved(calls, budget)
    made = Row(case.name, timings)
    if not case.bytes:
        return made
    read = timings.pop(READ).median
    took = min(timings[p].median for p in ("dlc", "frozen") if p in timings)
    return replace(made, size=f"{case.bytes / took / 1e9:.1f} of {case.bytes / read / 1e9:.1f} GB/s")


def run(only: str, peers: list[str], budget: float) -> list[Row]:
    rows = []
    # nn.LSTM and its kin break the graph unless Dynamo is told otherwise
    with tqdm(cases(only), disable=None, leave=False) as line, torch._dynamo.config.patch(allow_rnn=True):
        for case in line:
            line.set_description(case.name)
            rows.append(row(case, peers, budget))
    return rows
