"""Random programs, and small kernels: the interpreter on the graph against kernels, loops, and machine code.

`build/test-fuzz` does the work, see tests/fuzz/main.c.  Each shard, so each commit, has other programs;
DLC_FUZZ=count runs as many, DLC_FUZZ=count,seed those from a seed.  The C compiler takes thirty times as long
for one as all else does, so that there are more programs for libtcc alone.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.shards import Shard

ROOT = Path(__file__).resolve().parents[2]
FUZZ = Path(os.environ.get("DLC_BIN", ROOT / "build")) / "test-fuzz"
COUNT, *SEEDS = (int(n) for n in os.environ.get("DLC_FUZZ", "96").split(","))
MORE = 1000  # for libtcc alone
OF_BOTH = 8  # of each kind by the C compiler too
STEPS = 500
PORTABLE = 60
DAMAGED = 2000
SANITIZED = 200
PARTS = 4

#: The words that draw a kind, its first seed, how many programs run by libtcc, and the tiers of a few more.
KINDS = {
    # sizes around each panel and tile, operands of every layout
    "products": ("--products", 4_000_000_000, 200, "tcc,cc"),
    # columns that are computed of codes, in panels or where they are multiplied
    "few rows and codes": ("--decoded", 10_000_000_000, 120, "tcc,cc,c"),
    # bodies are random programs; one loop or branch may be in another
    "loops and branches": ("--flow", 6_000_000_000, 150, "tcc,cc,c"),
    # marks that the verifier accepts change no bit, whichever they are
    "schedules": ("--schedules", 8_000_000_000, 1700, "tcc,cc"),
    "schedules of products": ("--schedules --products", 8_200_000_000, 300, "tcc,cc"),
    # scans, norms, places, sums of one element or of gathered rows: forms that few other programs have
    "schedules of rows": ("--schedules --rows", 8_300_000_000, 300, "tcc,cc"),
    # loops in an if, and in its else, between phases and in loops
    "choices": ("--choices", 9_000_000_000, 200, "tcc,cc,c"),
    "choices of products": ("--choices --products", 9_200_000_000, 200, "tcc,cc,c"),
    "choices with schedules": ("--choices --schedules", 9_400_000_000, 200, "tcc,cc,c"),
}
BEHIND = 500_000_000  # the seeds of a kind for all tiers, from its first on


def run(*arguments: str) -> None:
    done = subprocess.run([FUZZ, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


def draw(words: str, tiers: str, first: int, turn: int, count: int, keep: Path) -> None:
    """So many programs that no other turn draws; those that fail are left in the folder `keep`."""
    seed = str(first + turn * count)
    run(*words.split(), "--tiers", tiers, "--seed", seed, "--count", str(count), "--keep", str(keep))


@pytest.mark.parametrize("part", range(PARTS))
def test_both_tiers(part: int, tmp_path: Path, shard: Shard) -> None:
    """Equal to the interpreter, and to each other bit for bit; two at once: the C compiler is slow."""
    seed = SEEDS[0] if SEEDS else 1 + shard.number * COUNT
    each = COUNT // PARTS // 2
    commands = []
    for k in range(2):
        first = seed + (part * 2 + k) * each
        arguments = ("--seed", str(first), "--count", str(each), "--keep", str(tmp_path))
        commands.append([FUZZ, "--tiers", "tcc,cc", *arguments])
    halves = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    for half in halves:
        output, _ = half.communicate()
        assert half.returncode == 0, f"DLC_FUZZ={COUNT},{seed}\n{output[-4000:]}"
        assert f"{each} programs, 0 failed" in output


def test_libtcc(tmp_path: Path, shard: Shard) -> None:
    """Other programs than those of both tiers."""
    draw("", "tcc", 1_000_000_000, shard.number, MORE, tmp_path)


def test_portable_c(tmp_path: Path, shard: Shard) -> None:
    """Others again, as the portable C has them: strictly compiled, and with the bits of libtcc's."""
    draw("", "tcc,c", 5_000_000_000, shard.number, PORTABLE, tmp_path)
    draw("--products", "tcc,c", 5_500_000_000, shard.number, OF_BOTH, tmp_path)


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str, tmp_path: Path, shard: Shard) -> None:
    words, first, count, tiers = KINDS[kind]
    draw(words, "tcc", first, shard.number, count, tmp_path)
    draw(words, tiers, first + BEHIND, shard.number, OF_BOTH, tmp_path)


@pytest.mark.in_turn(4)
def test_loops_over_elements(tmp_path: Path, shard: Shard) -> None:
    """Steps that read and write elements, rows and parts of arrays, most of them in kernels."""
    draw("--steps", "tcc", 7_000_000_000, shard.number, STEPS, tmp_path)
    draw("--steps", "tcc,cc,c", 7_500_000_000, shard.number, 2 * OF_BOTH, tmp_path)


def test_a_sum_and_its_neighbours() -> None:
    """Terms of a product cancel: an element moves for one neighbour of the softmax's sum alone."""
    run("--products", "--tiers", "tcc", "--seed", "2002729", "--count", "1")


def test_damaged_programs(tmp_path: Path, shard: Shard) -> None:
    """Refused before they are compiled, or equal to the interpreter."""
    draw("--damage", "tcc", 2_000_000_000, shard.number, DAMAGED, tmp_path)


def test_a_part_under_sanitizers(tmp_path: Path, shard: Shard) -> None:
    """`make test` has built the fuzzer with another part of csrc under ASan and UBSan in each commit."""
    program = ROOT / "build/asan" / f"test-fuzz-{shard.number % 16}"
    if not program.exists():
        pytest.skip("needs `make test`, and no other shard than the commit's")
    env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}
    for first, more in (3_000_000_000, []), (3_500_000_000, ["--damage"]):
        seed = str(first + shard.number * SANITIZED)
        command = [program, "--tiers", "tcc", "--seed", seed, "--count", str(SANITIZED), *more]
        done = subprocess.run([*command, "--keep", tmp_path], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


KERNELS = sorted((Path(__file__).parent / "kernels").glob("*.dlc"))
EVERY = 11  # of the prefixes the C compiler gets one in so many: others in the next run, so no multiple of 3


@pytest.mark.in_turn(10)
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_every_prefix_of_the_rewrites(path: Path, shard: Shard) -> None:
    """With fuel for 0, 1, 2, ... single rewrites of fusion and code generation, up to all of them."""
    run("--tiers", "tcc", "--fuel", "0,1", str(path))
    run("--tiers", "tcc,cc", "--fuel", f"{shard.number % EVERY},{EVERY}", str(path))


REGRESS = sorted((ROOT / "tests" / "regress").glob("*.dlc"))


@pytest.mark.parametrize("path", REGRESS, ids=lambda path: path.stem)
def test_what_once_failed(path: Path, shard: Shard) -> None:
    """With other sizes and numbers in the next run, of three."""
    run("--seed", str(1 + shard.number % 3), str(path))


#: Of the replayed programs those of any size that the interpreter knows how to give arguments.
REPLAYED = [
    path
    for path in sorted((ROOT / "tests" / "replay" / "corpus").glob("*_dynamic_*.dlc"))
    if not any(word in path.read_text() for word in (" = call ", " = gather ", " = scatter "))
]
OF_BOTH_TIERS = 12  # of so many programs one


@pytest.mark.in_turn(10)
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_schedules_of_kernels(path: Path, shard: Shard) -> None:
    """The next run draws others."""
    place = KERNELS.index(path)
    tiers = "tcc" if (place // 10 + shard.number) % OF_BOTH_TIERS else "tcc,cc"
    run("--schedules", "--tiers", tiers, "--seed", str(shard.number), str(path))


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("path", [*KERNELS, *REPLAYED], ids=lambda path: path.stem)
def test_other_layouts(path: Path, shard: Shard) -> None:
    """Operands and results that are not dense, and sizes of about a panel: the next run draws others."""
    place = [*KERNELS, *REPLAYED].index(path)
    tiers = "tcc" if (place // 3 + shard.number) % OF_BOTH_TIERS else "tcc,cc"
    run("--layouts", "--tiers", tiers, "--seed", str(shard.number), str(path))


def test_a_program_that_fails_is_reported(tmp_path: Path) -> None:
    """The fuzzer itself: a program that cannot run is a finding, with its exit status and message."""
    path = tmp_path / "call.dlc"
    path.write_text(
        'dlc 1 graph\n\nfn f(x: f32[2]) -> (f32[2]) {\n  let y: f32[2] = call x target="t"\n  ret y\n}\n'
    )
    done = subprocess.run([FUZZ, path], capture_output=True, text=True)
    assert done.returncode == 1
    said = "graph: 't' is an operator of torch, which dlc's interpreter cannot run"
    assert said in done.stdout
    assert "1 programs, 1 failed" in done.stdout
