"""The README's Python blocks run, one after the other, as one program; its other claims are checked.

So are the figures of docs/performance.md, which the README's are made from, the table of options and the
links of all pages.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 130


def test_usage_runs(capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    names: dict[str, object] = {}
    for block in blocks(README, "python"):
        exec(compile(block, "README.md", "exec"), names)
    said = capsys.readouterr().out
    assert "1 kernel" in said  # the report
    x = np.linspace(-3, 3, 7)
    assert str(x / (1 + np.exp(-x)))[:20] in said


def test_program_is_valid() -> None:
    """The example of how_it_works.md is softmax."""
    import numpy as np

    import dlc

    page = (ROOT / "docs/how_it_works.md").read_text()
    (text,) = (b for b in blocks(page, "") if b.startswith("dlc 1"))
    rng = np.random.default_rng(0)
    x, b = rng.standard_normal((3, 16), np.float32), rng.standard_normal(16, np.float32)
    e = np.exp(x.astype(np.float64) + b)
    np.testing.assert_allclose(dlc.ir.parse(text)(x, b), e / e.sum(1, keepdims=True), rtol=1e-5)


def test_options_are_listed() -> None:
    """The table of docs/options.md has the names and defaults of the code."""
    import dataclasses

    from dlc.options import Options

    page = (ROOT / "docs/options.md").read_text()
    rows = re.findall(r"^\| `([a-z_]+)` \| [^|]* \| `(.*?)` \|", page, re.MULTILINE)
    fields = {f.name: repr(f.default).replace("'", '"') for f in dataclasses.fields(Options)}
    assert dict(rows) == fields


def test_figures_are_those_of_the_page() -> None:
    """The tables of means are what the page comes to; each part has figures; 4 is the mean of 2 and 8."""
    from benchmarks.readme import PAGE, PARTS, all_means, between, brackets, machines, means, put

    page = PAGE.read_text()
    assert between(README, "means").group() == means(page, machines(page)[0]), "python -m benchmarks.readme"
    assert between(page, "means").group() == all_means(page), "python -m benchmarks.readme"
    assert all(any(brackets(page, what, "").values()) for what in PARTS)
    table = (
        "|  | eager | dlc |\n| --- | ---: | ---: |\n| a | 2 ms (2.00) | 1 ms |\n| b | 8 ms (8.00) | 1 ms |\n"
    )
    other = put(page, "models", f"`python -m benchmarks models` on another machine\n\n{table}")
    row = "| models, inference | 4.00 (2) | - | `python -m benchmarks models` |"
    assert row in means(other, "another machine") and row not in means(other, machines(other)[0])
    assert all_means(other).count("Measured on ") == len(machines(other)) == len(machines(page)) + 1


TOP = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")]
FOLDERS = [ROOT / name / "README.md" for name in ("benchmarks", "examples")]
PAGES = [*TOP, *FOLDERS, *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize(
    "page",
    [*PAGES, *sorted((ROOT / "csrc").rglob("README.md"))],
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
    """Every page of docs is in the tables of its first page, which the README leads to."""
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")} - {"index.md"}
    assert pages - set(re.findall(r"\]\(([\w/]+\.md)\)", (docs / "index.md").read_text())) == set()
    assert "docs/index.md" in README
