"""What an operator returns may lie otherwise than the captured graph says; a view of it lies as it does.

`y.detach()` beside `y` read the elements by the promised strides, over memory with others.
"""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.in_turn(2)

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "detach": Tensor.detach,
    "view": lambda y: y.view(y.shape),
    "alias": torch.ops.aten.alias.default,
    "transposed twice": lambda y: y.mT.mT,
    "transposed": lambda y: y.mT,
}
MAKERS: dict[str, Callable[[Tensor], Tensor]] = {
    "poisson": torch.poisson,
    "gamma": torch._standard_gamma,
    "shuffle": lambda x: torch.native_channel_shuffle(x, 2),
    "pointwise": torch.exp,
}
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda x: x,
    "columns": lambda x: x.mT.contiguous().mT,
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
}
# Torch's own trace refuses a shuffle of columns.
CASES = [case for case in product(MAKERS, LAYOUTS) if case != ("shuffle", "columns")]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("maker, layout", CASES)
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_has_the_same_elements(name: str, maker: str, layout: str, dynamic: bool) -> None:
    view, make = VIEWS[name], MAKERS[maker]

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        y = make(x)
        return y, view(y)

    torch._dynamo.reset()
    x = LAYOUTS[layout](torch.rand(2, 4, 3, 5) * 9)
    compiled = torch.compile(both, backend="dlc", dynamic=dynamic, options={"tier": "tcc"})
    torch.manual_seed(1)
    whole, seen = compiled(x)
    torch.manual_seed(1)
    expected = make(x)
    torch.testing.assert_close(whole, expected, check_stride=False)
    assert torch.equal(seen, view(whole))
    assert seen.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
