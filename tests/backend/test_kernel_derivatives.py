"""dlc.kernel: derivatives of any order, forward mode, torch.func and batches, as those of torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

import dlc
from examples.kernels import TORCH
from tests.backend.test_kernel import EXAMPLES, arguments

#: Of the examples, those whose second derivative is not zero everywhere.
CURVED = ["matmul", "attention", "histogram", "bodies", "gaussian", "distance", "convolution"]


pytestmark = pytest.mark.usefixtures("_one_tier")


def small(name: str) -> list[Tensor]:
    """Arguments of a few elements: a check of a Jacobian calls the function twice for each."""
    sizes = tuple(
        tuple(part if isinstance(part, str) or name == "average" else min(part, 4) for part in size)
        for size in EXAMPLES[name]
    )
    sizes = (((3, 7), (2, 3, 3)) if name == "convolution" else ((9, 2), ("i", 4), (4,))) if name in (
        "convolution",
        "histogram",
    ) else sizes  # fmt: skip
    return arguments(sizes)


def real(args: list[Tensor]) -> tuple[int, ...]:
    return tuple(k for k, arg in enumerate(args) if arg.is_floating_point())


def same(mine: Any, others: Any) -> None:
    torch.testing.assert_close(mine, others, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", EXAMPLES)
def test_first_and_second_derivatives_both_ways(name: str, kernels: dict[str, Any]) -> None:
    args = [a.requires_grad_(a.is_floating_point()) for a in small(name)]
    assert torch.autograd.gradcheck(kernels[name], args, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(kernels[name], args)


def twice_back(function: Callable[..., Tensor], argnums: tuple[int, ...]) -> Callable[..., Any]:
    """Hessians by the reverse of the reverse; torch's own are the forward of the reverse."""
    return jacrev(jacrev(function, argnums), argnums)


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        *((hessian, name) for name in CURVED),
        *((twice_back, name) for name in CURVED),
    ],
)
def test_hessians(transform: Callable[..., Any], name: str, kernels: dict[str, Any]) -> None:
    args = small(name)
    mine = transform(lambda *x: kernels[name](*x).sin().sum(), real(args))(*args)
    others = transform(lambda *x: TORCH[name](*x).sin().sum(), real(args))(*args)
    same(mine, others)


@pytest.mark.parametrize("name", EXAMPLES)
def test_jacobians_and_products_of_them(name: str, kernels: dict[str, Any]) -> None:
    args = small(name)
    at = real(args)
    for transform in (jacrev, jacfwd):
        same(transform(kernels[name], argnums=at)(*args), transform(TORCH[name], argnums=at)(*args))
    tangents = tuple(torch.randn_like(args[k]) for k in at)

    def along(function: Callable[..., Tensor]) -> Any:
        def of_reals(*some: Tensor) -> Tensor:
            all_args = list(args)
            for k, value in zip(at, some, strict=True):
                all_args[k] = value
            return function(*all_args)

        return jvp(of_reals, tuple(args[k] for k in at), tangents)

    same(along(kernels[name]), along(TORCH[name]))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_batch_of_any_argument_at_any_axis(name: str, kernels: dict[str, Any]) -> None:
    args = small(name)
    for k, arg in enumerate(args):
        for axis in range(arg.dim() + 1):
            batch = torch.stack([arg, arg.flip(0), arg.roll(1)], dim=axis)
            batch = batch.transpose(0, -1).contiguous().transpose(0, -1)  # strides of another order
            dims = tuple(axis if j == k else None for j in range(len(args)))
            given = [batch if j == k else other for j, other in enumerate(args)]
            same(vmap(kernels[name], in_dims=dims)(*given), vmap(TORCH[name], in_dims=dims)(*given))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_batch_of_all_arguments_and_a_batch_in_a_batch(name: str, kernels: dict[str, Any]) -> None:
    args = [torch.stack([a, a.flip(0)]) for a in small(name)]
    same(vmap(kernels[name])(*args), vmap(TORCH[name])(*args))
    twice = [torch.stack([a, a, a]) for a in args]
    same(vmap(vmap(kernels[name]))(*twice), vmap(vmap(TORCH[name]))(*twice))


@pytest.mark.parametrize("name", CURVED)
def test_gradients_of_each_sample(name: str, kernels: dict[str, Any]) -> None:
    args = [torch.stack([a, a.flip(0)]) for a in small(name)]
    at = real(args)

    def of(function: Callable[..., Tensor]) -> Any:
        return vmap(grad(lambda *x: function(*x).sin().sum(), argnums=at))(*args)

    same(of(kernels[name]), of(TORCH[name]))


def penalty(function: Callable[..., Tensor], args: list[Tensor]) -> list[Tensor]:
    """The gradients of a loss that has the gradient of another one in it."""
    leaves = [args[k] for k in real(args)]
    inner = torch.autograd.grad(function(*args).sin().sum(), leaves, create_graph=True)
    loss = sum((g**2).sum() for g in inner)
    assert isinstance(loss, Tensor)
    return list(torch.autograd.grad(loss, leaves))


@pytest.mark.parametrize("name", CURVED)
def test_a_penalty_on_a_gradient(name: str, kernels: dict[str, Any]) -> None:
    args = [a.requires_grad_(a.is_floating_point()) for a in small(name)]
    same(penalty(kernels[name], args), penalty(TORCH[name], args))


@pytest.mark.parametrize("sizes", [(20, 90, 33, 9), (3, 300, 40, 150)])
def test_second_derivatives_of_long_sums_over_windows(
    sizes: tuple[int, int, int, int], kernels: dict[str, Any]
) -> None:
    """Sums of several chains, whose terms are runs of windows."""
    channels, places, outputs, width = sizes
    x, w = arguments(((channels, places), (outputs, channels, width)))

    def of(function: Callable[..., Tensor]) -> Any:
        inner = grad(lambda *y: function(*y).sin().sum(), (0, 1))
        second = grad(lambda *y: sum((g**2).sum() for g in inner(*y)), (0, 1))
        return vmap(second, in_dims=(0, None))(torch.stack([x, x - 1]), w)

    for mine, others in zip(of(kernels["convolution"]), of(TORCH["convolution"]), strict=True):
        torch.testing.assert_close(mine, others, rtol=1e-9, atol=1e-9 * float(others.abs().max()))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ["attention", "gaussian", "histogram"])
def test_transforms_in_a_compiled_function(name: str, dynamic: bool, kernels: dict[str, Any]) -> None:
    args = small(name)
    at = real(args)
    batch = [torch.stack([a, a.flip(0)]) for a in args]

    def of(function: Callable[..., Tensor]) -> Any:
        each = vmap(grad(lambda *x: function(*x).sin().sum(), argnums=at))
        return lambda *x: tuple(g * 2 for g in each(*x))

    compiled = torch.compile(of(kernels[name]), backend="dlc", dynamic=dynamic)
    same(compiled(*batch), of(TORCH[name])(*batch))


def derivatives(function: Callable[..., Tensor], at: tuple[int, ...]) -> Callable[..., Any]:
    """The gradient, the tangent and the second derivatives of a function, by torch.func."""

    def of(*args: Tensor) -> Any:
        def of_reals(*some: Tensor) -> Tensor:
            given = dict(zip(at, some, strict=True))
            return function(*(given.get(k, arg) for k, arg in enumerate(args)))

        some = tuple(args[k] for k in at)
        every = tuple(range(len(at)))
        first = grad(lambda *x: of_reals(*x).sin().sum(), every)
        tangent = jvp(of_reals, some, tuple(x.cos() for x in some))[1]
        second = grad(lambda *x: sum((g**2).sum() for g in first(*x)), every)
        return (*first(*some), tangent, *second(*some))

    return of


@pytest.mark.parametrize("how", ["torch.compile", "dlc.jit"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_derivatives_in_a_compiled_function(name: str, how: str, kernels: dict[str, Any]) -> None:
    args = small(name)
    mine = derivatives(kernels[name], real(args))
    compiled = (
        dlc.jit(named(mine, len(args)), constants=True)
        if how == "dlc.jit"
        else torch.compile(mine, backend="dlc", fullgraph=True)
    )
    same(compiled(*args), derivatives(TORCH[name], real(args))(*args))


def named(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """With parameters that have names, as dlc.jit wants them."""
    return (lambda a: function(a), lambda a, b: function(a, b), lambda a, b, c: function(a, b, c))[count - 1]


@pytest.mark.parametrize("size", [0, 1])
def test_batches_without_elements_and_of_one(size: int) -> None:
    kernel = dlc.kernel("C[m,n] = sum[k] A[m,k] * B[k,n]")
    a, b = torch.randn(size, 3, 4, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)
    same(vmap(kernel, in_dims=(0, None))(a, b), a @ b)


def test_what_has_no_derivative_names_the_kernel_and_what_to_write() -> None:
    kernel = dlc.kernel("Y[i] = nextafter(X[i], 2.0)")
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"nextafter.*write the function with torch"):
        torch.autograd.grad(kernel(x).sum(), x)
