"""What the rewrites of a target decide is a line of its loops: non-temporal stores and prefetches."""

import re

import pytest

from ..dlc_opt import opt


def lines(program: str, target: str) -> str:
    return opt(program, "--pipeline", "--pass", f"lower,schedule,{target}")


def marked(text: str) -> list[str]:
    """The marks of loads, stores and loops that a target's rewrites set, by what they stand on."""
    found = []
    for line in text.splitlines():
        what = re.search(r"(load|store) (\w+)|(for) \w+ in", line)
        marks = re.findall(r" (\w+=\d+|streams)\b", line) if what else []
        if marks:
            found.append(" ".join([what[2] or what[3], *marks]))
    return found


def bypassing(text: str) -> list[str]:
    return [mark for mark in marked(text) if "nontemporal" in mark or "streams" in mark]


def widths(program: str) -> list[str]:
    """Of tiles and grids in the loops for libtcc."""
    return [mark for mark in marked(lines(program, "tcc")) if "width" in mark or "grid" in mark]


BYPASSES = "nontemporal=20971520 footprint=41943040"


def graph(inputs: str, result: str, *lets: str) -> str:
    body = "".join(f"  let {let}\n" for let in lets)
    return f"dlc 1 graph\n\nfn f({inputs}) -> ({result}) {{\n{body}  ret y\n}}\n"


def scaled(size: str) -> str:
    sizes = "" if size.isdigit() else f"[{size} in 1..inf]"
    text = graph(f"x: f32[{size}]", f"f32[{size}]", f"y: f32[{size}] = mul x, 2.0")
    return text.replace("fn f(", f"fn f{sizes}(")


@pytest.mark.parametrize("target", ["tcc", "cc"])
def test_a_result_that_caches_cannot_hold_bypasses_them(target: str) -> None:
    assert marked(lines(scaled("16000000"), target)) == ["for streams", f"t0 {BYPASSES}"]
    assert bypassing(lines(scaled("4000000"), target)) == []


def test_the_size_decides_when_the_phase_runs() -> None:
    """In the C for gcc, but not in that for libtcc."""
    assert marked(lines(scaled("N"), "cc")) == ["for streams", f"t0 {BYPASSES}"]
    assert bypassing(lines(scaled("N"), "tcc")) == []


@pytest.mark.parametrize("target", ["tcc", "cc"])
def test_a_result_in_place_is_stored_as_always(target: str) -> None:
    text = scaled("16000000").replace("(f32[16000000]) {", "(f32[16000000] into x) {")
    assert " over x" in lines(text, target)
    assert bypassing(lines(text, target)) == []


def test_more_results_than_a_block_has_room_for_are_stored_as_always() -> None:
    n = 16_000_000
    names = [f"y{k}" for k in range(5)]
    lets = "".join(f"  let {name}: f32[{n}] = mul x, {k + 2}.0\n" for k, name in enumerate(names))
    for few in (4, 5):
        results = ", ".join([f"f32[{n}]"] * few)
        text = (
            f"dlc 1 graph\n\nfn f(x: f32[{n}]) -> ({results}) {{\n{lets}  ret {', '.join(names[:few])}\n}}\n"
        )
        assert lines(text, "cc").count(BYPASSES) == (4 if few == 4 else 0)


def test_rows_that_run_together_are_stored_so_too() -> None:
    """Of three elements: the loop does not stream, but blocks of rows do."""
    n = 16_000_000
    text = graph(
        f"x: f32[{n}, 3], m: f32[3]",
        f"f32[{n}, 3]",
        f"b: f32[{n}, 3] = expand m to=[1]",
        f"y: f32[{n}, 3] = sub x, b",
    )
    for target in ("tcc", "cc"):
        assert f"t0 {BYPASSES}" in marked(lines(text, target))
        assert "for streams" not in marked(lines(text, target))


def test_a_transposed_operand_of_a_large_result() -> None:
    """The tile's stores ask for their own tensor's size alone; what is read along rows is prefetched."""
    text = graph(
        "x: f32[2048, 4096], w: f32[4096, 2048]",
        "f32[4096, 2048]",
        "t: f32[4096, 2048] = permute x perm=[1, 0]",
        "y: f32[4096, 2048] = add t, w",
    )
    assert marked(lines(text, "cc")) == ["w prefetch_rows=4 beyond=8388608", "t0 nontemporal=8388608"]
    assert marked(lines(text, "tcc")) == ["for width=128", "w prefetch_rows=4", "t0 nontemporal=8388608"]


def test_a_stencil_prefetches_its_last_row_and_what_it_stores() -> None:
    text = graph(
        "x: f32[4096, 2048]",
        "f32[4094, 2048]",
        "a: f32[4094, 2048] = slice x axis=0 start=0 step=1",
        "b: f32[4094, 2048] = slice x axis=0 start=2 step=1",
        "y: f32[4094, 2048] = add a, b",
    )
    found = marked(lines(text, "cc"))
    assert found.count("x prefetch=4096 beyond=8388608") == 1
    assert [mark for mark in found if mark.startswith("t0 ")] != []
    assert "prefetch" not in "".join(marked(lines(text, "tcc")))


@pytest.mark.parametrize("target", ["tcc", "cc"])
@pytest.mark.parametrize(
    ("rows", "row", "prefetched"),
    [("f32[8192, 4096]", 4096, "prefetch=4096"), ("f32[64, 16]", 16, None)],
)
def test_a_reduction_along_rows_prefetches_once(
    target: str, rows: str, row: int, prefetched: str | None
) -> None:
    """Its last reading of a row, a page ahead; nothing of what stays in a cache."""
    count = rows[4:].split(",")[0]
    text = graph(
        f"x: {rows}",
        f"f32[{count}]",
        f"m: f32[{count}] = amax x axes=[1]",
        f"b: {rows} = expand m to=[0]",
        f"e: {rows} = sub x, b",
        f"p: {rows} = exp e",
        f"y: f32[{count}] = sum p axes=[1]",
    )
    found = [mark for mark in marked(lines(text, target)) if "prefetch" in mark]
    assert found == ([f"x {prefetched}"] if prefetched else [])


def test_a_gather_prefetches_rows_of_its_table() -> None:
    """As many as half the first-level cache holds, if the table is larger than the second one."""
    text = graph(
        "w: f32[100000, 64], i: i64[5000]",
        "f32[5000, 64]",
        "g: f32[5000, 64] = gather w, i axis=0 wrap=1",
        "y: f32[5000, 64] = mul g, 2.0",
    )
    assert marked(lines(text, "cc")) == ["w prefetch_rows=64 beyond=1048577"]
    small = text.replace("100000", "1000")
    assert marked(lines(small, "cc")) == []


def layer_norm(rows: str, row: int) -> str:
    return graph(
        f"x: f32[{rows}, {row}]",
        f"f32[{rows}, {row}]",
        f"s: f32[{rows}] = sum x axes=[1]",
        f"a: f32[{rows}, {row}] = expand s to=[0]",
        f"d: f32[{rows}, {row}] = sub x, a",
        f"q: f32[{rows}, {row}] = mul d, d",
        f"v: f32[{rows}] = sum q axes=[1]",
        f"b: f32[{rows}, {row}] = expand v to=[0]",
        f"y: f32[{rows}, {row}] = div d, b",
    )


def test_two_rows_of_a_norm_run_at_a_time_unless_they_come_from_memory() -> None:
    jam = "for jam=2 jam_elements=262144 jam_row=256"
    assert jam in marked(lines(layer_norm("64", 512), "cc"))
    assert jam in marked(lines(layer_norm("100000", 200), "cc"))
    assert jam not in marked(lines(layer_norm("100000", 512), "cc"))
    assert jam not in marked(lines(layer_norm("64", 512), "tcc"))


def channels(row: int) -> str:
    n = 10_000
    return graph(
        f"x: f32[{n}, {row}], m: f32[{row}]",
        f"f32[{n}, {row}]",
        f"b: f32[{n}, {row}] = expand m to=[1]",
        f"y: f32[{n}, {row}] = sub x, b",
    )


def test_very_short_rows_run_as_one() -> None:
    flat = "for flat=64 flat_row=16"
    assert [marked(lines(channels(row), "cc")) for row in (3, 16)] == [[flat], [flat]]
    assert marked(lines(channels(17), "cc")) == []


def test_short_rows_are_a_tile_of_several() -> None:
    """Up to 128 elements, where the calls saved are worth what is moved, or the mean that each row has."""
    grid = "for grid=512 grid_row=128"
    assert [widths(channels(row)) for row in (3, 128, 129)] == [[grid], [grid], []]
    assert widths(layer_norm("1000", 16)) == [f"{grid} grid_called=4096"]
    assert widths(layer_norm("200", 1000)) == [f"{grid} grid_called=4096"]
    assert widths(layer_norm("1000", 1000)) == []


def polynomial(size: str, operations: int, dtype: str = "f32") -> str:
    lets = [f"v{k}: {dtype}[{size}] = {'mul' if k % 2 else 'add'} v{k - 1}, x" for k in range(1, operations)]
    return graph(
        f"x: {dtype}[{size}]",
        f"{dtype}[{size}]",
        f"v0: {dtype}[{size}] = add x, 1.0",
        *lets,
        f"y: {dtype}[{size}] = mul v{operations - 1}, 2.0",
    )


def test_a_tile_is_as_wide_as_its_operations_need() -> None:
    """A whole block, of which no mark is needed, for one call; half a block where calls take the time."""
    found = [widths(polynomial("1000000", operations)) for operations in (1, 2, 15, 16)]
    assert found == [[], ["for width=256"], ["for width=256"], ["for width=512"]]
    assert widths(polynomial("300", 2)) == ["for width=512"]
    assert marked(lines(polynomial("1000000", 4), "cc")) == []


def test_a_tile_of_rows_is_wide_where_one_call_goes_down_them() -> None:
    def columns(*lets: str) -> str:
        return graph("x: f32[5000, 3000]", "f32[3000]", *lets)

    blocks_and_their_sum = ["for width=1024", "for width=1024"]
    assert widths(columns("y: f32[3000] = sum x axes=[0]")) == blocks_and_their_sum
    sum_alone = ["for width=1024"]
    assert widths(columns("e: f32[5000, 3000] = exp x", "y: f32[3000] = sum e axes=[0]")) == sum_alone


def test_a_tile_prefetches_the_one_after_the_next() -> None:
    """Small tiles; of a large one the next. What is stored too; nothing of what stays in a cache."""
    small, large, cached = (polynomial(*of) for of in (("1000000", 2), ("1000000", 1), ("10000", 2)))
    assert marked(lines(small, "tcc")) == ["for width=256", "x prefetch=2048", "t0 prefetch=2048"]
    assert marked(lines(large, "tcc")) == ["x prefetch=4096"]
    assert marked(lines(cached, "tcc")) == ["for width=256"]


def test_a_row_that_a_loop_has_brought_near_is_not_prefetched_again() -> None:
    text = graph(
        "x: f32[1000, 100000]",
        "f32[1000, 100000]",
        "s: f32[1000] = sum x axes=[1]",
        "b: f32[1000, 100000] = expand s to=[0]",
        "y: f32[1000, 100000] = add x, b",
    )
    assert [mark for mark in marked(lines(text, "tcc")) if mark.startswith("x ")] == ["x prefetch=4096"]


def test_steps_down_columns_prefetch_rows() -> None:
    text = graph(
        "x: f32[5000, 3000]", "f32[3000]", "e: f32[5000, 3000] = exp x", "y: f32[3000] = sum e axes=[0]"
    )
    assert marked(lines(text, "tcc")) == ["x prefetch_rows=8", "for width=1024"]


def test_a_sum_of_gathered_rows_prefetches_rows() -> None:
    text = graph(
        "w: f32[100000, 64], i: i64[5000, 8]",
        "f32[5000, 64]",
        "g: f32[5000, 8, 64] = gather w, i axis=0 wrap=1",
        "y: f32[5000, 64] = sum g axes=[1]",
    )
    assert "w prefetch_rows=16" in marked(lines(text, "tcc"))
    assert "w prefetch" not in " ".join(marked(lines(text.replace("100000", "1000"), "tcc")))
