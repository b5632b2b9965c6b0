"""Fails every allocation of a compile and of a call once: `make inject`, then `python -m tests.alloc.every`.

Those of csrc and of libtcc (tests/alloc/inject.c), chunks of arenas or, in the runs called pieces, each piece
of one; and those of Python, by the hook that Python's own tests use (_testcapi.set_nomemory). Without the
n-th, a compile raises MemoryError or makes the callable all the same; a call raises MemoryError or gives the
right result. Nothing is leaked, and what comes next is right.
`--shard k/n` takes a part, `--only NAME`, or `--only NAME:k/n` with a part of its own, one of the runs, and
may be given again; `--first a` begins at the a-th, `--last b` ends with the b-th.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/inject/site"))

import _testcapi  # noqa: E402

import torch  # noqa: E402
import torch._dynamo  # noqa: E402

import dlc  # noqa: E402
import dlc.backend  # noqa: E402, F401
from dlc import _C  # noqa: E402
from tests.shards import Shard  # noqa: E402

LIBRARY = ctypes.PyDLL(_C.__file__)
for _name in ("count", "failed", "live"):
    getattr(LIBRARY, f"dlc_inject_{_name}").restype = ctypes.c_int64
LIBRARY.dlc_inject.argtypes = [ctypes.c_int64, ctypes.c_int64]
LIBRARY.dlc_inject_pieces.argtypes = [ctypes.c_bool]
ALL = 1 << 40  # every allocation from one on


def block(x: torch.Tensor, *w: torch.Tensor) -> torch.Tensor:
    """A small block of a transformer; attention is written out, so that there is a softmax to compile."""
    batch, length, width = x.shape
    h = torch.nn.functional.layer_norm(x, (width,), w[0], w[1])
    q, k, v = (h @ w[2]).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
    score = (q @ k.transpose(-1, -2) / (width // 2) ** 0.5).softmax(-1)
    x = x + (score @ v).transpose(1, 2).reshape(batch, length, width) @ w[3]
    h = torch.nn.functional.layer_norm(x, (width,), w[0], w[1])
    return x + torch.nn.functional.gelu(h @ w[4]) @ w[5]


def own_block(x: torch.Tensor, *w: torch.Tensor) -> torch.Tensor:
    """One of torch's operators for attention and convolution, which are dlc's own products too."""
    batch, length, width = x.shape
    h = torch.nn.functional.layer_norm(x, (width,), w[0], w[1])
    h = h + torch.nn.functional.conv1d(h.transpose(1, 2), w[6], padding=1).transpose(1, 2)
    q, k, v = (h @ w[2]).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
    mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + mixed.transpose(1, 2).reshape(batch, length, width) @ w[3]
    h = torch.nn.functional.layer_norm(x, (width,), w[0], w[1])
    return x + torch.nn.functional.gelu(h @ w[4]) @ w[5]


WIDTH = 8


def weights() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    shapes = [(WIDTH,), (WIDTH,), (WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
    shapes.append((WIDTH, WIDTH, 3))
    return [torch.nn.Parameter(torch.randn(*shape) * 0.3) for shape in shapes]


@dataclass
class Captured:
    """What Dynamo hands to a backend, and what it calls the result with."""

    graph: Any
    calls: list[tuple[Any, ...]]


def capture(function: Callable[..., torch.Tensor], lengths: list[int]) -> Captured:
    torch._dynamo.reset()
    found = Captured(None, [])

    def backend(graph: Any, examples: list[Any]) -> Callable[..., Any]:
        found.graph = graph

        def run(*args: Any) -> Any:
            found.calls.append(args)
            return graph(*args)

        return run

    compiled = torch.compile(function, backend=backend, dynamic=True)
    with torch.no_grad():
        w = weights()
        for length in lengths:
            compiled(torch.randn(2, length, WIDTH), *w)
    return found


class Failed(Exception):
    """A run did what it must not."""


@dataclass
class Run:
    """Something that allocates: `act` does it, `check` looks at what it gave, when it gave something."""

    name: str
    act: Callable[[], Any]
    check: Callable[[Any], None]
    python: bool = False  # which allocations fail: Python's, or those of csrc
    ready: Callable[[], None] = lambda: None  # what comes before, with all its memory
    pieces: bool = False  # of arenas: each counts

    def count(self) -> int:
        """How many allocations there are."""
        LIBRARY.dlc_inject_pieces(self.pieces)
        if not self.python:
            self.ready()
            self.act()
            self.ready()
            LIBRARY.dlc_inject(0, 0)
            self.act()
            return int(LIBRARY.dlc_inject_count())
        low, high = 0, 1  # where some in a row fail, one is not overcome
        while self.fail(high, high + 30)[0]:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fail(middle, middle + 30)[0] else (low, middle)
        return low

    def fail(self, first: int, last: int) -> tuple[bool, Any]:
        """Did an allocation fail, and what there was instead of a MemoryError."""
        self.ready()
        gc.collect()
        gc.disable()
        error: BaseException | None = None
        made = None
        if self.python:
            _testcapi.set_nomemory(first - 1, last)
        else:
            LIBRARY.dlc_inject(first, last)
        try:
            made = self.act()
        except MemoryError as caught:
            error = caught
        finally:
            if self.python:
                _testcapi.remove_mem_hooks()
            else:
                missed = LIBRARY.dlc_inject_failed() > 0
                LIBRARY.dlc_inject(0, 0)
            gc.enable()
        if error is None:
            self.check(made)
        return (error is not None) if self.python else missed, error

    def leaks(self, first: int, last: int) -> int:
        """Blocks more after the same failure than before, in the best of some times: caches may grow once."""
        grown = []
        for _ in range(4):
            before = LIBRARY.dlc_inject_live()
            self.fail(first, last)
            gc.collect()
            grown.append(LIBRARY.dlc_inject_live() - before)
            if grown[-1] <= 0:
                return 0
        return min(grown)

    def every(self, shard: Shard | None, begin: int, end: int) -> Iterator[str]:
        """One line for each allocation that is not handled."""
        total = self.count()
        chosen = range(begin, min(end, total) + 1)
        if shard is not None:
            chosen = [n for n in chosen if n % shard.count == shard.number % shard.count]
        for n in chosen:
            for last in (n, ALL) if not self.python else (n + 1,):
                print(f"{self.name} {n}", file=sys.stderr, flush=True)  # the last line of a crash says where
                try:
                    if leaked := self.leaks(n, last):
                        yield f"{self.name}: without allocation {n}..{last}: {leaked} blocks leaked"
                    self.ready()
                    self.check(self.act())
                except Exception as error:
                    yield f"{self.name}: without allocation {n}..{last}: {type(error).__name__}: {error}"
        print(f"{self.name}: {len(chosen)} of {total} allocations", flush=True)


def compiled_by(found: Captured, own: bool, **more: Any) -> Any:
    """own: products are dlc's own, and what is made of the weights is kept."""
    options: dict[str, Any] = {"tier": "tcc", "cache": "", "direct": True, **more}
    if own:
        first = found.calls[0]
        options["products"] = "own"
        options["frozen"] = [k for k, given in enumerate(first) if isinstance(given, torch.nn.Parameter)]
    return _C.compile(found.graph, found.graph.forward, **options)


def name_of(what: str, own: bool, python: bool) -> str:
    return what + ", own products" * own + ", Python" * python


def compile_run(found: Captured, own: bool, python: bool, pieces: bool = False) -> Run:
    want, calls = block_of(found, 0), compiled_by(found, own).calls
    assert calls == 0 or not own, "an operator that is not dlc's own"

    def act() -> Any:
        return compiled_by(found, own)

    def check(made: Any) -> None:
        if made.calls != calls:
            raise Failed(f"{made.calls} operators are eager's instead of {calls}")
        torch.testing.assert_close(made(*found.calls[0])[0], want)

    return Run(name_of("compile", own, python) + ", pieces" * pieces, act, check, python, pieces=pieces)


def block_of(found: Captured, k: int) -> torch.Tensor:
    return found.graph(*found.calls[k])[0]


def call_run(found: Captured, own: bool, python: bool) -> Run:
    """Calls with sizes that the plan has not seen lately, with nothing in the pools and nothing kept."""
    compiled = compiled_by(found, own)
    for call in found.calls:  # what is kept of sizes has grown
        compiled(*call)
    if own:
        assert _C.prepared_bytes() > 0, "nothing is made of the weights alone"
    wants = [block_of(found, k) for k in range(len(found.calls))]
    state = {"k": 0}

    def act() -> Any:
        state["k"] = (state["k"] + 1) % len(found.calls)
        _C.release()
        _C.thaw(None)
        return compiled(*found.calls[state["k"]])[0]

    def check(made: Any) -> None:
        torch.testing.assert_close(made, wants[state["k"]])

    return Run(name_of("call", own, python), act, check, python)


def tuned_run(found: Captured) -> Run:
    """The first call that looks for schedules: there is no time for any."""
    want, compiled = block_of(found, 0), list[Any]([None])
    folder = tempfile.TemporaryDirectory()

    def ready() -> None:
        compiled[0] = compiled_by(found, False, tier="gcc", cache=folder.name, tune=lambda *told: None)

    def act() -> Any:
        return compiled[0](*found.calls[0])[0]

    def check(made: Any) -> None:
        torch.testing.assert_close(made, want)

    return Run("tuned call", act, check, ready=ready)


def whole_run() -> Run:
    """torch.compile itself: what dlc cannot compile runs eagerly, after a warning that says why."""
    w = weights()
    x = torch.randn(2, 5, WIDTH)
    (want,) = torch.autograd.grad(block(x, *w).sum(), w[2])

    def act() -> Any:
        torch._dynamo.reset()
        compiled = torch.compile(block, backend="dlc", options={"tier": "tcc"})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = torch.autograd.grad(compiled(x, *w).sum(), w[2])[0]
        for warning in caught:
            if "runs a graph eagerly: ." in str(warning.message):
                raise Failed(f"a warning without a reason: {warning.message}")
        return made

    def check(made: Any) -> None:
        torch.testing.assert_close(made, want)

    return Run("whole", act, check)


RUNS: dict[str, Callable[[Captured], Run]] = {
    "compile": lambda found: compile_run(found, False, False),
    "call": lambda found: call_run(found, False, False),
    "compile-own": lambda found: compile_run(found, True, False),
    "compile-own-pieces": lambda found: compile_run(found, True, False, pieces=True),
    "call-own": lambda found: call_run(found, True, False),
    "tuned": tuned_run,
    "compile-python": lambda found: compile_run(found, False, True),
    "call-python": lambda found: call_run(found, False, True),
    "call-own-python": lambda found: call_run(found, True, True),
    "whole": lambda found: whole_run(),
}


#: Not without being asked: pieces are many; and torch ends the process where there is no memory for the
#: Python object of a tensor (THPVariable_Wrap throws an exception of C++, which has no way through C).
ASKED = ("compile-own-pieces", "call-python", "call-own-python")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shard", type=Shard.parse)
    parser.add_argument("--only", action="append")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--last", type=int, default=ALL)
    asked = parser.parse_args()
    lengths = list(range(3, 21))
    found = {own: capture(own_block if own else block, lengths) for own in (False, True)}
    gc.collect()
    gc.freeze()  # what torch has made: collections are for what the runs make
    failures = 0
    chosen = asked.only or [name for name in RUNS if name not in ASKED]
    for name, _, part in (one.partition(":") for one in chosen):
        with torch.set_grad_enabled(name == "whole"):
            run = RUNS[name](found["own" in name])
            shard = Shard.parse(part) if part else asked.shard
            for line in run.every(shard, asked.first, asked.last):
                print(line, flush=True)
                failures += 1
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
