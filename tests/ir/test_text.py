"""The text of the language: print and parse as inverses, and every rule of the verifier broken once."""

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from tests.shards import Shard

ROOT = Path(__file__).resolve().parents[2]
OPT = Path(os.environ.get("DLC_BIN", ROOT / "build")) / "dlc-opt"
HERE = Path(__file__).parent
VALID = sorted((HERE / "valid").glob("*.dlc"))
INVALID = sorted((HERE / "invalid").glob("*.dlc"))
PROGRAMS, PIPED = 40, 10


def opt(text: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([OPT, *options, "-"], input=text, capture_output=True, text=True, errors="replace")


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_print_is_the_inverse_of_parse(path: Path) -> None:
    text = path.read_text()
    done = opt(text)
    assert done.returncode == 0, done.stderr
    assert done.stdout == text


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_blanks_and_comments_mean_nothing(path: Path) -> None:
    text = path.read_text()
    crowded = re.sub(r"\n *", " # a comment\n", text)
    assert opt(crowded).stdout == text
    assert opt(crowded.replace(" # a comment\n", "\t\r\n ")).stdout == text


@pytest.mark.parametrize(
    "path", [p for p in VALID if not p.stem.startswith("calls")], ids=lambda path: path.stem
)
@pytest.mark.parametrize("seed", range(5))
def test_valid_programs_run(path: Path, seed: int) -> None:
    done = opt(path.read_text(), "--emit", "none", "--eval", str(seed))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# result 0: ")


def test_a_size_may_be_a_number(tmp_path: Path, shard: Shard) -> None:
    """Random programs with numbers for their sizes are valid, and give what they give at these sizes."""
    first = 1 + shard.number * PROGRAMS
    fuzz = [OPT.with_name("test-fuzz"), "--tiers", "none", "--print", str(tmp_path)]
    subprocess.run([*fuzz, "--seed", str(first), "--count", str(PROGRAMS)], check=True, capture_output=True)
    texts = [path.read_text() for path in sorted(tmp_path.glob("*.dlc"))]
    assert len(texts) == PROGRAMS
    for text in texts:
        done = opt(text, "--size", "drawn", "--eval", "1")
        assert done.returncode == 0, text + done.stderr
        assert re.search(r"^fn \w+\(", done.stdout, re.MULTILINE), done.stdout
    done = opt("\n---\n".join(texts[:PIPED]), "--size", "drawn", "--eval", "1", "--pipeline")
    assert done.returncode == 0, done.stderr


def test_numbers_for_some_sizes_only() -> None:
    text = "dlc 1 graph\n\nfn f[B in 8..64 % 8, N](x: f32[B, N]) -> (f32[B]) {\n"
    text += "  let s: f32[B] = sum x axes=[1]\n  ret s\n}\n"
    assert opt(text, "--size", "N=5").stdout == text.replace(", N](", "](").replace("N]", "5]")
    assert opt(text, "--size", "B=8,N=5").stdout == (
        "dlc 1 graph\n\nfn f(x: f32[8, 5]) -> (f32[8]) {\n  let s: f32[8] = sum x axes=[1]\n  ret s\n}\n"
    )
    assert opt(text, "--size", "B=16", "--eval", "3", "--emit", "none").returncode == 0
    for sizes, what in {
        "B=12": "the size B cannot be 12: the program takes 8 to 64, multiples of 8",
        "N=-1": "the size N cannot be -1: the program takes 0 or more",
        "Q=1": "the size Q cannot be 1: the program takes no size of that name",
        "B": "--size takes NAME=NUMBER,.. or drawn, not B",
        "B=8,N": "--size takes NAME=NUMBER,.. or drawn, not N",
    }.items():
        assert what in opt(text, "--size", sizes).stderr


def test_loops_in_one_line() -> None:
    """Without the mark of a call they are printed with bodies, and so is what a line would not say."""
    text = (HERE / "valid" / "nests.dlc").read_text()
    bodies = opt(re.sub(r" (pack|micro)$", "", text, flags=re.MULTILINE)).stdout
    assert opt(bodies).stdout == bodies
    assert bodies.count("= reduce sum p") == 3 and bodies.count("= cast ") == 3
    values = [opt(form, "--emit", "none", "--eval", "1").stdout for form in (text, bodies)]
    assert values[0] == values[1]
    marked = bodies.replace("for i3 in M {", "for i3 in M micro {")
    line = "for i3 in M, l3 in 32, p3 in 9: sums[i3, l3] = k[i3, p3] * c[p3, l3] micro\n"
    assert line in opt(marked).stdout
    (load,) = re.findall(r".* load k\[i3, p3\]", marked)
    placed = opt(marked.replace(load, f"{load}  @there")).stdout
    assert "for i3 in M micro {" in placed and f"{load}  @there" in placed


def test_calls_cannot_be_evaluated() -> None:
    done = opt((HERE / "valid" / "calls.dlc").read_text(), "--eval", "1")
    assert done.returncode == 1
    assert "aten.nonzero.default" in done.stderr


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_invalid_programs_are_refused(path: Path) -> None:
    """The first line says what the message begins with; it shows the let or the line at fault."""
    text = path.read_text()
    want = text.splitlines()[0].removeprefix("# ")
    done = opt(text)
    assert done.returncode == 1
    assert done.stdout == ""
    first, *rest = done.stderr.removeprefix("dlc-opt: ").removeprefix("-:").splitlines()
    assert first == want
    if path.stem.startswith("V"):
        assert first.startswith(path.stem[:4].replace("_", ":"))
        assert any(line.startswith("  > ") for line in rest) or path.stem[:3] in ("V12", "V29")
    else:
        line, column = map(int, first.split(":")[:2])
        assert rest[1].rstrip().endswith("^")
        assert rest[0][2:][:40] in (text + "\n").splitlines(keepends=True)[line - 1] or column > 60


def test_every_rule_is_broken_once() -> None:
    head = (ROOT / "csrc" / "ir" / "verify" / "verify.c").read_text().split("*/")[0]
    rules = re.findall(r"^ \*   (V\d\d)  ", head, re.MULTILINE)
    assert rules == [f"V{k:02d}" for k in range(1, len(rules) + 1)]
    assert set(rules) == {path.stem[:3] for path in INVALID if path.stem.startswith("V")}


def test_numbers_print_with_the_fewest_digits() -> None:
    random.seed(1)
    numbers = [random.uniform(-1, 1) * 10.0 ** random.randint(-300, 300) for _ in range(200)]
    numbers += [1 / 3, 0.1, 1e22, 1e23, 5e-324, 2.2250738585072014e-308, 1e16, 123456789.0]
    lets = "".join(f"  let y{k}: f64 = add x, {x!r}\n" for k, x in enumerate(numbers))
    done = opt(f"dlc 1 graph\n\nfn f(x: f64) -> (f64) {{\n{lets}  ret y0\n}}\n")
    printed = re.findall(r"add x, (\S+)", done.stdout)
    assert [float(text) for text in printed] == numbers
    digits = [re.sub(r"^0+|0+$", "", re.sub(r"e.*|[-.]", "", text)) for text in printed]
    assert [len(d) for d in digits] == [
        len(re.sub(r"^0+|0+$", "", re.sub(r"e.*|[-.]", "", repr(x)))) for x in numbers
    ]


def test_several_programs_in_a_file() -> None:
    one, two = VALID[0].read_text(), VALID[1].read_text()
    done = opt(f"{one}---\n{two}")
    assert done.returncode == 0
    assert done.stdout == f"{one}---\n{two}"


@pytest.mark.parametrize(
    "options", [["--frobnicate"], ["--emit", "pdf"], ["--pass"], ["/no/such/file.dlc"]], ids=" ".join
)
def test_a_wrong_command_line(options: list[str]) -> None:
    done = subprocess.run([OPT, *options], capture_output=True, text=True)
    assert done.returncode == 2
    assert "usage: dlc-opt" in done.stderr


def test_a_sum_of_very_many_sizes_is_refused() -> None:
    """Each sum on the way to it would be kept: gigabytes for a text of 200 KB."""
    one = " + ".join(f"a{k}" for k in range(30000))
    product = " * ".join("(" + " + ".join(f"a{j}_{k}" for k in range(300)) + ")" for j in range(3))
    for size in (one, product):
        done = opt(f"dlc 1 graph\n\nfn f(x: f32[{size}]) -> (f32[1]) {{\n  ret x\n}}\n")
        assert done.returncode == 1 and "too many sizes" in done.stderr


def mutate(text: str, rng: random.Random) -> str:
    """A few edits: characters changed, pieces dropped, doubled or moved."""
    for _ in range(rng.randint(1, 4)):
        at, to = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        to = min(to, at + rng.choice([1, 3, 20]))
        edit = rng.choice(["drop", "double", "change", "move"])
        piece = text[at:to]
        if edit == "drop":
            text = text[:at] + text[to:]
        elif edit == "double":
            text = text[:to] + piece + text[to:]
        elif edit == "change":
            text = text[:at] + rng.choice('[](){}=,:@#"\\-.%*/ 09azN\n\x01π') + text[to:]
        else:
            rest = text[:at] + text[to:]
            where = rng.randrange(len(rest) + 1)
            text = rest[:where] + piece + rest[where:]
    return text


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_hostile_text_is_refused_or_accepted(path: Path) -> None:
    """Never a crash; what is accepted prints as a text that is accepted again, unchanged."""
    rng = random.Random(path.stem)
    texts = [mutate(path.read_text(), rng) for _ in range(60)]
    for text in texts:
        done = opt(text)
        assert done.returncode in (0, 1), (text, done.stderr)
        if done.returncode == 0 and "\n---" not in text:
            assert opt(done.stdout).stdout == done.stdout
