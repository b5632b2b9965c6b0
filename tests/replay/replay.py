"""Is the generated C the same as before?  `make replay`, or python -m tests.replay.replay

With `--against PROGRAM`, a test-replay of another tree, it is compared with what that one generates;
`--random N` adds N random programs, those of the seeds from 1 on.

`build/test-replay` writes the C for libtcc and for the C compiler of every program of the corpus; digests.txt
has what it was when somebody last accepted it. A refactoring changes no digest. A wanted change is accepted
with `make replay ACCEPT=1`, which prints what has changed, and committed together with digests.txt.

The texts themselves are kept in build/replay: `accepted` has those of the last run without a difference,
`new` those of this one, so that `diff -r build/replay/accepted build/replay/new` shows a change.
"""

import argparse
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("DLC_BIN", ROOT / "build"))
PROGRAM = BUILD / "test-replay"
DIGESTS = HERE / "digests.txt"
TEXTS = ROOT / "build" / "replay"
TARGETS = ("libtcc", "C compiler")

#: Program to the digests of its text for each target.
Digests = dict[str, tuple[str, str]]


def programs() -> list[Path]:
    """The corpus, and the kernels of tests/emit and tests/regress."""
    folders = (HERE / "corpus", ROOT / "tests/emit", ROOT / "tests/regress")
    return sorted(path for folder in folders for path in folder.glob("*.dlc"))


def stored() -> Digests:
    rows = DIGESTS.read_text().splitlines() if DIGESTS.exists() else []
    return {name: (tcc, cc) for name, tcc, cc in map(str.split, rows)}


def read(text: str) -> Digests:
    """Lines of test-replay; an older one's have a schedule, "-" for the usual one, behind the name."""
    found: Digests = {}
    for line in text.splitlines():
        name, *schedule, units, tcc, cc = line.split()
        if schedule in ([], ["-"]):
            found[name] = (f"{units}:{tcc}", f"{units}:{cc}")
    return found


def random_programs(count: int) -> list[Path]:
    """The random programs of the seeds 1 to count, written to build/replay/random."""
    folder = TEXTS / "random"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [BUILD / "test-fuzz", "--print", folder, "--seed", "1", "--count", str(count)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return sorted(folder.glob("*.dlc"))


def made(folder: Path | None = None, program: Path = PROGRAM, drawn: list[Path] | None = None) -> Digests:
    """The digests of what `program` generates now; folder: where the texts go; drawn: more programs.

    Raises SystemExit with the reason when a program of the corpus does not compile.
    """
    environment = os.environ | {"DLC_COSTS": "avx2"}  # what the passes weigh is one processor's
    command = [program, folder or "-", *programs(), *(drawn or [])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"test-replay failed:\n{done.stderr}")
    return read(done.stdout)


def differences(before: Digests, now: Digests) -> list[str]:
    """What changed, a line for each program."""
    lines = [f"{name}: new" for name in now.keys() - before.keys()]
    lines += [f"{name}: gone" for name in before.keys() - now.keys()]
    for name in before.keys() & now.keys():
        changed = [t for t, a, b in zip(TARGETS, before[name], now[name], strict=True) if a != b]
        if changed:
            lines.append(f"{name}: {', '.join(changed)}")
    return sorted(lines)


def write(digests: Digests) -> None:
    lines = [f"{name} {' '.join(row)}" for name, row in sorted(digests.items())]
    DIGESTS.write_text("\n".join([*lines, ""]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replay.replay", description=__doc__)
    parser.add_argument("--accept", action="store_true", help="store the digests of what is generated now")
    parser.add_argument("--against", type=Path, metavar="PROGRAM", help="a test-replay of another tree")
    parser.add_argument(
        "--random", type=int, default=0, metavar="N", help="with --against: N random programs too"
    )
    args = parser.parse_args()
    if args.against:
        drawn = random_programs(args.random)
        lines = differences(made(None, args.against, drawn), made(None, PROGRAM, drawn))
        print("\n".join([*lines, f"{len(programs()) + len(drawn)} programs, {len(lines)} differences"]))
        return bool(lines)
    new, accepted = TEXTS / "new", TEXTS / "accepted"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    now = made(new)
    lines = differences(stored(), now)
    for line in lines:
        print(line)
    print(f"{len(programs())} programs, {len(lines)} differences")
    if args.accept:
        write(now)
    if lines and accepted.exists():
        print(f"the texts: diff -r {accepted.relative_to(ROOT)} {new.relative_to(ROOT)}")
    if args.accept or not lines:
        shutil.rmtree(accepted, ignore_errors=True)
        new.rename(accepted)
        return 0
    print("a wanted change: make replay ACCEPT=1, and commit tests/replay/digests.txt")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
