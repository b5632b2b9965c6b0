"""dlc.kernel within what else torch has: functional, func, vmap, checkpoints, dtypes, kinks."""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import functional
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)
from torch.utils.checkpoint import checkpoint

import dlc

pytestmark = pytest.mark.usefixtures("_one_tier")

PRODUCT = "C[m,n] = sum[k] A[m,k] * B[k,n]"
#: A text, and the same in torch; their arguments are a matrix and a vector.
CURVE = "Y[i] = sum[j] tanh(A[i,j] * B[j]) * A[i,j]"


def in_torch(a: Tensor, b: Tensor) -> Tensor:
    return (torch.tanh(a * b) * a).sum(1)


def arguments(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(3, 4, generator=generator, dtype=torch.float64).to(dtype),
        torch.randn(4, generator=generator, dtype=torch.float64).to(dtype),
    )


def same(mine: Any, others: Any, **tolerances: float) -> None:
    torch.testing.assert_close(mine, others, **tolerances or {"rtol": 1e-9, "atol": 1e-9}, equal_nan=True)


def loss(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda a, b: function(a, b).sin().sum()


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(("strict", "vectorize"), [(False, False), (True, False), (False, True)])
def test_jacobians_and_hessians_of_autograd(strict: bool, vectorize: bool, create_graph: bool) -> None:
    kernel, args = dlc.kernel(CURVE), arguments()
    given = {"strict": strict, "vectorize": vectorize, "create_graph": create_graph}
    same(functional.jacobian(kernel, args, **given), functional.jacobian(in_torch, args, **given))
    same(functional.hessian(loss(kernel), args, **given), functional.hessian(loss(in_torch), args, **given))


def test_jacobians_of_autograd_in_forward_mode() -> None:
    kernel, args = dlc.kernel(CURVE), arguments()
    given = {"vectorize": True, "strategy": "forward-mode"}
    same(functional.jacobian(kernel, args, **given), functional.jacobian(in_torch, args, **given))
    given = {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}
    same(functional.hessian(loss(kernel), args, **given), functional.hessian(loss(in_torch), args, **given))


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ["hvp", "vhp", "jvp", "vjp"])
def test_products_with_jacobians_and_hessians(name: str, strict: bool, create_graph: bool) -> None:
    kernel, args = dlc.kernel(CURVE), arguments()
    along = args[0][:, 0] if name == "vjp" else tuple(torch.cos(arg) for arg in args)
    wrap = loss if name in ("hvp", "vhp") else lambda f: f
    given = {"strict": strict, "create_graph": create_graph}
    product = getattr(functional, name)
    same(product(wrap(kernel), args, along, **given), product(wrap(in_torch), args, along, **given))


TRANSFORMS: dict[str, Callable[[Callable[..., Tensor]], Callable[..., Any]]] = {
    "grad": lambda f: grad(loss(f), (0, 1)),
    "grad_and_value": lambda f: grad_and_value(loss(f), (0, 1)),
    "vjp": lambda f: lambda a, b: vjp(f, a, b)[1](a[:, 0]),
    "jvp": lambda f: lambda a, b: jvp(f, (a, b), (a.cos(), b.cos())),
    "jacrev": lambda f: jacrev(f, (0, 1)),
    "jacfwd": lambda f: jacfwd(f, (0, 1)),
    "jacrev in chunks": lambda f: jacrev(f, (0, 1), chunk_size=2),
    "hessian": lambda f: hessian(loss(f), (0, 1)),
    "jacrev of jacrev": lambda f: jacrev(jacrev(f, (0, 1)), (0, 1)),
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(f, (0, 1)), (0, 1)),
    "linearize": lambda f: lambda a, b: linearize(f, a, b)[1](a.cos(), b.cos()),
    "functionalize": lambda f: functionalize(lambda a, b: f(a, b).mul_(2)),
    "functionalize of grad": lambda f: functionalize(grad(loss(f), (0, 1))),
    "vmap of a row": lambda f: lambda a, b: vmap(f, in_dims=(None, 0))(a, torch.stack([b, b + 1])),
    "vmap to the end": lambda f: (
        lambda a, b: vmap(f, in_dims=(None, 1), out_dims=-1)(a, torch.stack([b, b + 1], 1))
    ),
    "vmap in chunks": lambda f: (
        lambda a, b: vmap(f, in_dims=(-1, None), chunk_size=2)(torch.stack([a] * 5, -1), b)
    ),
    "vmap of grad": lambda f: lambda a, b: vmap(grad(loss(f)), in_dims=(None, 0))(a, torch.stack([b, b + 1])),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_torch_func(name: str) -> None:
    transform = TRANSFORMS[name]
    same(transform(dlc.kernel(CURVE))(*arguments()), transform(in_torch)(*arguments()))


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_vmap_of_what_is_random(randomness: str) -> None:
    kernel, (a, b) = dlc.kernel(CURVE), arguments()

    def noisy(function: Callable[..., Tensor]) -> Tensor:
        torch.manual_seed(0)
        each = vmap(lambda row: function(a + torch.randn(3, 4, dtype=a.dtype), row), randomness=randomness)
        return each(torch.stack([b, b]))

    same(noisy(kernel), noisy(in_torch))


def test_weights_of_a_module_that_a_kernel_makes() -> None:
    kernel, (a, b) = dlc.kernel(PRODUCT), arguments()
    module = torch.nn.Linear(4, 3, dtype=torch.float64)

    def of(weight: Tensor) -> Tensor:
        given = {"weight": weight, "bias": torch.zeros(3, dtype=torch.float64)}
        return functional_call(module, given, (a,)).sin().sum()

    eye = torch.eye(4, dtype=torch.float64) * b
    same(grad(lambda x: of(kernel(a, x)))(eye), grad(lambda x: of(a @ x))(eye))


# -- dtypes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 4e-2), (torch.float16, 5e-3)]
)
def test_narrow_floats_have_gradients_of_their_dtype(dtype: torch.dtype, tolerance: float) -> None:
    kernel = dlc.kernel(CURVE)
    args = tuple(arg.requires_grad_() for arg in arguments(dtype))
    exact = tuple(arg.detach().double().requires_grad_() for arg in args)
    mine = torch.autograd.grad(kernel(*args).sum(), args)
    others = torch.autograd.grad(in_torch(*exact).sum(), exact)
    for made, of, arg in zip(mine, others, args, strict=True):
        assert made.dtype == arg.dtype
        same(made.double(), of, rtol=tolerance, atol=tolerance)


def test_arguments_of_several_dtypes_have_gradients_of_their_own() -> None:
    kernel = dlc.kernel("Y[i] = A[i] * B[i] * I[i] + where(M[i], A[i], 0)")
    a = torch.rand(3, dtype=torch.bfloat16, requires_grad=True)
    b = torch.rand(3, dtype=torch.float64, requires_grad=True)
    i, m = torch.tensor([1, 2, 3]), torch.tensor([True, False, True])
    out = kernel(a, b, i, m)
    assert out.dtype == torch.float64
    of_a, of_b = torch.autograd.grad(out.sum(), (a, b))
    assert (of_a.dtype, of_b.dtype) == (torch.bfloat16, torch.float64)
    same(of_b, (a.detach().double() * i))


def test_autocast_changes_no_dtype_of_a_kernel() -> None:
    kernel, (a, b) = dlc.kernel(CURVE), arguments(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert kernel(a, b).dtype == torch.float32
        assert kernel(a.bfloat16(), b).dtype == torch.float32
        compiled = torch.compile(lambda x, y: kernel(x, y) * 2, backend="dlc")
        assert compiled(a, b).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_numbers_are_read_by_their_parts_and_have_gradients(dtype: torch.dtype) -> None:
    kernel = dlc.kernel("Y[i] = sum[j] real(X[i,j]) ** 2 * imag(X[i,j])\nZ[i] = complex(W[i], W[i] ** 3)")
    x = torch.randn(3, 2, dtype=dtype, requires_grad=True)
    w = torch.randn(3, dtype=x.real.dtype, requires_grad=True)
    others = (x.real**2 * x.imag).sum(1), torch.complex(w, w**3)
    for mine, of in zip(kernel(x, w), others, strict=True):
        same(mine, of, rtol=1e-5, atol=1e-5)
        seed = torch.randn_like(of)
        kernel_and_torch = [torch.autograd.grad(y, (x, w), seed, materialize_grads=True, retain_graph=True)
                            for y in (mine, of)]  # fmt: skip
        same(*kernel_and_torch, rtol=1e-5, atol=1e-5)
    if dtype == torch.complex128:
        assert torch.autograd.gradcheck(kernel, (x, w), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(kernel, (x, w))


def test_a_product_of_complex_numbers_says_what_to_write() -> None:
    x = torch.randn(2, 2, dtype=torch.complex64)
    with pytest.raises(dlc.ParseError, match=r"real\(\.\.\) and imag\(\.\.\) are the parts"):
        dlc.kernel(PRODUCT)(x, x)


# -- autograd ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints(use_reentrant: bool) -> None:
    kernel, found = dlc.kernel(CURVE), []
    for function in (kernel, in_torch):
        args = tuple(arg.requires_grad_() for arg in arguments())
        checkpoint(loss(function), *args, use_reentrant=use_reentrant).backward()
        found.append([arg.grad for arg in args])
    same(*found)


def test_saved_tensors_go_through_hooks() -> None:
    kernel, packed = dlc.kernel(CURVE), []

    def pack(tensor: Tensor) -> Any:
        packed.append(tensor)
        return tensor.detach().numpy().copy()

    args = tuple(arg.requires_grad_() for arg in arguments())
    with torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy):
        out = kernel(*args)
    same(torch.autograd.grad(out.sum(), args), torch.autograd.grad(in_torch(*args).sum(), args))
    assert len(packed) == 2


def test_hooks_of_tensors_and_a_graph_that_is_kept() -> None:
    kernel, seen = dlc.kernel(CURVE), []
    args = tuple(arg.requires_grad_() for arg in arguments())
    made = kernel(*args)
    made.register_hook(lambda g: seen.append(g) or g * 2)
    args[0].register_hook(seen.append)
    made.sum().backward(retain_graph=True)
    made.sum().backward()
    assert len(seen) == 4
    expected = torch.autograd.grad(in_torch(*args).sum(), args)
    same([arg.grad for arg in args], [4 * g for g in expected])


def test_a_kernel_twice_in_a_graph_and_of_its_own_result() -> None:
    kernel, found = dlc.kernel("Y[i] = sum[j] A[i,j] * sin(B[j])"), []
    for function in (kernel, lambda a, b: a @ b.sin()):
        a = torch.eye(3, dtype=torch.float64).add(0.1).requires_grad_()
        b = torch.arange(3, dtype=torch.float64).requires_grad_()
        once = function(a, b)
        out = function(a, once) + function(a, b) * once
        first = torch.autograd.grad(out.sum(), (a, b), create_graph=True)
        found.append([*first, *torch.autograd.grad(sum((g**2).sum() for g in first), (a, b))])
    same(*found)


def test_an_argument_that_was_written_to_is_refused_by_autograd() -> None:
    kernel, (a, b) = dlc.kernel(CURVE), arguments()
    out = kernel(a.requires_grad_(), b)
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_modes_without_gradients() -> None:
    kernel, args = dlc.kernel(CURVE), tuple(arg.requires_grad_() for arg in arguments())
    with torch.no_grad():
        assert not kernel(*args).requires_grad
    with torch.inference_mode():
        assert kernel(*args).is_inference()
    with torch.no_grad(), torch.enable_grad():
        assert kernel(*args).requires_grad


def test_a_part_of_the_arguments_and_of_the_results() -> None:
    kernel = dlc.kernel("Y[i] = sin(X[i])\nZ[i] = X[i] * W[i]\nN[i] = X[i] > 0")
    x, w = torch.rand(3, requires_grad=True), torch.rand(3)
    y, z, n = kernel(x, w)
    assert y.requires_grad and z.requires_grad and not n.requires_grad
    same(torch.autograd.grad(y.sum(), x)[0], x.cos(), rtol=1e-6, atol=1e-6)
    same(torch.autograd.grad(kernel(x, w)[1].sum(), x)[0], w, rtol=1e-6, atol=1e-6)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda a: a.t().contiguous().t(),
    "expanded": lambda a: a[:1].expand(3, 4),
    "every other one": lambda a: torch.stack([a, a], -1)[..., 0],
    "a part": lambda a: torch.cat([a, a], 1)[:, 2:6],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arguments_of_any_strides(layout: str) -> None:
    kernel, (a, b) = dlc.kernel(CURVE), arguments()
    given = LAYOUTS[layout]
    assert torch.autograd.gradcheck(lambda x: kernel(given(x), b), a.clone().requires_grad_())
    assert torch.autograd.gradgradcheck(lambda x: kernel(given(x), b), a.clone().requires_grad_())


@pytest.mark.parametrize(("rows", "columns"), [(0, 4), (3, 0), (0, 0)])
def test_nothing_has_gradients_of_nothing(rows: int, columns: int) -> None:
    kernel, found = dlc.kernel(CURVE), []
    for function in (kernel, in_torch):
        a = torch.ones(rows, columns, dtype=torch.float64, requires_grad=True)
        b = torch.ones(columns, dtype=torch.float64, requires_grad=True)
        first = torch.autograd.grad(function(a, b).sum(), (a, b), create_graph=True)
        second = torch.autograd.grad(sum((g**2).sum() for g in first), (a, b), materialize_grads=True)
        found.append([*first, *second])
    same(*found)


def test_scalars() -> None:
    kernel = dlc.kernel("Y[] = exp(x) * sum[i] A[i]")
    args = (torch.tensor(0.3, dtype=torch.float64), torch.rand(3, dtype=torch.float64))
    given = tuple(arg.requires_grad_() for arg in args)
    assert torch.autograd.gradcheck(kernel, given, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(kernel, given)


def test_threads() -> None:
    kernel, results = dlc.kernel(CURVE), {}

    def run(number: int) -> None:
        args = tuple((arg + number).requires_grad_() for arg in arguments())
        mine = torch.autograd.grad(kernel(*args).sum(), args, create_graph=True)
        of = torch.autograd.grad(in_torch(*args).sum(), args, create_graph=True)
        results[number] = all(torch.allclose(x, y) for x, y in zip(mine, of, strict=True))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(4), True)


def adapted(function: Callable[..., Tensor], a: Tensor, b: Tensor) -> Tensor:
    """The loss after two steps of descent, which its own gradient goes through."""
    for _ in range(2):
        b = b - 0.1 * torch.autograd.grad(loss(function)(a, b), b, create_graph=True)[0]
    return loss(function)(a, b)


def test_steps_within_a_loss() -> None:
    kernel, found = dlc.kernel(CURVE), []
    for function in (kernel, in_torch):
        args = tuple(arg.requires_grad_() for arg in arguments())
        found.append(torch.autograd.grad(adapted(function, *args), args))
    same(*found)


def test_a_compiled_penalty_on_a_gradient_of_torch_func() -> None:
    kernel = dlc.kernel(CURVE)

    def step(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda a, b: sum((g**2).sum() for g in grad(loss(function), (0, 1))(a, b))

    found = []
    for function in (torch.compile(step(kernel), backend="dlc"), step(in_torch)):
        args = tuple(arg.requires_grad_() for arg in arguments())
        found.append(torch.autograd.grad(function(*args), args))
    same(*found)


def test_double_backward_of_a_compiled_function_is_refused_as_by_torch() -> None:
    kernel = dlc.kernel(CURVE)

    def penalty(a: Tensor, b: Tensor) -> Tensor:
        compiled = torch.compile(loss(kernel), backend="dlc")
        return (torch.autograd.grad(compiled(a, b), a, create_graph=True)[0] ** 2).sum()

    a, b = (arg.requires_grad_() for arg in arguments())
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        penalty(a, b).backward()


# -- kinks ---------------------------------------------------------------------------------------------

POINTS = [-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, float("inf"), float("-inf"), float("nan")]
ONE = [
    "abs",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "log",
    "log1p",
    "asin",
    "acos",
    "atanh",
    "acosh",
    "sign",
    "floor",
]
ONE += [
    "floor",
    "round",
    "tanh",
    "sigmoid",
    "erf",
    "exp",
    "erfinv",
    "expm1",
    "tan",
    "trunc",
    "ceil",
    "exp2",
    "log2",
]
TWO: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "max(X[i], Z[i])": torch.maximum,
    "min(X[i], Z[i])": torch.minimum,
    "X[i] / Z[i]": torch.div,
    "where(X[i] > Z[i], X[i], Z[i])": lambda x, z: torch.where(x > z, x, z),
    **{f"{name}(X[i], Z[i])": getattr(torch, name)
       for name in ("fmax", "fmin", "hypot", "atan2", "remainder", "fmod", "logaddexp", "pow")},
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_kinks_and_edges_of_functions(name: str) -> None:
    x = torch.tensor(POINTS, dtype=torch.float64, requires_grad=True)
    mine = torch.autograd.grad(dlc.kernel(f"Y[i] = {name}(X[i])")(x).sum(), x)
    same(mine, torch.autograd.grad(getattr(torch, name)(x).sum(), x))


@pytest.mark.parametrize("text", TWO)
def test_kinks_and_edges_of_functions_of_two(text: str) -> None:
    pairs = torch.tensor(list(itertools.product(POINTS, POINTS)), dtype=torch.float64)
    args = [part.contiguous().requires_grad_() for part in pairs.unbind(1)]
    mine = torch.autograd.grad(dlc.kernel(f"Y[i] = {text}")(*args).sum(), args)
    same(mine, torch.autograd.grad(TWO[text](*args).sum(), args))


@pytest.mark.parametrize("name", ["max", "min"])
def test_equal_elements_share_the_gradient_of_a_reduction(name: str) -> None:
    x = torch.tensor([[1.0, 3, 3], [2, 2, 2], [0, 1, 0]], dtype=torch.float64, requires_grad=True)
    of = torch.amax if name == "max" else torch.amin
    mine = dlc.kernel(f"Y[i] = {name}[j] X[i,j]")
    for function in (jacrev, jacfwd):
        same(function(mine)(x.detach()), function(lambda y: of(y, 1))(x.detach()))


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_a_product_with_zeros_has_derivatives(zeros: int) -> None:
    x = torch.tensor([2.0, 3, 5], dtype=torch.float64)
    x[:zeros] = 0
    mine, of = dlc.kernel("Y[] = prod[i] X[i]"), lambda y: y[0] * y[1] * y[2]
    for second in (jacrev, jacfwd):
        same(second(jacrev(mine))(x), second(jacrev(of))(x))
