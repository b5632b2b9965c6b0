"""The digest of the sources that decide what machine code a kernel becomes: a part of each key of the cache.

    python csrc/digest.py             prints it, 16 hexadecimal digits
    python csrc/digest.py --files     prints the files that it is made of

It covers the tokens of these files, and which of them head every unit, in which order (build.mk). It covers
neither comments, nor white space, nor what runs, traces or caches machine code that is there. So an entry of
the cache stays good until the compiler itself changes.
It needs no C compiler, so that it is the same wherever dlc is built.
"""

import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

CSRC = Path(__file__).resolve().parent
KINDS = {".c", ".h", ".def", ".inc"}

# Each folder of csrc is in one of the two lists, itself or by a folder around it: the nearest one counts.
# Of "codegen" itself this means its files; each folder in it has to be named.
DECIDE = {
    "ir",
    "codegen",
    "codegen/builder",
    "codegen/loops",
    "codegen/lower",
    "codegen/tile",
    "codegen/schedule",
    "codegen/emit",
    "codegen/strips",
    "codegen/micro",
    "codegen/compile",
}
REST = {
    "fusion",  # its result is the kernel, which the key covers
    "capture",
    "codegen/export",
    "codegen/jit",
    "codegen/plan",
    "codegen/process",
    "codegen/tune",  # what it chooses among has keys of its own
    "ir/notation",  # of programs that users write
}
NAMED = {".", "codegen"}  # folders whose entries are in the lists themselves

# Files of the other folders that decide all the same,
DECIDING = {"cc_target.c", "cc_job.c", "cc_job.h", "jit_cc.c"}
# and files of deciding folders that do not: messages, logs, locks, measurements, samples.
RUNNING = {
    "ir/diag.def",
    "ir/eval/excerpt.c",
    "ir/math/cost.c",  # of fusion and of predicted times
    "ir/math/cost.def",
    "ir/eval/noise.c",
    "ir/eval/sample.c",
    "ir/text/shrink.c",
    "codegen/process/count.c",
    "codegen/process/count.def",
    "codegen/process/environment.c",
    "codegen/lock.c",
    "codegen/lock.def",
    "codegen/lock.h",
    "codegen/process/log.c",
    "codegen/process/trace.c",
    "codegen/process.h",
    "codegen/micro/micro_peak.c",
    "codegen/compile/show.c",
}

TOKEN = re.compile(
    r"""(?P<space> [ \t\f\v]+ | /\*.*?\*/ | //[^\n]*)
      | (?P<line> \n)
      | (?P<token> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
                 | \.?[0-9](?:[eEpP][-+]|[\w.])* | \w+
                 | \.\.\. | <<= | >>= | -> | \+\+ | -- | << | >> | && | \|\| | [-<>=!+*/%&|^]= | \#\# | .)""",
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str) -> Iterator[str]:
    """The tokens of C. What white space decides stands among them: where a directive begins and ends, and
    whether a macro that it defines has parameters.
    """
    text = text.replace("\r\n", "\n").replace("\\\n", "")
    fresh, directive = True, 0  # at the beginning of a line; how many tokens the directive has
    for found in TOKEN.finditer(text):
        token = found["token"]
        if token is None:
            if found["line"] and directive:
                yield "\n"
            fresh, directive = fresh or bool(found["line"]), 0 if found["line"] else directive
            continue
        if fresh and token == "#":
            yield "\n"
            directive = 1
        elif directive:
            directive += 1
        fresh = False
        yield token
        if directive == 2 and token != "define":
            directive = 4  # no definition
        if directive == 3:
            yield "with parameters" if text.startswith("(", found.end()) else "without"


def listed(folder: str) -> str | None:
    """The folder of the lists that says what the folder is, or None: then it has to be named."""
    while folder not in DECIDE | REST:
        above = folder.rpartition("/")[0] or "."
        if above in NAMED:
            return None
        folder = above
    return folder


def decides(path: str) -> bool:
    """Does the file, by its path from csrc, decide machine code? It does if nothing is said of its folder."""
    folder, _, name = path.rpartition("/")
    if path in RUNNING:
        return False
    if name in DECIDING and folder.startswith("codegen/"):
        return True
    return bool(folder) and listed(folder) not in REST


def files(root: Path = CSRC) -> list[Path]:
    """Those that decide."""
    found = sorted(path for path in root.rglob("*") if path.suffix in KINDS)
    return [path for path in found if decides(path.relative_to(root).as_posix())]


def head(root: Path = CSRC) -> str:
    """What build.mk says of the text at the head of every unit: its files, in order, and what makes it of
    them. A folder without build.mk has none.
    """
    if not (root / "build.mk").exists():
        return ""
    text = (root / "build.mk").read_text().replace("\\\n", " ")
    rule = re.search(r"^PRELUDE *:= *(.*)(?:\n.*)*?\n\$\(B\)/prelude_text\.c:.*\n\t(.*)$", text, re.MULTILINE)
    if rule is None:
        raise SystemExit("csrc/digest.py: csrc/build.mk has no PRELUDE, or no rule that makes a text of it")
    return " ".join([*re.findall(r"\w+\.h", rule[1]), rule[2]])


def digest(root: Path = CSRC) -> str:
    """16 hexadecimal digits. A file counts with its name alone, so that it may go to another folder."""
    texts = [(path.name, "\0".join(tokens(path.read_bytes().decode("latin-1")))) for path in files(root)]
    whole = hashlib.sha256()
    for name, text in sorted(texts):
        whole.update(f"{name}\0{len(text)}\0".encode() + text.encode("latin-1"))
    whole.update(head(root).encode())
    return whole.hexdigest()[:16]


if __name__ == "__main__":
    if sys.argv[1:] == ["--files"]:
        print("\n".join(path.relative_to(CSRC).as_posix() for path in files()))
    else:
        print(digest())
