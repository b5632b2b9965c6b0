"""The digest of sources in the keys of the disk cache: what empties a user's cache, and what does not."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.sources import CSRC, ROOT, digest

FILES = sorted(path for path in CSRC.rglob("*") if path.suffix in digest.KINDS)
PATHS = {path.relative_to(CSRC).as_posix() for path in FILES}
NAMES = {path.name for path in FILES}
FOLDERS = sorted(path.relative_to(CSRC).as_posix() for path in CSRC.rglob("*") if path.is_dir())

# One of each kind.
DECIDING = [
    "ir/ops.def",
    "ir/math/prelude_f32.h",
    "ir/verify/verify_loops.c",
    "codegen/machine.def",
    "codegen/phase.h",
    "codegen/pipeline.c",
    "codegen/rewrites.def",
    "codegen/targets.def",
    "codegen/compile/kernel_key.c",
    "codegen/loops/facts.c",
    "codegen/lower/lower.c",
    "codegen/schedule/schedule.c",
    "codegen/schedule/tuning.def",
    "codegen/emit/emit.c",
    "codegen/emit/cc/emit_cc.c",
    "codegen/emit/tcc/emit_tcc.c",
    "codegen/emit/prelude_reduce.h",
    "codegen/strips/strips_reduce.h",
    "codegen/micro/micro_kernel.h",
    *sorted(path for path in PATHS if Path(path).name in digest.DECIDING and path.startswith("codegen")),
]
RUNNING = [
    "codegen/plan/plan_peak.c",
    "codegen/plan/plan_run.c",
    "codegen/plan/plan_profile.c",
    "codegen/process/log.c",
    "codegen/process/trace.c",
    "codegen/jit/cache.c",
    "codegen/tune/tune_time.c",
    "fusion/fuse.c",
    "capture/walk/walk.c",
    "ir/diag.def",
]
SAMPLE = [*DECIDING, *RUNNING]


def tokens(text: str) -> list[str]:
    return list(digest.tokens(text))


def copy(to: Path, *names: str) -> Path:
    """A folder like csrc, of some of its files."""
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(CSRC / name, to / name)
    return to


def add_token(path: Path) -> None:
    with path.open("a") as file:
        file.write("int more;\n")


def test_the_extension_has_the_digest_of_its_sources() -> None:
    done = subprocess.run(
        [sys.executable, str(CSRC / "digest.py")], capture_output=True, text=True, check=True
    )
    library = ROOT / "dlc" / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    assert done.stdout == digest.digest() + "\n"
    assert len(digest.digest()) == 16
    assert digest.digest().encode() in library.read_bytes()


def test_what_decides_is_a_prerequisite_of_the_digest() -> None:
    rule = "include csrc/build.mk\nlist: ; @echo $(SOURCES)\n"
    done = subprocess.run(
        ["make", "--no-print-directory", "-f", "-", "list"],
        cwd=ROOT, input=rule, capture_output=True, text=True, check=True,
    )  # fmt: skip
    listed = set(done.stdout.split())
    assert {f"csrc/{path.relative_to(CSRC).as_posix()}" for path in digest.files()} - listed == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_is_in_one_of_the_lists(folder: str) -> None:
    assert digest.listed(folder) is not None, f"csrc/digest.py: csrc/{folder} is in neither DECIDE nor REST"


def test_a_new_folder_is_in_neither_list() -> None:
    assert digest.listed("new") is None
    assert digest.listed("codegen/new") is None
    assert digest.listed("codegen/emit/new") == "codegen/emit"


def test_the_lists_are_apart_and_name_what_is_there() -> None:
    assert digest.DECIDE.isdisjoint(digest.REST)
    assert digest.DECIDING.isdisjoint(digest.RUNNING)
    gone = (digest.DECIDING - NAMES) | (digest.RUNNING - PATHS)
    assert not gone, "files of csrc/digest.py that are not there any more"
    assert set(FOLDERS) >= digest.DECIDE | digest.REST


def test_comments_and_blank_lines_are_no_tokens_of_any_file() -> None:
    for path in FILES:
        text = path.read_bytes().decode("latin-1")
        more = text.replace(";\n", ';  // it\'s "new"\n\n')
        same = tokens(f"/* what 'it' holds\n * and \"why\" */\n\n{more}\n// {{\n")
        assert same == tokens(text), path
        assert same != tokens(text + "int more;\n"), path


def test_a_comment_or_a_blank_line_in_every_file_leaves_the_digest(tmp_path: Path) -> None:
    tree = copy(tmp_path, *SAMPLE)
    before = digest.digest(tree)
    for name in SAMPLE:
        text = (tree / name).read_bytes()
        (tree / name).write_bytes(b"/* new */\n\n" + text + b"\n/* more\n */\n\n")
    assert digest.digest(tree) == before


def test_a_comment_in_the_plan_changes_no_key(tmp_path: Path) -> None:
    """Of the whole tree: the extension's own digest is that of its copy with a comment more. Keys have
    nothing else of the sources.
    """
    tree = tmp_path / "csrc"
    shutil.copytree(CSRC, tree)
    plan = tree / "codegen/plan/plan_peak.c"
    plan.write_text("/* why a peak is a peak */\n" + plan.read_text() + "// the end\n")
    assert digest.digest(tree) == digest.digest()
    add_token(tree / "codegen/emit/emit.c")
    assert digest.digest(tree) != digest.digest()


@pytest.mark.parametrize("name", DECIDING)
def test_a_token_of_what_decides_changes_the_digest(tmp_path: Path, name: str) -> None:
    tree = copy(tmp_path, name)
    before = digest.digest(tree)
    add_token(tree / name)
    assert digest.digest(tree) != before


def test_a_token_of_what_runs_leaves_the_digest(tmp_path: Path) -> None:
    tree = copy(tmp_path, "ir/ops.def", *RUNNING)
    before = digest.digest(tree)
    for name in RUNNING:
        add_token(tree / name)
    assert digest.digest(tree) == before


def test_the_head_of_every_unit_is_in_the_digest(tmp_path: Path) -> None:
    """Which files it has, in which order, and what else stands before them; not what is said of it."""
    tree = copy(tmp_path, "build.mk", "ir/ops.def")
    text = (tree / "build.mk").read_text()
    reduce, transpose = "prelude_reduce.h", "prelude_transpose.h"
    changes = {
        "nothing": text,
        "a comment": text.replace("\nPRELUDE :=", "\n# of every unit\n\nPRELUDE :=", 1),
        "another rule": text.replace("-O2", "-O1"),
        "the order": text.replace(f"{reduce} {transpose}", f"{transpose} {reduce}", 1),
        "the choice": text.replace(f"{reduce} {transpose}", reduce, 1),
        "a macro": text.replace("echo '#define DLC_PASTED'", "echo '#define DLC_PASTED 2'", 1),
    }
    found = {}
    for name, changed in changes.items():
        assert (changed == text) == (name == "nothing"), name
        (tree / "build.mk").write_text(changed)
        found[name] = digest.digest(tree)
    assert found["nothing"] == found["a comment"] == found["another rule"]
    assert len(set(found.values())) == 4
    (tree / "build.mk").write_text(text.replace("PRELUDE :=", "HEAD :=", 1))
    with pytest.raises(SystemExit):
        digest.digest(tree)


def test_a_file_may_be_moved_but_not_removed(tmp_path: Path) -> None:
    tree = copy(tmp_path, "ir/ops.def", "codegen/lower/lower.c", "codegen/lower/lower_scan.c")
    before = digest.digest(tree)
    (tree / "codegen/compile").mkdir()
    moved = (tree / "codegen/lower/lower.c").rename(tree / "codegen/compile/lower.c")
    assert digest.digest(tree) == before
    moved.unlink()
    assert digest.digest(tree) != before


SAME = {
    "white space": ("int f( void )\n{\n}\n", "int f(void) { }"),
    "a comment between tokens": ("a/**/b", "a b"),
    "a comment over lines": ("a /* b\n c */ d", "a d"),
    "a comment to the end": ('a // b "c\nd', "a\nd"),
    "a comment that is continued": ("a // b \\\nc\nd", "a\nd"),
    "a line that is continued": ("ab\\\nc d", "abc d"),
    "a macro that is continued": ("#define A(x) \\\n    f(x) \\\n    + 1\n", "#define A(x) f(x) + 1\n"),
    "a comment in a macro": ("#define A /* b\n c */ d\ne\n", "#define A d\ne\n"),
    "a directive that is indented": ("  # define A b\n", "#define A b\n"),
    "lines of another system": ("#define A \\\r\n b\r\nc\r\n", "#define A b\nc\n"),
}
OTHER = {
    "an operator in two": ("a++b", "a+ +b"),
    "a name in two": ("ab", "a b"),
    "what looks like a comment in a string": ('"/* a */"', '"/* b */"'),
    "a slash in a string": ('"//a"', '"//b"'),
    "white space in a string": ('"a b"', '"a  b"'),
    "a quote in a string": (r'"\"/*" a "*/"', r'"\"/*" b "*/"'),
    "a quote as a character": ("'\"' a '\"'", "'\"' b '\"'"),
    "an apostrophe as a character": (r"'\'' /* a */ b", r"'\'' /* a */ c"),
    "a backslash as a character": (r"'\\' a", r"'\\' b"),
    "a division": ("a / *b", "a /*b*/"),
    "a number with an exponent": ("1e+5", "1e +5"),
    "a macro with parameters": ("#define A(x) x\n", "#define A (x) x\n"),
    "where a macro ends": ("#define A b\nc\n", "#define A b c\n"),
    "what follows a string": ('"a" b', '"a" c'),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_is_the_same(name: str) -> None:
    a, b = SAME[name]
    assert tokens(a) == tokens(b)


@pytest.mark.parametrize("name", OTHER)
def test_is_another(name: str) -> None:
    a, b = OTHER[name]
    assert tokens(a) != tokens(b)
