"""How far code generation is from its rule: an emitter translates one let at a time, and each decision is a
line of the loops text. Each count is measured on the tree and may only go one way.

    python -m tests.arch.test_decisions             prints the table
    python -m tests.arch.test_decisions --store     and stores what is measured now, in this file
"""

import ast
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.sources import CSRC, ROOT, tokens

EMIT = CSRC / "codegen/emit"

#: What each count was when it was last stored.
STORED = {
    "lines_of_emitters": 8_293,
    "lines_of_the_plain_target": 803,
    "thresholds_that_the_plain_target_reads": 0,
    "thresholds_that_emitters_read": 0,
    "thresholds_that_lowering_reads": 6,
    "thresholds_that_schedule_reads": 68,
    "modes_of_an_emission": 7,
    "modes_of_emit_that_one_target_reads": 0,
    "conditions_that_a_mode_is_off": 0,
    "places_that_print_a_loop": 85,
    "suffixes_kept_by_hand": 0,
    "readers_of_c_among_tests": 0,
    "lines_of_c_of_softmax": 926,
    "lines_of_portable_c_of_softmax": 277,
}  # fmt: skip

#: A count goes up when decisions become lines of the loops text; all others go down.
GROWING = {"thresholds_that_schedule_reads"}

COUNTS: dict[str, Callable[[], int]] = {}


def count(measure: Callable[[], int]) -> Callable[[], int]:
    COUNTS[measure.__name__] = measure
    return measure


# ---- reading the sources ----


@cache
def emitters() -> tuple[Path, ...]:
    """The C of the emitters that expand schedules: without the preludes, which are text that generated code
    includes, and without the target `c`, which writes the loops as they are (`lines_of_the_plain_target`).
    """
    return tuple(path for path in sources() if target_of(path) != "c")


@cache
def sources() -> tuple[Path, ...]:
    found = sorted(path for path in EMIT.rglob("*.[ch]") if not path.name.startswith("prelude"))
    assert len(found) > 10
    return tuple(found)


@cache
def code(path: Path) -> str:
    """The tokens with a blank between two."""
    return " ".join(tokens(path))


def literals(path: Path) -> list[str]:
    """The string constants of a file, with their quotes."""
    return [token for token in tokens(path) if token.startswith('"')]


def target_of(path: Path) -> str | None:
    """The target whose files alone are in the folder; None for what all targets share."""
    inside = path.relative_to(EMIT).parts
    return inside[0] if len(inside) > 1 else None


def thresholds() -> set[str]:
    rows = re.findall(r"^MACHINE\( (\w+),", (CSRC / "codegen/machine.def").read_text(), re.MULTILINE)
    assert len(rows) > 50
    return {f"DLC_{row}" for row in rows}


def thresholds_in(paths: Iterator[Path] | tuple[Path, ...]) -> set[str]:
    return thresholds() & {word for path in paths for word in code(path).split()}


@cache
def structures() -> dict[str, list[tuple[str, str]]]:
    """The structures of the emitters by name: type and name of each field."""
    found = {}
    for path in emitters():
        for body, name in re.findall(r"typedef struct (?:\w+ )?\{ ([^{}]*) \} (\w+) ;", code(path)):
            declared = [line for line in body.split(" ; ") if line.strip(" ;")]
            found[name] = [(kind, field) for line in declared for kind, field in fields_of(line)]
    return found


def fields_of(line: str) -> Iterator[tuple[str, str]]:
    """Of a declaration such as `const Let * rows , * columns`: its type, "" for pointers and arrays."""
    line = re.sub(r"\( \* (\w+) \) \(.*", r"\1", line.strip(" ;"))  # a function has one name
    plain = re.match(r"(?:const )?(\w+) \w+(?: ,|$)", line)
    for one in line.split(","):
        yield (plain[1] if plain else ""), re.findall(r"\w+", one.partition("[")[0])[-1]


def fields(structure: str) -> list[str]:
    """Their names: an array of structures is one field, a structure in another is its fields."""
    found = structures()
    return [
        name
        for kind, field in found[structure]
        for name in (fields(kind) if kind in found and kind != structure else [field])
    ]


def own_structures() -> set[str]:
    """What each target adds to an emission: what a function `<target>_of(e)` returns, which is `e->own`, and
    the structure that has the target's name.
    """
    own = r"(\w+) \* \w+ \( const Emit \* \w+ \) \{ return \w+ -> own ; \}"
    found = {name for path in emitters() for name in re.findall(own, code(path))}
    found |= {str(target_of(path)).capitalize() for path in emitters() if target_of(path)}
    return found & structures().keys()


# What every emission has, whatever it emits: what is read, where text goes, names, sizes, parallel loops.
FOUNDATION = {
    "cx", "fn", "facts", "phase", "loop", "target", "own", "out", "helpers", "made", "indent", "names", "use",
    "scratch", "sizes", "nsizes", "collapsed", "counts", "ncollapsed",
}  # fmt: skip

# The same of libtcc's: what is known before, names of values and of indices, and its tile buffers.
FOUNDATION |= {
    "e", "found", "pairs", "ends", "places", "indices", "bound", "nbound", "busy", "count", "live", "nlive",
    "widest",
}  # fmt: skip


def modes(structure: str) -> set[str]:
    return set(fields(structure)) - FOUNDATION


def access_to(structure: str, path: Path) -> str:
    """A pattern of what stands before a field: `e ->`, or `<target>_of(e) ->` and variables of that type."""
    if structure == "Emit":
        return r"\be ->"
    variables = set(re.findall(rf"\b{structure} \* (\w+) [=,)]", code(path)))
    return "(?:" + "|".join([r"\b\w+_of \( e \) ->", *(rf"\b{name} ->" for name in sorted(variables))]) + ")"


# ---- the counts ----


@count
def lines_of_emitters() -> int:
    """Lines of every .c and .h under csrc/codegen/emit, with comments and blank lines, without the files that
    begin with `prelude` and without emit/c.
    """
    return sum(len(path.read_text().splitlines()) for path in emitters())


@count
def lines_of_the_plain_target() -> int:
    """The same of emit/c: what a target takes that decides nothing."""
    return sum(len(path.read_text().splitlines()) for path in sources() if target_of(path) == "c")


@count
def thresholds_that_the_plain_target_reads() -> int:
    """Rows of machine.def whose constant stands in emit/c: none, since it decides nothing."""
    return len(thresholds_in(tuple(path for path in sources() if target_of(path) == "c")))


@count
def thresholds_that_emitters_read() -> int:
    """Rows of machine.def whose constant stands in the code of a file that `lines_of_emitters` counts, and
    the length of a short row, which phase.h has because it is no number of a machine.
    """
    words = {word for path in emitters() for word in code(path).split()}
    return len((thresholds() | {"DLC_SHORT_ROW"}) & words)


@count
def thresholds_that_lowering_reads() -> int:
    """Rows of machine.def whose constant stands in the code of a .c or .h under csrc/codegen/lower, or under
    csrc/codegen/builder, through which it writes: decisions that neither a rewrite takes yet nor a choice in
    the text of the kernel.
    """
    folders = (CSRC / "codegen" / name for name in ("lower", "builder"))
    return len(thresholds_in(tuple(path for folder in folders for path in folder.rglob("*.[ch]"))))


@count
def thresholds_that_schedule_reads() -> int:
    """Rows of machine.def whose constant stands in the code of a .c or .h of the rewrites of the loops stage,
    or in targets.def, whose rows these files read.
    """
    folders = (CSRC / "codegen" / name for name in ("schedule", "phases", "tile"))
    files = tuple(path for folder in folders for path in folder.rglob("*.[ch]"))
    return len(thresholds_in((*files, CSRC / "codegen/targets.def")))


@count
def modes_of_an_emission() -> int:
    """Fields of struct Emit and of the structures that targets add to it (`<target>_of(e)`), but for those of
    `FOUNDATION`: each tells one function of an emitter how another one wants its text.
    """
    return len(modes("Emit")) + sum(len(modes(name)) for name in own_structures())


@count
def modes_of_emit_that_one_target_reads() -> int:
    """Of the modes that are in struct Emit itself, those that the files of one target's folder name, as
    `e->mode`, and those of no other target. Files that all targets share are not looked at.
    """
    readers: dict[str, set[str]] = {mode: set() for mode in modes("Emit")}
    for path in emitters():
        target = target_of(path)
        for mode in readers if target else ():
            if re.search(rf"\be -> (?:\w+ \. )?{mode}\b", code(path)):
                readers[mode].add(str(target))
    return sum(len(targets) == 1 for targets in readers.values())


@count
def conditions_that_a_mode_is_off() -> int:
    """Places where an emitter asks whether a mode of `modes_of_an_emission` is off: `!e->mode`, or the same
    of a target's structure. By such a condition one path keeps out of another's way.
    """
    found = 0
    for structure in ("Emit", *own_structures()):
        names = "|".join(sorted(modes(structure)))
        for path in emitters():
            asked = rf"! {access_to(structure, path)} (?:\w+ \. )?(?:{names})\b(?! (?:->|\.|\())"
            found += len(re.findall(asked, code(path)))
    return found


@count
def places_that_print_a_loop() -> int:
    """Times that `for (` stands in string constants of the emitters."""
    return sum(text.count("for (") for path in emitters() for text in literals(path))


@count
def suffixes_kept_by_hand() -> int:
    """String constants of emit_text.c that are the end of a name, such as "_from": a parameter must not have
    it.
    """
    return sum(bool(re.fullmatch(r'"_[a-z0-9_]+"', text)) for text in literals(EMIT / "emit_text.c"))


# How a function gets at generated C: of test-emit, of dlc-opt, of what is dumped, of a unit's file.
READS_C = re.compile(
    r"""["']print=(?:cc|tcc|c\b|\{) | ["']--emit["'],(?!\s*["'](?:none|ir|dependences|schedule|changes)\b)
      | (?:["']dump["']:|\bdump=|["']DLC_DUMP["'][,:])
        \s*(?:f?["'](?:[\w,]*,)?(?:cc|tcc|c|\{\w+\})["',]|tier\b|target\b)
      | \._path\b""",
    re.VERBOSE,
)

#: Hands C to compilers; who uses it sees none.
COMPILES = ROOT / "tests/emit/unit.py", ROOT / "tests/build/test_target.py"


class Helper(NamedTuple):
    """A function under tests: does it ask for C itself, and which other ones does it name?"""

    reads: bool
    names: set[tuple[Path, str]]


def imported(tree: ast.Module, path: Path) -> dict[str, tuple[Path, str]]:
    """The names that a file has from other files of the tests: where each is defined."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            folder = path.parents[node.level - 1] if node.level else ROOT
            module = folder.joinpath(*(node.module or "").split("."))
            for name in node.names:
                file = module.with_suffix(".py")
                found[name.asname or name.name] = (file, name.name)
    return found


@cache
def functions_of_tests() -> dict[tuple[Path, str], Helper]:
    """The functions under tests by file and name; methods count as functions, and a class as its methods."""
    found: dict[tuple[Path, str], Helper] = {}
    for path in (ROOT / "tests").rglob("*.py"):
        if path in (Path(__file__), *COMPILES):
            continue
        text = path.read_text()
        tree = ast.parse(text)
        known = imported(tree, path)
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                used |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}  # fixtures
                used |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
                reads = bool(READS_C.search(ast.get_source_segment(text, node) or ""))
                names = {known.get(name, (path, name)) for name in used}
                before = found.get((path, node.name), Helper(False, set()))
                found[path, node.name] = Helper(before.reads or reads, before.names | names)
    return found


def reads_c(function: tuple[Path, str]) -> bool:
    """Does the function ask for C, or one that it calls, or one that that calls?"""
    seen, todo = set(), [function]
    while todo:
        one = todo.pop()
        if one in functions_of_tests() and one not in seen:
            seen.add(one)
            if functions_of_tests()[one].reads:
                return True
            todo += functions_of_tests()[one].names
    return False


@count
def readers_of_c_among_tests() -> int:
    """Functions test_* under tests that ask for the C of a target (`READS_C`), themselves or by functions of
    the tests, however many parameters they have. `tests/emit/unit.py` gives C to compilers alone,
    `tests/build/test_target.py` tries the row that a page of the docs has, and tests/replay, which compares
    digests of all C, has none of these.
    """
    return sum(name.startswith("test_") and reads_c((path, name)) for path, name in functions_of_tests())


@count
def lines_of_c_of_softmax() -> int:
    """Lines of the C for gcc of tests/emit/softmax.dlc: one kernel, for short rows and for others, with its
    macros and without the preludes.
    """
    return lines_of_c("cc")


@count
def lines_of_portable_c_of_softmax() -> int:
    """The same of the portable C, with what it uses of its prelude: it reads like the loops."""
    return lines_of_c("c")


def lines_of_c(target: str) -> int:
    from tests.emit.written import unit

    with tempfile.TemporaryDirectory() as folder:
        return unit("softmax", target, Path(folder)).lines


# ---- the test ----


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_the_stored_one(name: str) -> None:
    """Larger is a step back; smaller has to be stored, so that it stays so."""
    now, stored = COUNTS[name](), STORED[name]
    assert not is_worse(name, now, stored), (
        f"{name} was {stored} and is {now}: a decision belongs in the loops text, not in an emitter"
    )
    assert now == stored, (
        f"{name} was {stored} and is {now}, which is better: "
        "store it with `python -m tests.arch.test_decisions --store`"
    )


def test_each_count_says_what_it_counts() -> None:
    assert STORED.keys() == COUNTS.keys() >= GROWING
    assert all(measure.__doc__ for measure in COUNTS.values())


def is_worse(name: str, now: int, stored: int) -> bool:
    return now != stored and (now > stored) != (name in GROWING)


def store(now: dict[str, int]) -> None:
    """Writes the table of this file again."""
    path = Path(__file__)
    rows = "".join(f'    "{name}": {number:_},\n' for name, number in now.items())
    path.write_text(re.sub(r"(?<=^STORED = \{\n)[^}]*", rows, path.read_text(), flags=re.MULTILINE))


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--store"]):
        print(__doc__)
        return 2
    now = {name: measure() for name, measure in COUNTS.items()}
    print(f"{'':40}{'stored':>8}{'now':>8}")
    for name, number in now.items():
        print(f"{name:40}{STORED.get(name, '-'):>8}{number:>8}")
    worse = [name for name in now if name in STORED and is_worse(name, now[name], STORED[name])]
    if arguments and worse:
        print(f"not stored, since they are worse: {', '.join(worse)}")
    elif arguments:
        store(now)
    return bool(arguments and worse)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
