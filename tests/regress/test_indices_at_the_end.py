"""Indices that are the last words of their memory: what looks ahead in them stays inside."""

import mmap
import sys

import pytest

from tests.fresh import run

SCRIPT = """
import ctypes, sys, torch
torch.manual_seed(0)
page = {page}
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
bag = 8
def bags(at, table):
    return torch.nn.functional.embedding(at, table).sum(-2)
def at_the_end(rows):
    used = rows * bag * 8
    size = -(-used // page) * page
    start = libc.mmap(None, size + page, 3, 0x22, -1, 0)
    assert libc.mprotect(start + size, page, 0) == 0
    words = (ctypes.c_int64 * (rows * bag)).from_address(start + size - used)
    at = torch.frombuffer(words, dtype=torch.int64).view(rows, bag)
    return at.copy_(torch.randint(1024, (rows, bag)))
for rows, width in ((1024, 128), (37, 1024)):
    for which in ("at", "at.expand(4, *at.shape)", "at.t()", "at.flip(0)"):
        print(rows, which, flush=True)
        torch._dynamo.reset()
        table = torch.randint(-9, 9, (20000, width)).float()
        at = eval(which, dict(at=at_the_end(rows)))
        run = torch.compile(bags, backend="dlc", options=dict(tier="{tier}", strict=True, cache=False))
        torch.testing.assert_close(run(at, table), bags(at, table))
"""


@pytest.mark.in_turn(2)
@pytest.mark.skipif(sys.platform != "linux", reason="Linux's numbers for mmap")
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_bags(tier: str) -> None:
    text = SCRIPT.format(page=mmap.PAGESIZE, tier=tier)
    done = run(text)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 8
