"""python -m tests.wrap csrc/fusion ..: lines of C of at most 100 columns, and no others are touched.

Comments are filled, keeping the column of their text; a comment behind code moves to the left or in front
of its line; code is given to clang-format, a long line at a time. What is left to people is printed: the
lines that stay too long; the exit status is 1 if there are any.
"""

import re
import subprocess
import sys
from pathlib import Path

COLUMNS = 100
CLANG_FORMAT = Path(sys.executable).parent / "clang-format"
# `/*` or `*`, and the word at the head of a paragraph with the spaces behind it ("Requires:  ").
HEAD = re.compile(r"(\s*)(/\*|\*)(\s*)((?:\w[\w ]*:? {2,}|(?:Requires|Ensures): )?)")
# What is left to people: comments, macros, and code with a comment behind it that goes on in the next line.
LEFT = re.compile(r"\s*(/\*|\*|#)|(?!.*\*/).*/\*")
BEHIND = re.compile(r"(.*?\S)(\s+)(/\*.*\*/)$")


def fill(words: list[str], first: str, rest: str, tail: str = "") -> list[str]:
    """Words behind `first`, the next lines behind `rest`; room is left for the tail."""
    lines, line, empty = [], first, True
    for k, word in enumerate(words):
        room = COLUMNS - (len(tail) if k == len(words) - 1 else 0)
        if not empty and len(line) + 1 + len(word) > room:
            lines.append(line.rstrip())
            line, empty = rest, True
        line += word if empty else f" {word}"
        empty = empty and not word  # two spaces that end a sentence do not begin a line
    return [*lines, line + tail]


def comment(line: str, following: str) -> tuple[list[str], str]:
    """A line of a comment as several, and what then becomes of the line that follows."""
    found = HEAD.match(line)
    assert found
    indent, mark, space, head = found.groups()
    text, closed, _ = line[found.end() :].rstrip().partition("*/")
    margin = indent + (" *" if mark == "/*" else "*")
    rest = (margin + space[mark == "/*" and len(space) > 1 :]).ljust(found.end() if head else 0)
    rest = rest if rest.endswith(" ") else rest + " "
    words = text.rstrip().split(" ")
    made = fill(words, line[: found.end()], rest, " */" if closed else "")
    same = following.startswith(rest) and len(following) > len(rest) and following[len(rest)] != " "
    if not closed and len(made) > 1 and same and not HEAD.match(following)[4]:  # type: ignore[index]
        return made[:-1], f"{made[-1]} {following[len(rest) :]}"
    return made, following


def comments(lines: list[str]) -> list[str]:
    made: list[str] = []
    lines, inside = lines[:], False
    for k in range(len(lines)):
        line = lines[k]
        begins = line.lstrip().startswith("/*")
        inside = inside or begins
        behind = None if inside else BEHIND.match(line)
        if len(line) > COLUMNS and inside:
            following = lines[k + 1] if k + 1 < len(lines) else ""
            new, following = comment(line, following)
            made += new
            if k + 1 < len(lines):
                lines[k + 1] = following
        elif len(line) > COLUMNS and behind and not line.lstrip().startswith("#"):
            code, gap, text = behind.groups()
            indent = code[: len(code) - len(code.lstrip())]
            spare = COLUMNS - len(code) - len(text)
            if spare >= 1:
                made.append(code + " " * min(spare, len(gap)) + text)
            else:
                made += [*fill(text[3:-2].strip().split(" "), indent + "/* ", indent + " * ", " */"), code]
        else:
            made.append(line)
        inside = inside and "*/" not in line
    return made


def long_lines(path: Path) -> list[int]:
    return [n for n, line in enumerate(path.read_text().split("\n"), 1) if len(line) > COLUMNS]


def wrap(path: Path) -> list[int]:
    """The numbers of the lines that stay too long."""
    for _ in range(3):
        path.write_text("\n".join(comments(path.read_text().split("\n"))))
    for _ in range(3):
        lines = path.read_text().split("\n")
        code = [n for n in long_lines(path) if not LEFT.match(lines[n - 1])]
        if not code:
            break
        subprocess.run([CLANG_FORMAT, "-i", *(f"--lines={n}:{n}" for n in code), path], check=True)
    return long_lines(path)


def main(names: list[str]) -> int:
    left = 0
    for name in names:
        found = [Path(name)] if Path(name).is_file() else sorted(Path(name).rglob("*.[ch]"))
        for path in found:
            for n in wrap(path):
                print(f"{path}:{n}")
                left += 1
    return left > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
