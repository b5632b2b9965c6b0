"""The README of each folder of csrc names each of its files, and no file that is not there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
README = "README.md"
PAGES = sorted(CSRC.rglob(README))
KINDS = {".c", ".h", ".def", ".inc", ".mk"}


def page_of(path: Path) -> Path:
    """The page that has to name the file: of its folder, or of the nearest one around it that has a page."""
    return next(folder / README for folder in path.parents if (folder / README).exists())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CSRC).parent))
def test_each_file_is_named(page: Path) -> None:
    files = {path for path in page.parent.rglob("*") if path.suffix in KINDS and page_of(path) == page}
    named = set(re.findall(r"\w+\.\w+", page.read_text()))
    assert not {str(path.relative_to(CSRC)) for path in files if path.name not in named}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CSRC).parent))
def test_each_name_is_a_file(page: Path) -> None:
    there = {path.name for path in CSRC.rglob("*")} | {"Python.h"}
    named = re.findall(r"`((?:[\w.]+/)*\w+\.(?:c|h|def|inc|mk))`", page.read_text())
    assert not [name for name in named if Path(name).name not in there and not (ROOT / name).exists()]
