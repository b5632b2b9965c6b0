"""The architecture, read from the sources: who includes whom, who exports what, how long files are."""

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
SOURCES = sorted(path for path in CSRC.rglob("*") if path.suffix in {".c", ".h", ".def", ".inc"})
PYTHON = sorted(
    path for part in ("dlc", "tests", "benchmarks", "examples") for path in (ROOT / part).rglob("*.py")
)

# What each folder may include, itself apart.  "." is csrc itself: the dlc-opt program.
MAY_INCLUDE = {
    "ir": set(),
    "fusion": {"ir"},
    "codegen": {"ir"},
    "capture": {"ir", "fusion", "codegen"},
    ".": {"ir", "fusion", "codegen"},
}
# Python, as dlc-opt, knows the passes of all folders by name.
EXCEPTIONS = {("capture", "passes.h")}
# Beside the header of the folder: the table of costs, and the functions that generated code computes with.
MORE_HEADERS = {
    "ir": {
        "ir/costs.h",
        "ir/eval/eval.h",
        "ir/eval/excerpt.h",
        "ir/math/prelude.h",
        "ir/text/lay_out.h",
        "ir/verify/dependence.h",
        "ir/verify/product.h",
        "ir/verify/recurrence.h",
    }
}
# Headers of Python, NumPy and torch: for capture alone; libtcc's: for one file.
PYTHON_SIDE = re.compile(r"Python\.h|structmember\.h|numpy/|torch/|ATen/|c10/|frameobject\.h")


def includes(path: Path) -> Iterator[tuple[str, str]]:
    """('"' or '<', name) of each #include."""
    return ((m[1], m[2]) for m in re.finditer(r'^\s*#\s*include\s*(["<])([^">]+)', path.read_text(), re.M))


@cache
def words_of(path: Path) -> set[str]:
    """The words of a source, read once for all rows of the tables."""
    return set(re.findall(r"\w+", path.read_text()))


@cache
def words() -> set[str]:
    """The words of all sources."""
    return set().union(*map(words_of, SOURCES))


def included(path: Path, name: str) -> Path:
    """The file of csrc that a source includes by this name."""
    return next(base / name for base in (path.parent, CSRC) if (base / name).exists()).resolve()


def folder_of(path: Path) -> str:
    inside = path.relative_to(CSRC)
    return inside.parts[0] if len(inside.parts) > 1 else "."


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(CSRC)))
def test_includes_follow_the_layers(path: Path) -> None:
    folder = folder_of(path)
    for kind, name in includes(path):
        if kind == "<":
            assert folder == "capture" or not PYTHON_SIDE.match(name), f"{name} outside csrc/capture"
            assert name != "libtcc.h" or path.name == "jit_tcc.c", "libtcc.h outside jit_tcc.c"
            continue
        target = included(path, name)
        there = folder_of(target)
        if there != folder and (folder, str(target.relative_to(CSRC))) not in EXCEPTIONS:
            assert there in MAY_INCLUDE[folder], f"csrc/{folder} may not include {name}"


@pytest.mark.parametrize("path", [*SOURCES, *PYTHON], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_too_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 800


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(CSRC)))
def test_nothing_ends_the_process(path: Path) -> None:
    text = re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:[^\"\\]|\\.)*\"", "", path.read_text(), flags=re.S)
    assert path.name == "dlc_opt.c" or not re.search(r"\b(exit|_exit|abort|quick_exit|fork)\s*\(", text)


def public_headers() -> dict[str, set[str]]:
    """For each folder, its headers that other folders include."""
    found: dict[str, set[str]] = {}
    for path in SOURCES:
        for name in (name for kind, name in includes(path) if kind == '"'):
            target = included(path, name)
            if target.suffix == ".h" and folder_of(target) not in {folder_of(path), "."}:
                found.setdefault(folder_of(target), set()).add(str(target.relative_to(CSRC)))
    return found


def test_a_folder_is_entered_through_one_header() -> None:
    entered = public_headers()
    assert set(entered) == {"ir", "fusion", "codegen"}
    for folder, headers in entered.items():
        assert headers == {f"{folder}/{folder}.h", *MORE_HEADERS.get(folder, ())}


# Reasons whose text is made where the fault is found, by a function that checks its parameters.
FAMILIES = {"PARSE", "BUILD", "GRAPH", "ONNX_NODE"}


def test_every_diagnostic_is_used_and_is_a_reason() -> None:
    rows = dict(re.findall(r'^DIAG\( *(\w+),.*?, *"(.*)"\)', (CSRC / "ir/diag.def").read_text(), re.M))
    assert rows
    assert {row for row in rows if f"DIAG_{row}" not in words()} == set()
    said = {row: re.sub(r"%\d*\w+|\\n", "", reason) for row, reason in rows.items()}
    assert {row for row in rows if not re.search("[a-z]{2}", said[row])} == FAMILIES


FOLDERS = sorted(path for path in CSRC.rglob("*") if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(CSRC)))
def test_a_folder_fits_on_a_page(folder: Path) -> None:
    assert len(list(folder.iterdir())) <= 30


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(CSRC)))
def test_a_readme_names_every_file_of_its_folder_and_no_other(folder: Path) -> None:
    """The folder's README, or the one above it, has each file by name."""
    readme = next(up / "README.md" for up in (folder, folder.parent) if (up / "README.md").exists())
    named = set(re.findall(r"`(?:[\w/.]+/)?(\w+\.(?:c|h|def|inc))`", readme.read_text()))
    files = {path.name for path in folder.iterdir() if path.suffix in {".c", ".def"}}
    assert files - named == set()
    there = [*CSRC.rglob("*"), *(ROOT / "tests").rglob("*.c")]
    assert named - {"Python.h"} - {path.name for path in there} == set()


def documented(page: str) -> set[str]:
    """The words that stand in code on a page."""
    spans = re.findall(r"```.*?```|`[^`]+`", (ROOT / "docs" / page).read_text(), re.S)
    return {word for span in spans for word in re.findall(r"\w+", span)}


def test_the_language_page_names_every_operation_and_element_type() -> None:
    rows = re.findall(r"^(?:MAP|RED|VIEW|NODE)\( *(\w+),", (CSRC / "ir/ops.def").read_text(), re.M)
    dtypes = re.findall(r"^DTYPE\( *(\w+),", (CSRC / "ir/dtype.def").read_text(), re.M)
    assert rows
    assert dtypes
    assert {*rows, *dtypes} - documented("ir.md") == set()


def flags(path: Path, mark: str) -> bool:
    """Whether a row of the table says that the mark is a flag of the C compiler."""
    return re.search(rf"^TUNING\( {mark},", path.read_text(), re.M) is not None


def test_every_mark_is_used_where_its_row_says_and_stands_on_the_language_page() -> None:
    row = r'^MARK\( (\w+), *(\w+), *[^,]+, *\w+, *"([^"]*)", *"([^"]*)", *"(.*)"\)$'
    rows = re.findall(row, (CSRC / "ir/marks.def").read_text(), re.M)
    page, setters = ((ROOT / "docs" / name).read_text() for name in ("ir.md", "code_generation.md"))
    assert rows
    for name, of, made, read, what in rows:
        assert of == "SCHEDULE" or (of == "ORDER" and made in ("lower", "phases")), name
        codegen = [
            path.relative_to(CSRC / "codegen").parts[0]
            for path in SOURCES
            if folder_of(path) == "codegen"
            and (f"MARK_{name}" in words_of(path) or (path.suffix == ".def" and flags(path, name)))
        ]
        assert set(codegen) == {*made.split(), *read.split()}, name
        assert f"| {what} |" in page, name
        assert of == "ORDER" or re.search(rf"^\|[^|]*`{name}`[^|]*\|", setters, re.M), name


def test_the_page_of_options_names_every_option() -> None:
    from dlc.options import Options

    assert set(Options.__dataclass_fields__) - documented("options.md") == set()


def test_every_table_is_used() -> None:
    """One .def file a closed set, and each is included by a header or a source."""
    used = {name.split("/")[-1] for path in SOURCES for _, name in includes(path)}
    assert {path.name for path in SOURCES if path.suffix == ".def"} <= used


def extension() -> Path:
    path = ROOT / "dlc" / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    assert path.exists(), "the extension is not built: make"
    return path


def test_the_extension_exports_one_symbol() -> None:
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(extension())]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["PyInit__C"]


def test_the_extension_is_not_linked_with_torch_or_python() -> None:
    command = ["readelf", "--dynamic", "--wide", str(extension())]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "NEEDED" in text
    assert not re.search(r"NEEDED.*(torch|c10|python|gomp|libomp|numpy)", text)
    assert "TEXTREL" not in text


def test_dlc_opt_is_not_linked_with_python() -> None:
    program = ROOT / "build/dlc-opt"
    command = ["nm", "--undefined-only", str(program)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert not re.search(r"\bPy[A-Z_]", text)


# Microkernels and strips are compiled for each instruction set, and their numbers with them.
FOR_EACH_SET = {"strips", "micro"}
OF_A_MACHINE = re.compile(r"\b(caches?|cores?|lines? of|cycles|prefetch\w*|processors?)\b")


def test_numbers_of_a_machine_are_rows_of_one_table() -> None:
    """Constants whose comments speak of caches, cores or prefetching: no others are found."""
    found = []
    for path in SOURCES:
        inside = path.relative_to(CSRC).parts
        if (
            inside[0] not in {"codegen", "fusion"}
            or inside[1] in FOR_EACH_SET
            or path.name.startswith("prelude")
        ):
            continue
        for constant, comment in re.findall(
            r"^(?: {4}|enum \{ )([A-Z]\w+) = .*/\*(.*)\*/$", path.read_text(), re.M
        ):
            if OF_A_MACHINE.search(comment):
                found.append((path.name, constant))
    assert found == []


# Bounds of arrays, and the rounds of a measurement: no thresholds.
NO_THRESHOLDS = {
    "LEVELS", "SLOT_CLASSES", "CALL_OPERANDS", "ZIPPED", "MAX_LOOPS", "MAX_PANELS",
    "FIRST", "SECOND", "SHORT", "WINS", "MOST_RUNS",
    "NEST_BITS", "NEST_ROWS", "NEST_AXES",  # flags
    "PAD_PIECES", "DOUBLINGS", "SLOTS", "TRIES", "PLACES", "SHARES", "DIVISIONS", "OPERANDS",
    "MOST_ROWS",  # what the verifier lets through
    "DIGIT", "MOST_DIGITS", "MOST_TERMS",  # what integers hold
    "MOST_LEAVES", "MOST_GIVEN", "MOST_STEPS",  # of what a weight is decoded of
}  # fmt: skip


def test_thresholds_are_rows_of_machine_def_or_costs_def() -> None:
    """In what fuses, lowers, schedules and emits: no constant is a number but those named."""
    found = {
        constant
        for folder in (
            "fusion",
            "codegen/builder",
            "codegen/lower",
            "codegen/phases",
            "codegen/tile",
            "codegen/schedule",
            "codegen/emit",
        )
        for path in (CSRC / folder).rglob("*.[ch]")
        if not path.name.startswith("prelude")
        for enum in re.findall(r"\benum \w*\s*\{(.*?)\}", path.read_text(), re.S)
        for constant in re.findall(r"\b([A-Z]\w+) = -?(?:\d{2,}|[3-9]|1 <<)", enum)
        if not constant.startswith(("MARK_", "HAS_"))  # bits of sets
    }
    assert found - NO_THRESHOLDS == set()


def test_every_cost_is_read() -> None:
    rows = re.findall(r"^COST\( (\w+),", (CSRC / "ir/costs.def").read_text(), re.M)
    assert rows
    assert [name for name in rows if f"COST_{name}" not in words()] == []


def test_every_number_of_a_machine_is_read_and_has_a_unit_and_a_meaning() -> None:
    rows = re.findall(
        r'^MACHINE\( (\w+), .*?, +"(\w+)", +"(.+)"\)$', (CSRC / "codegen/machine.def").read_text(), re.M
    )
    assert rows
    assert {name for name, _, _ in rows if f"DLC_{name}" not in words()} == set()


# Interfaces that generated code, the microkernels or the plan define, and lets in all their parts.
MANY_PARAMETERS = {"host_call", "array_host_call", "build_let", "call_let", "call_build", "nest_plan"}


def test_no_function_has_more_than_seven_parameters() -> None:
    found = set()
    for path in SOURCES:
        inside = path.relative_to(CSRC).parts
        if path.suffix not in {".c", ".h"} or path.name.startswith("prelude") or "strips" in inside:
            continue
        text = re.sub(r"/\*.*?\*/|#define.*?(?<!\\)\n", "", path.read_text(), flags=re.S)
        for name, parameters in re.findall(
            r"^(?:\w[\w \*]*)?\b(\w+)\(([^;{}=\"]*?)\)(?:;| *\n?\{)", text, re.M | re.S
        ):
            if "->" not in parameters and re.sub(r"\([^()]*\)", "", parameters).count(",") >= 7:
                found.add(name)
    assert found == MANY_PARAMETERS


def test_names_of_operators_stand_in_the_tables_of_capture() -> None:
    """Code generation knows no operator of torch; the files about layouts read theirs from layouts.def."""
    table = (CSRC / "capture/walk/layouts.def").read_text()
    layouts = set(re.findall(r'^(?:OPERANDS|RESULTS|STATISTICS)\("([^"]+)"', table, re.M))
    assert "mm" in layouts and "aten.roll.default" in layouts
    overloads = set(re.findall(r'^[A-Z]+\("([^"]+)"', (CSRC / "capture/aten/aten.def").read_text(), re.M))
    packets = {name.split(".")[1] for name in overloads if "." in name}
    found = []
    for path in SOURCES:
        inside = path.relative_to(CSRC).parts
        quoted = set(re.findall(r'"([^"\n]+)"', path.read_text()))
        if inside[0] == "codegen" and path.suffix in {".c", ".h"}:
            found += [(path.name, name) for name in quoted if name.startswith("aten") or name in overloads]
        if path.name in {"operand_layout.c", "result_layout.c", "image_layout.c"}:
            found += [(path.name, name) for name in quoted & (layouts | overloads | packets)]
    assert found == []


def test_the_c_is_formatted() -> None:
    """All files but those that the Makefile names."""
    ask = ["make", "--no-print-directory", "-f", "-", "C"]
    rule = "include Makefile\nC: ; @echo $(C_FILES)\n"
    listed = subprocess.run(ask, cwd=ROOT, input=rule, capture_output=True, text=True, check=True)
    files = listed.stdout.split()
    assert len(files) > 200
    command = [Path(sys.executable).parent / "clang-format", "--dry-run", "--Werror", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["check", "format --check"])
def test_python_is_as_ruff_has_it(command: str) -> None:
    """What `make lint` asks first."""
    ruff = Path(sys.executable).parent / "ruff"
    done = subprocess.run(
        [ruff, *command.split(), "--no-cache", "."], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_lines_have_at_most_100_columns() -> None:
    """python -m tests.wrap FOLDER wraps one; the rows of tables (.def) are as long as they are."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in (CSRC, ROOT / "tests", ROOT / "benchmarks")
        for path in folder.rglob("*.[ch]")
        if path.name != "prelude_poly.h"  # coefficients, which a program writes
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 100
    ]
    assert found == []
