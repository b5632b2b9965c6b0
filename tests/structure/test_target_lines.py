"""What the rewrites of a target decide is a line of its loops: marks, and the arrays that they need."""

import re

import pytest

from ..dlc_opt import opt
from .kernels import without_short_rows


def lines(program: str, target: str) -> str:
    return opt(program, "--pipeline", "--pass", f"lower,schedule,{target}")


def marked(text: str) -> list[str]:
    """The marks of loads, stores and loops that a target's rewrites set, by what they stand on."""
    found = []
    for line in text.splitlines():
        what = re.search(r"(load|store) (\w+)|(for|reduce)\b.* in", line)
        marks = (
            re.findall(r" (\w+=\d+|streams|transpose|places|rolled|prefetch_tile)\b", line) if what else []
        )
        if marks:
            found.append(" ".join([what[2] or what[3], *marks]))
    return found


def bypassing(text: str) -> list[str]:
    return [mark for mark in marked(text) if "nontemporal" in mark or "streams" in mark]


def widths(program: str) -> list[str]:
    """Of tiles and grids in the loops for libtcc."""
    return [mark for mark in marked(lines(program, "tcc")) if "width" in mark or "grid" in mark]


BYPASSES = "nontemporal=20971520 footprint=41943040"


def bypasses(target: str, waiting: int = 16) -> str:
    """A store's marks: in the C for gcc a line of elements waits in an array, or what runs together."""
    return f"{BYPASSES} array={waiting}" if target == "cc" else BYPASSES


def graph(inputs: str, result: str, *lets: str) -> str:
    body = "".join(f"  let {let}\n" for let in lets)
    return f"dlc 1 graph\n\nfn f({inputs}) -> ({result}) {{\n{body}  ret y\n}}\n"


EMBEDDING_SUM = graph(
    "w: f32[100000, 64], i: i64[5000, 8]",
    "f32[5000, 64]",
    "g: f32[5000, 8, 64] = gather w, i axis=0 wrap=1",
    "y: f32[5000, 64] = sum g axes=[1]",
)
EMBEDDING_BAG = graph(
    "w: f32[100000, 64], i: i64[5000, 8], p: f32[5000, 8]",
    "f32[5000, 64]",
    "g: f32[5000, 8, 64] = gather w, i axis=0 wrap=1",
    "e: f32[5000, 8, 64] = expand p to=[0, 1]",
    "t: f32[5000, 8, 64] = mul g, e",
    "y: f32[5000, 64] = sum t axes=[1]",
)


def scaled(size: str) -> str:
    sizes = "" if size.isdigit() else f"[{size} in 1..inf]"
    text = graph(f"x: f32[{size}]", f"f32[{size}]", f"y: f32[{size}] = mul x, 2.0")
    return text.replace("fn f(", f"fn f{sizes}(")


@pytest.mark.parametrize("target", ["tcc", "cc"])
def test_a_result_that_caches_cannot_hold_bypasses_them(target: str) -> None:
    assert marked(lines(scaled("16000000"), target)) == ["for streams", f"t0 {bypasses(target)}"]
    assert bypassing(lines(scaled("4000000"), target)) == []


def test_the_size_decides_when_the_phase_runs() -> None:
    """In the C for gcc, but not in that for libtcc."""
    assert marked(lines(scaled("N"), "cc")) == ["for streams", f"t0 {bypasses('cc')}"]
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
        assert f"t0 {bypasses(target, 64 * 3)}" in marked(lines(text, target))
        assert "for streams" not in marked(lines(text, target))


def test_a_transposed_operand_of_a_large_result() -> None:
    """It is copied. The tile's stores ask for their own tensor's size alone, and in the C for gcc a row of it
    waits for them; what is read along rows is prefetched.
    """
    text = graph(
        "x: f32[2048, 4096], w: f32[4096, 2048]",
        "f32[4096, 2048]",
        "t: f32[4096, 2048] = permute x perm=[1, 0]",
        "y: f32[4096, 2048] = add t, w",
    )
    tile, copied, store = "for width=128", "x transpose array=9216", "t0 nontemporal=8388608"
    row = f"{store} array=128"
    assert marked(lines(text, "cc")) == [tile, "w prefetch_rows=4 beyond=8388608", copied, row]
    assert marked(lines(text, "tcc")) == [tile, "w prefetch_rows=4", copied, store]


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
    assert found[0] == "for streams strip=64 simdlen=8"
    assert found[-1] == f"t0 {bypasses('cc', 1024)}"
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


def test_rows_that_run_together_prefetch_nothing_and_keep_to_the_caches() -> None:
    """Unless they are short: then they may come from memory, and prefetch."""

    def only_alone(text: str) -> list[str]:
        return [
            re.split(r" = | in ", line.strip())[-1].strip(" {")
            for line in text.splitlines()
            if " alone" in line
        ]

    program = layer_norm("B", 5).replace("fn f(", "fn f[B in 1..inf, N in 1..inf](").replace(", 5]", ", N]")
    long = without_short_rows(lines(program, "cc")).rpartition("else {")[2]
    assert only_alone(long) == ["load x[i4, i6] prefetch=4096 alone masked", "N vector streams alone"]
    short = lines(program.replace("N in 1..inf", "N in 65..200"), "cc")
    assert only_alone(short) == [] and "prefetch=4096" in short and "jam=2" in short
    assert only_alone(lines(program, "tcc")) == []


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
    found = [marked(lines(channels(row), "cc")) for row in (3, 16)]
    assert found == [[flat, "m array=192"], [flat, "m array=1024"]]
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
    assert "w prefetch_rows=16" in marked(lines(EMBEDDING_SUM, "tcc"))
    assert "w prefetch" not in " ".join(marked(lines(EMBEDDING_SUM.replace("100000", "1000"), "tcc")))


def test_gathered_rows_that_are_computed_with_prefetch_none() -> None:
    """Where the next one begins is data: a prefetch some rows further on would be one of the row at hand."""
    assert " w prefetch" not in " " + " ".join(marked(lines(EMBEDDING_BAG, "tcc")))


def column_sums(rows: int, columns: int, *more: str) -> str:
    return graph(
        f"x: f32[{rows}, {columns}]",
        f"f32[{columns}]",
        f"s: f32[{columns}] = sum x axes=[0]",
        *(more or (f"y: f32[{columns}] = mul s, 2.0",)),
    )


def variances(rows: int, columns: int) -> str:
    """A second reduction reads what the first one has read."""
    n = f"f32[{rows}, {columns}]"
    return column_sums(
        rows,
        columns,
        f"a: {n} = expand s to=[1]",
        f"d: {n} = sub x, a",
        f"q: {n} = mul d, d",
        f"y: f32[{columns}] = sum q axes=[0]",
    )


@pytest.mark.parametrize(
    ("program", "tile"),
    [
        (column_sums(64, 500), ["for width=256", "reduce jam=4 array=256"]),
        (
            column_sums(4096, 5000),
            ["for width=1024", "reduce jam=4 strip=64 array=1024", "x prefetch_rows=4"],
        ),
        (column_sums(4096, 1000), ["for width=1024", "reduce jam=1 array=1024", "x prefetch_rows=4"]),
    ],
    ids=["in caches", "pieces of rows", "whole rows"],
)
def test_columns_are_reduced_in_tiles(program: str, tile: list[str]) -> None:
    """Of rows that come from memory, longer pieces, which are prefetched a strip at a time."""
    found = marked(lines(program, "cc"))
    assert next(found[at : at + len(tile)] for at, mark in enumerate(found) if mark == tile[0]) == tile
    assert "jam" not in " ".join(marked(lines(program, "c")))


def test_a_second_reduction_finds_its_tile_in_a_cache() -> None:
    """So of more rows the tile is narrower."""
    for rows, width in ((100, 1024), (400, 256)):
        steps = [f"reduce jam=4 strip=64 array={width}", "x prefetch_rows=4"]
        assert marked(lines(variances(rows, 5000), "cc")) == [f"for width={width}", *steps, *steps]


def reduction(op: str, shape: str, dtype: str = "f32") -> str:
    rows = shape.split(",")[0]
    sizes = "".join(f"{size} in 1..inf, " for size in shape.split(", ") if not size.isdigit())
    result = "i64" if op.startswith("arg") else dtype
    text = graph(f"x: {dtype}[{shape}]", f"{result}[{rows}]", f"y: {result}[{rows}] = {op} x axes=[1]")
    return text.replace("fn f(", f"fn f[{sizes[:-2]}](") if sizes else text


def steps(program: str, target: str = "cc") -> list[str]:
    """The marks of its reductions, but for prefetches."""
    found = [line for line in without_short_rows(lines(program, target)).splitlines() if " reduce " in line]
    return [re.sub(r".* lanes ?(.*?) ?\{", r"\1", line) for line in found]


def test_parts_of_a_long_row_run_side_by_side() -> None:
    """Blocks of a sum; halves of a block of argmax, and of a short row all of it, with places."""
    assert [steps(reduction("sum", f"64, {n}")) for n in (4095, 4096)] == [
        ["fill hidden"],
        ["parts=4"],
    ]
    assert [steps(reduction("argmax", f"64, {n}")) for n in (64, 128, 2048, 2049)] == [
        ["fill"],
        ["parts=2 places fill"],
        ["parts=2 places fill"],
        ["parts=2 fill"],
    ]
    assert steps(reduction("argmax", "64, 512", "f64")) == ["fill"]


def test_a_place_of_what_is_computed_is_looked_for_in_an_array() -> None:
    """Of a block and sixteen more elements; a row of memory needs none, nor does another target."""
    lets = "e: f32[64, 512] = exp x", "y: i64[64] = argmax e axes=[1]"
    computed = graph("x: f32[64, 512]", "i64[64]", *lets)
    assert steps(computed) == ["fill array=1040"]
    assert steps(computed, "tcc") == steps(computed, "c") == [""]


def test_parts_of_an_element_are_loaded_and_stored_by_one_primitive() -> None:
    """Of two floats each: not by the C compiler, and not one part alone."""
    parts = [f"{name}: f32[1000, 1] = slice x axis=1 start={k} step=1" for k, name in enumerate("ab")]
    text = graph("x: f32[1000, 2]", "f32[1000, 2]", *parts, "y: f32[1000, 2] = cat b, a axis=1")
    accesses = re.findall(r"(load x|store t0)\[.* primitive$", lines(text, "tcc"), re.M)
    assert accesses == ["load x"] * 2 + ["store t0"] * 2
    assert "primitive" not in lines(text, "cc")
    one = graph("x: f32[1000, 2]", "f32[1000, 1]", parts[0], "y: f32[1000, 1] = neg a")
    assert "primitive" not in lines(one, "tcc")


def test_rows_of_a_sum_are_one_primitive_of_libtcc() -> None:
    """One that prefetches as it goes. Where there is nothing to prefetch, it finds them in memory."""
    assert steps(reduction("sum", "640, 4096"), "tcc") == ["primitive"]
    small = reduction("sum", "64, 4096")
    assert steps(small, "tcc") == [""]
    assert "load x[i0, i1] merged" in lines(small, "tcc")


def test_a_row_of_a_symbolic_length_has_a_loop_for_each_frequent_one() -> None:
    """In one phase: one for each of three lengths, one for a row of one block, and one for longer rows."""
    text = without_short_rows(lines(reduction("sum", "64, N"), "cc"))
    assert re.findall(r"if (.*) phase \{", text) == [
        "N <= 1024",
        "N <= 16",
        "max(64 - N, N) <= 32",
        "max(128 - N, N) <= 64",
    ]
    assert steps(reduction("sum", "64, N")) == ["parts=4 fill"] * 5
    assert steps(reduction("sum", "64, 1000")) == [""]
    assert steps(reduction("sum", "64, N"), "tcc") == ["primitive"]


def sines(*more: str) -> str:
    return graph("x: f32[1000]", "f32[1000]", *(more or ("y: f32[1000] = sin x",)))


def test_functions_with_a_near_form_run_in_parts() -> None:
    """Not where an iteration may not run again, as it adds to what is there."""
    assert marked(lines(sines(), "cc")) == ["for near=131072"]
    assert marked(lines(sines("y: f32[1000] = exp x"), "cc")) == []
    assert marked(lines(sines(), "tcc")) == []


def test_a_short_loop_with_a_choice_from_outside_stays_one() -> None:
    text = graph(
        "x: f32[100, 8], c: bool[100]",
        "f32[100, 8]",
        "b: bool[100, 8] = expand c to=[0]",
        "n: f32[100, 8] = neg x",
        "y: f32[100, 8] = where b, x, n",
    )
    assert "for rolled" in marked(lines(text, "cc"))
    assert "for rolled" not in marked(lines(text.replace("8", "32"), "cc"))


@pytest.mark.parametrize("target", ["tcc", "cc"])
@pytest.mark.parametrize(
    ("rows", "terms", "columns", "prefetched"),
    [
        (512, 512, 512, "for prefetch_tile"),
        (100, 3000, 300, "for prefetch_pack=221184"),
        (2048, 2048, 2048, None),
    ],
    ids=["the next rows", "what is packed next", "panels that fill a cache"],
)
def test_a_product_prefetches_what_it_reads_next(
    target: str, rows: int, terms: int, columns: int, prefetched: str | None
) -> None:
    text = graph(
        f"x: f32[{rows}, {terms}], w: f32[{terms}, {columns}]",
        f"f32[{rows}, {columns}]",
        f'y: f32[{rows}, {columns}] = contract x, w over="mk,kn->mn"',
    )
    found = {mark for mark in marked(lines(text, target)) if "prefetch" in mark}
    assert found == {"t0 prefetch_tile"} | ({prefetched} if prefetched else set())


def test_a_window_along_a_row_prefetches_in_one_way() -> None:
    """Its elements are adjacent along the sum and along the vector loop around: both had a mark for it,
    which V34 refuses.
    """
    text = """dlc 1 loops

fn f(x: f32[303000]) -> (f32[300000]) {
  let y: f32[300000] = kernel {
    for i in 300000 parallel vector {
      let s: f32 = reduce sum k in 3000 {
        let b: f32 = load x[i + k]
        ret b
      }
      store y[i] = s
    }
  }
  ret y
}
"""
    assert "x prefetch_rows=4" in marked(opt(text, "--pass", "cc"))


def computed(op: str, *ops: str, size: str = "100000") -> str:
    """A value after several operations, one after the other."""
    lets = [f"v0: f32[{size}] = {op} x", *(f"v{k + 1}: f32[{size}] = {op} v{k}" for k, op in enumerate(ops))]
    return graph(f"x: f32[{size}]", f"f32[{size}]", *lets, f"y: f32[{size}] = mul v{len(ops)}, x")


def stages(text: str) -> list[tuple[str, int]]:
    """The operations of a loop with the stages that they are in."""
    found = re.findall(r"= (\w+) [^\[\n]*?(?: stage=(\d+))?(?: array=\d+)?$", text, re.M)
    return [(op, int(stage or 1)) for op, stage in found if op not in ("kernel", "load")]


def in_arrays(text: str) -> list[tuple[str, int]]:
    """What is kept in arrays, and how many elements of it."""
    found = re.findall(r"(?:= (\w+) |(store) ).*\barray=(\d+)", text)
    return [(made or store, int(n)) for made, store, n in found]


def test_expensive_operations_one_after_the_other_are_stages() -> None:
    """As many as overlap are in one stage; what is cheap is where it is wanted."""
    mish = lines(computed("exp", "log1p", "tanh"), "cc")
    assert "vector distribute=256 {" in mish
    assert stages(mish) == [("exp", 1), ("log1p", 2), ("tanh", 3), ("mul", 3)]
    assert in_arrays(mish) == [("exp", 256), ("log1p", 256)]
    assert "distribute" not in lines(computed("exp", "sqrt"), "cc")
    assert "distribute" not in lines(computed("exp", "log1p", "tanh"), "tcc")


def test_a_loop_in_stages_neither_streams_nor_prefetches_as_a_stencil() -> None:
    """Many cheap operations one after the other are stages too, of a result that caches cannot hold."""
    for n, wanted in ((8, "streams"), (24, "distribute=256")):
        ops = [f"{'mul' if k % 2 else 'add'} {f'v{k - 1}' if k else 'x'}, x" for k in range(n)]
        lets = [f"v{k}: f32[16000000] = {op}" for k, op in enumerate(ops)]
        text = graph("x: f32[16000000]", "f32[16000000]", *lets, f"y: f32[16000000] = neg v{n - 1}")
        marks = re.findall(r"vector (streams|distribute=256)\b(.*)", lines(text, "cc"))
        assert marks == [(wanted, " {")]
    rows = graph(
        "x: f32[4096, 2048]",
        "f32[4094, 2048]",
        "a: f32[4094, 2048] = slice x axis=0 start=0 step=1",
        "b: f32[4094, 2048] = slice x axis=0 start=2 step=1",
        "c: f32[4094, 2048] = add a, b",
        "e: f32[4094, 2048] = exp c",
        "l: f32[4094, 2048] = log1p e",
        "y: f32[4094, 2048] = tanh l",
    )
    assert "distribute=256" in lines(rows, "cc")
    assert "prefetch" not in lines(rows, "cc")


def scan(row: int, *before: str) -> str:
    values = ["x", *(f"v{k}" for k in range(len(before)))]
    shape = f"f32[64, {row}]"
    lets = [f"v{k}: {shape} = {op} {values[k]}" for k, op in enumerate(before)]
    return graph(f"x: {shape}", shape, *lets, f"y: {shape} = scan {values[-1]} op=sum axis=1")


def test_recurrences_are_stages_where_much_is_computed_around_them() -> None:
    """What continues the element before has an even stage, and what is around it are vectors."""
    text = lines(scan(1000, "exp"), "cc")
    assert "for j0 in 1000 distribute=128 {" in text
    assert stages(text) == [("exp", 1), ("cast", 1), ("add", 2), ("cast", 3)]
    assert in_arrays(text) == [("add", 128)]
    for plain in (scan(1000), scan(32, "exp")):
        assert "distribute" not in lines(plain, "cc")
    assert "distribute" not in lines(scan(1000, "exp"), "tcc")


def test_expensive_recurrences_are_a_vector_across_the_rows() -> None:
    text = lines(scan(1000).replace("op=sum", "op=logaddexp"), "cc")
    assert re.findall(r"= (logaddexp) .* (stage=.*)$", text, re.M) == [
        ("logaddexp", "stage=2 across array=128")
    ]
    assert "across" not in lines(scan(1000, "exp"), "cc")


def test_eight_recurrences_run_together_and_some_of_them_in_one_loop() -> None:
    """In both targets eight; what is alone or is not plain has a loop of its own."""
    assert "for i0 in 64 parallel recurrences=8 scan jam=4 {" in lines(scan(1000), "cc")
    assert "for i0 in 64 parallel recurrences=8 jam=4 {" in lines(scan(1000, "exp"), "cc")
    assert "for i0 in 64 parallel recurrences=8 scan {" in lines(scan(1000), "tcc")
    assert "recurrences=8 {" in lines(scan(1000).replace("[64,", "[1,"), "cc")


def row(op: str, length: str, *, dtype: str = "f32") -> str:
    sizes = "" if length.isdigit() else f"[{length} in 1..inf]"
    lets = [f"v: {dtype}[64, {length}] = exp x"] if op == "exp" else []
    reduced = f"y: {dtype}[64] = {'amax' if op == 'amax' else 'sum'} {'v' if lets else 'x'} axes=[1]"
    text = graph(f"x: {dtype}[64, {length}]", f"{dtype}[64]", *lets, reduced)
    return text.replace("fn f(", f"fn f{sizes}(")


@pytest.mark.parametrize(
    ("op", "length", "dtype", "fills", "masked"),
    [
        ("exp", "N", "f32", True, True),
        ("exp", "100", "f32", True, False),  # four are left, which are a vector
        ("sum", "N", "f32", True, True),
        ("sum", "100", "f32", False, False),
        ("sum", "N", "bf16", False, False),
        ("amax", "N", "bf16", True, True),
    ],
)
def test_the_rest_of_a_row_fills_the_lanes(
    op: str, length: str, dtype: str, fills: bool, masked: bool
) -> None:
    """Where a body is expensive, or its loads are under a mask."""
    for target in ("cc", "tcc"):
        text = lines(row(op, length, dtype=dtype), target)
        filled = re.search(r"reduce \w+ \w+ in \w+ lanes.* fill \{$", text, re.M)
        assert bool(filled) == (fills and target == "cc")
        assert bool(re.search(r"load x.* masked\b", text)) == (masked and target == "cc")


def test_an_index_of_rows_is_looked_up_once_for_all_their_columns() -> None:
    """In a sum of gathered rows, whose vector loop runs along the columns; in nothing else of it."""
    sums = graph(
        "w: f32[5000, 64], i: i64[200, 8]",
        "f32[200, 64]",
        "g: f32[200, 8, 64] = gather w, i axis=0 wrap=1",
        "y: f32[200, 64] = sum g axes=[1]",
    )
    text = lines(sums, "cc")
    assert [line.split(" = ")[1].split()[0] for line in text.splitlines() if line.endswith(" uniform")] == [
        "load",
        "bind",
    ]
    assert text.count(" uniform") == 2
    assert "uniform" not in lines(sums, "tcc")
    assert "uniform" not in lines(graph("x: f32[64, 200]", "f32[200]", "y: f32[200] = sum x axes=[0]"), "cc")


def test_what_is_used_behind_a_loop_in_a_tile_is_in_an_array() -> None:
    """In the C for gcc: sums, and the mean that is computed before the second loop."""
    n = "f32[400, 5000]"
    text = column_sums(
        400,
        5000,
        "m: f32[5000] = mul s, 0.0025",
        f"a: {n} = expand m to=[1]",
        f"d: {n} = sub x, a",
        f"q: {n} = mul d, d",
        "y: f32[5000] = sum q axes=[0]",
    )
    assert in_arrays(lines(text, "cc")) == [("reduce", 256), ("mul", 256), ("reduce", 256)]
    assert in_arrays(lines(text, "tcc")) == []


def test_a_buffer_in_a_tile_has_one_for_each_of_its_iterations() -> None:
    text = """dlc 1 loops

fn f(x: f32[7, 300]) -> (f32[7, 300]) {
  let y: f32[7, 300] = kernel {
    for i in 300 parallel vector {
      let row: f32[7] = buffer
      let s: f32 = reduce sum j in 7 {
        let a: f32 = load x[j, i]
        let e: f32 = exp a
        store row[j] = e
        ret e
      }
      for k in 7 {
        let b: f32 = load row[k]
        let c: f32 = div b, s
        store y[k, i] = c
      }
    }
  }
  ret y
}
"""
    assert in_arrays(opt(text, "--pass", "cc")) == [("buffer", 256), ("reduce", 256)]


def test_a_circuit_pipelines_the_innermost_loops() -> None:
    """Of a product the loops over its columns, one of which runs inside that over its terms."""
    product = graph(
        "a: f32[5, 70], b: f32[70, 40]", "f32[5, 40]", 'y: f32[5, 40] = contract a, b over="mk,kn->mn"'
    )
    norm, of_product = lines(layer_norm("64", 512), "hls"), lines(product, "hls")
    heads = [line for line in norm.splitlines() if re.search(r"\b(for|reduce) ", line)]
    assert ["pipelined" in head for head in heads] == [" 512 " in head for head in heads]
    assert re.findall(r"for (\w+) .*vector pipelined", of_product) and "fused" not in of_product
    terms = re.search(r"for \w+ in 70 \{\n *for \w+ in .* vector pipelined \{", of_product)
    assert terms and "fma" in of_product
    assert "pipelined" not in lines(product, "c")
