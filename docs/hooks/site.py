"""What mkdocs asks while it builds the site: pages from outside of docs, pictures, links.

The tree's READMEs and the like become pages below `project`. A link of any page to such a file leads to its
page; a link to another file of the tree becomes its words.
"""

import posixpath
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import pictures  # noqa: E402

FOLDERS = ("benchmarks/README.md", "examples/README.md")
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", *FOLDERS)
LINK = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
CODE = re.compile(r"^```.*?^```$|`(?:[^`\n]|\n(?!\n))+`", re.DOTALL | re.MULTILINE)


def outside() -> dict[str, str]:
    """Of the files that are pages too: their place in the tree, and that in the site."""
    names = [*TOP, *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "csrc").rglob("README.md")))]
    return {name: f"project/{name.replace('README.md', 'index.md')}" for name in names}


def place(name: str, pages: dict[str, str]) -> str | None:
    """Where a file of the tree is in the site."""
    inside = name.removeprefix("docs/") if name.startswith("docs/") else None
    return pages.get(name, inside)


def relink(text: str, name: str) -> str:
    """The text of a file of the tree, with its links as the site has them."""
    pages = outside()
    here = posixpath.dirname(place(name, pages) or "")

    def change(link: re.Match[str]) -> str:
        picture, words, path, heading = link.groups()
        if "://" in path or not path:
            return link[0]
        target = place(posixpath.normpath(posixpath.join(posixpath.dirname(name), path)), pages)
        return (
            f"{picture}[{words}]({posixpath.relpath(target, here or '.')}{heading or ''})"
            if target
            else words
        )

    hidden = list[str]()

    def hide(code: re.Match[str]) -> str:
        """Code that looks like a link; other code may be the words of one."""
        if "](" not in code[0]:
            return code[0]
        hidden.append(code[0])
        return f"\0{len(hidden) - 1}\0"

    linked = LINK.sub(change, CODE.sub(hide, text))
    return re.sub(r"\0(\d+)\0", lambda mark: hidden[int(mark[1])], linked)


def words(nav: Any) -> set[str]:
    """The files that a navigation names."""
    if isinstance(nav, str):
        return {nav}
    return set[str]().union(*map(words, nav.values() if isinstance(nav, dict) else nav))


def pages_of(paths: Iterable[Path]) -> list[str]:
    return [str(path.relative_to(ROOT / "docs")) for path in paths]


def on_config(config: Any) -> Any:
    """The navigation gets notebooks, pages that it does not name, and the READMEs."""
    docs = ROOT / "docs"
    books = pages_of([*docs.glob("notebooks.md"), *sorted(docs.glob("notebooks/*.ipynb"))])
    named = words(config.nav) | words(books)
    more = pages_of([p for p in sorted(docs.rglob("*.md")) if str(p.relative_to(docs)) not in named])
    folders = {name: page for name, page in outside().items() if name.startswith("csrc")}
    config.nav[3:3] = [{"Notebooks": books}] if books else []
    config.nav += [{"More": more}] if more else []
    config.nav.append(
        {
            "Project": [
                *(
                    {name.removesuffix(".md"): page}
                    for name, page in outside().items()
                    if name not in folders
                ),
                {"Folders": [{posixpath.dirname(name): page} for name, page in folders.items()]},
            ]
        }
    )
    return config


def on_files(files: Files, config: Any) -> Files:
    for name, page in outside().items():
        files.append(File.generated(config, page, content=relink((ROOT / name).read_text(), name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri.startswith("project/"):
        return markdown
    program = re.search(r"^```\n(dlc 1 graph\n.*?)^```$", markdown, re.DOTALL | re.MULTILINE)

    def picture(marker: re.Match[str]) -> str:
        what, of = marker.groups()
        if what == "code":
            return f"```c\n{pictures.code(program[1], of)}```"
        return pictures.draw(pictures.staged(program[1], of))

    text = relink(markdown, f"docs/{page.file.src_uri}")
    return re.sub(r"^<!-- (picture|code): (\w+) -->$", picture, text, flags=re.MULTILINE)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """A notebook's links to pages and notebooks, which are written for the folder, as those of a site.

    Its scripts that fetch others, for formulas and diagrams, are left out.
    """
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    html = re.sub(r"<script\b.*?</script>", lambda m: "" if "://" in m[0] else m[0], html, flags=re.DOTALL)
    return re.sub(r'(href="(?![\w+.-]+:)[^"#]+)\.(?:md|ipynb)(?=["#])', r"\1.html", html)
