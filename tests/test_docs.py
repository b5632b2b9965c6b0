"""The pages of docs: what they show runs, as one program a page; and the site of them (`make docs`).

A block that is marked `python` is run, after those before it; one with a title is added to the file of that
name; one that is marked `sh` is a script of the shell, in the same folder; a text of the language is parsed.
A comment `<!-- python ... -->` is what a page takes for granted, and is run as well.
"""

import linecache
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(
    r'^(?:<!-- (?P<hidden>python)|```(?P<kind>\w*)(?: title="(?P<title>[^"]+)")?)\n'
    r"(?P<text>.*?)^(?:-->|```)$",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    kind: str
    title: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in BLOCK.finditer(text):
        kind = found["hidden"] or found["kind"] or ("dlc" if found["text"].startswith("dlc 1 ") else "")
        line = text.count("\n", 0, found.start("text"))
        yield Block(kind, found["title"] or "", found["text"], line)


PAGES = {str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md"))}
ELSEWHERE = {"several_machines.md"}  # tests/distributed
NEEDS = {"howto/transformers.md": "transformers"}  # packages
RUN = [
    name
    for name, page in PAGES.items()
    if name not in ELSEWHERE and {block.kind for block in blocks(page)} & {"python", "sh"}
]


def shell(block: Block, folder: Path) -> None:
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail"],
        input=block.text, text=True, capture_output=True, cwd=folder, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("name", RUN)
def test_the_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    main = types.ModuleType("__main__")  # Dynamo looks a function's globals up by the name of its module
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.chdir(tmp_path)
    torch._dynamo.reset()
    path = str(PAGES[name])
    linecache.checkcache(path)
    names = vars(main)
    threads = torch.get_num_threads()
    try:
        for block in blocks(PAGES[name]):
            if block.title:
                with Path(block.title).open("a") as file:  # a page may show it part by part
                    file.write(block.text)
            elif block.kind == "python":
                exec(compile("\n" * block.line + block.text, path, "exec"), names)
            elif block.kind == "sh":
                shell(block, tmp_path)
    finally:
        torch.set_num_threads(threads)
        torch._dynamo.reset()


@pytest.mark.parametrize(
    "name", [n for n, page in PAGES.items() if any(b.kind == "dlc" for b in blocks(page))]
)
def test_its_programs_are_valid(name: str) -> None:
    import dlc

    for block in blocks(PAGES[name]):
        if block.kind == "dlc":
            dlc.ir.parse(block.text)


def test_every_page_of_a_task_begins_with_an_example() -> None:
    for page in (DOCS / "howto").glob("*.md"):
        (_, first, *_) = page.read_text().split("\n\n", 2)
        shown = first.split("-->\n")[-1] if first.startswith("<!--") else first
        assert shown.startswith("```") or len(shown) < 300, page.name
        assert any(block.kind in {"python", "sh"} for block in blocks(page)), page.name


def test_a_block_is_run_or_is_no_program() -> None:
    """Words such as `bash` or `py` after the fence would leave a block unread; C is for other programs."""
    kinds = {block.kind for page in PAGES.values() for block in blocks(page)}
    assert kinds <= {"python", "sh", "dlc", "c", "js", ""}


def test_the_page_of_functions_names_every_function() -> None:
    import dlc

    page = PAGES["functions.md"].read_text()
    assert set(re.findall(r"^\| `dlc\.(\w+)", page, re.MULTILINE)) == set(dlc.__all__)


# ---- the site ----

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "use": "href"}


class Loads(HTMLParser):
    """What a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.links: list[str] = []
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in ("script", "style"):
            self.found += re.findall(r"(?:@import|url\(|import|fetch)\W*(https?://[^\"')]*)", data)

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.inside = tag
        self.found += filter(None, [of.get(LOADS.get(tag, ""))])
        self.found += re.findall(r"url\((.*?)\)", of.get("style") or "")
        if tag == "a":
            self.links += filter(None, [of.get("href")])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as by `make docs`: a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_has_every_page(site: Path) -> None:
    for name in PAGES:
        assert (site / name).with_suffix(".html").exists()
    for book in (DOCS / "notebooks").glob("*.ipynb"):
        assert (site / "notebooks" / f"{book.stem}.html").exists()


def test_the_site_loads_nothing_from_the_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text())
        far = [
            url for url in loads.found if re.match(r"\s*[\"']?(\w+:)?//", url) and not url.startswith("data:")
        ]
        assert far == [], page
        assert 'class="mermaid"' not in page.read_text()  # the theme would fetch a program for it
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", sheet.read_text()), sheet


def test_the_links_of_the_site_lead_somewhere(site: Path) -> None:
    """Also those that are written as HTML; strict mode has looked at the others."""
    for page in (page for page in site.rglob("*.html") if page.name != "404.html"):
        loads = Loads()
        loads.feed(page.read_text())
        for url in [*loads.links, *loads.found]:
            path = url.partition("#")[0].partition("?")[0]
            if path and not re.match(r"[\w+.-]+:|//", path):
                assert (page.parent / path).exists(), f"{page.relative_to(site)}: {url}"


def test_the_stages_are_pictures_of_what_the_passes_print(site: Path) -> None:
    page = (site / "how_it_works.html").read_text()
    assert page.count('<figure class="program">') == 3
    assert 'class="box kernel"' in page and 'class="box parallel"' in page
    assert "k0_0" in page  # a phase as code for libtcc
    assert "<!-- picture" not in page


def test_the_plots_are_those_of_the_page() -> None:
    from benchmarks.plots import PLOTS, draw, stale

    assert stale() == [], "python -m benchmarks.plots"
    page = PAGES["performance.md"].read_text()
    assert all(f"](plots/{file})" in page for file in PLOTS)
    one, two = (draw("t", {"eager": {"a": figure, "b": 1.0}}) for figure in (2.0, 3.0))
    assert one != two and "a: eager 2.00" in one
