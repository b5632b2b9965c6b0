"""The dependence test on random loop nests: see test_dependence.c."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.dlc_opt import opt
from tests.objects import CSRC, OBJECTS, SANITIZE, objects
from tests.shards import Shard

HERE = Path(__file__).resolve().parent
FLAGS = [f"-I{CSRC}", "-std=gnu11", "-O1", "-g", "-ffp-contract=off", "-fwrapv", *SANITIZE]
COUNT = 400  # nests of a shard


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_random_nests(tmp_path: Path, shard: Shard) -> None:
    """No pair of iterations is forgotten, no change of order that is allowed changes a bit, and few that
    could be allowed are not."""
    program = tmp_path / "test_dependence"
    source = str(HERE / "test_dependence.c")
    rewrites = [str(OBJECTS / f"codegen/schedule/nest/{name}.o") for name in ("reorder", "split")]
    linked = [*objects("ir", "codegen/loops"), *rewrites]
    subprocess.run(["cc", *FLAGS, source, *linked, "-lm", "-o", str(program)], check=True)
    command = [str(program), str(COUNT), str(1 + shard.number * COUNT)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    numbers = [int(n) for n in re.findall(r"\d+", ran.stdout)]
    allowed, forbidden, changed, free, refused = numbers
    assert min(allowed, forbidden, changed) >= COUNT // 10, ran.stdout
    assert refused <= free // 4, ran.stdout


def dependences(subscripts: tuple[str, str], loops: str = "for i in N {for j in M {") -> list[str]:
    """Those of a nest that loads the first element of a buffer and stores the second."""
    load, store = subscripts
    size = "2*N*M + 2*N + 2*M + 9"
    text = f"""dlc 1 loops

fn f[N, M](x: f32[N + 2, {size}]) -> (f32[N + 2, {size}]) {{
  let y: f32[N + 2, {size}] = kernel {{
    let a: f32[N + 2, {size}] = buffer
    for r in N + 2 {{ for c in {size} {{ let t: f32 = load x[r, c] store a[r, c] = t }} }}
    {loops} let p: f32 = load a[{load}] let q: f32 = mul p, 0.5 store a[{store}] = q }} }}
    for s in N + 2 {{ for d in {size} {{ let u: f32 = load a[s, d] store y[s, d] = u }} }}
  }}
  ret y
}}
"""
    first, *rest = opt(text, "--emit", "dependences").split("\nfor ")
    assert first == "for r: 0"
    assert rest[1].strip() == "s: 0"
    return [line.strip() for line in rest[0].splitlines()[1:]]


LOAD = "load a[{0}], then store a[{1}]: "
STORE = "store a[{1}], then load a[{0}]: "


@pytest.mark.parametrize(
    ("subscripts", "found"),
    [
        (("i, j", "i, j"), [LOAD + "i same, j same"]),
        (("i, j + 1", "i, j"), [LOAD + "i same, j later (1)"]),
        (("i, j + 2", "i + 1, j + 1"), [STORE + "i later (1), j earlier (-1)"]),
        (("i, j", "i, N + j"), [STORE + "i same, j later (N)"]),
        (("0, 2*j", "0, 2*i + 1"), []),
        (("0, j", "0, j + M"), []),
        (("0, M*i + j", "0, M*i + j + N*M"), []),
        (("0, 2*i + 2*j", "0, 2*i + 2*j + 1"), []),
    ],
)
def test_directions(subscripts: tuple[str, str], found: list[str]) -> None:
    """Distances with symbols, the GCD test, bounds with symbols."""
    lines = dependences(subscripts)
    assert [line for line in lines if "load" in line] == [line.format(*subscripts) for line in found]


def test_data_prove_nothing() -> None:
    """An index that is data may be the same in any two iterations."""
    text = (HERE / "valid" / "updates.dlc").read_text()
    assert "for one: 1\n  update y[g], then update y[g]: one same, j later\n" in opt(
        text, "--emit", "dependences"
    )
