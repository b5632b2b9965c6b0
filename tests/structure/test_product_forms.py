"""How a product of any size is multiplied is an `if` of its loops, not a factor of 0 or 1 in their extents.

One tile of rows reads its columns in place, more rows pack them. Programs are text: a product and what is
computed of it, with a number of rows, of columns and of terms that may be symbols.
"""

import re

import pytest

from tests.dlc_opt import opt

GELU = """dlc 1 kernels

fn gelu[{sizes}](x: f32[{m}, {k}], w: f32[{n}, {k}], b: f32[{n}]) -> (f32[{m}, {n}]) {{
  let y: f32[{m}, {n}] = kernel {{
    let c: f32[{m}, {n}] = contract x, w over="mk,nk->mn"
    let e: f32[{m}, {n}] = expand b to=[1]
    let a: f32[{m}, {n}] = add c, e
    let h: f32[{m}, {n}] = mul a, 0.7071067811865476
    let r: f32[{m}, {n}] = erf h
    let o: f32[{m}, {n}] = add r, 1.0
    let p: f32[{m}, {n}] = mul a, 0.5
    let q: f32[{m}, {n}] = mul p, o
    ret q
  }}
  ret y
}}
"""
SIZES = {
    "rows": ("T in 2..inf", "T", "3072", "768"),
    "rows, one chain": ("T in 1..inf", "T", "64", "200"),
    "any": ("T, N, K in 1..inf", "T", "N", "K"),
    "a few": ("T in 1..40, N in 1..inf", "T", "N", "300"),
    "a product": ("T in 1..inf, S in 1..inf", "S*T", "640", "1024"),
}
TARGETS = ["", ",cc", ",tcc", ",c"]


def loops(sizes: str, target: str = "") -> str:
    names = dict(zip(("sizes", "m", "n", "k"), SIZES[sizes], strict=True))
    return opt(GELU.format(**names), "--pass", f"lower,schedule{target}")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", SIZES)
def test_the_form_is_a_choice(sizes: str, target: str) -> None:
    """Of the number of rows, and nothing else says which form it is."""
    text = loops(sizes, target)
    assert "max(0," not in text
    rows = SIZES[sizes][1]
    assert f"if {rows} <= 14 {{" in text
    assert opt(text) == text


@pytest.mark.parametrize("target", TARGETS)
def test_a_product_of_one_chain_can_be_read(target: str) -> None:
    """The loops of the kernel, with both forms."""
    kernel = loops("rows, one chain", target).split("= kernel {\n")[1].split("\n  }\n")[0]
    assert len(kernel.splitlines()) <= 40


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", ["rows", "any", "a product"])
def test_the_choices_of_long_sums_are_of_the_rows(sizes: str, target: str) -> None:
    """One nest serves few columns and many: the bias that is spread over the result asks for no other one."""
    kernel = loops(sizes, target).split("= kernel {\n")[1].split("\n  }\n")[0]
    rows = SIZES[sizes][1]
    assert re.findall(r"if (.*) \{", kernel) == [f"15 <= {rows}", f"{rows} <= 14"]
    assert len(kernel.splitlines()) <= 50
    assert kernel.count(" micro") == kernel.count(" pack") + 1


@pytest.mark.parametrize("chains", [2, 3, 4, 5])
def test_no_loop_has_one_chain(chains: int) -> None:
    """The first chain and the last one stand by themselves; a loop has those between."""
    text = opt(GELU.format(sizes="N in 40..inf", m="300", n="N", k=256 * chains), "--pass", "lower,schedule")
    assert re.findall(r"for c\d+ in (\d+)", text) == ([str(chains - 2)] if chains > 3 else [])
    assert text.count(" micro") == min(chains, 3)


@pytest.mark.parametrize("sizes", SIZES)
def test_one_tile_of_rows_packs_nothing(sizes: str) -> None:
    """Its branch has one call, which reads the columns in place; the other one has none of these."""
    text = loops(sizes)
    few = re.search(r"^( *)if \S+ <= 14 \{\n(.*?)^\1\} else \{\n(.*?)^\1\}", text, re.MULTILINE | re.DOTALL)
    assert few
    assert few[2].count(" micro") == 1 and " pack" not in few[2]
    assert few[3].count(" micro") >= 1


@pytest.mark.parametrize("rows", ["14", "15", "300"])
def test_a_number_of_rows_needs_no_choice(rows: str) -> None:
    text = opt(GELU.format(sizes="N in 40..inf", m=rows, n="N", k="768"), "--pass", "lower,schedule")
    assert "if " not in text and "max(0," not in text
    assert (" pack" in text) == (rows != "14")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sizes", SIZES)
def test_the_interpreter_takes_either_branch(sizes: str, seed: int) -> None:
    """The results of the kernel, whose rows are as many as the seed says."""
    names = dict(zip(("sizes", "m", "n", "k"), SIZES[sizes], strict=True))
    small = GELU.format(**names).replace("3072", "40").replace("768", "280").replace("640", "35")
    opt(small, "--pass", "lower,schedule", "--emit", "none", "--eval", str(seed))
