"""A product whose columns are computed of codes reads the codes, on every target: one kernel, no float copy.

Programs are text: a weight of few bits, what it stands for, a product with it. Sizes are around panels (32
columns) and the 256 terms that a sum adds in order.
"""

from __future__ import annotations

import re

import pytest

from tests.dlc_opt import opt
from tests.structure.traffic import BYTES, Type, binders, traffic

#: Parameters and lets of d: f32[{n}, {k}].
FORMATS = {
    "i8": (
        "w: i8[{n}, {k}], s: f32[{n}]",
        ["f: {d} = cast w", "e: {d} = expand s to=[0]", "d: {d} = mul f, e"],
    ),
    "i8 zero points": (
        "w: i8[{n}, {k}], s: f32[{n}], z: f32[{n}]",
        ["f: {d} = cast w", "o: {d} = expand z to=[0]", "c: {d} = sub f, o", "e: {d} = expand s to=[0]",
         "d: {d} = mul c, e"],
    ),
    "i8 transposed": (
        "w: i8[{k}, {n}], s: f32[{n}]",
        ["t: i8[{n}, {k}] = permute w perm=[1, 0]", "f: {d} = cast t", "e: {d} = expand s to=[0]",
         "d: {d} = mul f, e"],
    ),
    "i8 strided": (
        "w: i8[{n}, {k}] strides=[2*{k} + 3, 2], s: f32[{n}]",
        ["f: {d} = cast w", "e: {d} = expand s to=[0]", "d: {d} = mul f, e"],
    ),
    "bf16": ("w: bf16[{n}, {k}]", ["d: {d} = cast w"]),
    "f16": ("w: f16[{n}, {k}]", ["d: {d} = cast w"]),
    "u4": (
        "w: u8[{n}, {k} // 2], s: f32[{n}]",
        ["l: u8[{n}, {k} // 2] = bit_and w, 15", "h: u8[{n}, {k} // 2] = shr w, 4",
         "a: u8[{n}, {k} // 2, 1] = reshape l", "b: u8[{n}, {k} // 2, 1] = reshape h",
         "p: u8[{n}, {k} // 2, 2] = cat a, b axis=2", "q: u8[{n}, {k}] = reshape p",
         "f: {d} = cast q", "e: {d} = expand s to=[0]", "d: {d} = mul f, e"],
    ),
    "u4 by groups": (
        "w: u8[{n}, {k} // 2], s: f32[{n}, {k} // 4]",
        ["l: u8[{n}, {k} // 2] = bit_and w, 15", "h: u8[{n}, {k} // 2] = shr w, 4",
         "a: u8[{n}, {k} // 2, 1] = reshape l", "b: u8[{n}, {k} // 2, 1] = reshape h",
         "p: u8[{n}, {k} // 2, 2] = cat a, b axis=2", "q: u8[{n}, {k} // 4, 4] = reshape p",
         "f: f32[{n}, {k} // 4, 4] = cast q", "e: f32[{n}, {k} // 4, 4] = expand s to=[0, 1]",
         "m: f32[{n}, {k} // 4, 4] = mul f, e", "d: {d} = reshape m"],
    ),
    "table": (
        "w: u8[{n}, {k}], t: f32[256]",
        ["i: i64[{n}, {k}] = cast w", "d: {d} = gather t, i axis=0 wrap=0"],
    ),
    "table of pairs": (
        "w: u8[{n} * {k} // 2], s: f32[{n} * {k} // 4], t: f32[16]",
        ["h: u8[{n} * {k} // 2] = shr w, 4", "l: u8[{n} * {k} // 2] = bit_and w, 15",
         "a: u8[{n} * {k} // 2, 1] = reshape h", "b: u8[{n} * {k} // 2, 1] = reshape l",
         "p: u8[{n} * {k} // 2, 2] = cat a, b axis=1", "i: i64[{n} * {k} // 2, 2] = cast p",
         "q: i64[{n} * {k} // 4, 4] = reshape i", "f: f32[{n} * {k} // 4, 4] = gather t, q axis=0 wrap=0",
         "e: f32[{n} * {k} // 4, 4] = expand s to=[0]", "m: f32[{n} * {k} // 4, 4] = mul f, e",
         "d: {d} = reshape m"],
    ),
    "blocks": (
        "w: u8[{n}, {k}]",
        ["r: u8[{n} * {k} // 2, 2] = reshape w", "c: u8[{n} * {k} // 2, 1] = slice r axis=1 start=0 step=1",
         "v: u8[{n} * {k} // 2] = reshape c", "s: f32[{n} * {k} // 2] = cast v",
         "g: u8[{n} * {k} // 2, 1] = slice r axis=1 start=1 step=1", "h: u8[{n} * {k} // 2] = reshape g",
         "x1: u8[{n} * {k} // 2, 2] = expand h to=[0]",
         "j: i64[{n} * {k} // 2, 2] = iota axis=1", "z: i64[{n} * {k} // 2, 2] = mul j, 4",
         "y2: u8[{n} * {k} // 2, 2] = cast z",
         "o: u8[{n} * {k} // 2, 2] = shr x1, y2", "q: u8[{n} * {k} // 2, 2] = bit_and o, 15",
         "f: f32[{n} * {k} // 2, 2] = cast q", "e: f32[{n} * {k} // 2, 2] = expand s to=[0]",
         "m: f32[{n} * {k} // 2, 2] = mul f, e", "d: {d} = reshape m"],
    ),
    "scales of a place": (
        "w: i8[{k}, {n}], s: f32[{k} // 4, {n}], a: i32[{k}]",
        ["i: i64[{k}] = cast a", "g: f32[{k}, {n}] = gather s, i axis=0 wrap=1",
         "f: f32[{k}, {n}] = cast w", "m: f32[{k}, {n}] = mul f, g", "d: {d} = permute m perm=[1, 0]"],
    ),
}  # fmt: skip


def program(name: str, m: str, n: int, k: int, more: str = "", result: str = "y") -> str:
    params, lets = FORMATS[name]
    sizes = {"n": n, "k": k, "d": f"f32[{n}, {k}]"}
    divided = [
        re.sub(r"\d+( \* \d+)* // \d+", lambda e: str(eval(e[0])), t.format(**sizes)) for t in (params, *lets)
    ]
    body = "".join(f"  let {let}\n" for let in divided[1:])
    symbols = "[M in 0..inf]" if m == "M" else ""
    return (
        f"dlc 1 graph\n\nfn product{symbols}(x: f32[{m}, {k}], {divided[0]}) -> (f32[{m}, {n}]) {{\n"
        f'{body}  let y: f32[{m}, {n}] = contract x, d over="mk,nk->mn"\n{more}  ret {result}\n}}\n'
    )


def loops(kernels: str, target: str) -> str:
    return opt(kernels, "--pass", f"lower,schedule,{target}")


def largest_buffer(text: str) -> int:
    """Elements: of names, the extents are those of tensors."""
    found = re.findall(r": \w+\[([\d, ]+)\] (?:strides=\[[^\]]*\] )?= buffer", text)
    return max(eval(shape.replace(",", "*")) for shape in found)


@pytest.mark.parametrize("target", ["cc", "tcc", "c"])
@pytest.mark.parametrize("m", ["1", "300", "M"])
@pytest.mark.parametrize("name", FORMATS)
def test_one_kernel_reads_the_codes(name: str, m: str, target: str) -> None:
    n, k = 512, 4096
    kernels = opt(program(name, m, n, k), "--pipeline")
    assert kernels.count("= kernel {") == 1
    text = loops(kernels, target)
    assert largest_buffer(text) < n * k // 8, "a copy of the weight"
    assert len(re.findall(r"^    for ", text, re.MULTILINE)) == 1, "one phase"
    # Elements of the weight, each of which one load reads for 256 terms.
    weight = binders(kernels.partition(") -> (")[0])["w"]
    assert set(re.findall(r"let w\w*: (\w+) = load w\[", text)) == {weight.dtype}


def test_bytes() -> None:
    """One byte for each weight, once for 280 rows; activations, scales and results as for any product."""
    for m in (1, 33, 280):
        text = loops(opt(program("i8", str(m), 512, 1024), "--pipeline"), "cc")
        assert traffic([text]).bytes == 512 * 1024 + 4 * (512 + m * 512 + m * 1024), text
    assert BYTES["i8"] == 1


@pytest.mark.parametrize("target, few", [("cc", 4), ("tcc", 0)])
def test_one_form_for_many_rows(target: str, few: int) -> None:
    """Of more rows than fit in registers, the loops differ in extents alone."""
    shapes = {}
    for m in (1, 2, 4, 5, 14, 15, 300):
        text = loops(opt(program("i8 transposed", str(m), 512, 1024), "--pipeline"), target)
        marks = tuple(dict.fromkeys(re.findall(r" (pack|micro|registers)\b", text)))
        shapes.setdefault(marks, []).append(m)
    assert list(shapes.values()) == ([[1, 2, 4], [5, 14, 15, 300]] if few else [[1, 2, 4, 5, 14, 15, 300]])


def sums(text: str) -> list[tuple[str, str]]:
    """The sums in order, each with the number of its terms, and the additions of sums: those of several rows
    are one."""
    one_line = re.sub(r"for .* p\d+ in (\d+): .* (\+?)= .* micro", r"for p0 in \1 {\2", text)
    found = re.findall(r"(?:reduce sum \w+|for p\d+) in (\d+) (?:fused )?{|(= add buf|(?<={)\+)", one_line)
    found = [(terms, "add" if added else "") for terms, added in found]
    return [one for k, one in enumerate(found) if one[0] or found[k - 1] != one]


@pytest.mark.parametrize("k", [255, 256, 257, 513, 1024])
@pytest.mark.parametrize("weights", ["int8", "i8 transposed"])
def test_few_rows_have_the_sums_of_many(weights: str, k: int) -> None:
    """The same chains in the same order; without a panel, a column is computed in the sum."""
    found = []
    for m in ("1", "3", "300"):
        if weights == "int8":
            text = program("bf16", m, 512, k).replace("w: bf16", "w: f32")
            text = re.sub(r"  let d: f32.*= cast w\n", "", text).replace("contract x, d", "contract x, w")
            text = prepared(text, ["w"], "--weights", "int8")[2]
        else:
            text = program(weights, m, 512, k)
        loops_text = loops(opt(text, "--pipeline"), "cc")
        found.append(sums(loops_text))
        where_added = re.search(
            r" vector {\n(?: .*load.*\n)* *let \w+: f32 = cast(?:.*\n)*?.* = fma", loops_text
        )
        assert bool(where_added) == (m != "300")
        assert bool(re.search(r"f32\[\d+, \d+, 32\] = buffer", loops_text)) == (m == "300")
        arrays = len(re.findall(r"buffer registers", loops_text))
        assert arrays == (0 if m == "300" else int(m) * len([one for one in sums(loops_text) if one[0]]))
    assert found[0] == found[1] == found[2]


def test_few_rows_of_a_symbolic_number_are_a_branch() -> None:
    text = loops(opt(program("i8 transposed", "M", 512, 1024), "--pipeline"), "cc")
    (condition,) = re.findall(r"( *)if M <= 4 {", text)
    few, many = text.split(f"\n{condition}}} else {{\n")
    assert " micro" not in few
    numbers = [few.count(f"if M <= {m} {{") for m in (1, 2, 3)]
    assert numbers == [many.count(" micro")] * 3
    assert "registers" not in many
    assert many.count(" micro") == sums(many).count(("256", ""))
    assert few.count("buffer registers") == (1 + 2 + 3 + 4) * many.count(" micro")


@pytest.mark.parametrize("n", [64, 512])
@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_frozen_halves_are_widened_where_they_are_multiplied(name: str, n: int) -> None:
    """Their panels are filled by one loop along all columns and terms."""
    text = prepared(program(name, "2", n, 600), ["w"])[2]
    text = loops(opt(text, "--pipeline"), "cc")
    assert " micro" not in text
    assert text.count("buffer registers") >= 2
    assert not re.search(r"f32\[\d+, \d+, 32\] = buffer", text)


def test_columns_that_are_apart_stay_in_panels() -> None:
    """Each of them would be loaded alone."""
    text = loops(opt(program("i8", "1", 512, 1024), "--pipeline"), "cc")
    assert "registers" not in text


def test_not_where_rows_are_normalised() -> None:
    """A norm of the product's rows is a kernel of its own: blocks of rows would each decode the weight."""
    more = "  let m: f32[300] = amax y axes=[1]\n  let v: f32[300, 512] = expand m to=[0]\n"
    more += "  let o: f32[300, 512] = sub y, v\n"
    kernels = opt(program("i8", "300", 512, 1024, more, "o"), "--pipeline")
    assert kernels.count("= kernel {") == 2
    assert "f32[512, 1024] strides" not in kernels


def test_epilogue() -> None:
    kernels = opt(program("i8", "M", 512, 1024, "  let o: f32[M, 512] = tanh y\n", "o"), "--pipeline")
    assert kernels.count("= kernel {") == 1


def test_two_products_of_one_weight() -> None:
    """Each decodes what it reads: nothing stores a float copy for both."""
    text = program("i8", "8", 512, 1024)
    text = text.replace("(x: ", "(u: f32[9, 1024], x: ").replace("-> (", "-> (f32[9, 512], ")
    text = text.replace("  ret y", '  let v: f32[9, 512] = contract u, d over="mk,nk->mn"\n  ret v, y')
    kernels = opt(text, "--pipeline")
    assert kernels.count("= kernel {") == 2
    assert kernels.count("contract") == 2
    assert "= kernel" in kernels
    assert not re.search(r"f32\[512, 1024\][^=\n]* = kernel", kernels)


def test_a_weight_that_is_needed_as_floats_is_stored_once() -> None:
    text = program("i8", "8", 512, 1024)
    text = text.replace("-> (", "-> (f32[512, 1024], ").replace("  ret y", "  ret d, y")
    kernels = opt(text, "--pipeline")
    assert kernels.count("cast w") == 1


def prepared(text: str, frozen: list[str], *more: str) -> tuple[str, dict[str, Type], str]:
    """What is made of frozen parameters, its types by name, and the function that reads it, as a program."""
    made = opt(text, "--prepare", ",".join(frozen), *more)
    head, _, run = made.rpartition("fn product")
    params = binders(run.partition(") -> (")[0])
    return (
        head,
        {p: t for p, t in params.items() if p.startswith(("panels", "prepared"))},
        "dlc 1 graph\n\nfn product" + run,
    )


def frozen(text: str) -> tuple[str, dict[str, Type], str]:
    """Prepared of all parameters but x."""
    return prepared(text, [p for p in binders(text.partition(") -> (")[0]) if p != "x"])


@pytest.mark.parametrize("m", ["1", "2", "4", "M"])
@pytest.mark.parametrize("name", FORMATS)
def test_frozen_codes_of_few_rows_are_computed_where_they_are_multiplied(name: str, m: str) -> None:
    """Also codes that a cat joins, and numbers from a table, wherever a column runs in the codes."""
    run = frozen(program(name, m, 512, 1024))[2]
    text = loops(opt(run, "--pipeline"), "cc")
    few = text.partition("} else {\n")[0] if m == "M" else text
    assert "buffer registers" in few
    assert " micro" not in few
    assert m == "M" or not re.search(r"f32\[(\d+, )?256, 32\] = buffer", text)
    # Two codes of a byte are loaded together, and nothing chooses between them.
    assert len(re.findall(r" = where ", few)) == 0


@pytest.mark.parametrize("n", [64, 40])
@pytest.mark.parametrize("name", FORMATS)
def test_values_of_frozen_codes(name: str, n: int) -> None:
    for m, k, target in (
        ("1", 256, "cc"),
        ("3", 520, "cc"),
        ("4", 12, "cc"),
        ("2", 300, "tcc"),
        ("6", 36, "cc"),
    ):
        run = frozen(program(name, m, n, k))[2]
        opt(run, "--pass", f"canonicalise,fuse,lower,schedule,{target}", "--emit", "none", "--eval", "1")


@pytest.mark.parametrize("n", [512, 500])
@pytest.mark.parametrize(
    "name",
    ["i8", "i8 transposed", "i8 strided", "u4", "u4 by groups", "table", "table of pairs", "blocks",
     "scales of a place"],
)  # fmt: skip
def test_freeze_keeps_codes(name: str, n: int) -> None:
    """What is prepared of such a weight are its codes, in the order of panels, with hardly more bytes."""
    text = program(name, "M", n, 1024)
    params = binders(text.partition(") -> (")[0])
    made = frozen(text)[1]
    (codes,) = (t for t in made.values() if t.dtype == params["w"].dtype)
    assert all(t.dtype in {params[p].dtype for p in params if p in "ws"} for t in made.values())
    assert str(codes.shape[-1]) == "32"
    assert codes.bytes <= 1.1 * params["w"].bytes


@pytest.mark.parametrize(
    "x, codes, lets, y",
    [
        ("f32[1, 3, 12]", "i8[1, 64, 12]", ["d: f32[1, 64, 12] = cast w"], "f32[1, 3, 64]"),
        ("f32[1, 3, 12]", "i8[12, 1, 64]",
         ["t: i8[1, 64, 12] = permute w perm=[1, 2, 0]", "d: f32[1, 64, 12] = cast t"], "f32[1, 3, 64]"),
        ("i8[3, 12]", "u8[256, 6]",
         ["l: u8[256, 6] = bit_and w, 15", "h: u8[256, 6] = shr w, 4", "a: u8[256, 6, 1] = reshape l",
          "b: u8[256, 6, 1] = reshape h", "p: u8[256, 6, 2] = cat a, b axis=2",
          "q: u8[256, 12] = reshape p", "d: i8[256, 12] = cast q"], "i8[3, 256]"),
    ],
    ids=["an axis of one", "transposed beside an axis of one", "nibbles that become bytes"],
)  # fmt: skip
def test_prepared_codes_of_any_shape(x: str, codes: str, lets: list[str], y: str) -> None:
    """The function that reads prepared codes is a program, whose codes are in panels."""
    over = "bmk,bnk->bmn" if "1, 3" in x else "mk,nk->mn"
    body = "".join(f"  let {let}\n" for let in [*lets, f'y: {y} = contract x, d over="{over}"'])
    text = f"dlc 1 graph\n\nfn product(x: {x}, w: {codes}) -> ({y}) {{\n{body}  ret y\n}}\n"
    _, made, run = prepared(text, ["w"])
    assert [str(t.shape[-1]) for t in made.values()] == ["32"]
    opt(run, "--pass", "canonicalise,fuse,lower,schedule,cc", "--emit", "none", "--eval", "1")


@pytest.mark.parametrize("weights", ["int8", "int4", "int4-zero"])
def test_what_is_prepared_is_read_from_end_to_end(weights: str) -> None:
    """A panel's codes are adjacent in memory, in the order in which its terms are computed."""
    text = program("bf16", "4", 512, 1024).replace("w: bf16", "w: f32").replace("cast w", "neg w")
    text = text.replace("let d: f32[512, 1024] = neg w\n", "").replace("contract x, d", "contract x, w")
    _, made, run = prepared(text, ["w"], "--weights", weights)
    codes = next(p for p, t in made.items() if t.dtype in ("i8", "u8"))
    for target in ("cc", "tcc", "c"):
        loops_text = loops(opt(run, "--pipeline"), target)
        reads = re.findall(rf"load {codes}\[(.*), (.*), ([il]\d+)\]", loops_text)
        assert reads
        for panel, _, column in reads:
            assert "//" not in panel
            assert re.search(rf"for {column} in 32 vector", loops_text)
        assert " pack " not in loops_text, "a copy of what was computed"


@pytest.mark.parametrize(
    "more, result",
    [
        ("let v: i8[512, 1024] = neg w", "i8[512, 1024]"),
        ("let v: i8[1024, 512] = permute w perm=[1, 0]", "i8[1024, 512] view of w"),
    ],
)
def test_codes_that_something_else_reads_stay(more: str, result: str) -> None:
    text = (
        program("i8", "4", 512, 1024)
        .replace("-> (", f"-> ({result}, ")
        .replace("  ret y", f"  {more}\n  ret v, y")
    )
    made = prepared(text, ["w", "s"])[1]
    assert "i8" not in {t.dtype for t in made.values()}


@pytest.mark.parametrize("n", [16, 33, 65])
@pytest.mark.parametrize("k", [4, 255, 516])
@pytest.mark.parametrize("name", FORMATS)
def test_values(name: str, n: int, k: int) -> None:
    """The interpreter computes the same of the loops of each target as of the graph."""
    if any("//" in part for part in (FORMATS[name][0], *FORMATS[name][1])) and k % 4:
        k += 4 - k % 4
    for m, target in (("1", "cc"), ("15", "tcc"), ("2", "c")):
        passes = f"canonicalise,fuse,lower,schedule,{target}"
        opt(program(name, m, n, k), "--pass", passes, "--emit", "none", "--eval", "1")
