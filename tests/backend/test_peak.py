"""The memory that a step takes is what its plans predict: measured by who counts every block of the heap."""

from __future__ import annotations

import json
import platform
from typing import Any

import pytest

from benchmarks.heap import run

#: Of Python and of the graph of autograd, which nobody plans.
OTHER = 32 << 10


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("tests.backend.peaks", DLC_POOL="0").splitlines()]


NEEDS_GLIBC = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="heap.c stands in front of glibc's allocator"
)


@pytest.mark.in_turn(3)
@NEEDS_GLIBC
@pytest.mark.parametrize("kind", ["train", "evaluate", "limited"])
def test_the_peak_is_the_one_that_was_predicted(rows: list[dict[str, Any]], kind: str) -> None:
    for made in (row[kind] for row in rows if kind in row):
        assert made["predicted"] > 1 << 19
        assert abs(made["measured"] - made["predicted"]) < OTHER, made


@NEEDS_GLIBC
def test_copies_inside_of_a_call_are_measured_and_count(rows: list[dict[str, Any]]) -> None:
    """A gradient of 1 MiB and its reordered copy."""
    (made,) = [row["library"] for row in rows if "library" in row]
    assert made["inside"] >= 1 << 20
    assert abs(made["measured"] - made["predicted"]) < OTHER, made


@NEEDS_GLIBC
def test_a_call_keeps_little_of_each_value(rows: list[dict[str, Any]]) -> None:
    """Of 400 parameters and as many other values: less than 64 bytes of each."""
    (made,) = [row["deep"] for row in rows if "deep" in row]
    assert made["measured"] < 800 * 64, made


@NEEDS_GLIBC
def test_a_limit_is_kept(rows: list[dict[str, Any]]) -> None:
    """Of six tenths of what a step takes without."""
    (row,) = [row for row in rows if "limited" in row]
    assert row["limited"]["predicted"] <= row["train"]["predicted"] * 0.6
    assert row["limited"]["measured"] <= row["train"]["measured"] * 0.6 + OTHER
