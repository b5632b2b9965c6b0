"""A shard of torch's operators, modules and optimisers, chosen by the commit; tests/shards.py says how.

`make sweep SHARD=k/n` runs all samples of a shard.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.ops.check import Way, as_function, compare, entries, nearby, wrong_slopes
from tests.ops.pool import Outcome, Pool
from tests.ops.sweep import TOGETHER, Cell, everything, excused, jobs, read, summary
from tests.ops.worker import numbers_of
from tests.shards import CELLS, Shard, digest

PARTS = 16
ODD = 0.03  # of the graphs may run eagerly: tensors of complex halves, conjugated when they are read
ROUNDS = 2  # of which one compiles by both tiers what both are to run
KNOWN = 4  # samples of a cell of known sizes, which share a compiled function; of names of sizes one


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    pool = Pool(os.cpu_count() or 1, tmp_path_factory.mktemp("sweep") / "workers.log")
    yield pool
    pool.close()


def window(cell: Cell) -> int:
    name, way = cell
    alone = way.dynamic or way.errors or way.slopes or name.startswith(("module ", "optimiser "))
    return 1 if alone else KNOWN


def job_of(cell: Cell, backend: str, shard: Shard) -> dict[str, Any]:
    """What both tiers are to run is libtcc's alone in all rounds but one of `ROUNDS`: the C compiler takes as
    long as all else. Each tier has all samples after enough rounds.
    """
    (job,) = jobs([cell], backend, shard, window(cell), TOGETHER)
    if cell[1].tier == "auto":
        several, one = divmod(shard.number // shard.count + digest("tier", *cell) % ROUNDS, ROUNDS)
        if one:
            job["way"] = job["way"] | {"tier": "tcc"}
            several = several * (ROUNDS - 1) + one - 1
        job["shard"] = several * shard.count + shard.number % shard.count, shard.count
    return job


@pytest.mark.parametrize("part", range(PARTS))
def test_shard(part: int, pool: Pool, backend: str, shard: Shard) -> None:
    cells = [cell for cell in everything() if shard.visits(*cell)][part::PARTS]
    outcomes = list(pool.run([job_of(cell, backend, shard) for cell in cells]))
    graphs, eager = sum(o.graphs for o in outcomes), sum(o.eager for o in outcomes)
    assert graphs > len(outcomes) / 2, "Dynamo captures next to nothing"
    assert not any(o.own for o in outcomes), summary(outcomes)
    assert eager <= ODD * graphs + 1, summary(outcomes)  # a part has few graphs, and one may be of these


def test_each_tier_has_all_samples() -> None:
    """And of the same cells in each round some are compiled by both."""
    cells = [c for c in everything() if c[1].tier == "auto" and Shard(7).visits(*c)][:40]
    total, found = 6, dict[tuple[str, Way], set[int]]()
    for round in range(2 * ROUNDS):
        of_round = [job_of(cell, "dlc", Shard(7 + CELLS * round)) for cell in cells]
        assert {job["way"]["tier"] for job in of_round} == {"auto", "tcc"}
        for job in of_round:
            numbers = numbers_of(job | {"skip": [], "window": KNOWN}, total)
            found.setdefault((job["name"], Way(**job["way"])), set()).update(numbers)
    assert len(found) == 2 * len(cells)
    assert all(numbers == set(range(total)) for numbers in found.values())


def test_a_wrong_slope_is_seen() -> None:
    def doubled(value: torch.Tensor, args: Any, kwargs: Any) -> torch.Tensor:
        return value.detach().sin() + 2 * (value - value.detach())

    sine = next(op for op in entries() if op.name == "sin")
    sample = (torch.ones(3, dtype=torch.float64, requires_grad=True), (), {})
    assert "mismatch" in (wrong_slopes(sine, doubled, sample) or "")
    assert wrong_slopes(sine, as_function(sine), sample) is None


def off(errors: list[float]) -> list[Any]:
    """Runs of a program whose eager result is wrong by 1e-4, dlc's by the errors given."""
    one = torch.ones(3, dtype=torch.float64)
    return [[(one + e).float(), (one + 1e-4).float(), one] for e in errors]


def test_luck_of_one_run() -> None:
    """Where eager is hundreds of ulps off, being twice as far in one run of many decides nothing."""
    first, *others = off([5e-4] + [1e-4] * 8)
    compare(*first[:2], lambda: first[2], True, lambda: iter(others))
    for wrong in (off([5e-4] * 8), [], iter(lambda: 1 / 0, None)):
        with pytest.raises(AssertionError):
            compare(*first[:2], lambda: first[2], True, lambda wrong=wrong: iter(wrong))
    near = torch.ones(3) + 1e-4, torch.ones(3), torch.ones(3, dtype=torch.float64)
    with pytest.raises(AssertionError):  # eager is right, dlc is not
        compare(*near[:2], lambda: near[2], True, lambda: iter(others))


def test_luck_of_one_element() -> None:
    """Of the largest error of many elements several runs decide, of their mean square each by itself."""
    truth = torch.ones(500, dtype=torch.float64)

    def run(largest: float, others: float) -> list[torch.Tensor]:
        mine, theirs = truth + others * 1e-6, truth + 1e-6
        mine[0] = 1 + largest * 1e-6
        return [mine.float(), theirs.float(), truth]

    first, usual = run(15.0, 1.0), [run(1.0, 1.0)] * 8
    compare(*first[:2], lambda: truth, True, lambda: iter(usual))
    for wrong, more in ((first, [first] * 8), (run(15.0, 15.0), usual)):
        with pytest.raises(AssertionError):
            compare(*wrong[:2], lambda: truth, True, lambda more=more: iter(more))


def test_nearby() -> None:
    """Some ulps away, differently for each seed; zeros and what is not a floating number stay."""
    source = torch.tensor([0.0, 1.0, -3.0, torch.inf], requires_grad=True)
    sample = (source, (torch.arange(3), 2.5), {"z": torch.tensor([1 + 2j])})
    (x, (whole, number), named), (y, _, _) = nearby(sample, 0), nearby(sample, 1)
    assert x.requires_grad and x.is_leaf
    assert not torch.equal(x, y)
    assert x[0] == 0 and x[3] == torch.inf
    assert torch.equal(whole, torch.arange(3)) and number == 2.5
    assert 0 < (named["z"] - sample[2]["z"]).abs().item() < 2e-6
    torch.testing.assert_close(x, source, rtol=1e-6, atol=0)


SOFTPLUS = [("nn.functional.softplus", Way())]


def lethal(graph: Any, inputs: list[Any]) -> Any:
    """A backend that kills its process when it sees a tensor of rank 1."""
    if any(isinstance(t, torch.Tensor) and t.dim() == 1 for t in inputs):
        os.kill(os.getpid(), signal.SIGKILL)
    return graph.forward


@pytest.mark.in_turn(3)
def test_crash_costs_one_sample(pool: Pool) -> None:
    backend = f"{lethal.__module__}:{lethal.__name__}"
    (outcome,) = pool.run(jobs(SOFTPLUS, backend))
    assert 0 < len(outcome.own) < outcome.samples
    assert all("crash" in reason for _, reason, _ in outcome.own)
    (healthy,) = pool.run(jobs(SOFTPLUS, "aot_eager"))
    assert healthy.samples == outcome.samples
    assert not healthy.failures


def odd(graph: Any, inputs: list[Any]) -> Any:
    """A backend whose functions are wrong for graphs that see a tensor of rank 1."""
    wrong = any(isinstance(t, torch.Tensor) and t.dim() == 1 for t in inputs)

    def run(*given: Any) -> Any:
        made = graph.forward(*given)
        return tuple(t + 1 if isinstance(t, torch.Tensor) else t for t in made) if wrong else made

    return run


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("function", [odd, lethal])
def test_a_group_fails_as_its_samples_do(function: Any, pool: Pool) -> None:
    """Samples that share a compiled function are judged as they are alone, crashes too."""
    backend = f"{function.__module__}:{function.__name__}"
    (alone,) = pool.run(jobs(SOFTPLUS, backend))
    (group,) = pool.run(jobs(SOFTPLUS, backend, together=4))
    assert 0 < len(alone.own) < alone.samples
    assert (group.samples, group.failures) == (alone.samples, alone.failures)


def test_journal(tmp_path: Path) -> None:
    """What was written is read again; a line that a kill has cut is not."""
    good = Outcome("add", Way(True), 3, 2, 0, [[1, "wrong", None], [2, "too", "too"]])
    journal = tmp_path / "journal"
    journal.write_text(good.line() + "\n" + good.line()[:20])
    assert read(journal) == {("add", Way(True)): good}
    assert good.own == [[1, "wrong", None]]
    assert "1 of 3 samples; sample 1: wrong" in summary([good])
    assert excused([good]) == "dynamic add, sample 2, as with aot_eager: too"
