"""What all tests share: the backend under test, a compiler that has forgotten earlier tests, a cache."""

import gc
import logging
import os
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.shards import CELLS, Shard, digest

# The files that take longest, the longest first: who begins with them does not wait for one at the end.
NAMES = """
    ops/test_sweep emit/test_emit backend/test_process backend/test_kernels alloc/test_alloc
    fuzz/test_fuzz backend/test_tune backend/test_layouts capture/test_direct backend/test_freeze
    backend/test_in_place backend/test_jit_numpy_functions backend/test_failing backend/test_streams
    models/test_transformers backend/test_jit_module micro/test_micro capture/test_folds
    models/test_bits capture/test_pools backend/test_command_line models/test_language
    models/test_control_flow backend/test_writes backend/test_jit_loops export/test_export files/test_onnx
    capture/test_products capture/test_scatters capture/test_operators capture/test_scans
    capture/test_grids backend/test_jit_outside math/test_accuracy
"""
LONG = [f"tests/{name}.py" for name in NAMES.split()]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--backend", default="dlc", help="what tests/models and tests/ops compile with")
    parser.addoption(
        "--shard", default="commit", metavar="K[/N]",
        help=f"which part of the sweeps, and which random programs (default: the commit's, of {CELLS})",
    )  # fmt: skip
    parser.addoption("--whole", action="store_true", help="all tests that runs have in turn")
    parser.addoption("--update-golden", action="store_true", help="write what the passes make now")


def pytest_configure(config: pytest.Config) -> None:
    """No run reads or writes the user's cache; the programs that tests start inherit the folder.

    What the passes weigh is one processor's, so that they decide the same everywhere.
    """
    config.addinivalue_line(
        "markers",
        "in_turn(n, *names): by its shard a run has an n-th of the test's parameters, and those of the names",
    )
    config.addinivalue_line(
        "markers", "refused_inside: the test has a rule of dlc's own refuse a graph, a bug anywhere else"
    )
    config.option.shard = str(Shard.parse(config.option.shard))  # the workers of xdist are told
    config.option.loadscopereorder = False  # they take the files as they are sorted below
    os.environ["DLC_CACHE_DIR"] = tempfile.mkdtemp(prefix="dlc-tests-")
    os.environ["DLC_COSTS"] = "avx2"


def pytest_sessionstart(session: pytest.Session) -> None:
    """What repeats this run's choice; a quiet pytest has no header, so that it is written here."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(session.config, "workerinput"):
        terminal.write_line(
            f"shard of the sweeps and turn of the tests: --shard={session.config.option.shard}"
        )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failure of what a shard chose says which one it was."""
    report = (yield).get_result()
    if report.failed and "shard" in getattr(item, "fixturenames", ()):
        again = f'make test ARGS="--shard={item.config.option.shard} {item.nodeid}"'
        report.sections.append(("again", again))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every n-th of the tests that are marked `in_turn(n)`, unless some are asked for by name; long files
    first.
    """
    if not (config.option.whole or config.option.keyword or any("::" in word for word in config.args)):
        out = not_in_turn(items, Shard.parse(config.option.shard).number)
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]
    tests = Counter(map(file_of, items))
    items.sort(key=lambda item: order(file_of(item), tests))


def not_in_turn(items: list[pytest.Item], turn: int) -> set[pytest.Item]:
    """The tests that other runs have: n runs of successive shards have all of them.

    Of each kind of parameters a run has some: their order here is that of a hash.
    """
    functions = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        mark = item.get_closest_marker("in_turn")
        if mark is not None and not is_always(item, mark.args[1:]):
            functions[item.nodeid.partition("[")[0]].append(item)
    out = set[pytest.Item]()
    for function, members in functions.items():
        members.sort(key=lambda item: digest(item.nodeid))
        n = members[0].get_closest_marker("in_turn").args[0]  # type: ignore[union-attr]
        first = (turn + digest(function)) % n
        out.update(item for place, item in enumerate(members) if place % n != first)
    return out


def is_always(item: pytest.Item, names: tuple[str, ...]) -> bool:
    """Does one of the names stand in the brackets of the test's own?"""
    inside = item.nodeid.partition("[")[2].removesuffix("]")
    return inside in names or any(part in names for part in inside.split("-"))


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def order(file: str, tests: Counter[str]) -> tuple[int, int]:
    """A long file before the others, of those one of many tests before one of few."""
    return (LONG.index(file), 0) if file in LONG else (len(LONG), -tests[file])


def pytest_collection_finish() -> None:
    """What torch and the tests consist of stays: looking through it was a tenth of all time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


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


@pytest.fixture(autouse=True)
def nothing_refused_inside(request: pytest.FixtureRequest) -> Iterator[None]:
    """A graph that a rule of dlc's own refuses runs eagerly and gives the right result. It is a bug all the
    same, so that the test fails, strict or not.
    """
    before = internal_refusals()
    yield
    refused = internal_refusals() - before
    if refused and request.node.get_closest_marker("refused_inside") is None:
        pytest.fail(f"rules of dlc's own refused {refused} graphs: DLC_STRICT=1 raises the first reason")


def internal_refusals() -> int:
    """How many graphs rules of dlc's own have refused in this process; none before dlc is imported."""
    dlc = sys.modules.get("dlc")
    return int(dlc.counters()["internal_refusals"]) if hasattr(dlc, "counters") else 0


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(os.environ.pop("DLC_CACHE_DIR"), ignore_errors=True)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    return request.config.getoption("--backend")


@pytest.fixture(scope="session")
def shard(request: pytest.FixtureRequest) -> Shard:
    return Shard.parse(request.config.option.shard)


@pytest.fixture
def compiler(backend: str, shard: Shard, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """`torch.compile` with the backend under test, in a Dynamo that has forgotten everything else.

    Keyword `options` are dlc's, strict unless they say otherwise: a graph that would run eagerly fails
    the test. Other backends are not given them. Whether gcc works in the background, whose code most tests
    end without, depends on the shard, unless the test says which tier it wants: of four runs one has it.
    """
    import torch
    import torch._dynamo

    from .dynamo import leave_guards_untimed

    leave_guards_untimed()
    tier = "tcc" if (shard.number + digest(request.node.nodeid)) % 4 else "auto"
    logging.getLogger("torch.__trace").propagate = False  # else a failure shows thousands of lines

    def compile_with(target: Any, **kwargs: Any) -> Any:
        options = {"strict": True, "tier": tier} | kwargs.pop("options", {})
        if backend == "dlc":
            kwargs["options"] = options
        return torch.compile(target, backend=backend, **kwargs)

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield compile_with
    torch._dynamo.reset()
