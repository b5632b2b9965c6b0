"""Builds dlc._C by csrc/build.mk, which holds the one description of sources, flags and libraries."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

LIBTCC = "libdlctcc.so"  # beside the extension; there is none where the system has a shared libtcc alone


class MakeExtension(build_ext):
    """Lets make compile the extension, in parallel and without torch."""

    def build_extension(self, ext: Extension) -> None:
        if not shutil.which("make"):
            raise SystemExit("dlc is built by GNU make, which is missing: install it")
        command = [
            "make",
            f"-j{os.cpu_count() or 1}",
            "--file=csrc/build.mk",
            "ext",
            f"PYTHON={sys.executable}",
            f"B={os.environ.get('DLC_BUILD') or os.path.abspath(self.build_temp)}",
            f"OUT={os.path.abspath(self.get_ext_fullpath(ext.name))}",
        ]
        if subprocess.call(command) != 0:
            raise SystemExit("the C part of dlc was not built: the reason is in the lines above")

    def copy_extensions_to_source(self) -> None:
        """Of an editable install: libtcc's shared object goes with the extension."""
        super().copy_extensions_to_source()
        library = Path(self.build_lib, "dlc", LIBTCC)
        if library.exists():
            shutil.copy2(library, Path(__file__).parent / "dlc" / LIBTCC)


setup(
    ext_modules=[Extension("dlc._C", sources=[])],
    cmdclass={"build_ext": MakeExtension},
)
