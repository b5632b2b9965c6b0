"""How much memory a step of training takes: known from the plans of its two graphs, before it runs.

What counts is what the compiled graphs have beside their inputs: workspaces, values that the forward
saves, results, gradients of results (tangents) and of parameters. What an operator of torch's library takes
and gives back inside of its call counts where it was measured (dlc/report/inside.py), but not for a limit.
What the process keeps for coming calls (DLC_POOL) does not count.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import GraphModule

from . import _C

#: What Callable.memory() says of a graph: workspace, peak, left, given.
Taken = dict[str, Any]


def _placeholders(backward: GraphModule) -> list[str]:
    return [node.name for node in backward.graph.find_nodes(op="placeholder")]


def tangents_of(backward: GraphModule) -> list[int]:
    """The positions of the gradients that a backward is called with."""
    return [k for k, name in enumerate(_placeholders(backward)) if name.startswith("tangents")]


def given_up(backward: GraphModule, partition: dict[str, Any]) -> list[int]:
    """The positions of the inputs that nobody but the backward has: saved values and tangents.

    Not the forward's inputs and results, which the caller may have.
    """
    kept = set(partition.get("returned", ()))
    names = enumerate(_placeholders(backward))
    return [k for k, name in names if not name.startswith("primals") and name not in kept]


def step_peak(forward: Taken, backward: Taken, tangents: list[int]) -> int:
    """The most bytes at once in a forward and its backward; the forward's results live as long as it.

    A workspace is kept between calls, and the larger one does for both.
    """
    saved = sum(size for at, size in backward["given"].items() if at not in tangents)
    other = forward["left"] - saved  # results
    tensors = [taken["peak"] - taken["workspace"] for taken in (forward, backward)]
    room = max(forward["workspace"], backward["workspace"])
    return room + max(tensors[0], other + tensors[1])


class MemoryLimitError(RuntimeError):
    """A graph takes more memory than option memory_limit allows."""


_LARGEST = 2.0**20  # factors of sizes that are looked at
_HALVINGS = 12
_UNKNOWN = 1 << 62  # bytes: no tensors have such sizes
_STEPS = 16  # ways of a kind that are tried, at most
#: How a joint graph is cut: a budget, or, above 0, a share, see _C.partition.
Way = tuple[float, float]
_USUAL: Way = (1.0, 0.0)
#: From what takes least memory to what takes least time, as if less that is saved were always less memory.
_BUDGETS: list[Way] = [(step / _STEPS, 0.0) for step in range(_STEPS)]
_SEGMENTS: list[Way] = [(0.0, step / _STEPS) for step in range(1, _STEPS)]
#: What a graph, or a step, takes at its peak for sizes.
Peak = Callable[[dict[str, int]], int]
#: A joint graph's forward and backward.
Halves = tuple[GraphModule, GraphModule]

# -- sizes ---------------------------------------------------------------------------------------------


class Sizes:
    """The size symbols of a graph, and what they are in the arguments that it is compiled for."""

    def __init__(self, *graphs: GraphModule) -> None:
        self.integers: dict[str, Any] = {}  # by name: one that is the symbol itself
        self.hints: dict[str, int] = collections.defaultdict(int)
        self.most: dict[str, int] = {}  # by name: the most that a size may be, if there is such a bound
        for integer in (integer for graph in graphs for integer in _integers(graph)):
            environment = integer.node.shape_env
            for symbol in integer.node.expr.free_symbols:
                if symbol.name not in self.hints:
                    self._see(environment, symbol)

    def _see(self, environment: Any, symbol: Any) -> None:
        hint, bounds = environment.backed_var_to_val.get(symbol), environment.var_to_range.get(symbol)
        if bounds is not None and bounds.upper < _UNKNOWN:
            self.most[symbol.name] = int(bounds.upper)
        if hint is not None:
            self.hints[symbol.name] = int(hint)
            self.integers[symbol.name] = environment.create_symintnode(symbol, hint=int(hint))
        else:  # only a call finds it: the least that it may be, but no tensor without elements
            self.hints[symbol.name] = max(1, int(bounds.lower)) if bounds is not None else 1

    def times(self, factor: float, even: bool = False) -> dict[str, int]:
        """All of them that much larger; even: multiples of the powers of two that they are multiples of."""
        scaled = collections.defaultdict(int)
        for name, hint in self.hints.items():
            step = hint & -hint if even and hint else 1
            scaled[name] = min(int(hint * factor) // step * step, self.most.get(name, _UNKNOWN))
        return scaled

    def guard(self, peak: Peak, limit: int) -> None:
        """Has Dynamo compile anew for sizes for which the peak may pass the limit."""
        if not self.integers:
            return
        more = {name: min(hint + 1, self.most.get(name, _UNKNOWN)) for name, hint in self.hints.items()}
        odd = collections.defaultdict(int, more)
        even = peak(odd) == _UNKNOWN  # a size is known to be a multiple of something
        least, most = 1.0, 2.0
        while most < _LARGEST and peak(self.times(most, even)) <= limit:
            least, most = most, 2 * most
        if most >= _LARGEST:
            return
        for _ in range(_HALVINGS):
            middle = (least + most) / 2
            fits = peak(self.times(middle, even)) <= limit
            least, most = (middle, most) if fits else (least, middle)
        for name, bound in self.times(least, even).items():
            if name in self.integers:
                bool(self.integers[name] <= bound)  # asked for its truth, a relation becomes a guard


def _integers(graph: GraphModule) -> Iterator[Any]:
    for node in graph.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val", node.meta.get("example_value"))
        for size in (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                yield size


# -- limits --------------------------------------------------------------------------------------------


def _too_much(limit: int, least: int) -> MemoryLimitError:
    if least >= _UNKNOWN:
        return _not_known("its tensors have no such sizes")
    return MemoryLimitError(
        f"this graph takes more than the {limit} bytes that dlc option 'memory_limit' allows: the smallest "
        f"limit that can be met for these sizes is {least}"
    )


def _not_known(reason: str) -> MemoryLimitError:
    return MemoryLimitError(
        f"what memory this graph takes is not known: {reason}. Compile it without dlc option 'memory_limit', "
        "or keep that part out of the compiled function with torch.compiler.disable"
    )


def _never(sizes: dict[str, int]) -> int:
    return _UNKNOWN


def _keep(peak: Peak, sizes: Sizes, limit: int) -> None:
    if (least := peak(sizes.hints)) > limit:
        raise _too_much(limit, least)
    sizes.guard(peak, limit)


def check(compiled: _C.Callable, graph: GraphModule, limit: int) -> None:
    """Of a graph without gradients.  Raises MemoryLimitError."""

    def peak(values: dict[str, int]) -> int:
        taken = compiled.memory(values)
        return _UNKNOWN if taken is None else int(taken["peak"])

    _keep(peak, Sizes(graph), limit)


class Fit:
    """Which halves of a joint graph keep a limit: of those that fit, the ones that compute least again.

    probe(graph, given): the graph compiled, to ask what it takes.
    """

    def __init__(self, limit: int, probe: Callable[..., _C.Callable]) -> None:
        self.limit, self.probe = limit, probe

    def peak(self, halves: Halves, about: dict[str, Any]) -> Peak:
        """about: as Partitioner.summary."""
        forward, backward = halves
        made = self.probe(forward, []), self.probe(backward, given_up(backward, about))
        tangents = tangents_of(backward)

        def peak(sizes: dict[str, int]) -> int:
            first, second = (one.memory(sizes) for one in made)
            return _UNKNOWN if first is None or second is None else step_peak(first, second, tangents)

        return peak

    def check(self, halves: Halves, about: dict[str, Any]) -> None:
        """Of halves that nobody can choose.  Raises MemoryLimitError."""
        try:
            peak = self.peak(halves, about)
        except _C.CaptureError as error:
            raise _not_known(str(error)) from error
        _keep(peak, Sizes(*halves), self.limit)

    def way(self, cut: Callable[[Way], tuple[Halves, dict[str, Any]]]) -> Way:
        """cut(way): the halves, and what is known of them.  Raises MemoryLimitError."""
        tried: dict[Way, tuple[int, int]] = {}  # the peak, and what is computed again
        sizes, found, best = Sizes(), _never, None  # of the best that fits: the others are dropped

        def fits(way: Way) -> bool:
            nonlocal sizes, found, best
            if way not in tried:
                try:
                    halves, about = cut(way)
                    peak, its, cost = self.peak(halves, about), Sizes(*halves), int(about["cost"])
                except _C.CaptureError:
                    if way == _USUAL:
                        raise
                    peak, its, cost = _never, sizes, 0  # what is saved instead cannot be passed on
                tried[way] = peak(its.hints), cost
                if tried[way][0] <= self.limit and (best is None or cost < tried[best][1]):
                    sizes, found, best = its, peak, way
            return tried[way][0] <= self.limit

        if not fits(_USUAL):
            for ways in (_SEGMENTS, _BUDGETS):
                low, high = -1, len(ways)
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if fits(ways[middle]) else (low, middle)
            if best is None:
                next(filter(fits, (*reversed(_SEGMENTS), *reversed(_BUDGETS))), None)
        if best is None:
            raise _too_much(self.limit, min(peak for peak, _ in tried.values()))
        sizes.guard(found, self.limit)
        return best
