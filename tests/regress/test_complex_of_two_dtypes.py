"""torch.complex of a float32 and a float64: eager refuses it; it was compiled."""

from collections.abc import Callable
from typing import Any

import pytest
import torch


@pytest.mark.parametrize("function", [torch.complex, torch.polar])
@pytest.mark.parametrize("dynamic", [False, True])
def test_it_is_refused(function: Callable[..., Any], dynamic: bool, compiler: Callable[..., Any]) -> None:
    compiled = compiler(lambda a, b: function(a, b), dynamic=dynamic)
    with pytest.raises(RuntimeError, match="Expected object of scalar type"):
        compiled(torch.ones(3), torch.ones(3, dtype=torch.float64))
