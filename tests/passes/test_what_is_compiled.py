"""What is printed is what is compiled: a kernel that shares another one's code, and one that loses memory."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor

REPLAY = Path(os.environ.get("DLC_BIN", Path(__file__).parents[2] / "build")) / "test-replay"

LATE = """dlc 1 kernels

fn late(x: f64[45, 45], y: f64[45, 45]) -> (f64[45, 45] into x, f64[45, 45] into y) {
  let x1: f64[45, 45] over x = kernel {
    let a: f64[45] = sum x axes=[0]
    let b: f64[45, 45] = expand a to=[0]
    let c: f64[45, 45] = sub x, b
    ret c
  }
  let y1: f64[45, 45] over y = kernel {
    let d: f64[45] = sum y axes=[0]
    let e: f64[45, 45] = expand d to=[0]
    let f: f64[45, 45] = sub y, e
    ret f
  }
  ret x1, y1
}
"""


ROWS = """dlc 1 kernels

fn rows[B in 2..inf, N in 2..inf](x: f32[B, N]) -> (f32[B, N]) {
  let y: f32[B, N] = kernel {
    let m: f32[B] = amax x axes=[1]
    let n: f32[B, N] = expand m to=[0]
    let d: f32[B, N] = sub x, n
    ret d
  }
  ret y
}
"""


def test_a_rewrite_retracts_every_kernel_with_the_key(tmp_path: Path) -> None:
    """The first kernel alone is lowered, and the second has its key."""
    file = tmp_path / "late.dlc"
    file.write_text(LATE)
    env = os.environ | {"DLC_DUMP": "retract,lower", "DLC_VERIFY": "1", "DLC_DUMP_DIR": str(tmp_path)}
    done = subprocess.run([REPLAY, "-", file], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    first, *later = re.split(r"^-- ", done.stderr, flags=re.MULTILINE)[1:5]
    assert "let x1: f64[45, 45] = kernel" in first and "y1" not in first, "lowering finds that it reads late"
    assert [text.split()[0] for text in later] == ["retract", "retract", "lower"]
    assert "x1: f64[45, 45] = kernel" in later[0] and "y1: f64[45, 45] = kernel" in later[1]


@pytest.mark.parametrize("fuel", ["-1", "0"])
def test_short_rows_are_a_branch_of_one_kernel(tmp_path: Path, fuel: str) -> None:
    """One kernel, which chooses by the size of its rows; without fuel it goes along rows of any length."""
    file = tmp_path / "softmax.dlc"
    file.write_text(ROWS)
    env = os.environ | {"DLC_DUMP": "lower", "DLC_VERIFY": "1", "DLC_FUEL": fuel}
    done = subprocess.run([REPLAY, "-", file], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    first = done.stderr.split("-- lower\n")[1]
    assert first.count("= kernel {") == 1
    assert (first.count("if N <= 15 {"), first.count("} else {")) == ((0, 0) if fuel == "0" else (1, 1))


def test_the_program_of_a_unit_is_verified(tmp_path: Path) -> None:
    """Its parameters have other positions there than in the function that they come from."""
    env = os.environ | {"DLC_VERIFY": "1", "DLC_DUMP_DIR": str(tmp_path)}
    file = Path(__file__).parents[1] / "emit/near.dlc"
    done = subprocess.run([REPLAY, "-", file], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


def layer(x: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[1:]).softmax(-1)


def layers(x: Tensor) -> tuple[Tensor, ...]:
    """Two equal kernels, with another one between them."""
    a = layer(x)
    b = torch.sort(a).values
    c = layer(b)
    return torch.sort(c).values, x.transpose(0, 1).exp().sum(0)


def unnamed(kernel: str) -> str:
    """With the names that it binds numbered, in the order of the text."""
    names: dict[str, str] = {}
    bound = re.findall(r"(?:let|for|,) (\w+)(?=:| in )", kernel)
    for name in [*bound, *re.findall(r"load (\w+)\[", kernel)]:
        names.setdefault(name, f"v{len(names)}")
    return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), re.sub(r"  @.*", "", kernel))


def test_the_loops_of_a_shared_kernel_had_the_same_fuel(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fusion has spent it all, and left the layers equal: no rewrite is left for the loops of either."""
    x = torch.randn(40, 300)
    for fuel in range(2, 8):
        torch._dynamo.reset()
        monkeypatch.setenv("DLC_FUEL", str(fuel))
        options = {"dump": "loops", "tier": "tcc", "strict": True, "verify": False}
        torch.compile(layers, backend="dlc", options=options)(x)
        text = capfd.readouterr().err
        kernels = re.findall(r"^  let [^\n]* = kernel \{.*?^  \}", text, re.MULTILINE | re.DOTALL)
        first, second = (unnamed(kernel) for kernel in kernels if "reduce amax" in kernel)
        assert first == second, f"with {fuel} rewrites"
        assert "vector" not in first
