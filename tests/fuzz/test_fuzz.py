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
PRODUCTS, FLOWS, OF_BOTH = 200, 150, 8
DECODED = 120
STEPS = 250  # with one thread, and as many others with two
SCHEDULES, OF_PRODUCTS = 1700, 300
PORTABLE, CHOICES = 60, 200
DAMAGED = 2000
SANITIZED = 200
PARTS = 4


def run(*arguments: str) -> None:
    done = subprocess.run([FUZZ, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


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
    seed = 1_000_000_000 + shard.number * MORE
    run("--tiers", "tcc", "--seed", str(seed), "--count", str(MORE), "--keep", str(tmp_path))


def test_portable_c(tmp_path: Path, shard: Shard) -> None:
    """Others again, as the portable C has them: strictly compiled, and with the bits of libtcc's."""
    for first, count, more in (5_000_000_000, PORTABLE, []), (5_500_000_000, OF_BOTH, ["--products"]):
        arguments = (
            "--seed",
            str(first + shard.number * count),
            "--count",
            str(count),
            "--keep",
            str(tmp_path),
        )
        run("--tiers", "tcc,c", *arguments, *more)


@pytest.mark.in_turn(3)
def test_products(tmp_path: Path, shard: Shard) -> None:
    """Sizes around each panel and tile, operands of every layout."""
    for first, count, tiers in (4_000_000_000, PRODUCTS, "tcc"), (4_500_000_000, OF_BOTH, "tcc,cc"):
        seed = str(first + shard.number * count)
        arguments = ("--seed", seed, "--count", str(count), "--keep", str(tmp_path))
        run("--products", "--tiers", tiers, *arguments)


@pytest.mark.in_turn(3)
def test_few_rows_and_codes(tmp_path: Path, shard: Shard) -> None:
    """Columns that are computed of codes, in panels or where they are multiplied."""
    for first, count, tiers in (10_000_000_000, DECODED, "tcc"), (10_500_000_000, OF_BOTH, "tcc,cc,c"):
        seed = str(first + shard.number * count)
        arguments = ("--seed", seed, "--count", str(count), "--keep", str(tmp_path))
        run("--decoded", "--tiers", tiers, *arguments)


@pytest.mark.in_turn(3)
def test_loops_and_branches(tmp_path: Path, shard: Shard) -> None:
    """Bodies are random programs; one loop or branch may be in another."""
    for first, count, tiers in (6_000_000_000, FLOWS, "tcc"), (6_500_000_000, OF_BOTH, "tcc,cc,c"):
        seed = str(first + shard.number * count)
        arguments = ("--seed", seed, "--count", str(count), "--keep", str(tmp_path))
        run("--flow", "--tiers", tiers, *arguments)


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("threads", [1, 2])
def test_loops_over_elements(
    threads: int, tmp_path: Path, shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that read and write elements, rows and parts of arrays, most of them in kernels."""
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    for first, count, tiers in (7_000_000_000, STEPS, "tcc"), (7_500_000_000, OF_BOTH, "tcc,cc,c"):
        seed = str(first + (2 * shard.number + threads - 1) * count)
        arguments = ("--seed", seed, "--count", str(count), "--keep", str(tmp_path))
        run("--steps", "--tiers", tiers, *arguments)


@pytest.mark.in_turn(3)
def test_schedules(tmp_path: Path, shard: Shard) -> None:
    """Marks that the verifier accepts change no bit, whichever they are."""
    for products, many in ([], SCHEDULES), (["--products"], OF_PRODUCTS):
        for first, count, tiers in (8_000_000_000, many, "tcc"), (8_500_000_000, OF_BOTH, "tcc,cc"):
            seed = str(first + shard.number * count)
            arguments = ("--seed", seed, "--count", str(count), "--keep", str(tmp_path))
            run("--schedules", "--tiers", tiers, *products, *arguments)


@pytest.mark.in_turn(3)
def test_choices(tmp_path: Path, shard: Shard) -> None:
    """Loops in an if, and in its else, between phases and in loops: by each target, and with random marks."""
    for more in [], ["--products"], ["--schedules"]:
        for first, count, tiers in (9_000_000_000, CHOICES, "tcc"), (9_500_000_000, OF_BOTH, "tcc,cc,c"):
            seed = str(first + shard.number * count)
            arguments = ("--seed", seed, "--count", str(count), "--keep", str(tmp_path))
            run("--choices", "--tiers", tiers, *more, *arguments)


def test_a_sum_and_its_neighbours() -> None:
    """Terms of a product cancel: an element moves for one neighbour of the softmax's sum alone."""
    run("--products", "--tiers", "tcc", "--seed", "2002729", "--count", "1")


def test_damaged_programs(tmp_path: Path, shard: Shard) -> None:
    """Refused before they are compiled, or equal to the interpreter."""
    seed = 2_000_000_000 + shard.number * DAMAGED
    run("--damage", "--tiers", "tcc", "--seed", str(seed), "--count", str(DAMAGED), "--keep", str(tmp_path))


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
