"""The most memory that a call takes, by who counts every block of the heap; and what memory_limit costs.

`python -m benchmarks.memory [MODEL ..]`: for each model of examples/programs, or network of
benchmarks/networks.py, the peak of an evaluation and of a step of training, in MiB beside what is there
before, each peer in a process of its own (frozen: dlc with option freeze). Then dlc's step with a limit of
six tenths of its peak, and how much longer that takes, in turns. `--small`: the small ones; `--networks`:
all networks; `--batch`: of a network.

MKL, which computes eager's and TorchInductor's products, gives its buffers back after each call here, so
that they count; dlc's workspaces are given back before the call and count, too.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from benchmarks.first_call import total
from benchmarks.heap import peak, run
from benchmarks.measure import timed
from benchmarks.networks import ALL
from examples.programs import MODELS

PEERS = ("eager", "inductor", "dlc", "frozen")
MKL = {"MKL_DISABLE_FAST_MM": "1"}
SHARE = 0.6
TURNS = 15
NETWORKS = {network.name: network for network in ALL}


def _compiled(peer: str, model: Any, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    torch._dynamo.reset()
    if peer == "eager":
        return model  # type: ignore[no-any-return]
    if peer == "frozen":
        peer, options = "dlc", {"freeze": True}
    return torch.compile(model, backend=peer, options=options)


def _program(name: str, small: bool, batch: int) -> tuple[Any, Any]:
    if name in NETWORKS:
        return NETWORKS[name].build(small), NETWORKS[name].arguments(batch, small)
    return MODELS[name].build(small), MODELS[name].arguments(small)


def _call(
    name: str, small: bool, train: bool, batch: int = 1
) -> tuple[Any, Callable[[Callable[..., Any]], Any]]:
    model, inputs = _program(name, small, batch)
    weights = list(model.train(train).parameters())

    def call(fn: Callable[..., Any]) -> Any:
        if train:
            return torch.autograd.grad(total(fn(*inputs)), weights, allow_unused=True)
        with torch.no_grad():
            return fn(*inputs)

    return model, call


def _settled(peer: str) -> None:
    if peer in ("dlc", "frozen"):
        import dlc

        dlc.wait()
        dlc.release()


def one(name: str, peer: str, small: bool, batch: int = 1) -> dict[str, float]:
    """In a process that heap.c is preloaded into."""
    found = {}
    for kind in ("evaluate", "train")[: 1 if peer == "frozen" else 2]:
        model, call = _call(name, small, kind == "train", batch)
        fn = _compiled(peer, model)
        for _ in range(3):
            call(fn)
        _settled(peer)
        call(fn)
        _settled(peer)
        found[kind] = peak(lambda call=call, fn=fn: call(fn)) / 2**20  # type: ignore[misc]
    return found


def limited(name: str, small: bool, batch: int = 1) -> dict[str, float]:
    """What dlc predicts for a step, with a limit and without, and how much longer that with one takes."""
    from dlc.report import gather

    model, call = _call(name, small, True, batch)
    peaks, ways = [], []
    options: dict[str, Any] = {}
    for _ in range(2):
        with gather.collect(keep=False) as reports:
            fn = _compiled("dlc", model, options)
            call(fn)
            for report in reports:
                report["profile"] = report["callable"].profile()
            predicted = gather.build(reports, gather.Seen()).step_peak
        assert predicted is not None
        peaks.append(predicted)
        ways.append(options)
        options = {"memory_limit": int(SHARE * predicted)}
    torch._dynamo.reset()
    calls = [torch.compile(model, backend="dlc", options=options) for options in ways]
    for fn in calls:
        call(fn)
    _settled("dlc")
    turns = [[timed(lambda fn=fn: call(fn))[0] for fn in calls] for _ in range(TURNS)]
    times = [median(column) for column in zip(*turns, strict=True)]
    return {"free": peaks[0] / 2**20, "limited": peaks[1] / 2**20, "times": times[1] / times[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--networks", action="store_true", help="all networks of convolutions")
    parser.add_argument("--batch", type=int, default=1, help="of a network")
    parser.add_argument("--peer", help="the process of one peer")
    parser.add_argument("--limit", action="store_true", help="only what a limit costs")
    args = parser.parse_args()
    torch.set_num_threads(2)
    warnings.simplefilter("ignore")
    for name in args.models or (NETWORKS if args.networks else MODELS):
        if args.peer:
            print(json.dumps(one(name, args.peer, args.small, args.batch)))
            continue
        sizes = [f"--batch={args.batch}", *(["--small"] if args.small else [])]
        for peer in () if args.limit else PEERS:
            found = json.loads(run("benchmarks.memory", name, "--peer", peer, *sizes, **MKL).splitlines()[-1])
            shown = ", ".join(f"{kind} {size:.2f} MiB" for kind, size in found.items())
            print(f"{name} {peer}: {shown}", flush=True)
        try:
            cost = limited(name, args.small, args.batch)
        except Exception as error:
            print(f"{name} dlc with a limit: {getattr(error, 'inner_exception', error)}", flush=True)
            continue
        print(
            f"{name} dlc: {cost['free']:.2f} MiB predicted, with a limit {cost['limited']:.2f}, "
            f"in {cost['times']:.2f} times the time",
            flush=True,
        )


if __name__ == "__main__":
    main()
