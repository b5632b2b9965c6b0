"""The README's Python blocks run, one after the other, as one program; its other claims are checked.

So are the figures of docs/performance.md, which the README's are made from, and the links of all pages.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def test_usage_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # it saves a file
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert "[0. 2. 4. 6.]" in capsys.readouterr().out


def test_program_is_valid() -> None:
    """The example of the language parses, and is softmax."""
    import numpy as np

    import dlc

    (text,) = (b for b in blocks("") if b.startswith("dlc 1"))
    rng = np.random.default_rng(0)
    x, b = rng.standard_normal((3, 16), np.float32), rng.standard_normal(16, np.float32)
    e = np.exp(x.astype(np.float64) + b)
    np.testing.assert_allclose(dlc.ir.parse(text)(x, b), e / e.sum(1, keepdims=True), rtol=1e-5)


def test_options_are_listed() -> None:
    """The table of options has the names and defaults of the code."""
    import dataclasses

    from dlc.options import Options

    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \|", README, re.MULTILINE)
    fields = {f.name: repr(f.default).replace("'", '"') for f in dataclasses.fields(Options)}
    assert dict(rows) == fields


def test_figures_are_those_of_the_page() -> None:
    """The README's table is what the page comes to; each part has figures; 4 is the mean of 2 and 8."""
    from benchmarks.readme import PAGE, PARTS, between, brackets, means, put

    page = PAGE.read_text()
    assert between(README, "means").group() == means(page), "python -m benchmarks.readme"
    assert all(any(brackets(page, what, "").values()) for what in PARTS)
    table = (
        "|  | eager | dlc |\n| --- | ---: | ---: |\n| a | 2 ms (2.00) | 1 ms |\n| b | 8 ms (8.00) | 1 ms |\n"
    )
    other = put(page, "models", f"`python -m benchmarks models` on another machine\n\n{table}")
    assert "| models, inference | 4.00 (2) | - | `python -m benchmarks models` |" in means(other)
    assert "; another machine" in means(other)


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "benchmarks" / "README.md", *sorted((ROOT / "csrc").rglob("README.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    links = [link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    headings = {
        re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)", text, re.M)
    }
    for path, _, heading in links:
        assert (page.parent / path).exists() if path else heading in headings, path or heading
    for path in re.findall(r"\bdocs/[\w/]+\.md\b", text):
        assert (ROOT / path).exists(), path


def test_pages_are_listed() -> None:
    """Every page of docs is in the README's table."""
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")}
    assert pages - set(re.findall(r"docs/[\w/]+\.md", README)) == set()
