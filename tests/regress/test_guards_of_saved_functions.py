"""A saved function that is called with other arguments: torch dumped GuardDebugInfo."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.aot_compile_types import SerializableCallable

from dlc import guards

ONES = torch.ones


def plain(x: Any, y: Any) -> Any:
    return x * y + 1


def compiled(fn: Any, *args: Any, backend: Any = "dlc") -> Any:
    torch._dynamo.reset()
    return torch.compile(fn, backend=backend, fullgraph=True).aot_compile((args, {}))


def loaded(fn: Any, *args: Any) -> Any:
    made = compiled(fn, *args)
    return torch._dynamo.aot_compile.AOTCompiledFunction.deserialize(made.serialize(made).serialized_data)


CALLS: dict[str, tuple[Any, str]] = {
    "size": (
        ONES(5, 4),
        r"argument 'x' has size 5 along axis 0, and was compiled for 3: call "
        r"torch\._dynamo\.mark_dynamic\(x, 0\) on the example before aot_compile",
    ),
    "dtype": (ONES(3, 4).double(), r"'x' is of float64, and was compiled for float32: pass x\.to\("),
    "rank": (ONES(4), "argument 'x' has 1 axes, and was compiled for 2"),
    "stride": (ONES(4, 3).t(), r"another layout .*stride 1 along axis 0, not 4\): pass x\.contiguous"),
    "gradient": (ONES(3, 4, requires_grad=True), "'x' requires a gradient, unlike the example"),
    "device": (torch.empty(3, 4, device="meta"), "'x' has another dispatch key set than the example"),
    "list": ([1], "'x' is a list, and was a tensor when it was compiled"),
}  # fmt: skip


@pytest.mark.parametrize("make", [compiled, loaded])
def test_arguments_that_are_not_like_the_example(make: Any) -> None:
    saved = make(plain, ONES(3, 4), ONES(3, 4))
    torch.testing.assert_close(saved(ONES(3, 4), ONES(3, 4)), ONES(3, 4) * 2)
    for name, (x, said) in CALLS.items():
        with pytest.raises(RuntimeError, match=said) as caught:
            saved(x, ONES(3, 4))
        assert "GuardDebugInfo" not in str(caught.value) and "L[" not in str(caught.value), name
    with (
        torch.no_grad(),
        pytest.raises(RuntimeError, match="grad_mode is not as it was when it was compiled"),
    ):
        saved(ONES(3, 4), ONES(3, 4))


def test_in_training() -> None:
    x = ONES(3, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match="argument 'x' has size 5 along axis 0, and was compiled for 3"):
        loaded(plain, x, ONES(3, 4))(ONES(5, 4, requires_grad=True), ONES(5, 4))


def test_what_is_said_of_a_size_is_right() -> None:
    x = ONES(3, 4)
    torch._dynamo.mark_dynamic(x, 0)
    saved = loaded(lambda x: x * 2, x)
    torch.testing.assert_close(saved(ONES(7, 4)), ONES(7, 4) * 2)
    with pytest.raises(RuntimeError, match=r"2 <= x\.size\(\)\[0\] does not hold"):
        saved(ONES(1, 4))


def test_a_module(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4)).eval()
    with torch.no_grad():
        made = torch.compile(model, backend="dlc", fullgraph=True).forward.aot_compile(((ONES(3, 4),), {}))
        made.save_compiled_function(str(tmp_path / "m"), external_data={"model": model})
        with open(tmp_path / "m", "rb") as file:
            saved = torch.compiler.load_compiled_function(file, external_data={"model": model})
        with pytest.raises(RuntimeError, match=r"args\[0\] has size 5 along axis 0, .*mark_dynamic"):
            saved(ONES(5, 4))


@pytest.mark.skipif(shutil.which("g++") is None, reason="TorchInductor needs a C++ compiler")
def test_other_backends_say_what_they_did() -> None:
    compiled(plain, ONES(3), ONES(3))  # dlc's is on
    with pytest.raises(RuntimeError, match="GuardDebugInfo"):
        compiled(plain, ONES(3), ONES(3), backend="inductor")(ONES(5), ONES(5))


def test_it_is_said_once_by_an_object_like_torchs() -> None:
    guards.make_readable()
    saved = compiled(plain, ONES(3), ONES(3))
    guards.make_readable()
    again = compiled(plain, ONES(3), ONES(3))
    for function in (saved, again):
        locals_ = function.prepare_f_locals(ONES(5), ONES(5))
        found = function._artifacts.guard_manager.check_verbose(locals_)
        assert found.result is False
        assert "size mismatch at index 0" in found.verbose_code_parts[0]
        assert str(found).startswith("argument 'x' has size 5 along axis 0")


class _Artifact(SerializableCallable):
    def __init__(self, gm: torch.fx.GraphModule) -> None:
        self.gm = gm

    def __call__(self, *args: Any) -> Any:
        return self.gm(*args)

    @classmethod
    def serialize_compile_artifacts(cls, fn: Any) -> bytes:
        return b""

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> Any:
        return lambda: None


def like_dlc(gm: torch.fx.GraphModule, inputs: Any) -> Any:
    return _Artifact(gm)


def test_a_backend_whose_name_has_dlc_in_it() -> None:
    compiled(plain, ONES(3), ONES(3))  # dlc's is on
    with pytest.raises(RuntimeError, match="GuardDebugInfo"):
        compiled(plain, ONES(3), ONES(3), backend=like_dlc)(ONES(5), ONES(5))


def test_the_backend_given_as_a_function() -> None:
    saved = compiled(plain, ONES(3), ONES(3), backend=torch._dynamo.lookup_backend("dlc"))
    with pytest.raises(RuntimeError, match="argument 'x' has size 5"):
        saved(ONES(5), ONES(5))
