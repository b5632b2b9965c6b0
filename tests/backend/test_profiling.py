"""Profilers know the names of kernels, and a trace says what dlc did."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from tests.fresh import run_file

ROOT = Path(__file__).parents[2]

SCRIPT = """
import os
import torch

@torch.compile(backend="dlc", options={"cache": False, "tier": "tcc"})
def f(x):
    return x.exp().softmax(-1) + 1

f(torch.ones(3, 5))
print(*(line for line in open("/proc/self/maps") if "xp " in line and line.split()[4] == "0"))
print("map", open(f"/tmp/perf-{os.getpid()}.map").read())
os.remove(f"/tmp/perf-{os.getpid()}.map")
"""


def test_kernels_are_ranges_with_shapes() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.softmax(-1) + 1

    compiled = torch.compile(f, backend="dlc")
    x = torch.rand(6, 7)
    compiled(x)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
        compiled(x)
    ranges = [event for event in found.events() if event.name.startswith("dlc::")]
    assert [event.name.partition(":")[0] for event in ranges] == ["dlc"]
    assert "softmax+add (test_profiling.py:" in ranges[0].name
    assert [6, 7] in ranges[0].input_shapes


@pytest.mark.in_turn(3)
def test_a_process_is_traced_and_mapped(tmp_path: Path) -> None:
    trace, script = tmp_path / "trace.json", tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = run_file(script, DLC_TRACE=str(trace), DLC_PERF="1", PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    spaces, _, mapped = done.stdout.partition("map ")
    code = [[int(end, 16) for end in line.split()[0].split("-")] for line in spaces.split("\n") if line]
    rows = [line.split() for line in mapped.splitlines() if line]
    assert rows
    ends = []
    for address, size, name in rows:
        begin, end = int(address, 16), int(address, 16) + int(size, 16)
        assert name.startswith("dlc::k_") and begin < end
        assert any(low <= begin and end <= high for low, high in code), "it is no machine code without a file"
        assert all(end <= low or high <= begin for low, high in ends), "two kernels overlap"
        ends.append((begin, end))
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["cat"] for event in events} == {"capture", "pass", "compile", "kernel", "call"}
    assert any("exp+softmax+add (script.py:7)" in event["name"] for event in events)
    assert all(event["dur"] >= 0 for event in events)


STOPS_IN_A_KERNEL = """
import os, sys, threading, torch, dlc

def f(x, y):
    return (x.exp() / 3).cumsum(-1) + y  # the kernel

g = torch.compile(f, backend="dlc", options={"tier": "gcc", "strict": True})
x = torch.rand(500, 4000)
g(x, x)
dlc.wait()
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
print("ready", flush=True)
while True:
    g(x, x)
"""


@pytest.mark.in_turn(3)
@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is not installed")
def test_gdb_says_the_users_line(tmp_path: Path) -> None:
    script = tmp_path / "looping.py"
    script.write_text(STOPS_IN_A_KERNEL)
    env = os.environ | {"DLC_GDB": "1", "DLC_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    env |= {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as run:
        assert run.stdin and run.stdout and run.stdout.readline() == "ready\n"
        # of all libraries, only those of the kernels are read: torch's take gdb seconds
        before = ["-iex", "set auto-load off", "-iex", "set auto-solib-add off"]
        then = ["-ex", "sharedlibrary cache/", "-ex", "backtrace 3", "-ex", "detach"]
        for _ in range(4):  # a call is in its kernel nearly always
            command = ["gdb", "-nx", "-batch", *before, "-p", str(run.pid), *then]
            found = subprocess.run(command, capture_output=True, text=True)
            if "ptrace" in found.stderr and "not permitted" in found.stderr:
                run.kill()
                pytest.skip("gdb may not attach here")
            if " k_" in found.stdout:
                break
        run.stdin.close()
    line = STOPS_IN_A_KERNEL.splitlines().index("    return (x.exp() / 3).cumsum(-1) + y  # the kernel") + 1
    assert re.search(rf"#\d .*\bk_\w+ \(.*at \S*looping\.py:{line}", found.stdout), (
        found.stdout + found.stderr
    )
