"""What dlc.explain takes, what it leaves behind, and `python -m dlc explain`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dlc

from ..backend.test_command_line import command

X = torch.ones(4)


def twice(x: Tensor) -> Tensor:
    return x.sin() * 2


class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return twice(x)

    @torch.compile(backend="eager")
    def decorated(self, x: Tensor) -> Tensor:
        return twice(x)


def compiled_in_place() -> nn.Module:
    model = Model()
    model.compile(backend="eager")
    return model


COMPILED: dict[str, Callable[[], Any]] = {
    "a function": lambda: torch.compile(twice, backend="eager"),
    "a module": lambda: torch.compile(Model(), backend="eager"),
    "a module in place": compiled_in_place,
    "a module in place, again": lambda: torch.compile(compiled_in_place(), backend="eager"),
    "a bound method": lambda: torch.compile(Model().forward, backend="eager"),
    "a method's function": lambda: Model().decorated,
}


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("name", COMPILED)
def test_what_another_backend_has_compiled_is_explained_itself(name: str) -> None:
    compiled = COMPILED[name]()
    compiled(X)
    assert ": 1 kernel, 0 calls; " in str(dlc.explain(compiled, X))


@pytest.mark.parametrize("bound", [False, True])
def test_a_function_of_dlc_jit_is_refused(bound: bool) -> None:
    @dlc.jit(constants=True)
    def fn(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    with pytest.raises(TypeError, match=r"fn\(\) is of dlc\.jit, .* without Dynamo .*fn\.__wrapped__"):
        dlc.explain(fn.__get__(X) if bound else fn, X, X)
    assert "1 kernel" in str(dlc.explain(fn.__wrapped__, X, X))


def test_all_compiled_code_is_forgotten_and_the_run_is_real(compiles: Callable[[], int]) -> None:
    torch._dynamo.reset()
    other = torch.compile(twice, backend="dlc")
    other(X)
    x = torch.ones(4)
    dlc.explain(lambda x: x.add_(1), x)
    assert x.tolist() == [2] * 4
    before = compiles()
    other(X)
    assert compiles() == before + 1


@pytest.mark.in_turn(4)
@pytest.mark.parametrize(
    ("end", "status", "said"),
    [("raise KeyError('lost')", 1, "KeyError: 'lost'"), ("raise SystemExit(7)", 7, "")],
)
def test_a_script_that_does_not_end_well_is_reported(
    tmp_path: Path, end: str, status: int, said: str
) -> None:
    """It imports what lies beside it, as `python script.py` does."""
    (tmp_path / "beside.py").write_text("def fn(x):\n    return x.sin() * 2\n")
    script = tmp_path / "script.py"
    script.write_text(
        f"import torch, beside\ntorch.compile(beside.fn, backend='dlc')(torch.ones(4))\n{end}\n"
    )
    done = command("explain", str(script))
    assert done.returncode == status, done.stderr
    assert "direct graph of fn (beside.py:1): 1 kernel" in done.stdout and said in done.stderr
