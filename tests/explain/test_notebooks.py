"""The notebooks of the docs run, and show what they have shown."""

import json
import re
from typing import Any

import pytest

from .notebooks import FOLDER, NAMES, WRONG_ON_PURPOSE, executed, text_of

for _name in ("nbclient", "nbformat", "ipykernel"):
    pytest.importorskip(_name, reason=f"{_name} is not installed")

SAYS = {
    "first_steps": ["3 kernels, 2 products", "largest difference", "'graphs': 0, 'kernels': 0, 'calls': 3"],
    "custom_operator": [
        "1 kernel", "ndarray \\(5,\\) {'graphs': 0, 'kernels': 0}", "ParseError: cell:2:14: index 'k'",
        "array\\(\\[5., 5.\\]",
    ],
    "why_is_it_slow": ["1 graph break", "torch.where computes both", "direct graph of normalise_at_once"],
    "training_memory": ["1.0 ", "largest difference: 0.0", "memory: at most", "smallest limit that can be"],
}  # fmt: skip
MOST = 60_000  # characters of text: no flood


def shown(book: Any) -> str:
    return "\n".join(text_of(cell) for cell in book.cells if cell.cell_type == "code")


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_shows_what_it_promises(name: str) -> None:
    book = executed(name)
    text = shown(book)
    for pattern in SAYS[name]:
        assert re.search(pattern, text), f"{pattern}\n{text}"
    assert len(text) < MOST
    failing = [c.source for c in book.cells for o in c.get("outputs", []) if o["output_type"] == "error"]
    assert all(source.startswith(WRONG_ON_PURPOSE) for source in failing)


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_outputs_are_there_and_small(name: str) -> None:
    path = FOLDER / f"{name}.ipynb"
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    assert all(c["execution_count"] for c in cells), "not run: python -m tests.explain.notebooks"
    assert (
        path.stat().st_size < 300_000
        and "/work/" not in path.read_text()
        and "/root/" not in path.read_text()
    )
