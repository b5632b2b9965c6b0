"""Prepared values: golden files, and what they do not change.

prepare/<case>.dlc holds a graph, a line ---, the functions that make values of its parameters but x and c,
and the one that reads them. Run after one another these compute what the graph does.
"""

import re
from pathlib import Path

import pytest

from ..dlc_opt import opt
from .test_golden import HERE, check, halves

CASES = sorted(HERE.glob("prepare/*.dlc"))


def frozen(text: str) -> str:
    header = text.partition("->")[0]
    return ",".join(re.findall(r"\b([^xc\W\d]): ", header))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    check(path, request, "--prepare", frozen(halves(path)[0]))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_views_stay_when_the_pipeline_runs(path: Path) -> None:
    """No kernel copies panels back: each contraction still reads them through views."""
    before = halves(path)[0]
    run = opt(before, "--prepare", frozen(before)).split("---\n")[-1]
    kernels = opt(run, "--pipeline")
    assert run.count(" contract ") == kernels.count(" contract ")
    if " contract " in run:
        assert kernels.count(" = kernel ") == run.count(" contract ") + run.count(" into w)")


def test_fuel_is_a_value_each() -> None:
    before = halves(HERE / "prepare/parts_of_a_weight.dlc")[0]
    parts = [opt(before, "--prepare", "w", "--fuel", str(n)).count("fn prepare") for n in range(4)]
    assert parts == [0, 1, 2, 2]


def test_sizes_that_are_names_are_not_prepared() -> None:
    before = halves(HERE / "prepare/addmm_of_columns.dlc")[0].replace("33", "N").replace("[M", "[N, M")
    before = before.replace("f64[N, M,", "f64[M,").replace("f64[N, M", "f64[M")
    assert "fn prepare" not in opt(before, "--prepare", "w")


@pytest.mark.parametrize(("rows", "prepared"), [(2048, 1), (2049, 0)])
def test_large_columns_of_nothing_take_no_memory(rows: int, prepared: int) -> None:
    """No array has as many bytes as they: a product of a vector by a triangle of ones needs none."""
    text = f"""dlc 1 graph

fn f[M in 1..inf](x: f32[M, {rows}]) -> (f32[M, 2048]) {{
  let i: i64[{rows}, 2048] = iota axis=0
  let j: i64[{rows}, 2048] = iota axis=1
  let b: bool[{rows}, 2048] = le i, j
  let w: f32[{rows}, 2048] = cast b
  let y: f32[M, 2048] = contract x, w over="mk,kn->mn"
  ret y
}}
"""
    assert opt(text, "--prepare", "").count("fn prepare") == prepared
