"""A wrong expansion of a mark is found by bisection: the rewrite that sets the mark, and the kernel.

The bugs are rows of broken_emit.c: a phase in which the mark stands has a wrong stride, a wrong step, a rest
that is left out, or a prefetch that faults. Flags of a compiler (`unroll`, `narrow`) have no row, nor have
marks of tensors that no test has time for, nor those of the targets that dlc does not compile.
"""

import os
import re
from pathlib import Path

import pytest

from tests.dlc_opt import opt
from tests.fresh import run_module

from .test_broken import REWRITES

BUILD = Path(os.environ.get("DLC_BIN", Path(__file__).parents[2] / "build"))


def graph(sizes: str, inputs: str, result: str, *lets: str) -> str:
    body = "".join(f"  let {let}\n" for let in lets)
    return f"dlc 1 graph\n\nfn f{sizes}({inputs}) -> ({result}) {{\n{body}  ret y\n}}\n"


def rows_of_exp(rows: int, n: str, sizes: str = "") -> str:
    lets = f"e: f32[{rows}, {n}] = exp x", f"y: f32[{rows}] = sum e axes=[1]"
    return graph(sizes, f"x: f32[{rows}, {n}]", f"f32[{rows}]", *lets)


def reduced(op: str, shape: str, result: str, axis: int, sizes: str = "", dtype: str = "f32") -> str:
    kind = "i64" if op == "argmax" else dtype
    let = f"y: {kind}[{result}] = {op} x axes=[{axis}]"
    return graph(sizes, f"x: {dtype}[{shape}]", f"{kind}[{result}]", let)


def scan(op: str, dtype: str) -> str:
    kind = f"{dtype}[19, 50]"
    return graph("", f"x: {kind}", kind, f"y: {kind} = scan x op={op} axis=1")


CENTRED = graph(
    "",
    "x: f32[19, 96]",
    "f32[19, 96]",
    "s: f32[19] = sum x axes=[1]",
    "a: f32[19, 96] = expand s to=[0]",
    "y: f32[19, 96] = sub x, a",
)
MISH = graph(
    "",
    "x: f32[1000]",
    "f32[1000]",
    "e: f32[1000] = exp x",
    "l: f32[1000] = log1p e",
    "t: f32[1000] = tanh l",
    "y: f32[1000] = mul x, t",
)
CHANNELS = graph(
    "",
    "x: f32[300, 5], m: f32[5]",
    "f32[300, 5]",
    "b: f32[300, 5] = expand m to=[1]",
    "y: f32[300, 5] = sub x, b",
)
TRANSPOSED = graph(
    "",
    "x: f32[300, 70], z: f32[70, 300]",
    "f32[70, 300]",
    "t: f32[70, 300] = permute x perm=[1, 0]",
    "y: f32[70, 300] = add t, z",
)
CUBIC = graph(
    "",
    "x: f32[1000], z: f32[1000]",
    "f32[1000]",
    "p: f32[1000] = mul x, x",
    "q: f32[1000] = mul p, z",
    "r: f32[1000] = add q, x",
    "s: f32[1000] = mul r, x",
    "y: f32[1000] = add s, z",
)
LOOKED_UP = graph(
    "",
    "w: f32[4, 70], k: i64[9, 5]",
    "f32[9, 70]",
    "z: i64[9, 5] = bit_and k, 3",
    "l: f32[9, 5, 70] = gather w, z axis=0",
    "y: f32[9, 70] = sum l axes=[1]",
)
ONEHOT = graph(
    "",
    "x: f32[9, 300], k: i64[9]",
    "f32[9]",
    "i: i64[300] = iota axis=0",
    "j: i64[9, 300] = expand i to=[1]",
    "b: i64[9, 300] = expand k to=[0]",
    "c: bool[9, 300] = eq j, b",
    "o: f32[9, 300] = where c, x, 0.0",
    "y: f32[9] = sum o axes=[1]",
)
MERGED = graph(
    "",
    "x: f32[1000], z: f32[1000]",
    "f32[1000]",
    "d: f32[1000] = sub x, z",
    "y: f32[1000] = mul d, z",
)
SCALED = graph(
    "",
    "x: f32[9, 1000], m: f32[9]",
    "f32[9, 1000]",
    "b: f32[9, 1000] = expand m to=[0]",
    "y: f32[9, 1000] = mul x, b",
)
SINE = graph("", "x: f32[1000]", "f32[1000]", "y: f32[1000] = sin x")
FEW_ROWS = graph(
    "",
    "x: f32[2, 64], q: i8[64, 64]",
    "f32[2, 64]",
    "w: f32[64, 64] = cast q",
    'y: f32[2, 64] = contract x, w over="mk,kn->mn"',
)
N = "[N in 1..inf]"
CENTRED_ROWS = graph(
    N,
    "x: f32[N, 2048]",
    "f32[N, 2048]",
    "s: f32[N] = sum x axes=[1]",
    "a: f32[N, 2048] = expand s to=[0]",
    "y: f32[N, 2048] = sub x, a",
)
SLOW_ROWS = graph(
    N,
    "x: f32[N, 2048]",
    "f32[N]",
    "l: f32[N, 2048] = mul x, 0.5",
    "h: f32[N, 2048] = tanh l",
    "e: f32[N, 2048] = exp h",
    "y: f32[N] = sum e axes=[1]",
)
CHOSEN = graph(
    "",
    "x: f32[300, 8], z: f32[300], m: f32[300]",
    "f32[300, 8]",
    "c: bool[300] = lt z, m",
    "b: bool[300, 8] = expand c to=[0]",
    "y: f32[300, 8] = where b, x, 0.0",
)
STENCIL = graph(
    "[M in 3..inf]",
    "x: f32[M, 2048]",
    "f32[M - 2, 2048]",
    *(f"x{k}: f32[M - 2, 2048] = slice x axis=0 start={k} step=1" for k in range(3)),
    "d: f32[M - 2, 2048] = add x0, x1",
    "y: f32[M - 2, 2048] = add d, x2",
)
MANY_CHANNELS = graph(
    N,
    "x: f32[N, 5], m: f32[5]",
    "f32[N, 5]",
    "b: f32[N, 5] = expand m to=[1]",
    "y: f32[N, 5] = sub x, b",
)
TABLE = graph(
    "",
    "w: f32[100000, 64], k: i64[300]",
    "f32[300, 64]",
    "l: f32[300, 64] = gather w, k axis=0",
    "y: f32[300, 64] = mul l, 2.0",
)
PRODUCT = graph(
    "",
    "x: f32[9, 64], w: f32[64, 40]",
    "f32[9, 40]",
    'y: f32[9, 40] = contract x, w over="mk,kn->mn"',
)
ROWS_OF_SUMS = graph(
    N,
    "x: f32[N, 50]",
    "f32[N, 50]",
    "y: f32[N, 50] = scan x op=sum axis=1",
)
TILES_OF_ROWS = graph(
    "",
    "x: f32[40, 300], w: f32[300, 40]",
    "f32[40, 40]",
    'y: f32[40, 40] = contract x, w over="mk,kn->mn"',
)

#: A bug, the rewrite that sets the mark, a program, the sizes that it runs with.
BUGS = {
    "cc_distribute": ("distribute", MISH),
    "cc_stage": ("distribute", MISH),
    "cc_across": ("distribute", scan("logaddexp", "f32")),
    "cc_fill": ("fill", rows_of_exp(9, "77")),
    "cc_masked": ("fill", rows_of_exp(64, "N", N), "N=77"),
    "cc_hidden": ("fill", rows_of_exp(9, "77")),
    "cc_uniform": ("hoist", LOOKED_UP),
    "cc_flat": ("flatten", CHANNELS),
    "cc_jam": ("jam", CENTRED),
    "cc_joint": ("jam", CENTRED),
    "cc_jam_recurrences": ("jam", scan("sum", "f64")),
    "cc_jam_columns": ("columns", reduced("sum", "60, 300", "300", 0)),
    "cc_array": ("carry", reduced("sum", "60, 300", "300", 0)),
    "cc_registers": ("decode", FEW_ROWS),
    "cc_strip_columns": ("columns", reduced("sum", "100, 5000", "5000", 0)),
    "cc_width": ("transpose", TRANSPOSED),
    "cc_transpose": ("transpose", TRANSPOSED),
    "cc_tile": ("vectorise", TRANSPOSED),
    "cc_recurrences": ("vectorise", scan("sum", "f64")),
    "cc_scan": ("scan", scan("sum", "f32")),
    "cc_parts": ("overlap", reduced("sum", "64, 5000", "64", 1)),
    "cc_places": ("overlap", reduced("argmax", "4, 200", "4", 1)),
    "cc_near": ("near", SINE),
    "cc_phase": ("version", reduced("sum", "64, N", "64", 1, N), "N=65"),
    "cc_onehot": ("select", ONEHOT, "integers=1"),
    "cc_widened": ("widen", reduced("amax", "9, 64", "9", 1, dtype="bf16")),
    "cc_prefetch": ("prefetch_reductions", CENTRED_ROWS, "N=9"),
    "cc_prefetch_rows": ("prefetch_cc", TABLE),
    "cc_alone": ("alone", CENTRED_ROWS, "N=9"),
    "cc_strip": ("stencil", STENCIL, "M=40"),
    "cc_nontemporal": ("nontemporal", MANY_CHANNELS, "N=200"),
    "cc_prefetch_tile": ("prefetch_products", TILES_OF_ROWS),
    "cc_rolled": ("roll", CHOSEN),
    "cc_parallel": ("parallelise", rows_of_exp(9, "77")),
    "cc_micro": ("micro", PRODUCT),
    "tcc_parallel": ("parallelise", reduced("sum", "64, 5000", "64", 1)),
    "tcc_micro": ("micro", PRODUCT),
    "tcc_prefetch": ("prefetch_tcc", MANY_CHANNELS, "N=200"),
    "tcc_merged": ("merge", MERGED),
    "tcc_in_place": ("prefetch_tcc", SCALED),
    "tcc_prefetch_call": ("prefetch_tcc", SLOW_ROWS, "N=9"),
    "tcc_primitive": ("prefetch_tcc", reduced("sum", "60, 300", "300", 0)),
    "tcc_grid": ("grid", CHANNELS),
    "tcc_width": ("tile_tcc", CUBIC),
    "tcc_transpose": ("transpose", TRANSPOSED),
    "tcc_tile": ("vectorise", TRANSPOSED),
    "tcc_recurrences": ("vectorise", scan("sum", "f64")),
    "tcc_scan": ("scan", scan("sum", "f32")),
    "tcc_nontemporal": ("nontemporal", ROWS_OF_SUMS, "N=40"),
    "tcc_prefetch_tile": ("prefetch_products", TILES_OF_ROWS),
    "tcc_onehot": ("select", ONEHOT, "integers=1"),
}


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("bug", BUGS)
def test_bisection_finds_the_rewrite_that_sets_the_mark(tmp_path: Path, bug: str) -> None:
    rewrite, program, *sizes = BUGS[bug]
    text = opt(program, "--pipeline")
    file = tmp_path / "program.dlc"
    file.write_text(text)
    tier = ["cc=0"] if bug.startswith("tcc") else []
    command = [str(BUILD / "broken-emit"), str(file), *tier, *sizes]
    script = tmp_path / "script.py"
    script.write_text(f"import subprocess, sys\nsys.exit(subprocess.run({command}).returncode)\n")
    done = run_module("dlc", "bisect", str(script), BROKEN=bug, DLC_CACHE_DIR=str(tmp_path / "objects"))
    assert re.search(r"Rewrite \d+ makes it wrong", done.stdout), done.stdout + done.stderr
    assert f"in the pass {rewrite}." in done.stdout, done.stdout
    kernel = re.search(r"let (\w+): .* = kernel", text)
    assert kernel and f"The kernel is that of {kernel[1]}" in done.stdout


def test_each_bug_of_the_table_is_tested() -> None:
    text = (Path(__file__).parent / "broken_emit.c").read_text()
    rows = [f"{target}_{name}" for target, name in re.findall(r"^    BUG\((\w+), (\w+), \w+, \"", text, re.M)]
    both = re.findall(r"^    BUG_OF_BOTH\((\w+), \w+,\s+\"", text, re.M)
    rows += [f"{target}_{name}" for target in ("cc", "tcc") for name in both]
    assert sorted(rows) == sorted(BUGS)


#: Found by the tests of test_broken.py, of those that change the program or make other loops.
ELSEWHERE = {"promise", "order", "retract", "lower", "idle", "divide", "tile", "join"}
#: Carried out in the interpreter as well, which their golden files compare; of targets that nobody runs here.
NOT_RUN = {"cut", "split", "reorder", "interchange", "terms", "pipeline_hls"}


def test_each_rewrite_has_a_bug_that_bisection_finds() -> None:
    assert {rewrite for rewrite, *_ in BUGS.values()} == set(REWRITES) - ELSEWHERE - NOT_RUN
