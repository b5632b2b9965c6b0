"""What the emitters choose: which primitive computes what, what is prefetched, which forms a loop has.

Results cannot show these choices, because every choice has the same bits; the loops cannot, because an
emitter makes them. They decide how fast a kernel is. So these tests read the C, by `written.py`. What is a
mark of the loops is tested there (tests/structure, tests/passes), and test_emit.py compares what the same
kernels compute.
"""

import re

from tests.emit.written import machine, phases, printed, strips

# ---- prefetching ----


def test_memory_is_prefetched() -> None:
    """By the last reduction that reads it; not what all rows share, nor what stays in caches."""
    page = str(machine("PAGE"))
    assert [(phase.of, phase.prefetches()) for phase in phases("prefetch", "cc")] == [
        ("v", [("x", page)]),
        # two rows at a time, wherever they come from, and an odd one
        ("u", [("y", page), ("y", str(machine("PAGE") + machine("LINE")))] * 3),
        ("c", [("z", "")]),  # whole rows, one at a time
        ("c", []),
        ("a", [("x", page)] * 3),  # two halves of a block, and one that is not whole
        ("t", []),
    ]


def test_a_reduction_that_is_one_strip_prefetches_once() -> None:
    text = printed("prefetch_once", "print=tcc")
    assert set(strips(text, "fold")) == {"fold_sum_then_sub_exp_f32"}
    assert f"{machine('PAGE')} << 4)" in text  # it is told the distance
    assert not strips(text, "prefetch")


def test_tensors_that_caches_hold_one_by_one_are_prefetched() -> None:
    """Six of 800 KB do not stay near a core; two and a row do."""
    found = [re.findall(r"strip_prefetch(?:_write)?\((\w+) ", phase.text) for phase in phases("many", "tcc")]
    assert found == [["x", "y", "a", "b", "c", "d"], []]


def test_rows_that_are_gathered_are_prefetched() -> None:
    """A few KB of them ahead, of words in the order of the loops, within those; of what may be large."""
    later = r"int64_t later = .* (\d+);\s+if \(later < (.*)\) {"
    assert [(phase.of, re.findall(later, phase.text)) for phase in phases("gather_rows", "cc")] == [
        ("s", [("58", "72")]),
        ("a", [("58", "72")]),
        ("d", [(str(machine("PREFETCH_GATHER")), "B && n1 > 131072")] * 2),  # rows together, and one by one
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
    """Each phase in parts; one that stores over what it reads is tested first."""
    forms = [
        (phase.of, sorted(set(re.findall(r"DLC_(NEAR|TEST), &again", phase.text))))
        for phase in phases("near", "cc")
    ]
    assert forms == [
        *((name, ["NEAR"]) for name in ("a1", "b1", "c1", "d1", "e1", "f1")),
        ("v1", ["NEAR", "TEST"]),
        ("u1", ["NEAR", "TEST"]),
        ("s1", ["NEAR"]),
    ]


def test_short_rows_are_one_loop() -> None:
    """Beside it what all of them share, and what each has."""
    flat = [(phase.of, re.findall(r"(\w+)_flat\[(\d+)\];", phase.text)) for phase in phases("flat", "cc")]
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
    """Where they are contiguous; not two that are strided, nor float16."""
    widened = [
        (phase.of, sorted(set(re.findall(r"DLC_WIDE_BF16\(\w+, (\w+) \+", phase.text))))
        for phase in phases("wide", "cc")
    ]
    assert widened == [*((name, ["x"]) for name in "svag"), ("f", []), ("o", ["x"]), ("o", [])]


# ---- several rows as one tile, for libtcc ----


def test_short_rows_run_together() -> None:
    """Loads that go along the rows are operands; what all tiles have is taken once, before the loop."""
    together = {phase.of: phase for phase in phases("grids", "tcc") if "rows = " in phase.text}
    assert list(together) == ["o", "ou", "og", "oz", "oq", "oi", "oa"]
    assert "take_4" in strips(together["ou"].text)
    assert not strips(together["ou"].inside(), "take_") and "read_u8_f32" in strips(together["ou"].inside())
    assert [name for name in strips(together["o"].inside()) if not name.startswith("prefetch")] == [
        "in_place_twice_mul_sub_f32",
        "in_place_twice_mul_add_f32",
    ]


def test_rows_as_long_as_a_symbol_says_run_together() -> None:
    """Where it is never long; so many that they fill a tile is a size of the call."""
    found = [phase for phase in phases("named_rows", "tcc") if "int64_t w = rows * " in phase.text]
    assert [phase.of for phase in found] == ["ob", "oh", "os", "oi", "ot"]
    assert "/* 512 // max(M, 1) */" in found[0].text
    assert "take_4" in strips(found[0].text) and "take_4" not in strips(found[0].inside())


def test_reductions_of_short_rows_run_together() -> None:
    """One call for all rows of a tile, in place if the body is no more than a product or a square."""
    text = printed("row_sums", "print=tcc")
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
    tiles = [re.findall(r"rows = hi - \w+ < (\d+)", phase.text) for phase in phases("row_sums", "tcc")[-3:]]
    assert tiles == [[str(machine("GRID_ROWS") // length)] for length in (300, 257, 1024)]


# ---- what one call does, for libtcc ----


def test_rows_that_are_gathered_are_one_call() -> None:
    """Their indices are checked together; what is computed of the rows keeps them apart."""
    assert strips(printed("gather_sums", "print=tcc"), "gathered_") == [
        "gathered_sum_f32",
        "gathered_sum_bf16",
        "gathered_sum_f64",
        "gathered_amax_f32",
    ]


def test_strips_go_down_long_pieces_of_rows() -> None:
    """Of 4 KB; of several reductions so much that all rows stay in a cache, which of any number is little."""
    tiles = [
        re.findall(r"i\d+ \+= (\d+)\)", phase.text)[0]
        for phase in phases("folds", "tcc")
        if strips(phase.text, "down_")
    ]
    assert tiles == ["1024", "1024", "256", "1024", "512"]


def test_a_sum_of_one_element_reads_that_alone() -> None:
    phase = phases("one_hot", "tcc")[-1]
    assert "if (i3 >= 0 && i3 < N)" in phase.text
    assert not strips(phase.text, "reduce_sum") and not strips(phase.text, "one_hot")


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
    assert strips(printed("pairs", "print=tcc"), "both_") == [
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
    text = printed("folds", "print=tcc")
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
