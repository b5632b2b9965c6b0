"""Steps of training, and what cutting a model's joint graph in two costs and saves: dlc's cut, functorch's.

A step is forward and backward of a model's whole result; no weight changes, so that all steps are alike.
Each peer has a process of its own.
"""

import copy
import functools
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from rich.table import Table
from torch import Tensor, nn
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import optimization_hint
from tqdm import tqdm

from benchmarks import processes
from benchmarks.first_call import total
from benchmarks.measure import seconds, timed
from benchmarks.peers import PEERS, available, backend, ready
from benchmarks.report import Row
from examples.programs import MODELS

Halves = tuple[GraphModule, GraphModule]
ROUNDS = 3  # in which the cutters take turns with one graph
CUT = "functorch"  # the peer that is dlc but for the cut


def saved(backward: GraphModule) -> list[Node]:
    """What the backward takes besides tangents and inputs of the forward."""
    nodes = backward.graph.find_nodes(op="placeholder")
    return [node for node in nodes if not node.name.startswith(("tangents", "primals"))]


def saved_bytes(backward: GraphModule) -> int:
    """Of the tensors; a size that is a name counts as what torch takes it to be."""
    tensors = [node.meta["val"] for node in saved(backward) if isinstance(node.meta["val"], Tensor)]
    return sum(optimization_hint(t.numel(), fallback=4096) * t.element_size() for t in tensors)


class Cuts:
    """A partition_fn: functorch's halves, after both have cut copies of the joint graph in turns.

    figures: by cutter, seconds of the cut and bytes that the forward keeps for the backward.
    """

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, float]] = {}

    def __call__(self, joint: GraphModule, inputs: Any, **how: Any) -> Halves:
        from dlc.partition import Partitioner

        cutters: dict[str, Callable[..., Halves]] = {
            "dlc": Partitioner(),
            "functorch": min_cut_rematerialization_partition,
        }
        times: dict[str, list[float]] = {name: [] for name in cutters}
        for _ in range(ROUNDS):
            for name, cut in cutters.items():
                own = GraphModule(joint, copy.deepcopy(joint.graph))
                spent, halves = timed(functools.partial(cut, own, inputs, **how))
                times[name].append(spent)
                self.figures[name] = {"bytes": saved_bytes(halves[1]), "seconds": median(times[name])}
        return min_cut_rematerialization_partition(joint, inputs, **how)


CUTS = Cuts()  # of the one model that the process compiles


def cut_by_functorch(gm: GraphModule, inputs: list[Any]) -> Any:
    """A backend: dlc, but for the cut of the joint graph."""
    from dlc.backend import compile_aot
    from dlc.options import Options

    return compile_aot(gm, inputs, Options(strict=True), None, CUTS)


PEERS[CUT] = "dlc, cut by functorch", backend(cut_by_functorch)


def step(run: Callable[..., Any], inputs: tuple[Tensor, ...], weights: list[nn.Parameter]) -> Any:
    with torch.enable_grad():
        return torch.autograd.grad(total(run(*inputs)), weights, allow_unused=True)


def model_step(name: str, small: bool, peer: str) -> tuple[list[Callable[[], Any]], dict[str, Any]]:
    """In the process of a peer: its step, and the cuts, if functorch cuts for it."""
    model, inputs = MODELS[name].build(small).train(), MODELS[name].arguments(small)
    through = functools.partial(step, weights=list(model.parameters()))
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of functorch's copies of graphs
        return [ready(peer, model, inputs, through)], CUTS.figures


def row(name: str, peers: list[str], budget: float, small: bool) -> tuple[Row, dict[str, Any]]:
    """A step of each peer, and the cuts of the one that functorch cuts for."""
    makers = {peer: functools.partial(model_step, name, small, peer) for peer in available(peers)}
    (timings,), cuts = processes.interleaved(makers, budget)
    return Row(name, timings), cuts.get(CUT, {})


def run(only: str, peers: list[str], budget: float, small: bool) -> tuple[list[Row], list[dict[str, Any]]]:
    """For each model a step's times, and both cuts."""
    rows, cuts = [], []
    names = [name for name in MODELS if only in name]
    with tqdm(names, disable=None, leave=False) as line:
        for name in line:
            line.set_description(name)
            steps, cut = row(name, peers, budget, small)
            rows.append(steps)
            cuts.append({"case": name} | cut)
    return rows, cuts


def table(cuts: list[dict[str, Any]]) -> Table:
    shown = Table("model", title="the joint graph, cut in two")
    for name in ("dlc keeps", "functorch keeps", "dlc takes", "functorch takes", "times"):
        shown.add_column(name, justify="right")
    for cut in cuts:
        own, other = cut["dlc"], cut["functorch"]
        kept = (f"{c['bytes'] / 2**20:.2f} MiB" for c in (own, other))
        spent = (seconds(c["seconds"]) for c in (own, other))
        shown.add_row(cut["case"], *kept, *spent, f"{other['seconds'] / own['seconds']:.1f}")
    return shown
