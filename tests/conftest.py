"""What all tests share: the backend under test, and a clean compiler before each that asks for one."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend", default="dlc", help="the torch.compile backend that tests/models and tests/ops use"
    )


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    return request.config.getoption("--backend")


@pytest.fixture
def compiler(backend: str) -> Iterator[Callable[..., Any]]:
    """`torch.compile` with the backend under test, in a Dynamo that has forgotten everything else.

    Keyword `options` are dlc's; with another backend under test they are dropped.
    """
    import torch
    import torch._dynamo

    logging.getLogger("torch.__trace").propagate = False  # else a failure shows thousands of lines

    def compile_with(target: Any, **kwargs: Any) -> Any:
        if backend != "dlc":
            kwargs.pop("options", None)
        return torch.compile(target, backend=backend, **kwargs)

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield compile_with
    torch._dynamo.reset()
