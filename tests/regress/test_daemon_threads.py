"""A daemon thread comes out of a kernel when the interpreter is gone: the process ends as it should.

A daemon thread that compiles or calls may abort the process then ("terminate called without an active
exception"), with any backend or none: Python before 3.14 ends a thread that wants the lock of an interpreter
that is gone by unwinding its stack, and torch's destructor of a tensor, which wants it, lets nothing through.
What is here leaves no tensor to be freed. The interpreter ends only when the thread is in a kernel: it
uses time of the processor while the main thread keeps Python's lock.
"""

from pathlib import Path

import pytest

from tests.fresh import run

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys, threading, time, torch, dlc

class Teardown:
    def __del__(self, sleep=time.sleep):
        sleep(1)          # the interpreter has said that it ends, and gives its lock away

teardown = Teardown()
torch.set_num_threads(1)

def f(x):
    for _ in range(40):
        x = (x.sin() + 1.5).exp().log1p()
    return x

backward = sys.argv[1] == "backward"
compiled = dlc.jit(f) if sys.argv[1] == "jit" else torch.compile(f, backend="dlc", options={"tier": "tcc"})
x = torch.rand(1_000_000, requires_grad=backward)
inside = threading.Event()

def call():
    if backward:
        out = compiled(x)
        inside.set()
        out.backward(x.detach())
    else:
        inside.set()
        compiled(x)
    print("came out")

compiled(x).sum()
if backward:
    compiled(x).backward(x.detach())

def runs_without_the_lock(thread):
    clock = time.pthread_getcpuclockid(thread.ident)
    used, until = time.clock_gettime(clock), time.monotonic() + 0.03
    while time.monotonic() < until:
        pass                      # none of these calls gives the lock away
    return time.clock_gettime(clock) - used > 0.01

sys.setswitchinterval(1000)       # nor does the interpreter
thread = threading.Thread(target=call, daemon=True)
thread.start()
inside.wait()
while thread.is_alive() and not runs_without_the_lock(thread):
    time.sleep(0.001)
"""


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("way", ["jit", "backward"])
def test_a_kernel_ends_after_the_interpreter(way: str) -> None:
    done = run(PROGRAM, way, where={"folder": ROOT})
    assert done.returncode == 0 and done.stderr == "", done.stderr
