"""Of whole programs: every loop, copy and special access of the C has its line in the loops of that target.

Each test states all lines with marks, of the loops that the emitter of the target gets. A line without marks
is one let of plain code: a load, an operation or a store, or a loop that runs as it is written.
"""

import re
from pathlib import Path

import pytest

from .test_target_lines import EMBEDDING_SUM, graph, lines

ROOT = Path(__file__).parents[2]
MARKS = set(re.findall(r"^MARK\( *(\w+),", (ROOT / "csrc/ir/marks.def").read_text(), re.MULTILINE))

#: What a mark stands on: a loop, a reduction, an access of a tensor, another let.
CARRIERS = r"^ *(for)\b", r"= (reduce \w+)", r"(?:load|store) (\w+)", r"= (\w+)"


def marked(program: str, target: str) -> list[str]:
    """The lines with marks: what carries them, and all of them but `parallel`."""
    said = []
    for line in lines(program, target).splitlines():
        words = line.replace(" {", "").split()
        marks = []
        while words and words[-1].split("=")[0] in MARKS:
            marks.insert(0, words.pop())
        marks = [mark for mark in marks if mark != "parallel"]
        if marks:
            what = next(found for kind in CARRIERS if (found := re.search(kind, line)))
            said.append(" ".join([what[1], *marks]))
    return said


ROWS = "f32[200, 1000]"
SOFTMAX = graph(
    f"x: {ROWS}",
    ROWS,
    "m: f32[200] = amax x axes=[1]",
    f"a: {ROWS} = expand m to=[0]",
    f"d: {ROWS} = sub x, a",
    f"e: {ROWS} = exp d",
    "s: f32[200] = sum e axes=[1]",
    f"b: {ROWS} = expand s to=[0]",
    f"y: {ROWS} = div e, b",
)
LAYER_NORM = graph(
    f"x: {ROWS}, w: f32[1000], b: f32[1000]",
    ROWS,
    "s: f32[200] = sum x axes=[1]",
    "m: f32[200] = mul s, 0.001",
    f"a: {ROWS} = expand m to=[0]",
    f"d: {ROWS} = sub x, a",
    f"q: {ROWS} = mul d, d",
    "v: f32[200] = sum q axes=[1]",
    "u: f32[200] = mul v, 0.001",
    "t: f32[200] = add u, 0.00001",
    "r: f32[200] = rsqrt t",
    f"c: {ROWS} = expand r to=[0]",
    f"h: {ROWS} = mul d, c",
    f"i: {ROWS} = expand w to=[1]",
    f"g: {ROWS} = mul h, i",
    f"j: {ROWS} = expand b to=[1]",
    f"y: {ROWS} = add g, j",
)
TRANSPOSED_SUM = graph(
    "x: f32[500, 300], z: f32[300, 500]",
    "f32[300, 500]",
    "t: f32[300, 500] = permute x perm=[1, 0]",
    "y: f32[300, 500] = add t, z",
)
STENCIL = graph(
    "x: f32[4096, 2048]",
    "f32[4094, 2048]",
    *(f"x{k}: f32[4094, 2048] = slice x axis=0 start={k} step=1" for k in range(3)),
    "d: f32[4094, 2048] = add x0, x1",
    "y: f32[4094, 2048] = add d, x2",
)
SCAN = graph("x: f32[64, 1000]", "f32[64, 1000]", "y: f32[64, 1000] = scan x op=sum axis=1")
EXP_LOG1P = graph("x: f32[1000]", "f32[1000]", "e: f32[1000] = exp x", "y: f32[1000] = log1p e")
PRODUCT = graph(
    "x: f32[64, 512], w: f32[512, 256], z: f32[64, 256]",
    "f32[64, 256]",
    "q: f32[64, 512] = mul x, x",
    "s: f32[64] = sum q axes=[1]",
    "r: f32[64] = rsqrt s",
    "a: f32[64, 512] = expand r to=[0]",
    "h: f32[64, 512] = mul x, a",
    'c: f32[64, 256] = contract h, w over="ik,kj->ij"',
    "y: f32[64, 256] = add c, z",
)

CHANNELS = graph(
    "x: f32[9000, 5], m: f32[5], r: f32[9000]",
    "f32[9000, 5]",
    "b: f32[9000, 5] = expand m to=[1]",
    "c: f32[9000, 5] = expand r to=[0]",
    "d: f32[9000, 5] = sub x, b",
    "y: f32[9000, 5] = mul d, c",
)

JAM = "for jam=2 jam_elements=262144 jam_row=256"
GRID = "for grid=512 grid_row=128 grid_called=4096"
BYPASSES = "nontemporal=20971520 footprint=41943040"
MULTIPLIED = ["for pack", "for micro prefetch_pack=229376"]
MULTIPLIED_C = ["for pack", "for micro"]
STORED = ["for vector", "t1 prefetch_tile"]  # the calls before have prefetched where the sum goes


@pytest.mark.parametrize(
    ("program", "tcc", "cc", "c"),
    [
        pytest.param(
            SOFTMAX,
            [
                *("reduce amax lanes", "x merged"),
                *("reduce sum lanes", "x merged", "sub merged", "buf merged"),
                *("for vector", "buf merged", "t0 merged"),
            ],
            [JAM, "reduce amax lanes joint fill", "reduce sum lanes fill", "for vector"],
            ["reduce amax lanes terms", "reduce sum lanes terms", "for vector"],
            id="softmax",
        ),
        pytest.param(
            LAYER_NORM,
            [
                GRID,
                "reduce sum lanes primitive",
                *("reduce sum lanes primitive", "sub merged", "mul merged"),
                "mul merged",
                *("for vector width=512", "x merged", "sub merged", "w merged", "mul merged", "b merged"),
                "t0 merged",
            ],
            [JAM, "reduce sum lanes joint", "reduce sum lanes joint", "for vector"],
            ["reduce sum lanes terms", "reduce sum lanes terms", "for vector"],
            id="layer norm",
        ),
        pytest.param(
            CHANNELS,
            [
                *("for grid=512 grid_row=128", "r merged"),
                *("for vector", "x merged", "m uniform", "sub merged", "t0 merged"),
            ],
            ["for flat=64 flat_row=16", "r array=336", "for vector", "m array=320"],
            ["for vector"],
            id="channels",
        ),
        pytest.param(
            TRANSPOSED_SUM,
            [
                *("for tile", "for vector width=128", "z merged"),
                *("x transpose array=9216 merged", "t0 merged"),
            ],
            ["for tile", "for vector width=128", "x transpose array=9216"],
            ["for tile", "for vector"],
            id="transposed sum",
        ),
        pytest.param(
            STENCIL,
            [
                *("for vector streams", "x merged", "x merged", "add merged"),
                *("x prefetch=4096 merged", f"t0 {BYPASSES} merged"),
            ],
            [
                "for vector streams strip=64 simdlen=8",
                "x prefetch=4096 beyond=8388608",
                f"t0 {BYPASSES} array=1024",
            ],
            ["for vector"],
            id="stencil",
        ),
        pytest.param(
            EMBEDDING_SUM,
            ["for vector", "reduce sum primitive", "i merged", "w prefetch_rows=16"],
            [
                *("for vector width=256", "reduce sum array=256"),
                *("i uniform", "bind uniform", "w prefetch_rows=64 beyond=1048577"),
            ],
            ["for vector"],
            id="embedding sum",
        ),
        pytest.param(
            SCAN,
            ["for recurrences=8 scan", "for width=256"],
            ["for recurrences=8 scan jam=4"],
            ["for recurrences=8"],
            id="scan",
        ),
        pytest.param(
            EXP_LOG1P,
            ["for vector", "x merged", "t0 merged"],
            ["for vector distribute=256", "exp array=256", "log1p stage=2"],
            ["for vector"],
            id="exp then log1p",
        ),
        pytest.param(
            PRODUCT,
            [
                *("reduce sum lanes", "x merged", "mul merged", "for vector", "x merged", "t0 merged"),
                *(*MULTIPLIED, *MULTIPLIED),
                *("for vector", "z merged", "buf0 merged", "t1 prefetch_tile merged"),
            ],
            [JAM, "reduce sum lanes joint", "for vector", *MULTIPLIED, *MULTIPLIED, *STORED],
            ["reduce sum lanes terms", "for vector", *MULTIPLIED_C, *MULTIPLIED_C, "for vector"],
            id="product with a norm in front and a residual behind",
        ),
    ],
)
def test_the_lines_with_marks_are_these(program: str, tcc: list[str], cc: list[str], c: list[str]) -> None:
    assert marked(program, "tcc") == tcc
    assert marked(program, "cc") == cc
    assert marked(program, "c") == c


SIZES = range(100, 200)
STEP_OF_HUNDRED = (
    f"dlc 1 graph\n\nfn f({', '.join(f'p{n}: f32[{n}], g{n}: f32[{n}]' for n in SIZES)})"
    f" -> ({', '.join(f'f32[{n}]' for n in SIZES)}) {{\n"
    + "".join(
        f"  let s{n}: f32[{n}] = mul g{n}, 0.01\n  let y{n}: f32[{n}] = sub p{n}, s{n}\n" for n in SIZES
    )
    + f"  ret {', '.join(f'y{n}' for n in SIZES)}\n}}\n"
)


def test_a_step_of_an_optimiser_for_a_hundred_tensors() -> None:
    """A loop for each; of libtcc one primitive scales a gradient and subtracts it."""
    of_each = "for vector", "p{0} merged", "g{0} merged", "mul merged", "t{1} merged"
    said = [line.format(n, k) for k, n in enumerate(SIZES) for line in of_each]
    assert marked(STEP_OF_HUNDRED, "tcc") == said
    assert marked(STEP_OF_HUNDRED, "cc") == marked(STEP_OF_HUNDRED, "c") == ["for vector"] * 100


WHOLE = PRODUCT.replace("f32", "i32").replace("rsqrt s", "neg s")


def test_columns_of_a_product_in_portable_c_have_their_sums_in_an_array() -> None:
    """Where there is no routine for it: of i32, whose loops are marked as no call either."""
    found = marked(WHOLE, "c")
    sums = found.index("buffer registers")
    assert found[sums + 1 : sums + 4] == ["for vector"] * 3, found
    for target, program in (("c", PRODUCT), ("c", SOFTMAX), ("cc", WHOLE), ("tcc", WHOLE)):
        assert "registers" not in " ".join(marked(program, target))
    assert "micro" not in " ".join(found) and "micro" in " ".join(marked(PRODUCT, "c"))


def test_elements_of_a_block_are_computed_first_in_portable_c() -> None:
    """Not of a reduction that returns a place, nor along an index that is data."""
    assert [mark for mark in marked(SOFTMAX, "c") if "terms" in mark] == [
        "reduce amax lanes terms",
        "reduce sum lanes terms",
    ]
    for target in ("cc", "tcc", "hls"):
        assert "terms" not in " ".join(marked(SOFTMAX, target))
    rows = "x: f32[50, 400], at: i64[400]"
    for red, of in (("argmax", "x"), ("sum", "g")):
        dtype = "i64" if red == "argmax" else "f32"
        gathered = "g: f32[50, 400] = gather x, at axis=1"
        program = graph(rows, f"{dtype}[50]", gathered, f"y: {dtype}[50] = {red} {of} axes=[1]")
        assert any("lanes" in mark for mark in marked(program, "c"))
        assert "terms" not in " ".join(marked(program, "c"))
    short = graph("x: f32[50, 15]", "f32[50]", "e: f32[50, 15] = exp x", "y: f32[50] = sum e axes=[1]")
    assert "reduce sum terms" in marked(short, "c")


@pytest.mark.parametrize(("dtype", "widened"), [("bf16", ["x widened"]), ("f16", []), ("f32", [])])
def test_bfloat16_of_all_lanes_is_widened_at_once(dtype: str, widened: list[str]) -> None:
    """Along a row; not down the columns, where there are no lanes."""

    def extremes(axis: int, rest: int) -> list[str]:
        let = f"y: {dtype}[{rest}] = amax x axes=[{axis}]"
        found = marked(graph(f"x: {dtype}[64, 500]", f"{dtype}[{rest}]", let), "cc")
        return [mark for mark in found if "widened" in mark]

    assert extremes(1, 64) == widened
    assert extremes(0, 500) == []


@pytest.mark.parametrize(
    ("term", "primitive"),
    [("mul x, x", "primitive"), ("mul x, 2.0", "primitive"), ("exp x", ""), ("add x, 2.0", "")],
)
def test_a_sum_down_the_rows_of_few_operations_is_one_primitive(term: str, primitive: str) -> None:
    text = graph("x: f32[60, 300]", "f32[300]", f"e: f32[60, 300] = {term}", "y: f32[300] = sum e axes=[0]")
    assert [mark for mark in marked(text, "tcc") if "reduce" in mark] == (
        [f"reduce sum {primitive}"] if primitive else []
    )


def test_a_value_that_is_used_twice_is_merged_into_neither() -> None:
    shape = "f32[3000]"
    lets = f"d: {shape} = sub x, z", f"e: {shape} = mul d, z"
    once = graph(f"x: {shape}, z: {shape}", shape, *lets, f"y: {shape} = sqrt e")
    twice = graph(f"x: {shape}, z: {shape}", shape, *lets, f"y: {shape} = add e, d")
    assert [mark for mark in marked(once, "tcc") if mark == "sub merged"] == ["sub merged"]
    assert [mark for mark in marked(twice, "tcc") if mark == "sub merged"] == []
    assert "merged" not in " ".join(marked(once, "cc"))
