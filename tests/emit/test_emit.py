"""Kernels through all targets against the interpreter, and the loops that targets have of them.

`build/test-emit` does the comparing, see run_emit.c: the tiers must agree in every bit over any partition of
the parallel loop. The golden loops are what people read; `--update-golden` writes them anew. What the
emitters choose is tested in test_choices.py.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.dlc_opt import opt
from tests.emit.unit import FLAGS, HAS_GCC
from tests.emit.written import HERE, PROGRAM, ROOT, check, loops, run, unit
from tests.shards import Shard
from tests.structure.kernels import without_short_rows

FILES = sorted(path.stem for path in HERE.glob("*.dlc"))
GOLDEN = ["softmax", "pointwise", "columns", "transpose", "stages", "joined", "stencil", "product_decoded"]
PARTS = 11  # of the prefixes of a kernel, where the C compiler makes them
# Sizes of kernels that run once for each prefix, where all of them about 20 are too much for the interpreter.
FEW = {"product_letters": ("B=2", "H=3", "T=5", "D=4", "E=37")}
WARN = ["-Wall", "-Wextra", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wvla", "-Werror"]


@pytest.mark.in_turn(12)
@pytest.mark.parametrize("name", FILES)
def test_sizes_of_any_kind(name: str, shard: Shard) -> None:
    """Other sizes in the next round of turns."""
    check(name, f"seed={1 + shard.number // 12 % 2}", "integers=3")


@pytest.mark.in_turn(48, "softmax", "columns")
@pytest.mark.parametrize("name", FILES)
def test_every_prefix_of_the_rewrites(name: str) -> None:
    """Each single rewrite of the schedule leaves the kernel right, in both tiers."""
    few = "seed=1", "integers=3", *FEW.get(name, ())
    whole, made, fuel = loops(name), "", 0
    while made != whole:
        assert fuel < 100, "the last prefix is not the whole"
        done = run(name, "print=loops", f"fuel={fuel}", "cc=0", *few)
        assert (done.returncode, done.stderr) == (0, ""), f"fuel={fuel}: {done.stdout}"
        made, fuel = done.stdout, fuel + 1


@pytest.mark.in_turn(10 * PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", FILES)
def test_every_prefix_by_the_c_compiler(name: str, part: int) -> None:
    """The same by gcc, which takes a second for each: the parts together are all prefixes."""
    few = "seed=1", "integers=3", *FEW.get(name, ())
    whole = loops(name)
    for fuel in range(part, 100, PARTS):
        check(name, f"fuel={fuel}", *few)
        if loops(name, f"fuel={fuel}") == whole:
            break


@pytest.mark.in_turn(3)
@pytest.mark.parametrize(
    "name", ["softmax", "pointwise", "columns", "total", "narrow", "choices", "stages", "places", "near"]
)
def test_special_numbers(name: str) -> None:
    check(name, "special=1")


@pytest.mark.in_turn(8)
@pytest.mark.parametrize(
    "case",
    [
        "softmax B=3 N=5000",  # several blocks of lanes
        "columns M=2000 N=300",  # several blocks of steps, several tiles
        "columns M=3 N=1025",
        "total M=3 N=70001",  # two phases
        "total M=20011 N=3",
        "total M=1 N=1",
        "bias_grad B=3 T=2000",  # two phases of columns
        "pointwise B=70 N=50",
        "places M=3 N=2600",  # several blocks, the last not whole
        "places M=9 N=2600 special=1",  # NaN in one half of a block, or in both
        "stages B=3 N=700",  # several tiles of 256, the last not whole
        "transpose B=3 M=77 N=523 integers=70",  # several tiles, not all whole
        "transpose B=20 M=40 N=260 integers=40",  # in a loop over batches
        "grids B=3 M=400 V=9 integers=9",  # several tiles of rows, the last not whole
        "grids B=70 M=7 V=1 integers=1",
        "row_sums M=77 B=3",  # several tiles of rows, of columns that are no multiple of lanes
        "row_sums M=600 B=2 special=1",
        "named_rows M=0 N=9 K=1",
        "named_rows M=15 N=1200 K=101 integers=3",  # rows of a name's length, several tiles of them
        "named_rows M=1 N=700 K=100",
        "named_rows M=7 N=777 K=19 special=1",
        "gather_rows V=50000 B=300 integers=3",  # a table that is prefetched
        "flat B=3 M=400 integers=9",  # several blocks, the last not whole
        "flat B=1 M=64 integers=9",
        "flat B=70 M=2 integers=5 special=1",
        "gather_sums M=5 N=300 K=70 V=40 integers=3",  # several blocks of rows that are gathered
        "zips N=700 M=2 integers=99",
        "zips N=257 M=3 special=1",
        "turning B=3 M=200 integers=3",
        "turning B=2 M=300 special=1 integers=3",
        "one_hot B=5 N=1030 integers=700",  # several tiles and blocks, hits in each
        "folds M=200 N=700",  # several blocks of rows, several tiles
        "folds M=9 N=2600",
        "folds M=130 N=1400",  # several tiles of long pieces of rows
        "wide B=3 N=9001",  # blocks side by side, blocks alone, a rest
        "wide B=5 N=100 special=1",
        "scatter N=7 J=600 C=700 integers=7",  # several tiles, places that meet
        "scatter N=300 J=50 C=20 integers=200",
        "scatter N=5 J=3000 C=1 integers=5",
        "scatter N=5 J=0 C=3",
        "near B=3 N=5000",  # several parts, in some of which an operand is far
        "near B=700 N=20 special=1",
        "near B=2 N=3000 special=1",
        "pad_empty N=0",
        "pad_empty N=3",
        "empty B=0 N=4",
        "empty B=4 N=0",
    ],
)
def test_these_sizes(case: str) -> None:
    check(*case.split())


def test_an_index_out_of_range_is_a_fault_and_nothing_else() -> None:
    check("gather", "integers=1000", "V=3", "B=5", "T=5", "fault=1")
    check("grids", "integers=1000", "V=3", "B=5", "M=5", "fault=1")
    check("scatter", "integers=1000", "N=3", "J=5", "C=5", "fault=1")


@pytest.mark.in_turn(16, "softmax", "columns")
@pytest.mark.parametrize("name", FILES)
def test_compilers_have_nothing_to_say(name: str, tmp_path: Path) -> None:
    compilers = [found for name in ("gcc", "clang") if (found := shutil.which(name))]
    assert compilers
    for compiler in compilers:
        assert unit(name, "cc", tmp_path).compiled(compiler, *FLAGS, "-O2", *WARN) == ""


@pytest.mark.skipif(not HAS_GCC, reason="needs gcc, which reports the loops that it vectorised")
@pytest.mark.parametrize("name", ["masks", "pointwise"])
def test_gcc_vectorises_every_loop(name: str, tmp_path: Path) -> None:
    told, made = unit(name, "cc", tmp_path).vectors()
    assert told and told <= made


@pytest.mark.parametrize("stage", ["loops", "cc", "tcc"])
@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str, stage: str, request: pytest.FixtureRequest) -> None:
    """The loops before the rewrites for targets, and behind them."""
    path = HERE / "golden" / f"{name}.{stage}.txt"
    passes = "lower,schedule" + ("" if stage == "loops" else f",{stage}")
    text = opt((HERE / f"{name}.dlc").read_text(), "--pass", passes)
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_places_of_checked_indices_are_not_checked_again() -> None:
    """Nor computed: they are indices of the tensor that is looked up."""
    text = without_short_rows(loops("checked"))
    assert re.findall(r"extent=(\S+) wrap=(\d)", text) == [("B", "2"), ("B", "1")]
    assert len(re.findall(r"\bbind\b", text)) == 2 and "size dim" not in text


def test_five_thousand_lets_are_no_trouble(tmp_path: Path) -> None:
    lets = [f"    let v{k}: f32[N] = mul v{k - 1}, {'xyz'[k % 2]}" for k in range(1, 5000)]
    head = "dlc 1 kernels\n\nfn f[N in 1..inf](x: f32[N], y: f32[N]) -> (f32[N]) {\n"
    kernel = "  let r: f32[N] = kernel {\n    let v0: f32[N] = add x, y\n"
    path = tmp_path / "long.dlc"
    path.write_text(head + kernel + "\n".join(lets) + "\n    ret v4999\n  }\n  ret r\n}\n")
    done = subprocess.run([PROGRAM, path, "cc=0"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


NAMED = """dlc 1 kernels

fn f[N in 2..inf, M in 2..inf]({params}) -> (f32[N, M], f32[N], f32[M], f32[N, M], f32[M, N], f32[N]) {{
  let all: f32[N, M] = kernel {{
{sums}
    ret s{last}
  }}
  let along: f32[N] = kernel {{
    let l1: f32[N, M] = exp {one}
    let l2: f32[N] = sum l1 axes=[1]
    ret l2
  }}
  let down: f32[M] = kernel {{
    let d1: f32[N, M] = mul a, {one}
    let d2: f32[M] = amax d1 axes=[0]
    ret d2
  }}
  let running: f32[N, M] = kernel {{
    let r1: f32[N, M] = sub a, {one}
    let r2: f32[N, M] = scan r1 op=sum axis=1
    ret r2
  }}
  let turned: f32[M, N] = kernel {{
    let t1: f32[M, N] = permute a perm=[1, 0]
    let t2: f32[M, N] = permute {one} perm=[1, 0]
    let t3: f32[M, N] = div t1, t2
    ret t3
  }}
  let largest: f32[N] = kernel {{
    let g1: i64[N] = argmax {one} axes=[1]
    let g2: f32[N] = cast g1
    ret g2
  }}
  ret all, along, down, running, turned, largest
}}
"""


@pytest.mark.in_turn(4)
def test_names_that_are_made_belong_to_no_parameter(tmp_path: Path) -> None:
    """Every word that the emitters put behind a name, as the name of a parameter beside one without the word:
    each compiles, and is right.
    """
    sources = "".join(path.read_text() for path in (ROOT / "csrc/codegen/emit").rglob("*.c"))
    ends = sorted(set(re.findall(r"%s(_[a-z]+)\b(?!%)", sources)))
    names = [f"{stem}{end}" for stem in ("a", "i0", "all") for end in ends] + [
        "row",
        "term",
        "lead",
        "opaque",
    ]
    assert {"a_size", "a_place", "a_far"} < set(names)
    sums = [f"    let s0: f32[N, M] = add a, {names[0]}"]
    sums += [f"    let s{k}: f32[N, M] = add s{k - 1}, {name}" for k, name in enumerate(names) if k]
    params = ", ".join(f"{name}: f32[N, M]" for name in ["a", *names])
    path = tmp_path / "names.dlc"
    for one in names[:: len(names) // 7]:
        path.write_text(NAMED.format(params=params, sums="\n".join(sums), last=len(names) - 1, one=one))
        done = subprocess.run([PROGRAM, path], capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
