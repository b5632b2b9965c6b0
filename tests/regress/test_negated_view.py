"""A view of an input that is negated when it is read: the view is of the numbers it stands for."""

from collections.abc import Callable
from typing import Any

import torch


def test_view_of_a_negated_input(compiler: Callable[..., Any]) -> None:
    x = torch.complex(torch.arange(6.0).view(2, 3), torch.ones(2, 3)).conj().imag
    assert x.is_neg()
    torch.testing.assert_close(compiler(lambda x: x.t(), fullgraph=True)(x), x.t())
