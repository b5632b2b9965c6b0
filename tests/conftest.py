"""What all tests share: the backend under test, a compiler that has forgotten earlier tests, a cache."""

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--backend", default="dlc", help="what tests/models and tests/ops compile with")
    parser.addoption("--all-samples", action="store_true", help="of torch's modules and optimisers")
    parser.addoption("--update-golden", action="store_true", help="write what the passes make now")


def pytest_configure(config: pytest.Config) -> None:
    """No run reads or writes the user's cache; the programs that tests start inherit the folder.

    What the passes weigh is one processor's, so that they decide the same everywhere.
    """
    os.environ["DLC_CACHE_DIR"] = tempfile.mkdtemp(prefix="dlc-tests-")
    os.environ["DLC_COSTS"] = "avx2"


def pytest_collectstart(collector: pytest.Collector) -> None:
    """What a module makes of random numbers when it is imported is the same in every run."""
    if isinstance(collector, pytest.Module):
        seed()


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Nor does a test depend on those before it; one that wants many seeds says so itself."""
    seed()


def seed() -> None:
    """torch's own first seed is another one in each process."""
    import torch

    torch.manual_seed(0)


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(os.environ.pop("DLC_CACHE_DIR"), ignore_errors=True)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    return request.config.getoption("--backend")


@pytest.fixture
def compiler(backend: str) -> Iterator[Callable[..., Any]]:
    """`torch.compile` with the backend under test, in a Dynamo that has forgotten everything else.

    Keyword `options` are dlc's, strict unless they say otherwise: a graph that would run eagerly fails
    the test. Other backends are not given them.
    """
    import torch
    import torch._dynamo

    from .dynamo import leave_guards_untimed

    leave_guards_untimed()
    logging.getLogger("torch.__trace").propagate = False  # else a failure shows thousands of lines

    def compile_with(target: Any, **kwargs: Any) -> Any:
        options = {"strict": True} | kwargs.pop("options", {})
        if backend == "dlc":
            kwargs["options"] = options
        return torch.compile(target, backend=backend, **kwargs)

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield compile_with
    torch._dynamo.reset()
