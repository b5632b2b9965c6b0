"""The rooms of code generation: which of its folders may know which others, through however many headers.

A folder that decides or writes code knows nothing of how that is compiled, kept or run.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"
CODEGEN = CSRC / "codegen"
# Rooms that know only the loops stage, and how it is told (phase.h, loops/, rewrites.h).
TEXT_ALONE = {"emit", "loops", "lower", "schedule"}
# What compiles and runs: their folders, and headers for threads, children and folders.
BEHIND = {"jit", "compile", "plan", "tune"}
OF_THE_SYSTEM = {"dirent.h", "pthread.h", "stdatomic.h", "sys/wait.h", "spawn.h", "unistd.h"}
# Rooms of this list that a room must not know besides: they meet in the loops stage.
BESIDES = {
    "lower": {"emit", "schedule"},
    "schedule": {"emit", "lower"},
    "emit": {"lower", "schedule"},
    "loops": {"emit", "lower", "schedule"},
}


def sources(folder: str) -> list[Path]:
    return sorted(path for path in (CODEGEN / folder).rglob("*") if path.suffix in {".c", ".h"})


def includes(path: Path) -> Iterator[tuple[str, str]]:
    """('"' or '<', name) of each #include."""
    return ((m[1], m[2]) for m in re.finditer(r'^\s*#\s*include\s*(["<])([^">]+)', path.read_text(), re.M))


def included(path: Path, name: str) -> Path:
    """The file of csrc that a source includes by this name."""
    return next(base / name for base in (path.parent, CSRC) if (base / name).exists()).resolve()


def known(path: Path, seen: set[Path] | None = None) -> Iterator[tuple[Path | None, str]]:
    """What a source includes, itself or through others: files of csrc, and with None the system's headers."""
    seen = set() if seen is None else seen
    for kind, name in includes(path):
        if kind == "<":
            yield None, name
            continue
        target = included(path, name)
        if target not in seen:
            seen.add(target)
            yield target, str(target.relative_to(CSRC))
            yield from known(target, seen)


@pytest.mark.parametrize("room", sorted(TEXT_ALONE))
def test_who_decides_or_writes_code_knows_nothing_of_compiling_and_running(room: str) -> None:
    files = sources(room)
    assert files
    found = set()
    for path in files:
        for target, name in known(path):
            of = target and target.is_relative_to(CODEGEN) and target.relative_to(CODEGEN).parts[0]
            if of in BEHIND | BESIDES[room] or name in OF_THE_SYSTEM | {"codegen/codegen.h"}:
                found.add((path.name, name))
    assert found == set()


# Functions by what they do: a plan is built of kernels that have their code.
MADE_ELSEWHERE = re.compile(
    r"\b(loops_make|rewrites?_\w+|schedule_\w+|pass_run|emit_\w+|kernel_key\w*|kernel_coder|kernel_schedule"
    r"|kernel_loops|kernels_compile|kernels_look_up|unit_\w+|sha256_\w+|key_end|cc_target_\w+|cache_\w+"
    r"|jit_\w+)\s*\("
)


@pytest.mark.parametrize("path", sources("plan"), ids=lambda path: path.name)
def test_a_plan_neither_lowers_nor_rewrites_nor_emits_nor_compiles(path: Path) -> None:
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    assert MADE_ELSEWHERE.findall(text) == []
    rooms = re.compile(r"codegen/(lower|emit|schedule|jit)/|\brewrites\.h|codegen/codegen\.h")
    assert [name for kind, name in includes(path) if kind == '"' and rooms.search(name)] == []


def test_what_changes_the_program_is_a_row_of_the_table() -> None:
    """Each function of a row, and no other, is named so; pipeline.c or targets.def has each row in a list."""
    rows = re.findall(r"^REWRITE\( (\w+),", (CODEGEN / "rewrites.def").read_text(), re.M)
    assert rows
    text = "".join(path.read_text() for path in CODEGEN.rglob("*.c"))
    assert sorted(re.findall(r"^rewrite_(?!table\b|find\b)(\w+)\(Fn ", text, re.M)) == sorted(rows)
    pipeline, targets = ((CODEGEN / name).read_text() for name in ("pipeline.c", "targets.def"))
    assert [row for row in rows if f"REWRITE_{row}]" not in pipeline and f"DO({row})" not in targets] == []


# ---- a target, and an instruction set, is a row ----


def named_in_code(pattern: str) -> set[str]:
    """Files of csrc that have the pattern outside of comments."""
    found = set()
    for path in sorted(CSRC.rglob("*.[ch]")):
        if re.search(pattern, re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)):
            found.add(path.relative_to(CSRC).as_posix())
    return found


def test_code_reads_the_row_of_a_target_and_never_asks_which_it_is() -> None:
    """A target is named in its row, and nowhere else."""
    names = re.findall(r"^TARGET\( (\w+),", (CODEGEN / "targets.def").read_text(), re.M)
    assert len(names) >= 3
    for name in names:
        assert named_in_code(rf"\bTARGET_{name}\b") == set()
    assert named_in_code(r"\bstr\w*cmp\([^;]*target_info|[!=]= *emit_\w+_(?:phase|function)") == {
        "codegen/compile/targets.c"  # by the name that a user gives
    }


def test_each_column_of_a_target_is_read() -> None:
    columns = re.search(r"^#define TARGET\(([^)]*)\)", (CODEGEN / "targets.def").read_text(), re.M)
    assert columns
    for column in re.findall(r"\w+", columns[1]):
        if column not in ("rewrites", "emitter"):  # pipeline.c runs them; emit.c calls its functions
            assert named_in_code(rf"(?:->|\.){column}\b"), column


def test_an_instruction_set_is_asked_for_by_its_row() -> None:
    """Which sets there are is known to who chooses one; fusion has costs of each, measured apart."""
    names = re.findall(r"^ISA\((\w+),", (CODEGEN / "strips/isa.def").read_text(), re.M)
    assert len(names) >= 4
    words = "|".join(names)
    chooses = "codegen/strips/strips.c"
    assert named_in_code(rf'"(?:{words})"') == {"ir/math/cost.c", chooses}
    assert named_in_code(rf"\bISA_(?:{words})\b") == {chooses}
