"""What torch may ask of the operators that dlc registers: each is right, or refused by name.

The operators are found, not listed: a new one fails until it has a row of arguments here.
"""

import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

import dlc

TEXT = "y[i] = x[i]*x[i]*x[i]"
SORTED = '["sort", [["array", 0]], {}, [["<f8", 1]]]'
TEN = torch.arange(1.0, 4.0, dtype=torch.float64)
#: The operator as a function of one tensor, and the same in torch.
OPERATORS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "dlc::kernel": (lambda x: torch.ops.dlc.kernel(TEXT, [x])[0], lambda x: x * x * x),
    "dlc::numpy": (lambda x: torch.ops.dlc.numpy(SORTED, [x], [x.shape[0]])[0], lambda x: torch.sort(x)[0]),
}

#: What a refusal names.
NAMED = {"dlc::kernel": TEXT, "dlc::numpy": "np.sort is a call of NumPy"}
#: What is never refused: of the operator of texts nothing that has a derivative is.
ALWAYS = ("fake", "functionalize")


def scalar(fn: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: fn(x).sum()


def penalty(fn: Callable[[Tensor], Tensor]) -> Tensor:
    x = TEN.clone().requires_grad_()
    (grad,) = torch.autograd.grad(fn(x).sum(), x, create_graph=True)
    return torch.autograd.grad(grad.square().sum(), x)[0]


def gradient(fn: Callable[[Tensor], Tensor]) -> Tensor:
    x = TEN.clone().requires_grad_()
    return torch.autograd.grad(fn(x).sum(), x)[0]


def tangent(fn: Callable[[Tensor], Tensor]) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(fn(forward_ad.make_dual(TEN.clone(), torch.ones_like(TEN)))).tangent


def shape(fn: Callable[[Tensor], Tensor]) -> Tensor:
    """Of a fake tensor: as zeros of its type."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        made = fn(mode.from_tensor(TEN))
    return torch.zeros(made.shape, dtype=made.dtype)


ASKED: dict[str, Callable[[Callable[[Tensor], Tensor]], Any]] = {
    "gradient": gradient,
    "gradient, recorded": penalty,
    "Hessian": lambda fn: torch.autograd.functional.hessian(scalar(fn), TEN),
    "func.grad": lambda fn: torch.func.grad(scalar(fn))(TEN),
    "func.grad twice": lambda fn: torch.func.grad(scalar(torch.func.grad(scalar(fn))))(TEN),
    "func.jvp": lambda fn: torch.func.jvp(fn, (TEN,), (torch.ones_like(TEN),))[1],
    "func.jacrev": lambda fn: torch.func.jacrev(fn)(TEN),
    "func.jacfwd": lambda fn: torch.func.jacfwd(fn)(TEN),
    "func.hessian": lambda fn: torch.func.hessian(scalar(fn))(TEN),
    "forward mode": tangent,
    "vmap": lambda fn: torch.func.vmap(fn)(torch.stack([TEN, TEN + 1])),
    "functionalize": lambda fn: torch.func.functionalize(fn)(TEN),
    "fake": shape,
}


def registered() -> Iterator[str]:
    return (name for name in torch._C._dispatch_get_all_op_names() if name.startswith("dlc::"))


def modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages(dlc.__path__, "dlc."):
        if found.name != "dlc.__main__" and not found.name.startswith("dlc.libdlctcc"):
            yield importlib.import_module(found.name)


def test_every_operator_has_a_row() -> None:
    for _ in modules():
        pass
    assert {name.partition(".")[0] for name in registered()} == set(OPERATORS)


def test_nothing_else_is_registered_elsewhere() -> None:
    """No operator in C++, and no gradient beside the operators': those would not be found above."""
    root = Path(dlc.__file__).parent
    python = [file for file in root.rglob("*.py") if file.name not in ("notation.py", "host.py")]
    native = [*(root.parent / "csrc").rglob("*.[ch]"), *(root.parent / "csrc").rglob("*.cpp")]
    words = ("Function)", "custom_op(", "register_autograd(", ".Library(", "TORCH_LIBRARY")
    for file in python + native:
        text = file.read_text(encoding="utf-8")
        found = [
            word for word in words if word in text and (word != "Function)" or "(torch.autograd." in text)
        ]
        assert not found, f"{file} has {found}"


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_asked_is_right_or_refused(name: str, asked: str) -> None:
    """Second derivatives and tangents were zeros."""
    ours, torchs = OPERATORS[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            got = ASKED[asked](ours)
    except NotImplementedError as error:
        assert NAMED[name] in str(error) and "write the function with torch" in str(error)
        assert asked not in ALWAYS and name != "dlc::kernel"
        return
    expected = ASKED[asked](torchs)
    assert got is not None
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("asked", ["func.grad twice", "func.jvp", "func.jacfwd", "vmap"])
def test_compiled_as_well(asked: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    kernel = dlc.kernel(TEXT)
    fn = {
        "func.grad twice": lambda x: torch.func.grad(scalar(torch.func.grad(scalar(kernel))))(x),
        "func.jvp": lambda x: torch.func.jvp(kernel, (x,), (torch.ones_like(x),))[1],
        "func.jacfwd": lambda x: torch.func.jacfwd(kernel)(x),
        "vmap": lambda x: torch.func.vmap(kernel)(x[None]),
    }[asked]
    compiled = torch.compile(fn, backend="dlc", dynamic=dynamic)
    torch.testing.assert_close(compiled(TEN), fn(TEN))
