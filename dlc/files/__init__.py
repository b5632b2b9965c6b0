"""A program in one file: dlc.save writes it, dlc.load runs it where there is no torch. See docs/files.md."""

from __future__ import annotations

import os
from typing import Any


class FileError(ValueError):
    """A file that is none of dlc's or is damaged, or a model that cannot be saved. One line says what."""


def is_onnx(path: Any) -> bool:
    """By its name alone: a file of ONNX has no mark at its head."""
    return os.fspath(path).endswith(".onnx")
