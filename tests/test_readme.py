"""The README's Python blocks run, one after the other, as one program; its other claims are checked."""

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
    """The table of options has the names and defaults of the code, but for the one not there yet."""
    import dataclasses

    from dlc.options import Options

    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \|", README, re.MULTILINE)
    fields = {f.name: repr(f.default).replace("'", '"') for f in dataclasses.fields(Options)}
    assert dict(rows) == {n: d for n, d in fields.items() if n != "freeze"}
