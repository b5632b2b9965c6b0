"""Machine code is made once: for equal layers, for graphs that come later, for processes that come later."""

from __future__ import annotations

import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dlc
from tests.fresh import run

STACK = """
    import torch, dlc
    from torch import nn

    def stack(layers):
        torch.manual_seed(0)
        return nn.Sequential(*(m for _ in range(layers) for m in (
            nn.Linear(24, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 24), nn.Softmax(-1))))

    def compiled(model, x):
        before = dlc.counters()
        with torch.no_grad():
            y = torch.compile(model, backend="dlc")(x)
        dlc.wait()
        return y, {name: value - before[name] for name, value in dlc.counters().items()}

    x = torch.randn(6, 24, generator=torch.Generator().manual_seed(1))
"""


def test_equal_layers_are_one_set_of_kernels() -> None:
    done = run(
        STACK
        + """
    y, one = compiled(stack(3), x)
    assert one["kernels"] == 3 * one["swaps"] == 12 and one["gcc_compiles"] == 1, one
    torch.testing.assert_close(y, stack(3)(x))
    y, more = compiled(stack(7), x)
    assert more["kernels"] == 28, more
    assert more["tcc_compiles"] == more["gcc_compiles"] == more["swaps"] == 0, more
    torch.testing.assert_close(y, stack(7)(x))
    """,
        DLC_CACHE_DIR="",
    )
    assert done.returncode == 0, done.stderr


SECOND = (
    STACK
    + """
    y, counts = compiled(stack(4), x)
    print({name: counts[name] for name in ("tcc_compiles", "gcc_compiles", "cache_hits", "swaps")})
    print(y.view(torch.int32).tolist())
    """
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """A cache folder that a first process has filled, its number of kernels, its result."""
    folder = tmp_path_factory.mktemp("filled") / "cache"
    done = run(SECOND, DLC_CACHE_DIR=str(folder))
    assert done.returncode == 0 and "'gcc_compiles': 1" in done.stdout, done.stderr + done.stdout
    counts, result = done.stdout.splitlines()
    return folder, int(re.findall(r"'swaps': (\d+)", counts)[0]), result


@pytest.fixture
def cache(filled: tuple[Path, int, str], tmp_path: Path) -> Path:
    """A copy of the folder."""
    return Path(shutil.copytree(filled[0], tmp_path / "cache"))


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("path", [None, "/nonexistent"], ids=["a compiler", "no compiler"])
def test_a_second_process_finds_the_settled_kernels(filled: tuple[Path, int, str], path: str | None) -> None:
    folder, kernels, result = filled
    done = run(SECOND, DLC_CACHE_DIR=str(folder), **({"PATH": path} if path else {}))
    assert done.returncode == 0, done.stderr
    wanted = f"{{'tcc_compiles': 0, 'gcc_compiles': 0, 'cache_hits': {kernels}, 'swaps': 0}}"
    assert done.stdout.splitlines() == [wanted, result]


@pytest.mark.in_turn(3)
def test_another_compiler_does_not_use_what_the_first_one_made(cache: Path) -> None:
    other = run(SECOND, DLC_CACHE_DIR=str(cache), DLC_CC="cc -O2")
    assert "'gcc_compiles': 1, 'cache_hits': 0" in other.stdout, other.stderr + other.stdout


def test_damaged_entries_are_compiled_again(filled: tuple[Path, int, str], cache: Path) -> None:
    for path in cache.glob("*.so"):
        path.write_bytes(path.read_bytes()[:-99])
    done = run(SECOND, DLC_CACHE_DIR=str(cache))
    assert "'gcc_compiles': 1, 'cache_hits': 0" in done.stdout, done.stderr + done.stdout
    assert done.stdout.splitlines()[1] == filled[2]


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("text", ["", "0" * 64], ids=["empty", "unknown"])
def test_a_note_that_is_untrue_is_a_miss(filled: tuple[Path, int, str], cache: Path, text: str) -> None:
    (note,) = cache.glob("note-*")
    note.write_text(text)
    done = run(SECOND, DLC_CACHE_DIR=str(cache), PATH="/nonexistent")
    assert "'cache_hits': 0" in done.stdout, done.stderr
    assert done.stdout.splitlines()[1] == filled[2]


NEARLY = {
    "constants": [lambda x: (x * 2).sin(), lambda x: (x * 3).sin(), lambda x: (x * -2).sin()],
    "zeros": [lambda x: x * 0.0 + 1, lambda x: x * -0.0 + 1, lambda x: torch.copysign(x, x * 0 - 0.0)],
    "kinds of constants": [lambda x: x + 1, lambda x: x + 1.0, lambda x: x + True],
    "operations": [lambda x: x.sin() - x, lambda x: x.cos() - x, lambda x: x - x.sin()],
    "axes": [lambda x: x.sum(0), lambda x: x.sum(1), lambda x: x.sum()],
    "views": [lambda x: x.t() * 2, lambda x: x * 2, lambda x: x.flip(0) * 2, lambda x: x.flip(1) * 2],
    "slices": [lambda x: x[1:] * 2, lambda x: x[:-1] * 2, lambda x: x[::2] * 2, lambda x: x[:, 1:] * 2],
    "operands": [lambda x: x * x.t(), lambda x: x.t() * x.t(), lambda x: x * x],
    "results": [lambda x: (x + 1, x - 1), lambda x: (x - 1, x + 1), lambda x: (x + 1,)],
}


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("name", NEARLY)
def test_kernels_that_nearly_agree_are_not_mixed_up(name: str) -> None:
    x = torch.randn(8, 8)
    inputs = [x, x.double(), (8 * x).int(), x.t(), x[::2, ::2], torch.randn(6, 6), torch.randn(16, 8)[::2]]
    live = []
    for fn in NEARLY[name]:
        for value in inputs:
            torch._dynamo.reset()
            live.append(torch.compile(fn, backend="dlc", dynamic=False))
            torch.testing.assert_close(live[-1](value), fn(value))


def test_kernels_for_other_ranges_of_sizes_are_not_mixed_up() -> None:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x * 2, y]).softmax(0)

    live = []
    for low, high in ((2, 64), (2, 4096), (32, 4096)):
        torch._dynamo.reset()
        live.append(torch.compile(fn, backend="dlc"))
        for size in (33, 40, 64):
            x, y = torch.randn(size), torch.randn(size)
            torch._dynamo.mark_dynamic(x, 0, min=low, max=high)
            torch.testing.assert_close(live[-1](x, y), fn(x, y))


def test_threads_that_compile_the_same(tmp_path: Path) -> None:
    torch._dynamo.reset()
    x = torch.randn(40, 30)
    want = torch.log_softmax(x.tanh() * 5, -1)
    failures: list[BaseException] = []

    def work(tier: str) -> None:
        try:
            options: dict[str, Any] = {"tier": tier, "cache": str(tmp_path / "cache")}
            f = torch.compile(lambda x: torch.log_softmax(x.tanh() * 5, -1), backend="dlc", options=options)
            torch.testing.assert_close(f(x), want)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(tier,)) for tier in ("auto", "gcc", "tcc") * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    dlc.wait()


def test_a_plan_that_goes_leaves_its_kernels_to_the_others() -> None:
    torch._dynamo.reset()
    x = torch.randn(30)
    first = torch.compile(lambda x: x.exp().sin(), backend="dlc")
    second = torch.compile(lambda x: x.exp().sin(), backend="dlc")
    want = first(x)
    assert torch.equal(second(x), want)
    del first
    torch._dynamo.reset()
    third = torch.compile(nn.Sequential(nn.Identity()), backend="dlc")
    third(x)
    assert torch.equal(second(x), want)
