"""Memory of large results is used again, and nobody can tell by what a result holds or becomes."""

from __future__ import annotations

import os
import pickle
import resource
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import pytest
import torch
from torch import Tensor

import dlc
from tests.fresh import run

N = 1 << 19  # floats: 2 MiB, which is large


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Tensor, float], Tensor]]:
    """x + y, compiled, with nothing kept from other tests."""
    monkeypatch.delenv("DLC_POOL", raising=False)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: x + y, backend="dlc", options={"tier": "tcc"}, dynamic=True)
    yield compiled
    dlc.release()


def zeros(n: int = N) -> Tensor:
    return torch.zeros(n)


def holds(x: Tensor, value: float) -> bool:
    return bool((x == value).all())


def test_used_again_when_it_is_dropped(add: Callable[..., Tensor]) -> None:
    first = add(zeros(), 1.0)
    at = first.data_ptr()
    second = add(zeros(), 2.0)
    assert second.data_ptr() != at
    assert holds(first, 1)
    del first
    assert add(zeros(), 3.0).data_ptr() == at
    assert holds(second, 2)


@pytest.mark.parametrize(
    "keep",
    [
        lambda y: y[5:100:3],
        lambda y: y.numpy(),
        lambda y: y.detach(),
        lambda y: memoryview(y.numpy()),
        lambda y: y.view(torch.int32),
        lambda y: torch.from_dlpack(y),
        lambda y: torch._lazy_clone(y),
        lambda y: y.untyped_storage(),
    ],
    ids=["slice", "numpy", "detach", "memoryview", "dtype", "dlpack", "lazy clone", "storage"],
)
def test_not_used_again_while_it_is_seen(
    keep: Callable[[Tensor], Iterable[float]], add: Callable[..., Tensor]
) -> None:
    kept = keep(add(zeros(), 1.0))
    want = [float(v) for v in islice(kept, 16)]
    for value in (2.0, 3.0, 4.0):
        add(zeros(), value)
    assert [float(v) for v in islice(kept, 16)] == want


def test_resized(add: Callable[..., Tensor]) -> None:
    y = add(zeros(), 1.0)
    y.resize_(2 * N)
    y.fill_(5)
    assert y.untyped_storage().nbytes() == 8 * N
    assert holds(add(zeros(), 2.0), 2)
    assert holds(y, 5)


def test_storage_resized(add: Callable[..., Tensor]) -> None:
    y = add(zeros(), 1.0)
    y.untyped_storage().resize_(0)
    del y
    assert holds(add(zeros(), 2.0), 2)
    y = add(zeros(), 3.0)
    y.untyped_storage().resize_(16 * N)
    assert holds(add(zeros(), 4.0), 4)
    assert holds(y, 3)


def test_grown_storage_is_not_kept(add: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """A dropped result that was made larger than the bound goes when the next one is wanted."""
    monkeypatch.setenv("DLC_POOL", "16M")
    add(zeros(), 1.0)
    before = resident()
    y = add(zeros(), 1.0)
    y.resize_(32 * N).fill_(1)
    del y
    add(zeros(3 * N), 1.0)
    assert resident() - before < 24 << 20


def test_given_as_out(add: Callable[..., Tensor]) -> None:
    y = add(zeros(), 1.0)
    torch.add(torch.ones(3 * N), 1, out=y.resize_(0))
    assert holds(add(zeros(), 4.0), 4)
    assert y.shape == (3 * N,)
    assert holds(y, 2)


def test_shared_between_processes(add: Callable[..., Tensor]) -> None:
    y = add(zeros(), 1.0).share_memory_()
    assert y.is_shared()
    alias = y[:]
    del y
    z = add(zeros(), 2.0)
    assert not z.is_shared()
    assert holds(alias, 1)


def test_pickled(add: Callable[..., Tensor]) -> None:
    want = pickle.dumps(zeros() + 1.0)
    add(zeros(), 3.0)
    y = add(zeros(), 1.0)
    text = pickle.dumps(y)
    assert len(text) == len(want)
    del y
    add(zeros(), 2.0)
    assert holds(pickle.loads(text), 1)


def test_changed_in_place(add: Callable[..., Tensor]) -> None:
    y = add(zeros(), 1.0)
    assert y._version == 0
    y.add_(4)
    z = add(zeros(), 2.0)
    assert (y._version, z._version) == (1, 0)
    assert holds(y, 5)
    assert holds(z, 2)


def test_inference_mode(add: Callable[..., Tensor]) -> None:
    with torch.inference_mode():
        assert add(zeros(), 1.0).is_inference()
    y = add(zeros(), 2.0)
    assert not y.is_inference()
    y.requires_grad_()
    del y
    assert not add(zeros(), 2.0).requires_grad
    with torch.inference_mode():
        assert add(zeros(), 1.0).is_inference()


def test_saved_for_backward() -> None:
    """Two forwards, then two backwards: what the first saved is not the second's."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x.exp() * x.sin()).tanh(), backend="dlc", options={"tier": "tcc"})
    inputs = [torch.randn(N, requires_grad=True) for _ in range(3)]
    results = [compiled(x) for x in inputs]
    grads = [torch.autograd.grad(y.sum(), x)[0] for x, y in zip(inputs, results, strict=True)]
    results = [compiled(x) for x in inputs]
    for x, g, y in zip(inputs, grads, results, strict=True):
        assert torch.equal(torch.autograd.grad(y.sum(), x)[0], g)
        want = torch.autograd.grad((x.exp() * x.sin()).tanh().sum(), x)[0]
        torch.testing.assert_close(g, want)


def test_threads_make_and_drop(add: Callable[..., Tensor]) -> None:
    """Results go from thread to thread and are dropped anywhere."""
    add(zeros(), 0.0)
    lists: list[list[tuple[Tensor, float]]] = [[] for _ in range(4)]
    wrong: list[float] = []

    def work(me: int) -> None:
        with torch.no_grad():
            for k in range(20):
                value = float(100 * me + k)
                lists[(me + 1) % 4].append((add(zeros(), value), value))
                while lists[me]:
                    y, want = lists[me].pop()
                    if not holds(y, want):
                        wrong.append(want)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_forked(add: Callable[..., Tensor]) -> None:
    y = add(zeros(), 1.0)
    add(zeros(), 7.0)
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # eager's threads are the parent's
        right = all(holds(add(zeros(), v), v) for v in (2.0, 3.0)) and holds(y, 1)
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert holds(y, 1)
    assert holds(add(zeros(), 4.0), 4)


SCRIPT = """
import atexit, threading, torch
f = torch.compile(lambda x: x + 1, backend="dlc", options={"tier": "tcc"})
kept = [f(torch.zeros(1 << 19)) for _ in range(3)]
atexit.register(lambda: print(float(f(torch.zeros(1 << 19))[0]), float(kept[0][0])))
threading.Thread(target=lambda: kept.append(f(torch.zeros(1 << 19)))).start()
"""


@pytest.mark.in_turn(3)
def test_interpreter_ends() -> None:
    done = run(SCRIPT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1.0 1.0\n", "")


def test_bound(add: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is dropped stays resident up to the bound, and release() gives that back."""
    large = [N * k for k in range(16, 22)]  # 32 MiB and more
    inputs = {n: torch.zeros(n) for n in large}
    add(inputs[large[0]], 1.0)
    dlc.release()
    monkeypatch.setenv("DLC_POOL", "80M")
    before = resident()
    for n in large:
        add(inputs[n], 1.0)
    after = resident()
    assert 30 << 20 < after - before < 90 << 20
    dlc.release()
    assert resident() - before < 8 << 20
    monkeypatch.setenv("DLC_POOL", "0")
    for n in large:
        add(inputs[n], 1.0)
    assert resident() - before < 8 << 20


def test_saved_values_are_not_kept_while_the_library_takes_memory() -> None:
    """What a backward has read goes before its convolution, which is called with as much."""
    torch._dynamo.reset()
    x, weight = torch.randn(1, 8, 2048, 1024), torch.randn(8, 8, 1, 1, requires_grad=True)
    options = {"tier": "tcc", "strict": True, "products": "library"}
    run = torch.compile(lambda x, w: torch.conv2d(x, w).exp().sum(), backend="dlc", options=options)
    step = lambda: torch.autograd.grad(run(x, weight * 0.1), weight)  # noqa: E731
    step()
    dlc.release()
    before = resident()
    step()
    assert resident() - before < 96 << 20  # the gradient of 64 MiB is kept, the exponential is not
    dlc.release()
