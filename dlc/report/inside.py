"""The memory that operators of torch's libraries take and give back inside of their calls.

No plan knows it: oneDNN makes its reordered copies itself. Torch's memory profiler tells of each block that
comes from torch's allocator, in order, with the ranges of the plan's kernels and calls around it. MKL's
buffers come from its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


def _events(call: Callable[[], Any]) -> list[Any]:
    """Of the call, in order, of this thread and others that torch's profiler follows."""
    from torch._C import _autograd
    from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

    if _autograd._profiler_enabled():
        raise RuntimeError("a profiler runs")
    memory = True
    config = ProfilerConfig(ProfilerState.CPU, False, memory, False, False, False, _ExperimentalConfig())
    enable = _autograd._enable_profiler_legacy  # type: ignore[attr-defined]
    disable = _autograd._disable_profiler_legacy  # type: ignore[attr-defined]
    enable(config)  # not before it is known that there is a way back
    try:
        kept = call()
    finally:
        threads = disable()
    del kept
    return [event for thread in threads for event in thread]


def _of_ranges(events: Iterable[Any]) -> Iterator[int]:
    """Of each kernel and call of the plan, in order: the most bytes at once, beside those that are left."""
    depth = begin = live = most = 0
    for event in events:
        kind = event.kind()
        if kind == "push":
            depth += 1
            if not begin and event.name().startswith("dlc::"):
                begin, live, most = depth, 0, 0
        elif kind == "pop":
            if begin == depth:
                yield most - max(live, 0)
                begin = 0
            depth -= 1
        elif kind == "memory_alloc" and begin:
            live += event.cpu_memory_usage()
            most = max(most, live)


def inside(steps: list[dict[str, Any]], call: Callable[[], Any]) -> dict[int, int]:
    """By site of a call: bytes. steps: of the callable's profile; call: runs it once more."""
    run = [step for step in steps if step["kind"] == "call" or (step["kind"] == "launch" and step["extent"])]
    if not any(step["kind"] == "call" for step in run):
        return {}
    found = list(_of_ranges(_events(call)))
    if len(found) != len(run):
        raise RuntimeError(f"{len(found)} ranges of {len(run)} steps")
    return {step["site"]: size for step, size in zip(run, found, strict=True) if step["kind"] == "call"}
