"""Networks of convolutions, in evaluation or a step of training, and how much of the peak dlc reaches."""

import copy
import functools
from collections.abc import Iterable
from typing import Any

import torch
import torch._dynamo
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count
from tqdm import tqdm

import dlc
from benchmarks import products, steady, training
from benchmarks.measure import Timing, interleaved
from benchmarks.networks import ALL, Network
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


def of_peak(work: int, took: Timing, peak: float) -> float:
    return work / took.median / peak if peak else 0.0


def evaluated(network: Network, batch: int, peers: list[str], budget: float, small: bool, peak: float) -> Row:
    model, inputs = network.build(small), network.arguments(batch, small)
    row = steady.row((network.name, model, inputs), peers, budget)
    work = operations(functools.partial(model, *inputs))
    return Row(row.case, row.timings, str(batch), share=of_peak(work, row.timings["dlc"], peak))


def through(run: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    """A step by the weights that `run` has, which are copies where they are channels last."""
    return training.step(run, inputs, list(run.parameters()))


def trained(network: Network, batch: int, peers: list[str], budget: float, small: bool, peak: float) -> Row:
    """A step: forward and backward of the whole result."""
    model, inputs = network.build(small).train(), network.arguments(batch, small)
    torch._dynamo.reset()
    with torch.enable_grad():
        calls = {peer: ready(peer, model, inputs, through) for peer in available(peers)}
        timings = interleaved(calls, budget)
        work = operations(functools.partial(through, model, inputs))
    return Row(network.name, timings, f"{batch}, a step", share=of_peak(work, timings["dlc"], peak))


def resized(network: Network, batch: int, side: int) -> tuple[Tensor, ...]:
    return (torch.randn(batch, network.shape[0], *[side] * (len(network.shape) - 1)),)


def changing(network: Network, batch: int, budget: float, small: bool, sides: Iterable[int]) -> list[Row]:
    """A row for each size: compiled for it alone, and as one of them all.

    Its name says of those after the second size whether something was compiled for them. Dynamo's guards
    may ask for that: torch chooses between libraries by the elements of an image.
    """
    model = network.build(small)
    inputs = {side: resized(network, batch, side) for side in sides}
    torch._dynamo.reset()
    every = torch.compile(model, backend="dlc")
    made = []
    for images in inputs.values():
        before = dlc.counters()["graphs"]
        every(*images)
        made.append(dlc.counters()["graphs"] - before)
    dlc.wait()
    rows = []
    for at, (side, images) in enumerate(inputs.items()):
        again = ", compiled again" if at > 1 and made[at] else ""
        alone = torch.compile(copy.deepcopy(model), backend="dlc", dynamic=False)
        for _ in range(2):
            alone(*images)
            dlc.wait()
        calls = {"dlc": functools.partial(alone, *images), "sizes": functools.partial(every, *images)}
        rows.append(Row(f"{network.name}, {side}{again}", interleaved(calls, budget)))
    return rows


SIDES = (160, 192, 224, 256)


def run_sizes(only: str, budget: float, batch: int = 1, small: bool = False) -> list[Row]:
    """Of the networks that are trained, whose images have sizes that change."""
    networks, sides = [n for n in chosen(only) if n.trained], (32, 48, 64) if small else SIDES
    with tqdm(networks, disable=None, leave=False) as line:
        return [row for network in line for row in changing(network, batch, budget, small, sides)]


def run(
    only: str, peers: list[str], budget: float, batch: int = 1, step: bool = False, small: bool = False
) -> list[Row]:
    """A row for each network; with `step` for those that are trained, by the peers that can be."""
    networks = [network for network in chosen(only) if network.trained or not step]
    if step:
        peers = [peer for peer in peers if peer not in ("frozen", "freezing")]
    peak = 0.0 if small else products.best("drive_peak", 200_000) * torch.get_num_threads()
    one, rows = trained if step else evaluated, []
    with tqdm(networks, disable=None, leave=False) as line:
        for network in line:
            line.set_description(network.name)
            rows.append(one(network, batch, peers, budget, small, peak))
    return rows
