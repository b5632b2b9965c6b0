"""Text of a small Llama, token by token: a static cache, greedy and sampled, under several compilers.

python -m examples.generate [--width 384] [--layers 4] [--tokens 128] [--no-inductor]

The weights are random, so the text says nothing; the time of a token is that of a trained model.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

import dlc

BYTES = 256  # words of the vocabulary
HEAD, GROUP = 64, 4  # elements of a head; heads of queries that share one of keys
PROMPT = b"The sun rose over the hills and"
SEED = 0


class Attention(nn.Module):
    """Grouped heads, rotary positions, and a cache with room for all positions."""

    cos: Tensor
    sin: Tensor

    def __init__(self, width: int, room: int) -> None:
        super().__init__()
        self.heads = width // HEAD
        self.groups = 1 if self.heads % GROUP else self.heads // GROUP
        self.q = nn.Linear(width, self.heads * HEAD, bias=False)
        self.k = nn.Linear(width, self.groups * HEAD, bias=False)
        self.v = nn.Linear(width, self.groups * HEAD, bias=False)
        self.o = nn.Linear(self.heads * HEAD, width, bias=False)
        angle = torch.outer(torch.arange(room), 10000 ** -(torch.arange(0, HEAD, 2) / HEAD))
        self.register_buffer("cos", torch.cat([angle, angle], -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat([angle, angle], -1).sin(), persistent=False)

    def turned(self, x: Tensor, at: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return x * self.cos[at] + torch.cat([-b, a], -1) * self.sin[at]

    def forward(self, x: Tensor, at: Tensor, seen: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        batch, steps, _ = x.shape
        q = self.q(x).view(batch, steps, self.heads, HEAD).transpose(1, 2)
        k = self.k(x).view(batch, steps, self.groups, HEAD).transpose(1, 2)
        v = self.v(x).view(batch, steps, self.groups, HEAD).transpose(1, 2)
        keys.index_copy_(2, at, self.turned(k, at))
        values.index_copy_(2, at, v)
        y = F.scaled_dot_product_attention(self.turned(q, at), keys, values, seen, enable_gqa=True)
        return self.o(y.transpose(1, 2).reshape(batch, steps, -1))


class Layer(nn.Module):
    def __init__(self, width: int, room: int) -> None:
        super().__init__()
        self.before, self.after = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, room)
        inner = 8 * width // 3 // 64 * 64
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, at: Tensor, seen: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        x = x + self.attention(self.before(x), at, seen, keys, values)
        y = self.after(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Bytes to the logits of the byte that follows the last one."""

    def __init__(self, width: int, layers: int, room: int) -> None:
        super().__init__()
        self.room = room
        self.embed = nn.Embedding(BYTES, width)
        self.layers = nn.ModuleList(Layer(width, room) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, BYTES, bias=False)

    def cache(self, batch: int = 1) -> list[tuple[Tensor, Tensor]]:
        shape = (batch, self.layers[0].attention.groups, self.room, HEAD)
        return [(torch.zeros(shape), torch.zeros(shape)) for _ in self.layers]

    def forward(self, tokens: Tensor, at: Tensor, cache: list[tuple[Tensor, Tensor]]) -> Tensor:
        x = self.embed(tokens)
        seen = torch.arange(self.room) <= at[:, None]
        for layer, (keys, values) in zip(self.layers, cache, strict=True):
            x = layer(x, at, seen, keys, values)
        return self.head(self.norm(x[:, -1]))


def greedy(logits: Tensor) -> Tensor:
    return logits.argmax(-1, keepdim=True)


def sampled(logits: Tensor, temperature: float = 0.8, best: int = 40) -> Tensor:
    """One of the likeliest bytes, drawn by its probability."""
    values, places = (logits / temperature).topk(best, -1)
    return places.gather(-1, torch.multinomial(values.softmax(-1), 1))


Step = Callable[[Tensor, Tensor, Any], Tensor]


@torch.no_grad()
def generate(model: Llama, step: Step, choose: Callable[[Tensor], Tensor], count: int) -> Iterator[int]:
    """Reads the prompt with the model, then gives `count` bytes, each by a call of `step`."""
    torch.manual_seed(SEED)
    cache = model.cache()
    tokens = torch.tensor([list(PROMPT)])
    at = torch.arange(tokens.shape[1])
    token = choose(model(tokens, at, cache))
    for position in range(len(PROMPT), len(PROMPT) + count):
        yield int(token)
        token = choose(step(token, torch.tensor([position]), cache))


def timed(name: str, model: Llama, step: Step, choose: Callable[[Tensor], Tensor], count: int) -> bytes:
    """Generates and prints the text's first bytes and how many tokens a second it took."""
    list(generate(model, step, choose, 2))  # compiles
    dlc.wait()
    text, begun = bytearray(), time.perf_counter()
    for byte in tqdm(
        generate(model, step, choose, count), name, count, disable=None, leave=False, unit="token"
    ):
        text.append(byte)
    seconds = time.perf_counter() - begun
    print(f"{name:24} {count / seconds:8.1f} tokens/s  {bytes(text[:24])!r}")
    return bytes(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--room", type=int, default=512, help="positions of the cache")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--no-inductor", action="store_true")
    args = parser.parse_args()
    if args.width % HEAD or len(PROMPT) + args.tokens > args.room:
        parser.error(f"the width is a multiple of {HEAD}, and the cache has room for all tokens")
    torch.manual_seed(SEED)
    model = Llama(args.width, args.layers, args.room).eval()
    steps: dict[str, Step] = {"eager": model}
    if not args.no_inductor:
        steps["inductor"] = torch.compile(model)
    steps["dlc"] = torch.compile(model, backend="dlc", options={"products": "own", "freeze": True})
    for choose in (greedy, sampled):
        for name, step in steps.items():
            timed(f"{name}, {choose.__name__}", model, step, choose, args.tokens)


if __name__ == "__main__":
    main()
