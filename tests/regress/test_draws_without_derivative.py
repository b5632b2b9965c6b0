"""What draws by a tensor that requires gradients, and has no derivative in eager either.

AOTAutograd traces both ways at once, so torch's error came while compiling. The graph runs eagerly: results
are eager's, and the error comes when a gradient is asked for.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

NONE: dict[str, Callable[[Tensor], Tensor]] = {
    "bernoulli by a number": lambda x: torch.bernoulli(x, 0.3) * x,
    "method": lambda x: x.bernoulli(0.3) + x,
    "by name": lambda x: torch.bernoulli(x, p=0.3),
    "binomial": lambda x: torch.binomial(torch.full_like(x, 5.0), x.sigmoid()) * x,
}
ZERO: dict[str, Callable[[Tensor], Tensor]] = {
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()) * x,
    "bernoulli_": lambda x: (x * 2).bernoulli_(0.4) + x,
    "by chances": lambda x: (x * 2).bernoulli_(x.sigmoid()) + x,
    "likes": lambda x: torch.rand_like(x) * x + torch.randn_like(x) + torch.randint_like(x, 5),
    "normal": lambda x: torch.normal(x, 1.0) * x,
    "poisson": lambda x: torch.poisson(x.exp()) * x,
    "multinomial": lambda x: x.gather(-1, torch.multinomial(x.exp(), 2)),
}


@pytest.mark.filterwarnings("ignore::dlc.EagerGraphWarning")
@pytest.mark.filterwarnings("ignore:Error detected in torch")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", NONE)
def test_no_derivative(name: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    f, x = NONE[name], torch.linspace(-1, 1, 20).view(4, 5).requires_grad_()
    results = []
    for g in (torch.compile(f, backend="dlc", dynamic=dynamic, options={"strict": False}), f):
        torch.manual_seed(3)
        results.append(g(x))
        with pytest.raises(
            RuntimeError, match=r"derivative for aten::(bernoulli|binomial) is not implemented"
        ):
            results[-1].sum().backward()
    assert torch.equal(*results)
    assert results[0].requires_grad


@pytest.mark.parametrize("name", NONE)
def test_strict_names_the_operator(name: str) -> None:
    torch._dynamo.reset()
    x = torch.linspace(-1, 1, 20).view(4, 5).requires_grad_()
    with pytest.raises(Exception, match=r"derivative for aten::(bernoulli|binomial) is not implemented"):
        torch.compile(NONE[name], backend="dlc", options={"strict": True})(x)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ZERO)
def test_no_gradient_of_what_is_drawn(name: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    f, x = ZERO[name], torch.linspace(-1, 1, 20).view(4, 5).requires_grad_()
    pairs = []
    for g in (torch.compile(f, backend="dlc", dynamic=dynamic, options={"strict": True}), f):
        torch.manual_seed(3)
        result = g(x)
        pairs.append((result.detach(), *torch.autograd.grad(result.sum(), x)))
    torch.testing.assert_close(pairs[0], pairs[1])
