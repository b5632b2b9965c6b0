"""What is chosen for a kernel: which forms its loops have, what is prefetched, which primitive computes what.

Results cannot show these choices, because every choice has the same bits. What a rewrite chooses is a mark of
the loops; which primitive of libtcc's tier a line becomes is read from the C, by `written.py`. test_emit.py
compares what the same kernels compute.
"""

import re

from tests.emit.written import machine, marks, phases, printed, strips, whole

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


def test_a_reduction_that_is_one_strip_prefetches_once() -> None:
    """The strip is told the distance."""
    assert marks("prefetch_once", "tcc", "prefetch") == [
        ("s", [f"x prefetch={machine('PAGE')}", "x prefetch_call"])
    ]
    text = whole("prefetch_once", "tcc")
    assert set(strips(text, "fold")) == {"fold_sum_then_sub_exp_f32"} and not strips(text, "prefetch")


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


def test_a_microkernel_prefetches_what_comes_next() -> None:
    """The rows of the next tile; where tiles are few, a fourth of what the next group packs.

    Of the group's last panel too, which has fewer columns. And where the tile will be stored: in an image of
    any size as well, where it may go on in the image's next row.
    """
    read = r"\.prefetched = (\w+) \+ \((.*)\), \.prefetched_bytes = (.*),"
    for tier in ("cc", "tcc"):
        made = [phase.text for phase in phases("product_prefetched", tier) if ".rows = " in phase.text]
        assert [re.findall(read, text) for text in made] == [
            [("x", "17024 * r0 + 896 * t0 + 896", str(14 * 64 * 4))],
            [("v", "65536 * g1 + 16384 * t1 + 65536", str(256 * 256 * 4 // 4))],
            [("s", "6720 * r1 + 336 * t4 + 336", "(96 * dim_min(n1 + (-280) * r1 + (-14) * t4, 14))")],
        ]
        places = [re.findall(r"\.result = .*, \.result_row = 4 \* (\d+),", text) for text in made]
        assert places == [["64"], ["500"], ["96"]]


# ---- forms of loops for a C compiler ----


def test_near_operands() -> None:
    """Each phase in parts; of one that stores over what it reads an element is tested before it is lost."""
    part = [f"for near={machine('NEAR_PART')}"]
    names = ("a1", "b1", "c1", "d1", "e1", "f1", "v1", "u1", "s1")
    assert marks("near", "cc", "near") == [(name, part) for name in names]
    tested = {phase.of for phase in phases("near", "cc") if "DLC_TEST, &again" in phase.text}
    assert tested == {"v1", "u1"}


def test_short_rows_are_one_loop() -> None:
    """But not one that is long enough alone."""
    flat = [f"for flat={machine('FLAT')}"]
    names = ("a", "o", "l", "f, f32", "n", "m, j", "z1", "q1", "over1")
    assert marks("flat", "cc", "flat=") == [(name, [] if name == "z1" else flat) for name in names]


def test_lanes_of_bf16_are_widened_together() -> None:
    """Where they are contiguous; not two that are strided, nor float16."""
    widened = [
        (phase.of, sorted(set(re.findall(r"DLC_WIDE_BF16\(\w+, (\w+) \+", phase.text))))
        for phase in phases("wide", "cc")
    ]
    assert widened == [*((name, ["x"]) for name in "svag"), ("f", []), ("o", ["x"]), ("o", [])]


# ---- several rows as one tile, for libtcc ----


def test_short_rows_run_together() -> None:
    """Loads that go along the rows are operands; what all tiles have is taken once, before the loop."""
    grids = [of for of, found in marks("grids", "tcc", "grid=") if found]
    assert grids == ["o", "ou", "og", "oz", "oq", "oi", "oa"]
    together = {phase.of: phase for phase in phases("grids", "tcc")}
    assert "take_4" in strips(together["ou"].text)
    assert not strips(together["ou"].inside(), "take_") and "read_u8_f32" in strips(together["ou"].inside())
    assert [name for name in strips(together["o"].inside()) if not name.startswith("prefetch")] == [
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


def test_reductions_of_short_rows_run_together() -> None:
    """One call for all rows of a tile, in place if the body is no more than a product or a square."""
    text = whole("row_sums", "tcc")
    assert sorted(strips(text, "(?:rows|index_rows)_")) == [
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
    assert not strips(text, "reduce_") and not strips(text, "fold_")


def test_long_rows_are_reduced_in_place_and_stay_near() -> None:
    """As many rows a call as a first-level cache holds beside other things: it reads them twice."""
    called = [f"for grid_called={machine('GRID_ROWS')}"]
    assert [found for _, found in marks("row_sums", "tcc", "grid_called")[-3:]] == [called] * 3


# ---- what one call does, for libtcc ----


def test_rows_that_are_gathered_are_one_call() -> None:
    """Their indices are checked together; what is computed of the rows keeps them apart."""
    assert strips(whole("gather_sums", "tcc"), "gathered_") == [
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


def test_two_products_of_halves_are_one_call() -> None:
    """Where all four are loaded for them, also as rows of a grid; float64 has a few of the pairs."""
    found = phases("turning", "tcc")
    assert [strips(phase.text, r"in_place_twice_mul_\w+_bf16") for phase in found] == [
        ["in_place_twice_mul_sub_bf16", "in_place_twice_mul_add_bf16"],
        [],
        ["in_place_twice_mul_sub_bf16"],
        [],
        [],
    ]
    assert "pair_add_div_right_f64" in strips(found[1].text) and "choose_lt_f64" in strips(found[4].text)


def test_what_makes_both_operands_is_computed_with_it() -> None:
    """A product of a product and a sum, a difference of a sum and a product, whichever stands first."""
    assert strips(whole("pairs", "tcc"), "both_") == [
        "both_mul_add_mul_f32",
        "both_add_mul_sub_f32",
        "both_mul_add_mul_f32",
    ]


def test_elements_in_turn_are_stored_together() -> None:
    """And small integers are read as float, and a sum with a product of a neg is a difference."""
    text = printed("zips", "print=tcc")
    four = text[text.index("phase of four") :]
    assert strips(four, r"zip_\d") == [f"zip_{n}" for n in (4, 3, 2, 2)]
    assert strips(four, r"unzip_\d") == [f"unzip_{n}" for n in (4, 3, 2)]
    assert {"read_i8_f32", "twice_mul_sub_f32", "pair_mul_sub_right_f32"} <= set(strips(text))
    assert not strips(text, "neg_")


def test_reductions_of_what_is_loaded_are_one_call() -> None:
    """Down the rows of a tile, along narrow rows, of scans alone, and of indices that are compared."""
    text = whole("folds", "tcc")
    assert set(strips(text, "(?:down|along|scan|index)_")) == {
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
    assert not strips(text, "(?:load_bf16|run_|iota)")
