"""The programs of examples that are run by hand run, in their small form, and so does their page."""

import re
from pathlib import Path

import pytest

from tests.fresh import run_module

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "examples" / "README.md").read_text()
SMALL = {
    "demo": ["--help"],  # the whole of it takes minutes: `make demo`
    "generate": ["--width", "64", "--layers", "1", "--tokens", "4", "--no-inductor"],
}
SAYS = {"demo": "--quick", "generate": "dlc, sampled"}


def test_the_page_names_every_file() -> None:
    folder = ROOT / "examples"
    assert set(re.findall(r"python -m examples\.(\w+)", PAGE)) == SMALL.keys()
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert files == SMALL.keys() | set(re.findall(r"`(\w+)\.py`\]", PAGE))


def test_the_block_of_the_page_runs() -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        exec(block, names)
    assert "prices" in names


@pytest.mark.parametrize("name", SMALL)
def test_an_example_runs(name: str) -> None:
    done = run_module(f"examples.{name}", *SMALL[name])
    assert done.returncode == 0 and SAYS[name] in done.stdout, done.stderr
