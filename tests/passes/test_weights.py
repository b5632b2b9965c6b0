"""Weights as codes: golden files, and what the codes stand for.

weights/<case>.dlc holds a graph, a line ---, and for int8 and for int4 with zero points the functions that
make codes and scales of its parameters but x and c, and the one that reads them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..dlc_opt import opt
from .test_golden import HERE, halves
from .test_prepare import frozen

CASES = sorted(HERE.glob("weights/*.dlc"))
FORMATS = ("int8", "int4", "int4-zero")


def coded(before: str, format: str, *more: str) -> str:
    return opt(before, "--pass", "canonicalise,dead", "--prepare", frozen(before), "--weights", format, *more)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    before, after = halves(path)
    made = "---\n".join(coded(before, format) for format in ("int8", "int4-zero"))
    if request.config.getoption("--update-golden"):
        after = made.strip() + "\n"
        path.write_text(f"{before}\n---\n\n{after}")
    assert made.strip() == after.strip()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_no_float_copy_is_prepared(path: Path, format: str) -> None:
    """Of a weight that becomes codes, only these and numbers for columns or groups are kept."""
    before, _ = halves(path)
    made = coded(before, format)
    for text in made.split("---\n")[:-1]:
        result = re.search(r"-> \((\w+)\[([\d, ]*)\]\)", text)
        assert result is not None
        stays = re.search(r"panels|reshape \w+\n  let \w+: \w+\[[\d, ]+\] = permute", text)
        assert result[1] in ("i8", "u8") or eval(result[2].replace(",", "*")) <= 33 * 3 * 2 or stays, text
    run = made.split("---\n")[-1]
    assert (run.count(": i8[") + run.count(": u8[") > 0) or "stays" in path.stem


def test_fuel_is_a_weight_each() -> None:
    before, _ = halves(HERE / "weights/tied.dlc")
    texts = [coded(before, "int8", "--fuel", str(n)) for n in (0, -1)]
    assert [len(re.findall(r"-> \(i8", text)) for text in texts] == [0, 2]
