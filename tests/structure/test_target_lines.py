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
    assert marked(lines(scaled("4000000"), target)) == []


def test_the_size_decides_when_the_phase_runs() -> None:
    """In the C for gcc, but not in that for libtcc."""
    assert marked(lines(scaled("N"), "cc")) == ["for streams", f"t0 {BYPASSES}"]
    assert marked(lines(scaled("N"), "tcc")) == []


@pytest.mark.parametrize("target", ["tcc", "cc"])
def test_a_result_in_place_is_stored_as_always(target: str) -> None:
    text = scaled("16000000").replace("(f32[16000000]) {", "(f32[16000000] into x) {")
    assert " over x" in lines(text, target)
    assert marked(lines(text, target)) == []


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
    assert marked(lines(text, "tcc")) == ["t0 nontemporal=8388608"]


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
    assert [marked(lines(channels(row), target)) for row, target in ((17, "cc"), (3, "tcc"))] == [[], []]


def computed(op: str, *ops: str, size: str = "100000") -> str:
    """A value after several operations, one after the other."""
    lets = [f"v0: f32[{size}] = {op} x", *(f"v{k + 1}: f32[{size}] = {op} v{k}" for k, op in enumerate(ops))]
    return graph(f"x: f32[{size}]", f"f32[{size}]", *lets, f"y: f32[{size}] = mul v{len(ops)}, x")


def stages(text: str) -> list[tuple[str, int]]:
    """The operations of a loop with the stages that they are in."""
    found = re.findall(r"= (\w+) [^\[\n]*?(?: stage=(\d+))?$", text, re.M)
    return [(op, int(stage or 1)) for op, stage in found if op not in ("kernel", "load")]


def test_expensive_operations_one_after_the_other_are_stages() -> None:
    """As many as overlap are in one stage; what is cheap is where it is wanted."""
    mish = lines(computed("exp", "log1p", "tanh"), "cc")
    assert "vector distribute=256 {" in mish
    assert stages(mish) == [("exp", 1), ("log1p", 2), ("tanh", 3), ("mul", 3)]
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
    for plain in (scan(1000), scan(32, "exp")):
        assert "distribute" not in lines(plain, "cc")
    assert "distribute" not in lines(scan(1000, "exp"), "tcc")


def test_expensive_recurrences_are_a_vector_across_the_rows() -> None:
    text = lines(scan(1000).replace("op=sum", "op=logaddexp"), "cc")
    assert re.findall(r"= (logaddexp) .* (stage=.*)$", text, re.M) == [("logaddexp", "stage=2 across")]
    assert "across" not in lines(scan(1000, "exp"), "cc")


def test_eight_recurrences_run_together_and_some_of_them_in_one_loop() -> None:
    """In both targets eight; what is alone or is not plain has a loop of its own."""
    assert "for i0 in 64 parallel recurrences=8 jam=4 {" in lines(scan(1000), "cc")
    assert "for i0 in 64 parallel recurrences=8 jam=4 {" in lines(scan(1000, "exp"), "cc")
    assert "for i0 in 64 parallel recurrences=8 {" in lines(scan(1000), "tcc")
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
