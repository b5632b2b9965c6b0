"""Training with dlc's own products: ten steps agree with eager's, and each product is a contraction."""

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dlc.report import collect
from tests.models.runs import assert_steps
from tests.tolerance import Run

OWN = {"products": "own", "strict": True}
STEPS = 10
CONTRACTION = re.compile(r" = contract .*?  @(\w+)")


class Block(nn.Module):
    """A block of a transformer; attention is written out, so that its products are products."""

    def __init__(self, width: int = 24, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        size = width // self.heads
        q, k, v = self.qkv(self.first(x)).view(batch, length, 3, self.heads, size).permute(2, 0, 3, 1, 4)
        score = (q @ k.mT / size**0.5).softmax(-1)
        x = x + self.out((score @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.second(x))))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 48), nn.GELU(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 6))


# By name: what makes the model, the sizes of its input, and its products forward and backward: two for each,
# but no gradient of an input that needs none.
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int, int]] = {
    "mlp": (mlp, (30, 20), 3, 5),
    "block": (Block, (3, 17, 24), 6, 12),
}


def made(name: str) -> nn.Module:
    torch.manual_seed(3)
    return CASES[name][0]()


def batches(name: str, seed: int) -> Tensor:
    return torch.randn(STEPS, *CASES[name][1], generator=torch.Generator().manual_seed(seed))


def trained(model: nn.Module, call: Callable[[Tensor], Tensor], inputs: Tensor) -> dict[str, Tensor]:
    """The losses of ten steps, the last gradients, and the weights that are left."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    found = {}
    for k, x in enumerate(inputs):
        optimiser.zero_grad()
        loss = (call(x) - x.mean(-1, keepdim=True).sin()).square().mean()
        loss.backward()
        optimiser.step()
        found[f"loss {k}"] = loss.detach()
    found |= {f"gradient of {n}": p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return found | {f"weight {n}": p.detach().clone() for n, p in model.named_parameters()}


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_ten_steps(name: str, dynamic: bool, compiler: Callable[..., Any]) -> None:
    start, runs = made(name), list[Run]()
    model = copy.deepcopy(start)
    compiled = compiler(model, dynamic=dynamic, fullgraph=True, options=OWN)
    for seed in range(4):
        inputs = batches(name, seed)
        model.load_state_dict(start.state_dict())
        eager, exact = copy.deepcopy(start), copy.deepcopy(start).double()
        runs.append(
            (
                trained(model, compiled, inputs),
                trained(eager, eager, inputs),
                trained(exact, exact, inputs.double()),
            )
        )
    assert_steps(runs)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_products_are_contractions(name: str, compiler: Callable[..., Any]) -> None:
    _, _, forward, backward = CASES[name]
    model = made(name)
    with collect() as reports:
        trained(model, compiler(model, fullgraph=True, options=OWN), batches(name, 0)[:1])
    found = {report["kind"]: report for report in reports}
    assert set(found) == {"forward", "backward"}
    assert [report["calls"] for report in reports] == [[], []]
    products = {kind: set(CONTRACTION.findall(found[kind]["graph"])) for kind in found}
    assert len(products["forward"]) == forward
    assert len(products["backward"] - products["forward"]) == backward  # what is computed again aside


@pytest.mark.parametrize("name", CASES)
def test_slopes(name: str, compiler: Callable[..., Any]) -> None:
    """Gradients in float64 against differences of results."""
    model = made(name).double()
    compiled = compiler(model, fullgraph=True, options=OWN)
    x = batches(name, 0)[0].double().requires_grad_()
    weights = list(model.parameters())

    def of(x: Tensor, *_: Tensor) -> Tensor:
        return compiled(x)

    # gradcheck goes back twice through one graph, which buffers that a backward may write to forbid
    with torch._functorch.config.patch(donated_buffer=False):
        assert torch.autograd.gradcheck(of, (x, *weights), fast_mode=True)
