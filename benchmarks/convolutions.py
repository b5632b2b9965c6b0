"""Networks of convolutions, in evaluation or a step of training, and how much of the peak dlc reaches."""

import functools
from typing import Any

import torch
import torch._dynamo
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

from benchmarks import products, steady, training
from benchmarks.measure import Timing, interleaved
from benchmarks.networks import ALL, Network
from benchmarks.peers import available, ready
from benchmarks.report import Row


def chosen(only: str) -> list[Network]:
    return [network for network in ALL if only in network.name]


def operations(call: Any) -> int:
    """Multiplications and additions of products and convolutions."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def of_peak(work: int, took: Timing, peak: float) -> float:
    return work / took.median / peak if peak else 0.0


def evaluated(network: Network, batch: int, peers: list[str], budget: float, small: bool, peak: float) -> Row:
    model, inputs = network.build(small), network.arguments(batch, small)
    row = steady.row((network.name, model, inputs), peers, budget)
    work = operations(functools.partial(model, *inputs))
    return Row(row.case, row.timings, share=of_peak(work, row.timings["dlc"], peak))


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
    return Row(network.name, timings, share=of_peak(work, timings["dlc"], peak))


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
