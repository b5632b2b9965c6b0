"""The process that compiles and runs samples, so that a crash costs one sample and not the sweep.

Reads jobs from standard input, writes to the descriptor it was given, one JSON object a line: for a
job {"name", "way", "backend", "shard", "window", "together", "skip", maybe "only"} the number of each
sample it begins, or of the first of those that it runs together, {"sample": i}, and then
{"done": [samples, graphs, eager graphs, failures]}, where a failure is
[sample, reason, the reason that aot_eager fails for too or null].
"""

import gc
import importlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
import torch._dynamo
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.conftest import internal_refusals
from tests.dynamo import leave_guards_untimed
from tests.ops.check import (
    Way,
    as_function,
    as_group,
    difference,
    entries,
    failure,
    group_function,
    samples,
    wrong_refusal,
    wrong_slopes,
)
from tests.ops.modules import module_entries
from tests.ops.optimisers import optimiser_entries
from tests.shards import Shard

AT_ONCE = 32  # samples compiled before Dynamo is reset: each entry's guards slow the next down
CLASSES = 300  # of graphs, that may wait to be collected


def forget() -> None:
    """What was compiled, and torch's cache of shapes: it holds on to the names of sizes and all that was said
    of them, 3 GB and ten million objects after 2,000 entries, and Python's collections take seconds then.

    Each graph is a class of modules, which Python finds to be garbage in its oldest generation alone: after
    2,000 entries 5,000 of them, and torch, which sets an attribute of their base when it traces, waited half
    of the time for each to be told.
    """
    torch._dynamo.reset()
    FakeTensorMode.cache_clear()
    if len(torch.fx.GraphModule.__subclasses__()) > CLASSES:
        gc.collect()


def compiler(function: Callable[..., Any], backend: str, dynamic: bool) -> Callable[..., Any]:
    """`backend` is a name that torch knows, or `module:function`."""
    forget()
    module, _, attribute = backend.partition(":")
    chosen = getattr(importlib.import_module(module), attribute) if attribute else backend
    return torch.compile(function, backend=chosen, dynamic=dynamic)


def numbers_of(job: dict[str, Any], total: int) -> list[int]:
    """The samples of a job but those of `skip`: what its shard has of the cell, or a window of that."""
    cell, shard = (job["name"], Way(**job["way"])), Shard(*job["shard"])
    if "only" in job:
        picked = job["only"]
    elif job["window"]:
        picked = shard.some(total, job["window"], *cell)
    else:
        picked = shard.samples(total, *cell)
    return [i for i in picked if i not in job["skip"]]


def run(entry: Any, job: dict[str, Any], tell: Callable[[Any], None]) -> list[Any]:
    os.environ["DLC_TIER"] = job["way"]["tier"]
    os.environ["DLC_PRODUCTS"] = job["way"]["products"]
    counters.clear()
    return (run_operator if hasattr(entry, "op") else run_other)(entry, job, tell)


def run_operator(op: Any, job: dict[str, Any], tell: Callable[[Any], None]) -> list[Any]:
    """The samples; those that fail run with aot_eager at the end.

    An error that is not eager's is excused only where aot_eager raises the same.
    """
    way = Way(**job["way"])
    turns = [samples(op, each, job["shard"][0]) for each in in_turn(way)]
    listed = turns[-1]
    numbers = numbers_of(job, len(listed))
    alone = numbers
    if job["together"] > 1 and not (way.dynamic or way.errors or way.slopes):
        alone = disagreeing(op, job, numbers, turns, tell)
    before, failures = eager_graphs(job["backend"]), []

    def reason_of(compiled: Callable[..., Any], i: int) -> str | None:
        reasons = (attempt(op, compiled, turn[i], way) for turn in settling(turns, way))
        return next((r for r in reasons if r is not None), None)

    for at, i in enumerate(alone):
        if way.errors or at % AT_ONCE == 0:  # what Dynamo saw before is part of its own errors' text
            compiled = compiler(as_function(op), job["backend"], way.dynamic)
        tell({"sample": i})
        reason = reason_of(compiled, i)
        if reason is not None:
            failures.append([i, reason, None])
    graphs, eager = counters["stats"]["unique_graphs"], eager_graphs(job["backend"]) - before
    for known in failures:
        peer = compiler(as_function(op), "aot_eager", way.dynamic)
        known[2] = reason_of(peer, known[0])  # it has seen the same layouts before
        known[2] = None if way.errors and known[2] != known[1] else known[2]
    forget()
    return [len(numbers), graphs, eager, failures]


def run_other(entry: Any, job: dict[str, Any], tell: Callable[[Any], None]) -> list[Any]:
    """Samples of modules and optimisers: none sees what Dynamo learned of another.

    What fails with aot_eager in the same words is not this compiler's doing.
    """
    way = Way(**job["way"])

    def reason(i: int, backend: str) -> str | None:
        return entry.failure(listed[i], way, lambda target: compiler(target, backend, way.dynamic))

    listed = entry.samples(way)
    numbers = numbers_of(job, len(listed))
    before, found = eager_graphs(job["backend"]), list[tuple[int, str]]()
    for i in numbers:
        tell({"sample": i})
        if why := reason(i, job["backend"]):
            found.append((i, why))
    graphs, eager = counters["stats"]["unique_graphs"], eager_graphs(job["backend"]) - before
    failures = [[i, why, why if reason(i, "aot_eager") == why else None] for i, why in found]
    forget()
    return [len(numbers), graphs, eager, failures]


def disagreeing(
    op: Any, job: dict[str, Any], numbers: list[int], turns: list[list[Any]], tell: Callable[[Any], None]
) -> list[int]:
    """The samples of the groups in which not all is well. Those of the others have agreed, as one function.

    Most of what a sample costs is Dynamo's work for a function, which samples share so. One that Dynamo
    breaks off would keep it from the others. Sizes that are names Dynamo compares with each other, more
    of them in one function cost more than they do in several.
    """

    def given_up() -> int:
        return eager_graphs(job["backend"]) + counters["graph_break"].total()

    way, size, left = Way(**job["way"]), job["together"], list[int]()
    function = group_function(op)
    for at in range(0, len(numbers), size):
        if at % AT_ONCE < size:
            compiled = compiler(function, job["backend"], way.dynamic)
        group, before = numbers[at : at + size], given_up()
        tell({"sample": group[0]})
        found = (as_group([turn[i] for i in group]) for turn in settling(turns, way))
        # Errors of one sample excuse none of another: where torch's tolerance does not do, each is alone.
        wrong = (difference(op, function, compiled, each, way.gradients, alone=False) for each in found)
        agree = not any(wrong)
        if not agree or given_up() > before:
            left += group
    return left


def in_turn(way: Way) -> list[Way]:
    """The ways that one compiled function meets one after the other: Dynamo does not look at where a storage
    begins, so that what was compiled for tensors that own theirs runs on parts of others.
    """
    return [replace(way, layout="contiguous"), way] if way.layout == "offset" else [way]


def settling(turns: list[Any], way: Way) -> Iterator[Any]:
    """The turns, and of both tiers the last one again when the second's kernels are in place."""
    yield from turns
    if way.tier == "auto":
        import dlc

        dlc.wait()
        yield turns[-1]


def attempt(op: Any, compiled: Callable[..., Any], sample: Any, way: Way) -> str | None:
    """What is wrong with one sample. That a rule of dlc's own refuses its graph is wrong."""
    before = internal_refusals()
    wrong = disagreement(op, compiled, sample, way)
    refused = internal_refusals() - before
    return wrong or (f"rules of dlc's own refused {refused} graphs" if refused else None)


def disagreement(op: Any, compiled: Callable[..., Any], sample: Any, way: Way) -> str | None:
    """What differs from eager in one sample."""
    if way.errors:
        return wrong_refusal(op, compiled, sample)
    if way.slopes:
        return wrong_slopes(op, compiled, sample)
    return failure(op, compiled, sample, way.gradients)


def eager_graphs(backend: str) -> int:
    """How many graphs dlc has given up on since the process began."""
    if backend != "dlc":
        return 0
    import dlc

    return int(dlc.counters()["eager_graphs"])


def main() -> None:
    """Serves jobs until the input ends. Standard output is given to standard error: C prints there."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    leave_guards_untimed()
    gc.freeze()  # what torch consists of stays: looking through it is a sixth of what a sample costs
    gc.set_threshold(50_000, 20, 50)
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1 << 20
    table = {e.full_name: e for e in (*entries(), *module_entries(), *optimiser_entries())}

    def tell(message: Any) -> None:
        out.write(json.dumps(message) + "\n")

    for line in sys.stdin:
        job = json.loads(line)
        tell({"done": run(table[job["name"]], job, tell)})


if __name__ == "__main__":
    main()
