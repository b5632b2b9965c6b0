"""dlc.jit did not notice that these had changed, and went on with the values it was compiled with."""

import types
from typing import Any

import pytest
import torch
from torch import Tensor

import dlc

X = torch.arange(3.0)


def scaled(x: Tensor, scale: float = 2.0, *, shift: float = 1.0) -> Tensor:
    return x * scale + shift


def collecting(x: Tensor, seen: list[float] = [2.0]) -> Tensor:  # noqa: B006
    return x * seen[0]


def raises_after(function: Any, change: Any, name: str) -> None:
    fast = dlc.jit(function, tier="tcc")
    assert torch.equal(fast(X), function(X))
    change()
    with pytest.raises(RuntimeError, match=rf"reads '{name}', which has another value"):
        fast(X)


def test_an_attribute_of_a_function() -> None:
    def function(x: Tensor) -> Tensor:
        return x * function.scale  # type: ignore[attr-defined]

    function.scale = 2.0  # type: ignore[attr-defined]
    raises_after(function, lambda: setattr(function, "scale", 3.0), "scale")


def test_defaults_of_a_function_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def change() -> None:
        monkeypatch.setattr(scaled, "__defaults__", (5.0,))

    raises_after(lambda x: scaled(x), change, "__defaults__")
    monkeypatch.undo()
    raises_after(
        lambda x: scaled(x), lambda: monkeypatch.setitem(scaled.__kwdefaults__, "shift", 4.0), "shift"
    )


def test_a_default_that_may_change_unseen() -> None:
    with pytest.raises(TypeError, match=r"reads 'collecting.__defaults__', a list"):
        dlc.jit(lambda x: collecting(x))(X)


def test_the_last_of_many_names() -> None:
    """An instruction that names it has a prefix."""
    config = types.ModuleType("config")
    vars(config).update({f"n{k}": 1.0 for k in range(300)})
    lines = [f"    v{k} = config.n{k}" for k in range(300)]
    scope: dict[str, Any] = {"config": config}
    exec("\n".join(["def function(x):", *lines, "    return x * v299"]), scope)
    raises_after(scope["function"], lambda: setattr(config, "n299", 2.0), "n299")


def test_errors_of_other_kinds_are_eager_s() -> None:
    def flat(x: Tensor) -> Tensor:
        return x.view(-1)

    with pytest.raises(RuntimeError, match="view size is not compatible"):
        dlc.jit(flat)(torch.ones(4, 6).t())
