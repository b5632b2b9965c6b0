"""dlc.kernel: the examples of docs/kernels.md against torch, gradients, sizes, dtypes, wrong texts."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import dlc
from examples.kernels import TORCH

pytestmark = pytest.mark.usefixtures("_one_tier")


#: Sizes of the arguments. "i": indices below 9.
EXAMPLES: dict[str, tuple[Any, ...]] = {
    "matmul": ((5, 7), (7, 3)),
    "attention": ((5, 4), (6, 4), (6, 3)),
    "stencil": ((6, 7),),
    "histogram": ((9, 4), ("i", 6), (6,)),
    "bodies": ((6, 3), (6,)),
    "gaussian": ((6, 2), (5, 2), (5,)),
    "average": ((20,),),
    "tropical": ((5, 7), (7, 3)),
    "distance": ((5, 4), (6, 4)),
    "convolution": ((3, 20), (4, 3, 5)),
}
#: Other forms of reads: a text, sizes, the same in torch.
READS: dict[str, tuple[tuple[Any, ...], Callable[..., Tensor]]] = {
    "Y[i] = X[i-1] wrap - X[i+1] clamp + X[size(i)-1-i]": (
        ((8,),),
        lambda x: x.roll(1) - torch.cat([x[1:], x[-1:]]) + x.flip(0),
    ),
    "Y[y,x] = sum[a,b] I[y+a-1,x+b-1] zero * K[a,b]": (
        ((8, 9), (3, 3)),
        lambda i, k: functional.conv2d(i[None, None], k[None, None], padding=1)[0, 0],
    ),
    "Y[y,x] = sum[a,b] I[y+a,x+b] * K[a,b]": (
        ((8, 9), (3, 3)),
        lambda i, k: functional.conv2d(i[None, None], k[None, None])[0, 0],
    ),
    "Y[y,x] = max[a,b] I[2*y+a,2*x+b] for a in 0..2 for b in 0..2": (
        ((8, 10),),
        lambda i: functional.max_pool2d(i[None], 2)[0],
    ),
    "Y[i] = 2 * X[i,i]": (((5, 5),), lambda x: 2 * x.diagonal()),
    "Y[n] = X[n, I[n]]": (((6, 9), ("i", 6)), lambda x, i: x[torch.arange(6), i]),
    "Y[i] = prod[j,k] X[i,j,k]": (((4, 2, 3),), lambda x: x.prod(-1).prod(-1)),
    "Y[i] = X[i+1] - X[i] for i in 0..size(X,0)-1": (((7,),), lambda x: x.diff()),
    "Y[i,j] = where(i >= j and X[i,j] > 0, X[i,j], a) * i": (
        ((4, 5), ()),
        lambda x, a: torch.where(torch.ones_like(x).tril().bool() & (x > 0), x, a) * torch.arange(4)[:, None],
    ),
}


def arguments(sizes: tuple[Any, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randint(0, 9, size[1:], generator=generator)
        if "i" in size
        else torch.randn(size, generator=generator, dtype=dtype)
        for size in sizes
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_page(name: str, kernels: dict[str, Any]) -> None:
    args = arguments(EXAMPLES[name])
    expected = TORCH[name](*args)
    torch.testing.assert_close(kernels[name](*args), expected)
    arrays = kernels[name](*[arg.numpy() for arg in args])
    assert isinstance(arrays, np.ndarray)
    np.testing.assert_allclose(arrays, expected.numpy())


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_gradient_of_an_example(name: str, kernels: dict[str, Any]) -> None:
    args = arguments(EXAMPLES[name])
    assert torch.autograd.gradcheck(kernels[name], [a.requires_grad_(a.is_floating_point()) for a in args])


@pytest.mark.parametrize("text", READS)
def test_reads(text: str) -> None:
    sizes, reference = READS[text]
    args = arguments(sizes)
    kernel = dlc.kernel(text)
    torch.testing.assert_close(kernel(*args), reference(*args))
    assert torch.autograd.gradcheck(kernel, [a.requires_grad_(a.is_floating_point()) for a in args])


@pytest.mark.parametrize("name", ["attention", "stencil", "histogram", "convolution"])
def test_in_a_compiled_function_its_lets_take_its_place(name: str, kernels: dict[str, Any]) -> None:
    args = [a.requires_grad_(a.is_floating_point()) for a in arguments(EXAMPLES[name])]
    real = [a for a in args if a.is_floating_point()]
    compiled = torch.compile(lambda *x: torch.tanh(kernels[name](*x)), backend="dlc", fullgraph=True)
    before = dlc.counters()["eager_graphs"]
    out, expected = compiled(*args), torch.tanh(TORCH[name](*args))
    torch.testing.assert_close(out, expected)
    for mine, others in zip(
        torch.autograd.grad(out.sum(), real), torch.autograd.grad(expected.sum(), real), strict=True
    ):
        torch.testing.assert_close(mine, others)
    assert dlc.counters()["eager_graphs"] == before


@pytest.mark.in_turn(3)
def test_a_compiled_function_calls_no_operator(kernels: dict[str, Any]) -> None:
    report = dlc.explain(lambda x: torch.exp(kernels["average"](x)) + 1, torch.randn(20))
    assert "1 kernel, 0 calls" in str(report).replace("kernels", "kernel")


def test_a_new_size_compiles_nothing(kernels: dict[str, Any]) -> None:
    kernels["convolution"](*arguments(((3, 20), (4, 3, 5)), torch.float32))
    before = dlc.counters()["graphs"]
    for sizes in (((3, 9), (4, 3, 5)), ((1, 40), (2, 1, 7)), ((2, 5), (1, 2, 5)), ((3, 4), (4, 3, 5))):
        x, w = arguments(sizes, torch.float32)
        expected = functional.conv1d(x[None], w)[0] if x.shape[1] >= w.shape[2] else x.new_empty(4, 0)
        torch.testing.assert_close(kernels["convolution"](x, w), expected)
    assert dlc.counters()["graphs"] == before


@pytest.mark.parametrize(
    ("text", "dtypes", "result"),
    [
        ("Y[i] = A[i] + B[i]", (torch.int32, torch.float16), torch.float16),
        ("Y[i] = A[i] + B[i]", (torch.uint8, torch.int8), torch.int16),
        ("Y[i] = A[i] * B[i]", (torch.float16, torch.bfloat16), torch.float32),
        ("Y[i] = A[i] / B[i]", (torch.int64, torch.int64), torch.float32),
        ("Y[i] = A[i] * 2.5 + 0 * B[i]", (torch.float16, torch.bool), torch.float16),
        ("Y = sum[i] A[i] * B[i]", (torch.int32, torch.int32), torch.int64),
        ("Y[i] = A[i] < B[i]", (torch.int32, torch.float64), torch.bool),
        ("Y[i] = f64(A[i]) + B[i]", (torch.int32, torch.float32), torch.float64),
    ],
)
def test_dtypes_are_promoted(text: str, dtypes: tuple[Any, ...], result: torch.dtype) -> None:
    made = dlc.kernel(text)(*[torch.ones(3, dtype=dtype) for dtype in dtypes])
    assert made.dtype == result


def test_numbers_and_names() -> None:
    scale = dlc.kernel("Y[i] = a * X[i] + b  # a line")
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(scale(2, x, 0.5), np.float32(2) * x + np.float32(0.5))
    assert scale(X=x, a=2, b=0.5).dtype == np.float32
    assert pickle.loads(pickle.dumps(scale)).text == scale.text
    both = dlc.kernel("M[i] = max[j] X[i,j]\nA[i] = argmax[j] X[i,j]")
    m, a = both(torch.tensor([[1.0, 3.0], [2.0, 0.0]]))
    assert m.tolist() == [3, 2]
    assert a.tolist() == [1, 0]


def test_what_is_no_argument() -> None:
    product, top = dlc.kernel("C[m,n] = sum[k] A[m,k] * B[k,n]"), dlc.kernel("M[i] = max[j] X[i,j]")
    with pytest.raises(ValueError, match="axis 1 of 'A' has size 4, but the other arguments need size 5"):
        product(torch.ones(3, 4), torch.ones(5, 2))
    with pytest.raises(TypeError, match="argument 'B' has 1 axes: the text reads it by 2 indices"):
        product(torch.ones(3, 4), torch.ones(4))
    with pytest.raises(TypeError, match="takes the arguments A, B"):
        product(torch.ones(3, 4))
    with pytest.raises(TypeError, match="not both"):
        product(torch.ones(3, 4), np.ones((4, 2)))
    with pytest.raises(ValueError, match="an axis of size 0"):
        top(torch.ones(3, 0))
    with pytest.raises(ValueError, match="too small"):
        dlc.kernel("Y[t] = sum[k] X[t+k] * W[k]")(torch.ones(2), torch.ones(5))
    with pytest.raises(IndexError):
        dlc.kernel("Y[n] = X[I[n]]")(torch.ones(3), torch.tensor([3]))
    with pytest.raises(NotImplementedError, match="'nextafter' has no derivative here; write the function"):
        x = torch.ones(3, requires_grad=True)
        dlc.kernel("Y[i] = nextafter(X[i], 2.0)")(x).sum().backward()


#: A text, where the caret stands (line, column), what the message says.
WRONG = [
    ("C[m,n] = sum[k] A[m,k] * B[k,n", (1, 31), "expected ',' or ']' after an index of 'B'"),
    ("C[m,n] = A[m,k] * B[k,n]", (1, 14), "write C[.., k] or sum[k]"),
    ("C = sum A[m]", (1, 5), "needs the indices that it reduces: sum[i] .."),
    ("C[m] = exq(A[m])", (1, 8), "did you mean 'exp'?"),
    ("C[m] = A[m] +", (1, 14), "expected a number, a name or '('"),
    ("C[m] = sum[m] A[m]", (1, 8), "index 'm' is on the left already"),
    ("C[m] = A[m] + C[m]", (1, 1), "'C' reads itself"),
    ("C[m] = A[m]\nC[m] = B[m]", (2, 1), "'C' has a line already"),
    ("C[m,m] = A[m]", (1, 5), "index 'm' stands here twice"),
    ("C[m] = A[m] + A[m,0]", (1, 15), "'A' had 1 indices before, 2 here"),
    ("C[m] = A[m+1] - A[m]", (1, 10), "write A[..] zero, clamp or wrap, or a range"),
    ("C[m] = A[m-1]", (1, 10), "this index goes below 0"),
    ("C[i,j] = A[i]", (1, 1), "write for j in 0..n at the end of the line"),
    ("C[m] = pow(A[m])", (1, 8), "'pow' takes 2 operands, not 1"),
    ("C[m] = A[m] for x in 0..3", (1, 17), "'x' is no index of this line"),
    ("C[m] = A[m] for m in 1..3", (1, 22), "a range begins with 0"),
    ("C[0] = A[m]", (1, 3), "expected the name of an index"),
    ("C[m] = A[m] $ 2", (1, 13), "this character stands nowhere"),
    ("C = 1 + 2", (1, 1), "the text reads no argument"),
    ("sum[m] = A[m]", (1, 1), "'sum' is a word of the notation"),
    ("C[m] = size(q) * A[m]", (1, 8), "of an argument: size(q, 0)"),
    ("C[m] = size(A, 3) * A[m]", (1, 8), "axes count from 0"),
    ("C[m] = T[A[m] + 0.5]", (1, 15), "i64(..) makes some"),
    ("C[m] = not A[m]", (1, 8), "'not' takes truth values"),
    ("C[m] = where(A[m], 1, 2)", (1, 8), "a truth value first"),
    ("C = argmax[i,j] A[i,j]", (1, 5), "'argmax' takes one index"),
    ("D[i] = A[i]\nE[j] = D[j,j]", (2, 8), "'D' has 1 indices in its line, 2 here"),
    ("C = " + "(" * 200 + "A" + ")" * 200, (1, 55), "nested too deeply"),
]


@pytest.mark.parametrize(("text", "place", "says"), WRONG)
def test_a_wrong_text_gets_a_line_and_a_caret(text: str, place: tuple[int, int], says: str) -> None:
    with pytest.raises(dlc.ParseError) as caught:
        kernel = dlc.kernel(text)
        kernel.program(*[torch.float32] * len(kernel.names))
    message = str(caught.value)
    assert message.startswith(f"kernel:{place[0]}:{place[1]}: ")
    assert says in message
    shown, caret = message.split("\n")[1:3]
    line = text.split("\n")[place[0] - 1]
    assert shown.strip() == line[: len(shown.strip())]
    assert caret.index("^") - 2 == place[1] - 1


def test_modes_see_the_operator_and_other_calls_do_without() -> None:
    seen: list[str] = []

    class Listens(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    f, x = dlc.kernel("Y[i] = X[i] * 3"), torch.ones(4)
    with Listens():
        watched = f(x)
    assert "dlc.kernel.default" in seen and f(x).tolist() == watched.tolist() == [3.0] * 4
    assert f(x.clone().requires_grad_()).requires_grad
    with torch.no_grad():
        assert not f(x.clone().requires_grad_()).requires_grad
    tangent = torch.func.jvp(lambda x: x * 2, (x,), (x,))[1]
    assert f(tangent).tolist() == [6.0] * 4
    with FakeTensorMode() as mode:
        assert f(mode.from_tensor(x)).shape == (4,)
