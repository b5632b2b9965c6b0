"""One row by two panels of vectors of 16 bytes wrote 16 sums into an array of 8: gcc dropped the function."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import torch

import dlc
from tests.export.compilers import STRICT


def test_bits_of_vectors_and_of_none(tmp_path: Path) -> None:
    g = torch.Generator().manual_seed(0)
    a, b = torch.randn(1, 64, generator=g), torch.randn(64, 500, generator=g)
    dlc.save(lambda a, b: a @ b, tmp_path / "m.dlc", (a, b), check=False)
    dlc.load(tmp_path / "m.dlc", tier="tcc").export_c(tmp_path)
    made = {}
    for name, flags in {"warned": ["-O1"], "vectors": [], "plain": ["-DDLC_PLAIN"]}.items():
        flags = [*STRICT, *flags, "-DDLC_HAS_FMA=0", "-ffp-contract=off", "-shared", "-fPIC"]
        command = ["gcc", *flags, "-o", f"{name}.so", "m.c", "-lm"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr[:2000]
        lib = ctypes.CDLL(str(tmp_path / f"{name}.so"))
        lib.m_workspace.restype = ctypes.c_size_t
        out, work = np.empty((1, 500), np.float32), np.empty(lib.m_workspace() + 64, np.uint8)
        arrays = (a.numpy(), b.numpy(), out, work)
        assert lib.m_run(*(ctypes.c_void_p(array.ctypes.data) for array in arrays), None) == 0
        np.testing.assert_allclose(out, (a @ b).numpy(), rtol=1e-4, atol=1e-4)
        made[name] = out.tobytes()
    assert made["vectors"] == made["warned"] == made["plain"]
