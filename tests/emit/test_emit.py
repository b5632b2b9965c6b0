"""Kernels through both tiers against the interpreter, and the C that is written for them.

`build/test-emit` does the comparing, see run_emit.c: the tiers must agree in every bit over any partition
of the parallel loop. The golden C is what people read; `--update-golden` writes it anew.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.shards import Shard

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAM = Path(os.environ.get("DLC_BIN", ROOT / "build")) / "test-emit"
FILES = sorted(path.stem for path in HERE.glob("*.dlc"))
GOLDEN = ["softmax", "pointwise", "columns", "transpose", "stages", "joined", "stencil"]
HEADER = ROOT / "csrc/ir/math/prelude.h"
PRELUDE = [
    HEADER,
    *(HEADER.parent / name for name in re.findall(r'^#include "(\w+\.h)"', HEADER.read_text(), re.MULTILINE)),
    *(ROOT / f"csrc/codegen/emit/prelude_{part}.h" for part in ("reduce", "transpose", "scan")),
]
FLAGS = [
    "-std=gnu11",
    "-O2",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
]
PARTS = 11  # of the prefixes of a kernel, where the C compiler makes them
# Sizes of kernels that run once for each prefix, where all of them about 20 are too much for the interpreter.
FEW = {"product_letters": ("B=2", "H=3", "T=5", "D=4", "E=37")}
WARN = ["-Wall", "-Wextra", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wvla", "-Werror"]


def run(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, HERE / f"{name}.dlc", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def printed(name: str, what: str, *more: str) -> str:
    """What is written for a kernel; nothing runs."""
    done = run(name, what, "cc=0", "run=0", *more)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check(name: str, *args: str) -> None:
    done = run(name, *args)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.in_turn(12)
@pytest.mark.parametrize("name", FILES)
def test_sizes_of_any_kind(name: str, shard: Shard) -> None:
    """Other sizes in the next round of turns."""
    check(name, f"seed={1 + shard.number // 12 % 2}", "integers=3")


@pytest.mark.in_turn(8, "softmax", "columns")
@pytest.mark.parametrize("name", FILES)
def test_every_prefix_of_the_rewrites(name: str) -> None:
    """Each single rewrite of the schedule leaves the kernel right, in both tiers."""
    few = "seed=1", "integers=3", *FEW.get(name, ())
    whole, loops, fuel = printed(name, "print=loops"), "", 0
    while loops != whole:
        assert fuel < 100, "the last prefix is not the whole"
        done = run(name, "print=loops", f"fuel={fuel}", "cc=0", *few)
        assert (done.returncode, done.stderr) == (0, ""), f"fuel={fuel}: {done.stdout}"
        loops, fuel = done.stdout, fuel + 1


@pytest.mark.in_turn(2 * PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", FILES)
def test_every_prefix_by_the_c_compiler(name: str, part: int) -> None:
    """The same by gcc, which takes a second for each: the parts together are all prefixes."""
    few = "seed=1", "integers=3", *FEW.get(name, ())
    whole = printed(name, "print=loops")
    for fuel in range(part, 100, PARTS):
        check(name, f"fuel={fuel}", *few)
        if printed(name, "print=loops", f"fuel={fuel}") == whole:
            break


@pytest.mark.parametrize(
    "name", ["softmax", "pointwise", "columns", "total", "narrow", "choices", "stages", "places", "near"]
)
def test_special_numbers(name: str) -> None:
    check(name, "special=1")


@pytest.mark.in_turn(4)
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


@pytest.mark.in_turn(8, "softmax", "columns")
@pytest.mark.parametrize("name", FILES)
def test_compilers_have_nothing_to_say(name: str, tmp_path: Path) -> None:
    source = tmp_path / "unit.c"
    text = "".join(path.read_text() for path in PRELUDE)
    source.write_text(f"#define DLC_PASTED\n{text}{printed(name, 'print=cc')}")
    compilers = [found for name in ("gcc", "clang") if (found := shutil.which(name))]
    assert compilers
    for compiler in compilers:
        command = [compiler, *FLAGS, *WARN, "-c", source, "-o", tmp_path / "unit.o"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_near_operands() -> None:
    """Each phase in parts; one that stores over what it reads is tested first."""
    phases = printed("near", "print=cc").split(" phase of ")[1:]
    forms = [(p.split("\n")[0], sorted(set(re.findall(r"DLC_(?:NEAR|TEST), &again", p)))) for p in phases]
    either, tested = ["DLC_NEAR, &again"], ["DLC_NEAR, &again", "DLC_TEST, &again"]
    assert forms == [
        *((name, either) for name in ("a1", "b1", "c1", "d1", "e1", "f1")),
        ("v1", tested),
        ("u1", tested),
        ("s1", either),
    ]


def test_memory_is_prefetched() -> None:
    """By the last reduction that reads it; not what all rows share, nor what stays in caches."""
    text = printed("prefetch", "print=cc")
    found = [
        (phase.split("\n")[0], re.findall(r"PREFETCH\((\w+)(?: \+ .*, (\d+))?", phase))
        for phase in text.split(" phase of ")[1:]
    ]
    assert found == [
        ("v", [("x", "4096")]),
        (
            "u",
            [("y", "4096"), ("y", "4160")] * 3,
        ),  # two rows at a time, wherever they come from, and an odd one
        ("c", [("z", "")]),  # whole rows, one at a time
        ("c", []),
        ("a", [("x", "4096")] * 3),  # two halves of a block, and one that is not whole
        ("t", []),
    ]


def test_a_reduction_that_is_one_strip_prefetches_once() -> None:
    text = printed("prefetch_once", "print=tcc")
    assert re.search(r"strip_fold_sum_then_sub_exp_f32\(.*, 2 \| 4096 << 4\)", text)
    assert "strip_prefetch" not in text


def test_tensors_that_caches_hold_one_by_one_are_prefetched() -> None:
    """Six of 800 KB do not stay near a core; two and a row do."""
    phases = printed("many", "print=tcc").split(" phase of ")[1:]
    found = [re.findall(r"strip_prefetch(?:_write)?\((\w+) ", phase) for phase in phases]
    assert found == [["x", "y", "a", "b", "c", "d"], []]


def test_rows_that_are_gathered_are_prefetched() -> None:
    """A few KB of them ahead, of words in the order of the loops, within those; of what may be large."""
    text = printed("gather_rows", "print=cc")
    found = [
        (phase.split("\n")[0], re.findall(r"int64_t later = .* (\d+);\s+if \(later < (.*)\) {", phase))
        for phase in text.split(" phase of ")[1:]
    ]
    assert found == [
        ("s", [("58", "72")]),
        ("a", [("58", "72")]),
        ("d", [("64", "B && n1 > 131072")] * 2),  # rows together, and one by one
        ("y", []),  # five bags thrice
        ("o", []),  # words of columns
    ]


def test_short_rows_are_one_loop() -> None:
    """Beside it what all of them share, and what each has."""
    text = printed("flat", "print=cc")
    flat = [
        (phase.split("\n")[0], re.findall(r"(\w+)_flat\[(\d+)\];", phase))
        for phase in text.split(" phase of ")[1:]
    ]
    assert flat == [
        ("a", [("c0", "320"), ("s0", "336")]),
        ("o", [("b0", "384")]),
        ("l", [("w0", "448")]),
        ("f, f32", [("v1", "576")]),
        ("n", [("g1", "640")]),
        ("m, j", [("e0", "192"), ("at0", "192"), ("at", "208")]),
        ("z1", []),  # long enough alone
        ("q1", [("r0", "528")]),
        ("over1", [("pp0", "448")]),
    ]


def test_lanes_of_bf16_are_widened_together() -> None:
    """Where they lie side by side; not those two apart, nor float16."""
    text = printed("wide", "print=cc")
    widened = [
        (phase.split("\n")[0], sorted(set(re.findall(r"DLC_WIDE_BF16\(\w+, (\w+) \+", phase))))
        for phase in text.split(" phase of ")[1:]
    ]
    assert widened == [
        ("s", ["x"]),
        ("v", ["x"]),
        ("a", ["x"]),
        ("g", ["x"]),
        ("f", []),
        ("o", ["x"]),
        ("o", []),
    ]


def test_short_rows_run_together() -> None:
    """Loads that lie as the rows do are operands; what all tiles have is taken once, before the loop."""
    text = printed("grids", "print=tcc")
    phases = text.split(" phase of ")[1:]
    together = [phase.split("\n")[0] for phase in phases if "rows = " in phase]
    assert together == ["o", "ou", "og", "oz", "oq", "oi", "oa"]
    bytes_ = next(phase for phase in phases if phase.startswith("ou"))
    loop = bytes_.index("for (")
    assert bytes_.index("strip_take_4(") < loop
    assert "strip_take_" not in bytes_[loop:]
    assert "strip_read_u8_f32(tile4_1, u + (3 * i9), w)" in bytes_[loop:]
    turned = next(phase for phase in phases if phase.startswith("o\n"))
    called = re.findall(r"strip_(?!prefetch)\w+(?=\([^v])", turned[turned.index("for (") :])
    assert called == ["strip_in_place_twice_mul_sub_f32", "strip_in_place_twice_mul_add_f32"]


def test_rows_as_long_as_a_name_says_run_together() -> None:
    """Where it is never long; so many that they fill a tile is a size of the call."""
    text = printed("named_rows", "print=tcc")
    phases = [phase for phase in text.split(" phase of ")[1:] if "int64_t w = rows * " in phase]
    assert [phase.split("\n")[0] for phase in phases] == ["ob", "oh", "os", "oi", "ot"]
    assert "const int64_t n0 = n[0]; /* 512 // max(M, 1) */" in phases[0]
    assert phases[0].index("strip_take_4(tile4_0, b + 0, 0, 0, 1, n0, M)") < phases[0].index("for (")


def test_reductions_of_short_rows_run_together() -> None:
    """One call for all rows of a tile, where they lie if the body is no more than a product or a square."""
    text = printed("row_sums", "print=tcc")
    called = re.findall(r"strip_(?:rows|index_rows)_\w+(?=\([^v])", text)
    assert sorted(called) == [
        "strip_index_rows_gt",
        "strip_index_rows_gt",
        "strip_rows_amax_load_f32",
        "strip_rows_amin_load_f32",
        "strip_rows_sum_load_bf16",
        "strip_rows_sum_load_f32",
        "strip_rows_sum_load_f32",
        "strip_rows_sum_load_f32",
        "strip_rows_sum_load_f32",
        "strip_rows_sum_load_f64",
        "strip_rows_sum_square_sub_bf16",
        "strip_rows_sum_square_sub_f32",
        "strip_rows_sum_square_sub_f32",
        "strip_rows_sum_square_sub_f32",
        "strip_rows_sum_square_sub_f64",
    ]
    assert "strip_reduce_" not in text and "strip_fold_" not in text


def test_long_rows_are_reduced_in_place_and_stay_near() -> None:
    """As many rows a call as a first-level cache holds beside other things: it reads them twice."""
    text = printed("row_sums", "print=tcc")
    phases = text.split(" phase of ")[1:]
    tiles = [re.search(r"rows = hi - \w+ < (\d+)", phase).group(1) for phase in phases[-3:]]  # type: ignore[union-attr]
    assert tiles == ["13", "15", "4"]


def test_rows_that_are_looked_up_are_one_call() -> None:
    """Their indices are checked together; what is computed of the rows keeps them apart."""
    text = printed("gather_sums", "print=tcc")
    called = re.findall(r"strip_gathered_\w+(?=\([^v])", text)
    assert called == [
        "strip_gathered_sum_f32",
        "strip_gathered_sum_bf16",
        "strip_gathered_sum_f64",
        "strip_gathered_amax_f32",
    ]


def test_strips_go_down_long_pieces_of_rows() -> None:
    """Of 4 KB; of several reductions so much that all rows stay in a cache, which of any number is little."""
    phases = printed("folds", "print=tcc").split(" phase of ")[1:]
    tiles = [re.search(r"i\d+ \+= (\d+)\)", phase).group(1) for phase in phases if "strip_down_" in phase]  # type: ignore[union-attr]
    assert tiles == ["1024", "1024", "256", "1024", "512"]


def test_a_sum_of_one_element_reads_that_alone() -> None:
    phase = printed("one_hot", "print=tcc").split(" phase of ")[-1]
    assert "if (i3 >= 0 && i3 < N)" in phase
    assert "strip_reduce_sum" not in phase
    assert "strip_one_hot" not in phase


def test_two_products_of_halves_are_one_call() -> None:
    """Where all four are loaded for them, also as rows of a grid; float64 has a few of the pairs."""
    phases = printed("turning", "print=tcc").split(" phase of ")[1:]
    called = [re.findall(r"strip_in_place_twice_mul_(\w+)_bf16(?=\([^v])", phase) for phase in phases]
    assert called == [["sub", "add"], [], ["sub"], [], []]
    assert "strip_pair_add_div_right_f64" in phases[1] and "strip_choose_lt_f64" in phases[4]


def test_what_makes_both_operands_is_computed_with_it() -> None:
    """A product of a product and a sum, a difference of a sum and a product, whichever stands first."""
    text = printed("pairs", "print=tcc")
    assert re.findall(r"strip_both_(\w+)(?=\([^v])", text) == [
        "mul_add_mul_f32",
        "add_mul_sub_f32",
        "mul_add_mul_f32",
    ]


def test_elements_in_turn_are_stored_together() -> None:
    """And small integers are read as float, and a sum with a product of a neg is a difference."""
    text = printed("zips", "print=tcc")
    assert re.findall(r"strip_zip_\d", text[text.index("phase of four") :]) == [
        f"strip_zip_{n}" for n in (4, 3, 2, 2)
    ]
    assert re.findall(r"strip_unzip_\d", text[text.index("phase of four") :]) == [
        f"strip_unzip_{n}" for n in (4, 3, 2)
    ]
    assert "strip_read_i8_f32" in text and "strip_neg_" not in text
    assert "strip_twice_mul_sub_f32" in text and "strip_pair_mul_sub_right_f32" in text


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc reports which loops it vectorised")
@pytest.mark.parametrize("name", ["masks", "pointwise"])
def test_gcc_vectorises_every_loop(name: str, tmp_path: Path) -> None:
    source = tmp_path / "unit.c"
    text = "".join(path.read_text() for path in PRELUDE)
    body = printed(name, "print=cc")
    source.write_text(f"#define DLC_PASTED\n{text}{body}")
    flags = [*FLAGS, "-O3", "-march=native", "-fopt-info-vec-optimized"]
    command = ["gcc", *flags, "-c", source, "-o", tmp_path / "unit.o"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = {line.split(":")[1] for line in done.stderr.splitlines() if "loop vectorized" in line}
    assert len(said) == body.count("    INDEPENDENT\n") + body.count("    LANES\n")


@pytest.mark.parametrize("tier", ["loops", "cc", "tcc"])
@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str, tier: str, request: pytest.FixtureRequest) -> None:
    path = HERE / "golden" / f"{name}.{tier}.txt"
    text = printed(name, f"print={tier}")
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_reductions_of_what_is_loaded_are_one_call() -> None:
    """Down the rows of a tile, along narrow rows, of scans alone, and of indices that are compared."""
    text = printed("folds", "print=tcc")
    called = set(re.findall(r"strip_(?:down|along|scan|index)_\w+(?=\([^v])", text))
    assert called == {
        "strip_down_sum_load_f32",
        "strip_down_sum_square_sub_f32",
        "strip_down_sum_mul_f32",
        "strip_down_sum_square_f32",
        "strip_down_amax_load_f32",
        "strip_down_sum_load_f64",
        "strip_along_sum_load_bf16",
        "strip_along_sum_square_sub_bf16",
        "strip_along_sum_square_f64",
        "strip_scan_add_f32",
        "strip_index_gt",
    }
    assert "strip_load_bf16" not in text and "strip_run_" not in text and "strip_iota" not in text


def test_places_of_checked_indices_are_not_checked_again() -> None:
    """Nor computed: they are indices of the tensor that is looked up."""
    text = printed("checked", "print=loops")
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


def test_names_that_are_made_belong_to_no_parameter(tmp_path: Path) -> None:
    """Every ending that the emitters put behind a name: a parameter with it is called something else in C."""
    sources = "".join(path.read_text() for path in (ROOT / "csrc/codegen/emit").rglob("*.c"))
    ends = sorted(set(re.findall(r"%s(_[a-z]+)\b(?!%)", sources)))
    names = [f"a{end}" for end in ends] + ["row", "term", "lead", "opaque"]
    assert {"a_size", "a_place", "a_far"} < set(names)
    head = ", ".join(f"{name}: f32[N]" for name in names)
    sums = [f"    let s{k + 1}: f32[N] = add s{k}, {name}" for k, name in enumerate(names)]
    lines = [
        "dlc 1 kernels", "", f"fn f[N in 1..inf]({head}) -> (f32[N]) {{", "  let r: f32[N] = kernel {",
        f"    let s0: f32[N] = neg {names[0]}", *sums, f"    ret s{len(names)}", "  }", "  ret r", "}", "",
    ]  # fmt: skip
    path = tmp_path / "names.dlc"
    path.write_text("\n".join(lines))
    done = subprocess.run([PROGRAM, path, "print=cc"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    called = re.findall(r"const float \*(\w+) = p\[", done.stdout)
    assert len(called) == len(names)
    assert all(name.startswith("v_") for name in called), sorted(set(names) & set(called))
