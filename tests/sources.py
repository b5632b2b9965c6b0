"""The C of csrc as tokens, without comments: csrc/digest.py, for tests that read the sources."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CSRC = ROOT / "csrc"

_spec = importlib.util.spec_from_file_location("dlc_digest", CSRC / "digest.py")
assert _spec is not None and _spec.loader is not None
digest = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(digest)


def tokens(path: Path) -> list[str]:
    return list(digest.tokens(path.read_bytes().decode("latin-1")))
