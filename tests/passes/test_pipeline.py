"""The pipeline around a pass: a driver in C for what no text can say, and the dumps of dlc-opt."""

import subprocess
from collections.abc import Callable

import pytest

from ..dlc_opt import PROGRAM

TEXT = "dlc 1 graph\n\nfn f[N](x: f32[N]) -> (f32[N]) {\n  let y: f32[N] = exp x\n  ret y\n}\n"


def test_driver(drive: Callable[[str], None]) -> None:
    drive("test_pipeline")


@pytest.mark.parametrize(("names", "headers"), [
    ("all", [f"-- {name}" for name in (
        "unmerge (unchanged)", "channels (unchanged)", "count (unchanged)", "canonicalise (unchanged)",
        "linearise (unchanged)", "dead (unchanged)", "inside (unchanged)", "fuse",
        "share (unchanged)", "panels (unchanged)", "layouts (unchanged)", "pad_rows (unchanged)",
        "in_place (unchanged)", "enclose (unchanged)",
    )]),
    ("fuse,dead", ["-- dead (unchanged)", "-- fuse"]),
    ("fus", []),
])  # fmt: skip
def test_dumps(names: str, headers: list[str]) -> None:
    ran = subprocess.run(
        [PROGRAM, "--pipeline", "--emit", "none", "-"],
        input=TEXT, capture_output=True, text=True, env={"DLC_DUMP": names},
    )  # fmt: skip
    assert [line for line in ran.stderr.splitlines() if line.startswith("--")] == headers
    assert ran.stderr.count("kernel {") == ("-- fuse" in headers)


def test_a_name_is_that_of_one_pass() -> None:
    """--pass finds each one of the list: no other pass, group of passes or target has its name."""
    listed = subprocess.run([PROGRAM, "--list"], capture_output=True, text=True, check=True).stdout
    names = ["pipeline"] + [line.removeprefix("--emit ").split()[0] for line in listed.splitlines()]
    assert len(names) > 40
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("width", [0, 128])
def test_non_temporal_stores_of_a_tile_have_its_width(width: int) -> None:
    """That of their arrays; without one there are none."""
    tile = f"for j in M parallel vector{f' width={width}' if width else ''} {{"
    text = """dlc 1 loops

fn f[N, M](x: f32[N, M] strides=[1, N]) -> (f32[N, M]) {
  let y: f32[N, M] = kernel {
    for i in N parallel tile {
      TILE
        let a: f32 = load x[i, j]
        store y[i, j] = a
      }
    }
  }
  ret y
}
"""
    ran = subprocess.run(
        [PROGRAM, "--pass", "cc:nontemporal", "-"],
        input=text.replace("TILE", tile), capture_output=True, text=True,
    )  # fmt: skip
    assert tile in ran.stdout, ran.stderr
    assert ("nontemporal=8388608 array=128" in ran.stdout) == (width == 128)
    assert ("nontemporal" in ran.stdout) == (width == 128)


def run_pass(name: str, text: str) -> str:
    ran = subprocess.run([PROGRAM, "--pass", name, "-"], input=text, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("over", ["", " over x"])
def test_rows_of_a_grid_do_not_need_each_other(over: str) -> None:
    """A schedule has split rows; in place, it is not seen which iteration has an element."""
    text = f"""dlc 1 loops

fn f[B in 1..inf](x: f64[B, 16, 16] strides=[261, 16, 1]) -> (f64[B, 16, 16] strides=[261, 16, 1]) {{
  let y: f64[B, 16, 16] strides=[261, 16, 1]{over} = kernel {{
    for b in B parallel {{
      for i in 128 {{
        for j in 2 vector {{
          let a: f64 = load x[b, i // 8, j + 2*(i % 8)]
          let c: f64 = acosh a
          let d: f64 = add c, a
          store y[b, i // 8, j + 2*(i % 8)] = d
        }}
      }}
    }}
  }}
  ret y
}}
"""
    assert ("grid=" in run_pass("grid", text)) == (over == "")


def test_one_primitive_sums_in_a_loop_of_a_vector_loop() -> None:
    """Which a schedule makes of a vector loop that it splits."""
    text = """dlc 1 loops

fn f(x: f32[16, 8]) -> (f32[8]) {
  let y: f32[8] = kernel {
    for o in 8 vector {
      for i in 1 {
        let s: f32 = reduce sum k in 16 {
          let a: f32 = load x[k, i + o]
          ret a
        }
        store y[i + o] = s
      }
    }
  }
  ret y
}
"""
    assert "reduce sum k in 16 primitive {" in run_pass("prefetch_tcc", text)
