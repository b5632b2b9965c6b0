"""dlc's part of torch.compiler.save_cache_artifacts() and load_cache_artifacts().

One artifact a compiled graph: the kernels it uses. Their machine code may still be in the making when a
graph is recorded, so an artifact has its content when it is asked for it.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Any

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from . import _C, portable

log = logging.getLogger("dlc")


class KernelsArtifact(CacheArtifact):
    """content: what portable.pack makes of the kernels of a graph."""

    def __init__(self, key: str, content: bytes | tuple[list[str], str | None, str | None]) -> None:
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "_source", content)

    @property
    def content(self) -> bytes:  # type: ignore[override]
        source = self._source  # type: ignore[attr-defined]
        if not isinstance(source, bytes):
            _C.wait(-1.0)
            source = portable.pack(portable.collect(*source))
        return source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelsArtifact) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def populate_cache(self) -> None:
        """Into the default cache folder.  What is wrong with it is a line in the log."""
        try:
            portable.install(portable.unpack(self.content), trusted=True)
        except portable.PortableError as error:
            log.warning("kernels of an artifact are not used: %s", error)

    @staticmethod
    def encode(content: Any) -> Any:
        return content

    @staticmethod
    def type() -> str:
        return "dlc"


if "dlc" not in CacheArtifactFactory._artifact_types:  # the module may be imported again
    CacheArtifactFactory.register(KernelsArtifact)


def record(keys: list[str], folder: str | None, cc: str | None) -> None:
    """A graph was compiled, with the kernels of these keys; folder None: the default one, "": none."""
    if keys and folder != "":
        key = hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()
        CacheArtifactManager.record_artifact("dlc", key, (keys, folder, cc))
