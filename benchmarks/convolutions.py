"""Networks of convolutions, in evaluation or a step of training, and how much of the peak dlc reaches.

Each peer has a process of its own, with the same weights and inputs, which come from a seed.
"""

import copy
import functools
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count
from tqdm import tqdm

import dlc
from benchmarks import processes, products, training
from benchmarks.measure import Timing
from benchmarks.networks import ALL, BY_NAME, Network
from benchmarks.peers import available, ready
from benchmarks.report import Row


def chosen(only: str) -> list[Network]:
    return [network for network in ALL if only in network.name]


def gradients(grad: Any, x: Any, weight: Any, *how: Any, **made: Any) -> int:
    """Those of the image and of the weight, as many as are asked for: each takes what the convolution took.

    torch's own formula counts the weight's gradient as if all channels met all, whatever the groups.
    """
    transposed, wanted = how[4], how[7]
    return conv_flop_count(x, weight, grad, transposed) * sum(wanted[:2])


COUNTED_HERE = {torch.ops.aten.convolution_backward: gradients}


def operations(call: Any) -> int:
    """Multiplications and additions of products and convolutions."""
    with FlopCounterMode(display=False, custom_mapping=COUNTED_HERE) as counter:
        call()
    return counter.get_total_flops()


def of_peak(work: int, took: Timing, most: float, meanwhile: Timing) -> float:
    """What part of the operations that the processor can do: `most` of them took `meanwhile`."""
    return (work / took.median) / (most / meanwhile.median)


def through(run: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    """A step by the weights that `run` has, which are copies where they are channels last."""
    return training.step(run, inputs, list(run.parameters()))


def program(name: str, batch: int, step: bool, small: bool) -> tuple[nn.Module, tuple[Tensor, ...]]:
    network = BY_NAME[name]
    return network.build(small).train(step), network.arguments(batch, small)


def network_call(
    name: str, batch: int, step: bool, small: bool, peer: str
) -> tuple[list[Callable[[], Any]], None]:
    """In the process of a peer. A step is forward and backward of the whole result."""
    model, inputs = program(name, batch, step, small)
    return [ready(peer, model, inputs, through if step else None)], None


def row(name: str, batch: int, peers: list[str], budget: float, step: bool, small: bool) -> Row:
    makers: dict[str, processes.Maker] = {
        peer: functools.partial(network_call, name, batch, step, small, peer) for peer in peers
    }
    makers["peak"] = products.multiply_adds
    (timings,), found = processes.interleaved(makers, budget)
    model, inputs = program(name, batch, step, small)
    call = functools.partial(through, model, inputs) if step else functools.partial(model, *inputs)
    meanwhile = timings.pop("peak")
    share = 0.0 if small else of_peak(operations(call), timings["dlc"], found["peak"], meanwhile)
    return Row(name, timings, f"{batch}, a step" if step else str(batch), share=share)


def resized(network: Network, batch: int, side: int) -> tuple[Tensor, ...]:
    shape = batch, network.shape[0], *[side] * (len(network.shape) - 1)
    return (torch.randn(shape, generator=torch.Generator().manual_seed(side)),)


def programs_of_one(
    name: str, batch: int, small: bool, sides: Sequence[int]
) -> tuple[list[Callable[[], Any]], None]:
    """In a process: for each size the program for it alone."""
    model, calls = BY_NAME[name].build(small), list[Callable[[], Any]]()
    for side in sides:
        alone = torch.compile(copy.deepcopy(model), backend="dlc", dynamic=False)
        call = functools.partial(alone, *resized(BY_NAME[name], batch, side))
        for _ in range(2):
            call()
            dlc.wait()
        calls.append(call)
    return calls, None


def program_of_all(
    name: str, batch: int, small: bool, sides: Sequence[int]
) -> tuple[list[Callable[[], Any]], list[bool]]:
    """In a process: the program for all sizes, with each; and whether something was compiled for it."""
    every = torch.compile(BY_NAME[name].build(small), backend="dlc")
    calls = [functools.partial(every, *resized(BY_NAME[name], batch, side)) for side in sides]
    graphs = [dlc.counters()["graphs"]]
    for call in calls:
        call()
        graphs.append(dlc.counters()["graphs"])
    dlc.wait()
    return calls, [before < after for before, after in pairwise(graphs)]


def changing(name: str, batch: int, budget: float, small: bool, sides: Sequence[int]) -> list[Row]:
    """A row for each size: compiled for it alone, and as one of them all.

    Its name says of those after the second size whether something was compiled for them. Dynamo's guards
    may ask for that: torch chooses between libraries by the elements of an image.
    """
    makers: dict[str, processes.Maker] = {
        "dlc": functools.partial(programs_of_one, name, batch, small, sides),
        "sizes": functools.partial(program_of_all, name, batch, small, sides),
    }
    timings, found = processes.interleaved(makers, budget)
    again = [", compiled again" if at > 1 and made else "" for at, made in enumerate(found["sizes"])]
    return [Row(f"{name}, {side}{a}", t) for side, a, t in zip(sides, again, timings, strict=True)]


SIDES = (160, 192, 224, 256)


def run_sizes(only: str, budget: float, batch: int = 1, small: bool = False) -> list[Row]:
    """Of the networks that are trained, whose images have sizes that change."""
    networks, sides = [n for n in chosen(only) if n.trained], (32, 48, 64) if small else SIDES
    with tqdm(networks, disable=None, leave=False) as line:
        return [row for network in line for row in changing(network.name, batch, budget, small, sides)]


def run(
    only: str, peers: list[str], budget: float, batch: int = 1, step: bool = False, small: bool = False
) -> list[Row]:
    """A row for each network; with `step` for those that are trained, by the peers that can be."""
    networks = [network for network in chosen(only) if network.trained or not step]
    if step:
        peers = [peer for peer in peers if peer not in ("frozen", "freezing")]
    rows = []
    with tqdm(networks, disable=None, leave=False) as line:
        for network in line:
            line.set_description(network.name)
            rows.append(row(network.name, batch, available(peers), budget, step, small))
    return rows
