"""The words of docs/glossary.md: none of its last column stands in the code, its comments or the docs.

Most of these words are plain English too. So each has the patterns that are not meant by that, and what may
stand in spite of a pattern, with the reason.
"""

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Word(NamedTuple):
    """pattern: what is looked for, in any letter case.

    but: what may stand: the beginning of a path, and a pattern of the line.
    """

    pattern: str
    but: tuple[tuple[str, str], ...] = ()


# Of contractions: `chain` is the language's word for 256 fused multiply-adds in order (docs/ir.md).
PRODUCTS = (
    ("csrc/codegen/micro", "chain"),
    ("csrc/fusion/digits/decode.c", "CONTRACTION_CHAIN"),
    ("csrc/codegen/lower/lower_operands.c", "CONTRACTION_CHAIN"),
    ("csrc/codegen/lower/lower_plain.c", "chain|CONTRACTION_CHAIN"),
    ("csrc/codegen/lower/lower_places.c", "chain"),
    ("csrc/codegen/tile", "chain|CONTRACTION_CHAIN"),
    ("csrc/capture/aten/product/aten_convolve.c", "chain"),
    ("csrc/codegen/loops/product_runs.c", "A chain may begin"),
    ("csrc/codegen/emit/emit_product.c", "chain|CONTRACTION_CHAIN"),
    ("csrc/codegen/emit/emit.h", "put_chains"),
    ("csrc/codegen/emit/cc/emit_cc.c", "put_chains"),
    ("csrc/codegen/emit/tcc/emit_tcc_reduce.c", "chain|CONTRACTION_CHAIN"),
    ("csrc/codegen/emit/c/emit_c_reduce.c", "chain"),
    ("csrc/codegen/schedule/nest/interchange.c", "CONTRACTION_CHAIN"),
    ("csrc/codegen/schedule/decode/decode.c", "chain|CONTRACTION_CHAIN"),
    ("csrc/codegen/schedule/decode/sums.c", "chain"),
    ("csrc/ir/eval/eval_contract.c", "chain"),
    ("csrc/ir/eval/eval_loops.c", "chain"),
    ("csrc/ir/contraction", "CONTRACTION_CHAIN|chain"),
    ("csrc/ir/ops.def", "chain"),
    ("csrc/ir/marks.def", "chains of fused multiply-adds"),
    ("docs/ir.md", "chains?"),
    ("docs/experiments.md", "chains?"),
)

WORDS = {
    "turn": Word(
        r"(?<![a-z])turn(ed|ing)?(?![a-z])|_turns?\b",
        (
            ("csrc", r"quarter turn|half turn|turn (every|them) into|dlc_(sin|tan)_turn|in turn\b"),
            ("csrc/ir/math", r"\bturn\b"),  # an angle in turns
            ("csrc/capture/aten/aten_arith.c", "half_turn"),
            ("csrc/codegen/tune/tune_time.c", r"\bturn"),  # schedules take turns
            ("csrc/codegen/jit/jit.h", "its turn comes"),
            ("csrc/codegen/process/log.c", "turn it on"),
            ("csrc/ir/eval", r"\bturn\b"),  # a pass of a loop
            ("dlc/grids.py", r"\b[Tt]urned\b"),  # reflected
            ("docs", r"quarter turn|half turn|in turn\b|Each turn|of 15 turns"),
        ),
    ),
    "ask": Word(
        r"_asks?\b|\bask_|_asked\b|asked for ahead|asks? memory|asked of memory",
        (("dlc/hidden.py", "_may_ask"),),
    ),
    "ahead": Word(r"_ahead\b|\bahead_|asked for ahead", (("csrc/codegen/micro", "ahead"),)),
    "past": Word(r"\bpast (the )?caches|(?<![a-z])past_|_past\b"),
    "brought near": Word(
        r"br(?:ings?|ought) (?:\w+ ){0,6}near\b|stays? (?:in caches )?near a core|caches near a core"
        r"|\badd_near\b|->n?near\b|(?<!cc_)\bis_near\b|enum \{[^}]*\bnear\b",
    ),
    "chain": Word(
        r"(?<![a-z])chain(s|ed)?(?![a-z])",
        (
            *PRODUCTS,
            ("csrc/capture/walk", "chain of views"),
            ("csrc/capture/aten/special/aten_complex_functions.c", "by_chain_rule"),
            ("dlc", r"itertools|attributes|modules|\bchain\b|chain_matmul|_chains"),  # of attributes
            ("docs/performance.md", r"\| chain, "),  # the names of benchmarks
            ("docs/plots", r">chain[<,]"),
            ("docs/experiments.md", "a chain of float64"),
        ),
    ),
    "knob": Word("knob"),
    "over": Word(
        r"\bovers\b|_over\b(?!_)|\bhas_over|over_wrong",
        (("csrc", r"complex_over|steps_over|take_over|sine_over"),),
    ),
    "take apart": Word(r"take(s|n)? (it |them )?apart|take_apart|taken_apart"),
    "lookup": Word(
        "lookup",
        (("dlc/partition.py", "_find_nodes_lookup_table"), ("csrc/codegen/micro/micro.c", "lookup by name")),
    ),
    "pick": Word(r"(?<![a-z])pick(s|ed)?(?![a-z])", (("dlc/inline.py", r"\bpicks?\b"),)),
    "lie beside": Word(
        r"\bl(ie|ies|ay|ying) (side by side|end to end|beside|otherwise|apart)|\blying\b|_lying|lying_|"
        r"where (it lies|they lie)\b",
    ),
    "pair": Word(r"->pair\b|\bin_pair\b|cc_\w*pair", ()),
    "company": Word("_company"),
    "kept": Word(
        r"_kept\b|\bkept_|KEEP_COST",
        (
            ("dlc", "kept"),
            ("csrc/codegen/emit/cc/emit_cc_arg.c", "_kept"),
            ("csrc/capture/torch/storage.c", "kept_size"),
        ),
    ),
    "veil": Word("veil"),
    "apart": Word(
        r"_apart\b|\bapart_|(->|[^.]\.)apart\b|\b(bool|Dim|Range|int|int64_t|Let \*)( \w+,)* ?apart\b"
    ),
    "name": Word(r"[Ss]izes? (that are|which are|is|are) (a )?names?\b|size names?\b"),
    "print": Word(r"\bprint_of\b|->prints?\b|\.print\b"),
}


def sources() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "csrc", "dlc", "docs"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = [ROOT / name for name in listed.stdout.split()]
    return [path for path in found if path.is_file() and path.suffix != ".txt" and path.name != "glossary.md"]


def test_the_glossary_and_this_file_have_the_same_words() -> None:
    rows = [
        line.split("|")
        for line in (ROOT / "docs/glossary.md").read_text().splitlines()
        if line.startswith("| ")
    ]
    left = {word.strip() for row in rows for word in row[3].split(",") if word.strip() not in ("", "not")}
    assert left == WORDS.keys()


@cache
def lines() -> list[tuple[str, int, str]]:
    """File, number and text of each line of the sources, which all words are looked for in."""
    return [
        (str(path.relative_to(ROOT)), number, line.strip())
        for path in sources()
        for number, line in enumerate(path.read_text().splitlines(), 1)
    ]


@cache
def found(word: Word) -> list[tuple[str, int, str]]:
    """The lines that have the word."""
    pattern = re.compile(word.pattern, re.IGNORECASE)
    return [line for line in lines() if pattern.search(line[2])]


@pytest.mark.parametrize("name", WORDS)
def test_no_word_of_the_last_column_is_left(name: str) -> None:
    word = WORDS[name]
    left = [
        f"{file}:{number}: {line}"
        for file, number, line in found(word)
        if not any(file.startswith(where) and re.search(may, line, re.IGNORECASE) for where, may in word.but)
    ]
    assert not left, "\n".join([f"the glossary has another word for {name}:", *left])


@pytest.mark.parametrize("name", WORDS)
def test_each_exception_is_needed(name: str) -> None:
    """An exception that nothing needs is taken out."""
    for where, may in WORDS[name].but:
        assert any(
            file.startswith(where) and re.search(may, line, re.IGNORECASE)
            for file, _, line in found(WORDS[name])
        ), (where, may)
