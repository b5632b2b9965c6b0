"""What type checkers read of dlc: the stub of the extension names what is there, and no more."""

from __future__ import annotations

import ast
from pathlib import Path

import dlc
from dlc import _C

PACKAGE = Path(dlc.__file__).parent
STUB = ast.parse((PACKAGE / "_C.pyi").read_text())


def defined(nodes: list[ast.stmt]) -> dict[str, ast.stmt]:
    found = {node.name: node for node in nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    return {name: node for name, node in found.items() if not name.startswith("_")}


def test_the_stub_has_the_names_of_the_extension() -> None:
    assert defined(STUB.body).keys() == {name for name in dir(_C) if not name.startswith("_")}
    assert (PACKAGE / "py.typed").exists()


def test_the_stub_has_the_members_of_the_classes() -> None:
    for name in ("Callable", "Jit"):
        node = defined(STUB.body)[name]
        assert isinstance(node, ast.ClassDef)
        real = {member for member in vars(getattr(_C, name)) if not member.startswith("_")}
        assert defined(node.body).keys() == real


def test_the_stub_has_the_parameters_of_the_docstrings() -> None:
    """The first line of each names them, as in f(a, b=None) -> int."""
    for name, node in defined(STUB.body).items():
        if not isinstance(node, ast.FunctionDef):
            continue
        said = (getattr(_C, name).__doc__ or "").partition(")")[0].partition("(")[2]
        words = [word.partition("=")[0].strip() for word in said.split(",") if word.strip()]
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        names += ["*", *(a.arg for a in node.args.kwonlyargs)] if node.args.kwonlyargs else []
        assert [word.lower() for word in words] == names, name
