"""Runs the notebooks under docs/notebooks: python -m tests.explain.notebooks [name] writes their outputs."""

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/notebooks"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.ipynb")))
WRONG_ON_PURPOSE = "%%dlc wrong"  # a cell that begins so shows an error


def executed(name: str) -> Any:
    """The notebook with the outputs of a new kernel, which finds this dlc."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(FOLDER / f"{name}.ipynb", 4)
    for cell in book.cells:
        if cell.source.startswith(WRONG_ON_PURPOSE):
            cell.metadata["tags"] = ["raises-exception"]
    NotebookClient(
        book,
        timeout=60,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(ROOT)}},
    ).execute()
    return book


def text_of(cell: Any) -> str:
    """What a cell printed, showed and raised, as text."""
    parts = []
    for output in cell.get("outputs", []):
        parts.append(output.get("text", "") or output.get("data", {}).get("text/plain", ""))
        if output["output_type"] == "error":
            parts.append(f"{output['ename']}: {output['evalue']}")
    return "\n".join(parts)


def main() -> None:
    import nbformat

    for name in sys.argv[1:] or NAMES:
        nbformat.write(executed(name), FOLDER / f"{name}.ipynb")


if __name__ == "__main__":
    main()
