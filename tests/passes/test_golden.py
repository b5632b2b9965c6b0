"""Golden files of the passes: <pass>/<case>.dlc holds a program, a line ---, and what the pass makes of it.

Both halves are verified, and the second computes what the first does on random arguments (by the
interpreter; programs with calls, which only torch can run, are verified alone).
After a wanted change:

    pytest tests/passes --update-golden
"""

import re
from pathlib import Path

import pytest

from ..dlc_opt import opt

HERE = Path(__file__).parent
PIPELINE = (HERE.parents[1] / "csrc/codegen/pipeline.c").read_text()
CASES = sorted(
    path for path in HERE.glob("*/*.dlc") if path.parent.name not in ("partition", "prepare", "weights")
)


def halves(path: Path) -> tuple[str, str]:
    before, _, after = path.read_text().partition("\n---\n")
    return before.strip() + "\n", after.strip() + "\n"


def check(path: Path, request: pytest.FixtureRequest, *options: str) -> None:
    """dlc-opt with the options makes the second half of the first, which means the same."""
    before, after = halves(path)
    made = opt(before, *options)
    if request.config.getoption("--update-golden"):
        after = made.strip() + "\n"
        path.write_text(f"{before}\n---\n\n{after}")
    assert made.strip() == after.strip()
    assert opt(after).strip() == after.strip(), "the second half does not print as it is written"
    if " call " not in before and not path.parent.name.startswith(("digits_", "groups_")):  # these round
        for seed in ("1", "2"):
            opt(before, *options, "--emit", "none", "--eval", seed)


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    check(path, request, "--pass", path.parent.name)


def test_every_pass_has_golden_files() -> None:
    """And so has every rewrite of the kernels stage, `idle`, `divide`, `tile`, `cut`, and each that only a
    written schedule asks for; kernels under tests/emit need the others of the loops."""
    csrc = HERE.parents[1] / "csrc"
    passes = set(re.findall(r"^PASS\( (\w+),", (csrc / "fusion/passes.def").read_text(), re.MULTILINE))
    table = (csrc / "codegen/rewrites.def").read_text()
    rewrites = set(re.findall(r"^REWRITE\( (\w+), *KERNELS, KERNELS,", table, re.MULTILINE))
    rewrites |= set(re.findall(r"REWRITE_(\w+)", PIPELINE.split("nests[] = {")[1].split("}")[0]))
    assert passes
    assert rewrites
    assert passes | rewrites | {"idle", "divide", "tile", "cut"} == {path.parent.name for path in CASES}
