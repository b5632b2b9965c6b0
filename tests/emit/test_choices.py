"""What is chosen for a kernel: which forms its loops have, what is prefetched, which primitive computes what.

Results cannot show these choices, because every choice has the same bits. What a rewrite chooses is a mark of
the loops; which vector primitives a phase for libtcc calls is asked of its machine code, see `unit.py`.
test_emit.py compares what the same kernels compute.
"""

from pathlib import Path

import pytest

from tests.emit.unit import HAS_GCC
from tests.emit.written import check, functions, machine, marks

asks_gcc = pytest.mark.skipif(not HAS_GCC, reason="needs gcc: reads the machine code that it makes")


def strips(name: str, folder: Path, kind: str = "") -> list[str]:
    """What all phases call, in order; `kind`: how the names begin."""
    return [strip for _, function in functions(name, "tcc", folder) for strip in function.strips(kind)]


# ---- prefetching ----


def test_memory_is_prefetched() -> None:
    """By the last reduction that reads it; not what all rows share, nor what stays in caches."""
    page = machine("PAGE")
    assert marks("prefetch", "cc", "prefetch") == [
        ("v", [f"x prefetch={page}"]),
        ("u", [f"y prefetch={page}"]),
        ("", ["z prefetch_rows=4"]),  # whole rows of parts of c
        ("c", []),
        ("a", [f"x prefetch={page}"]),
        ("t", []),
    ]


@asks_gcc
def test_a_reduction_that_is_one_strip_prefetches_once(tmp_path: Path) -> None:
    """The strip is told the distance."""
    assert marks("prefetch_once", "tcc", "prefetch") == [("s", [f"x prefetch={machine('PAGE')}"])]
    assert set(strips("prefetch_once", tmp_path, "fold|prefetch")) == {"fold_sum_then_sub_exp_f32"}


def test_tensors_that_caches_hold_one_by_one_are_prefetched() -> None:
    """Six of 800 KB do not stay near a core; two and a row do."""
    assert [(of, [mark.split()[0] for mark in found]) for of, found in marks("many", "tcc", "prefetch")] == [
        ("x, y", ["a", "b", "c", "d", "x", "y"]),
        ("z", []),
    ]


def test_rows_that_are_gathered_are_prefetched() -> None:
    """A few KB of them ahead, of words in the order of the loops; of what may be large."""
    few, many, large = "prefetch_rows=58", f"prefetch_rows={machine('PREFETCH_GATHER')}", "beyond=1048577"
    assert marks("gather_rows", "cc", "prefetch", "beyond") == [
        ("s", [f"w {few}", f"w {large}"]),
        ("a", [f"w {few}", f"w {large}"]),
        ("d", [f"t {many}", f"t {large}"]),
        ("y", []),  # five bags thrice
        ("o", []),  # words of columns
    ]


@pytest.mark.parametrize("tier", ["cc", "tcc"])
def test_a_microkernel_prefetches_what_comes_next(tier: str) -> None:
    """The rows of the next tile; where tiles are few, what the next group packs. In any image too.

    And where the tile is stored.
    """
    assert [(of, mark) for of, mark in marks("product_prefetched", tier, "prefetch_") if mark] == [
        ("y", ["for prefetch_tile", "y prefetch_tile"]),
        ("z", [f"for prefetch_pack={3 * 256 * 256}", "z prefetch_tile"]),
        ("t", ["for prefetch_tile", "t prefetch_tile"]),
    ]


# ---- forms of loops for a C compiler ----


def test_near_operands() -> None:
    """Each phase in parts; of one that stores over what it reads an element is tested before it is lost."""
    part = [f"for near={machine('NEAR_PART')}"]
    names = ("a1", "b1", "c1", "d1", "e1", "f1", "v1", "u1", "s1")
    assert marks("near", "cc", "near") == [(name, part) for name in names]
    check("near", "B=2", "N=300", "special=1")  # v1 and u1 take the memory of what they read


def test_short_rows_are_one_loop() -> None:
    """But not one that is long enough alone."""
    flat = [f"for flat={machine('FLAT')}"]
    names = ("a", "o", "l", "f, f32", "n", "m, j", "z1", "q1", "over1")
    assert marks("flat", "cc", "flat=") == [(name, [] if name == "z1" else flat) for name in names]


#: In the place of the macro that loads sixteen elements: a routine, of which machine code has the calls.
WIDENS = """#undef DLC_WIDE_BF16
#undef DLC_WIDENED
#define DLC_WIDE_BF16(wide, from) float wide[16]; widens(wide, from)
#define DLC_WIDENED(wide, element) wide
void widens(float *to, const uint16_t *from);
"""


@asks_gcc
def test_lanes_of_bf16_are_widened_together(tmp_path: Path) -> None:
    """Where they are contiguous; not two that are strided, nor float16."""
    found = [(of, "widens" in function.calls) for of, function in functions("wide", "cc", tmp_path, WIDENS)]
    assert found == [*((name, True) for name in "svag"), ("f", False), ("", True), ("o", False)]


# ---- several rows as one tile, for libtcc ----


@asks_gcc
def test_short_rows_run_together(tmp_path: Path) -> None:
    """Loads that go along the rows are operands; what all tiles have is taken once, before the loop."""
    grids = [of for of, found in marks("grids", "tcc", "grid=") if found]
    assert grids == ["o", "ou", "og", "oz", "oq", "oi", "oa"]
    together = dict(functions("grids", "tcc", tmp_path))
    first, *rest = together["ou"].strips()
    assert first == "take_4" and "take_4" not in rest and "read_u8_f32" in rest
    assert together["o"].strips("(?!prefetch|take)") == [
        "in_place_twice_mul_sub_f32",
        "in_place_twice_mul_add_f32",
    ]


def test_rows_as_long_as_a_symbol_says_run_together() -> None:
    """Where it is never long."""
    assert [of for of, found in marks("named_rows", "tcc", "grid=") if found] == [
        "ob",
        "oh",
        "os",
        "oi",
        "ot",
    ]


@asks_gcc
def test_reductions_of_short_rows_run_together(tmp_path: Path) -> None:
    """One call for all rows of a tile, in place if the body is no more than a product or a square."""
    called = strips("row_sums", tmp_path)
    assert sorted(name for name in called if name.startswith(("rows_", "index_rows_"))) == [
        "index_rows_gt",
        "index_rows_gt",
        "rows_amax_load_f32",
        "rows_amin_load_f32",
        "rows_sum_load_bf16",
        *["rows_sum_load_f32"] * 4,
        "rows_sum_load_f64",
        "rows_sum_square_sub_bf16",
        *["rows_sum_square_sub_f32"] * 3,
        "rows_sum_square_sub_f64",
    ]
    assert not any(name.startswith(("reduce_", "fold_")) for name in called)


def test_long_rows_are_reduced_in_place_and_stay_near() -> None:
    """As many rows a call as a first-level cache holds beside other things: it reads them twice."""
    called = [f"for grid_called={machine('GRID_ROWS')}"]
    assert [found for _, found in marks("row_sums", "tcc", "grid_called")[-3:]] == [called] * 3


# ---- what one call does, for libtcc ----


@asks_gcc
def test_rows_that_are_gathered_are_one_call(tmp_path: Path) -> None:
    """Their indices are checked together; what is computed of the rows keeps them apart."""
    assert strips("gather_sums", tmp_path, "gathered_") == [
        "gathered_sum_f32",
        "gathered_sum_bf16",
        "gathered_sum_f64",
        "gathered_amax_f32",
    ]


def test_strips_go_down_long_pieces_of_rows() -> None:
    """Of 4 KB; of several reductions so much that all rows stay in a cache, which of any number is little."""
    found = {of: width for of, width in marks("folds", "tcc", "width") if width}
    assert found == {
        "mean": ["for width=1024"],
        "var": ["for width=1024"],
        "weighted": ["for width=1024"],
        "ds": ["for width=512"],
        "run": ["for width=256"],
    }


def test_a_sum_of_one_element_reads_that_alone() -> None:
    assert marks("one_hot", "tcc", "onehot")[-1] == ("b", ["reduce onehot"])


@asks_gcc
def test_two_products_of_halves_are_one_call(tmp_path: Path) -> None:
    """Where all four are loaded for them, also as rows of a grid; float64 has a few of the pairs."""
    found = [function for _, function in functions("turning", "tcc", tmp_path)]
    assert [phase.strips(r"in_place_twice_mul_\w+_bf16") for phase in found] == [
        ["in_place_twice_mul_sub_bf16", "in_place_twice_mul_add_bf16"],
        [],
        ["in_place_twice_mul_sub_bf16"],
        [],
        [],
    ]
    assert "pair_add_div_right_f64" in found[1].strips() and "choose_lt_f64" in found[4].strips()


@asks_gcc
def test_what_makes_both_operands_is_computed_with_it(tmp_path: Path) -> None:
    """A product of a product and a sum, a difference of a sum and a product, whichever stands first."""
    assert strips("pairs", tmp_path, "both_") == [
        "both_mul_add_mul_f32",
        "both_add_mul_sub_f32",
        "both_mul_add_mul_f32",
    ]


@asks_gcc
def test_elements_in_turn_are_stored_together(tmp_path: Path) -> None:
    """And small integers are read as float, and a sum with a product of a neg is a difference."""
    found = functions("zips", "tcc", tmp_path)
    first = [of for of, _ in found].index("four")
    late = [strip for _, function in found[first:] for strip in function.strips("(?:un)?zip_")]
    assert [strip for strip in late if strip.startswith("zip")] == [f"zip_{n}" for n in (4, 3, 2, 2)]
    assert [strip for strip in late if strip.startswith("unzip")] == [f"unzip_{n}" for n in (4, 3, 2)]
    called = strips("zips", tmp_path)
    assert {"read_i8_f32", "twice_mul_sub_f32", "pair_mul_sub_right_f32"} <= set(called)
    assert not any(name.startswith("neg_") for name in called)


@asks_gcc
def test_reductions_of_what_is_loaded_are_one_call(tmp_path: Path) -> None:
    """Down the rows of a tile, along narrow rows, of scans alone, and of indices that are compared."""
    called = strips("folds", tmp_path)
    assert {name for name in called if name.startswith(("down_", "along_", "scan_", "index_"))} == {
        "down_sum_load_f32",
        "down_sum_square_sub_f32",
        "down_sum_mul_f32",
        "down_sum_square_f32",
        "down_amax_load_f32",
        "down_sum_load_f64",
        "along_sum_load_bf16",
        "along_sum_square_sub_bf16",
        "along_sum_square_f64",
        "scan_add_f32",
        "index_gt",
    }
    assert not any(name.startswith(("load_bf16", "run_", "iota")) for name in called)
