"""dlc.save and dlc.load: what goes in and out, what is refused, and what becomes of the file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import dlc
from benchmarks.measure import in_process
from dlc import FileError
from dlc.files.tensors import Tensors
from tests.files import apart
from tests.files.apart import ROOT

STORED = Path(__file__).parent / "stored"
F32 = np.float32


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x: Tensor, scale: Tensor | None = None, *, twice: bool = False) -> Any:
        y = self.last(torch.nn.functional.gelu(self.first(x)))
        y = y if scale is None else y * scale
        return {"y": y, "both": (y.sum(-1), [y * 2 if twice else y])}


def net() -> nn.Module:
    torch.manual_seed(0)
    return Net().eval()


def saved(model: Any, path: Path, *args: Any, **options: Any) -> Any:
    dlc.save(model, path, args, **options)
    return dlc.load(path, check=True, tier="tcc")


def near(have: Any, want: Any) -> None:
    np.testing.assert_allclose(have, want, 1e-5, 1e-5)


def test_containers_and_sizes(tmp_path: Path) -> None:
    model, x = net(), torch.randn(8, 16)
    m = saved(model, tmp_path / "m.dlc", x, dynamic_shapes={"x": {0: Dim("B", max=64)}})
    assert m.signature.startswith("Net(x: f32[B, 16]) -> {y: f32[B, 4], both: (")
    assert m.sizes["B"][1:] == (64, 1)
    for rows in (8, 3, 64):
        x = torch.randn(rows, 16)
        want, have = model(x), m(x.numpy())
        near(have["y"], want["y"].detach())
        near(have["both"][0], want["both"][0].detach())
        assert isinstance(have["both"], tuple) and isinstance(have["both"][1], list)
    with pytest.raises(ValueError, match="B = 65 is not allowed"):
        m(np.ones((65, 16), F32))
    with pytest.raises(ValueError, match="axis 1 of 'x' has size 15"):
        m(np.ones((3, 15), F32))
    with pytest.raises(TypeError, match="f32 of 2 axes, not f64"):
        m(np.ones((3, 16)))
    with pytest.raises(TypeError, match="missing x"):
        m()
    with pytest.raises(TypeError, match="'z' is none"):
        m(x.numpy(), z=x.numpy())


def test_keywords_and_constants(tmp_path: Path) -> None:
    x, scale = torch.randn(8, 16), torch.tensor(2.0)
    m = saved(net(), tmp_path / "m.dlc", x, kwargs={"scale": scale, "twice": True})
    have, want = m(x.numpy(), scale=2.0, twice=True), net()(x, scale, twice=True)
    near(have["both"][1][0], want["both"][1][0].detach())
    with pytest.raises(ValueError, match="argument 'twice' is False, and the program was saved for True"):
        m(x.numpy(), scale=2.0, twice=False)


def test_the_same_kind_of_array_comes_out(tmp_path: Path) -> None:
    m = saved(lambda x: x.double() * 2, tmp_path / "m.dlc", torch.ones(3, 4, dtype=torch.float16))
    assert m(np.ones((3, 4), np.float16)).dtype == np.float64
    assert isinstance(m(torch.ones(3, 4, dtype=torch.float16)), Tensor)
    assert np.array_equal(m(np.ones((4, 3), np.float16).T), np.full((3, 4), 2.0))  # other strides
    assert np.array_equal(m(np.ones((3, 8), np.float16)[:, ::-2]), np.full((3, 4), 2.0))
    half = saved(lambda x: x + x, tmp_path / "b.dlc", torch.ones(5, dtype=torch.bfloat16))
    assert half(np.full(5, 0x3F80, np.uint16)).tolist() == [0x4000] * 5
    assert torch.equal(half(torch.ones(5, dtype=torch.bfloat16)), torch.full((5,), 2.0, dtype=torch.bfloat16))


def test_dlpack(tmp_path: Path) -> None:
    m = saved(lambda x: x * 2, tmp_path / "m.dlc", torch.ones(3))

    class Other:
        """An array of another library."""

        def __init__(self, array: Any) -> None:
            self.array = np.from_dlpack(array)

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

        def __array_namespace__(self) -> Any:
            return Namespace

    class Namespace:
        from_dlpack = Other

    made = m(Other(np.ones(3, F32)))
    assert isinstance(made, Other) and made.array.tolist() == [2, 2, 2]


def test_complex_numbers_and_layouts(tmp_path: Path) -> None:
    model = nn.Conv2d(3, 8, 3).eval().to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 9, 9).to(memory_format=torch.channels_last)
    near(saved(model, tmp_path / "m.dlc", x)(x.numpy()), model(x).detach())
    assert model.weight.is_contiguous(memory_format=torch.channels_last)
    weight = torch.randn(4, dtype=torch.complex64)
    z = torch.randn(4, dtype=torch.complex64)
    near(saved(lambda x: x * weight, tmp_path / "c.dlc", z)(z.numpy()), z * weight)
    one = torch.tensor(2 + 3j)
    near(saved(lambda x: x * one, tmp_path / "o.dlc", z)(z.numpy()), z * one)


def test_equal_results(tmp_path: Path) -> None:
    """torch.export takes them for two values, and dlc finds that they are one."""
    m = saved(lambda x: (x.exp(), (x * 1).exp()), tmp_path / "m.dlc", torch.ones(3))
    one, other = m(np.ones(3, F32))
    one[:] = 7
    near(other, torch.ones(3).exp())


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("scale", torch.full((3,), 2.0))

    def forward(self, x: Tensor) -> Tensor:
        self.total += x
        return self.total * self.scale


def test_state(tmp_path: Path) -> None:
    model, x = Counter(), np.ones(3, F32)
    m = saved(model, tmp_path / "m.dlc", torch.ones(3))
    assert model.total.tolist() == [0, 0, 0]
    first, state = m(x)
    again, _ = m(x)
    second, state = m(x, state=state)
    assert (first.tolist(), again.tolist(), second.tolist()) == ([2] * 3, [2] * 3, [4] * 3)
    assert state["total"].tolist() == [2] * 3
    assert m.state()["total"].tolist() == [0] * 3
    assert "state: {total: f32[3]}" in m.signature


def test_arguments_that_are_written(tmp_path: Path) -> None:
    def store(cache: Tensor, at: Tensor, x: Tensor) -> Tensor:
        cache.index_copy_(0, at, x)
        return cache.sum(0)

    cache, at, x = torch.zeros(4, 2), torch.tensor([1]), torch.ones(1, 2)
    m = saved(store, tmp_path / "m.dlc", cache, at, x)
    total, written = m(np.zeros((4, 2), F32), np.array([2]), np.ones((1, 2), F32))
    assert total.tolist() == [1, 1]
    assert written["cache"].tolist() == [[0, 0], [0, 0], [1, 1], [0, 0]]


def test_sizes_are_named_as_the_user_does(tmp_path: Path) -> None:
    """Also where the user's lines, which are in the program's text, have such names."""

    def mean(x: Tensor) -> Tensor:
        B, T = x.shape
        return (x / T).sum() / B

    dims = {0: Dim("B"), 1: Dim("T")}
    m = saved(mean, tmp_path / "m.dlc", torch.ones(4, 8), dynamic_shapes=(dims,))
    assert set(m.sizes) == {"B", "T"}
    near(m(np.full((5, 3), 2, F32)), 2)


def test_tied_weights_are_one_array(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    model[1].weight = model[0].weight
    m = saved(model, tmp_path / "m.dlc", torch.ones(2, 8))
    assert len(m.weights) == 1
    near(m(np.ones((2, 8), F32)), model(torch.ones(2, 8)).detach())


def test_a_transpose_of_a_weight_is_another_array(tmp_path: Path) -> None:
    """It has the weight's address, and its sizes."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.arange(9.0).reshape(3, 3))
            self.turned = self.weight.detach().t()

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight - x @ self.turned

    x = torch.ones(2, 3)
    m = saved(Both(), tmp_path / "m.dlc", x)
    near(m(x.numpy()), Both()(x).detach())


def test_results_that_are_the_models_own_may_be_written_to(tmp_path: Path) -> None:
    """Neither the weights nor what is prepared of them changes."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: Tensor) -> Any:
            before = self.total.clone()
            self.total += x
            return self.weight * 2, self.weight[1:], before

    m = saved(Own(), tmp_path / "m.dlc", torch.ones(3))
    for x in (np.ones(3, F32), torch.ones(3)):
        for _ in range(2):
            results, _ = m(x)
            assert [r.tolist() for r in results] == [[2] * 3, [1] * 2, [0] * 3]
            assert all(type(r) is type(x) for r in results)
            for r in results:
                if isinstance(r, Tensor) or r.flags.writeable:
                    r[:] = 7
    with pytest.raises(TypeError, match="no array 'total'"):
        m(x, state={})


def test_a_model_as_c(tmp_path: Path) -> None:
    """Small weights are part of the program, large ones a file; the command says which array each is."""
    from tests.export.compilers import STRICT, build, passes

    path = tmp_path / "m.dlc"
    m = saved(net(), path, torch.ones(8, 16), dynamic_shapes={"x": {0: Dim("B")}})
    m.export_c(tmp_path / "a", sizes={"B": 5})
    status, out, error = command("export", path, tmp_path / "b", "--threads", 4, "--unprepared")
    assert (status, error) == (0, "")
    assert all(f"{param} is the weight {name!r} of" in out for param, name in m.parameters().items())
    assert len(m.parameters()) == 4
    status, out, error = command("export", path, tmp_path / "b", "--threads", 4)
    assert (status, error) == (0, "") and out.count(" is the weight ") == 4
    assert any(f" is the weight '{name}.panels' of" in out for name in m.parameters().values())
    for folder in ("a", "b"):
        assert "the bits are the same" in passes(build(tmp_path / folder, *STRICT))
    (tmp_path / "p.dlc").write_text(m.text)
    assert command("export", tmp_path / "p.dlc", tmp_path / "c", "--threads", 4)[0] == 0
    assert "m_bind" not in (tmp_path / "b/m.h").read_text()
    assert " weight " not in (tmp_path / "c/m.h").read_text()  # those of a program of text are arguments
    large = nn.Linear(300, 100).eval()
    m = saved(large, tmp_path / "large.dlc", torch.ones(2, 300))
    m.export_c(tmp_path / "f")
    assert "the bits are the same" in passes(build(tmp_path / "f", *STRICT))
    prepared = Tensors(tmp_path / "f/m.safetensors", lambda metadata: None).entries
    assert set(prepared) == {"weight.panels", "bias"}
    folder = tmp_path / "e"
    m.export_c(folder, prepare=False)
    assert set(Tensors(folder / "m.safetensors", lambda metadata: None).entries) == {"weight", "bias"}
    for file in (folder / "m.safetensors", tmp_path / "large.dlc"):  # its own weights are those, too
        program = [str(build(folder, *STRICT)), str(file)]
        done = subprocess.run(program, capture_output=True, text=True)
        assert done.returncode == 0 and "the bits are the same" in done.stdout, done.stdout
    status, out, error = command("export", path, tmp_path / "d", "--name", "2")
    assert status == 2 and "cannot begin the names" in error and not (tmp_path / "d").exists()
    path.write_bytes(path.read_bytes()[:-1])
    assert command("export", path, tmp_path / "d")[0] == 3


def test_weights_of_a_file_of_their_own(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    model, x = net(), torch.randn(2, 16)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    dlc.save(model, tmp_path / "m.dlc", (x,), weights=False)
    assert (tmp_path / "m.dlc").stat().st_size < 20_000
    m = dlc.load(tmp_path / "m.dlc", weights=tmp_path / "model.safetensors", tier="tcc")
    near(m(x.numpy())["y"], model(x)["y"].detach())
    with pytest.raises(FileError, match=r"weights='model\.safetensors'"):
        dlc.load(tmp_path / "m.dlc")
    m.save(tmp_path / "all.dlc")
    near(dlc.load(tmp_path / "all.dlc", tier="tcc")(x.numpy())["y"], model(x)["y"].detach())
    other = {name: t.double() for name, t in model.state_dict().items()}
    save_file(other, tmp_path / "other.safetensors")
    with pytest.raises(FileError, match="is of F64, and the program wants f32"):
        dlc.load(tmp_path / "m.dlc", weights=tmp_path / "other.safetensors")
    other = {name: torch.cat([t, t]) for name, t in model.state_dict().items()}
    save_file(other, tmp_path / "other.safetensors")
    with pytest.raises(FileError, match="not of the dtype, the sizes"):
        dlc.load(tmp_path / "m.dlc", weights=tmp_path / "other.safetensors")


def test_what_dlc_makes(tmp_path: Path) -> None:
    @dlc.jit
    def swish(x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)

    x = torch.randn(5)
    near(saved(swish, tmp_path / "j.dlc", x)(x.numpy()), swish(x))
    product = dlc.kernel("C[m,n] = sum[k] A[m,k] * B[k,n]")
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    m = saved(product, tmp_path / "k.dlc", a, b)
    near(m(a.numpy(), b.numpy()), a @ b)
    near(m(b.numpy().T.copy(), a.numpy().T.copy()), b.T @ a.T)
    double = dlc.ir.parse(
        "dlc 1 graph\nfn double[N](x: f32[N]) -> (f32[N]) {\n  let y: f32[N] = add x, x\n  ret y\n}\n"
    )
    dlc.save(double, tmp_path / "i.dlc")
    assert dlc.load(tmp_path / "i.dlc")(np.ones(2, F32)).tolist() == [2, 2]


def test_a_function_of_arrays(tmp_path: Path) -> None:
    @dlc.jit
    def normal(x: np.ndarray, weight: np.ndarray) -> Any:
        y = x @ weight
        y = (y - y.mean(axis=1, keepdims=True)) / np.sqrt(y.var(axis=1, keepdims=True) + 1e-5)
        return {"y": y / (1 + np.exp(-y)), "most": y.max()}

    random = np.random.default_rng(0)
    x, weight = random.standard_normal((5, 4)), random.standard_normal((4, 3))
    shapes = ({0: Dim("B")}, None)
    dlc.save(normal, tmp_path / "m.dlc", (x, weight), dynamic_shapes=shapes)
    m = dlc.load(tmp_path / "m.dlc", tier="tcc")
    x = random.standard_normal((7, 4))
    have, want = m(x, weight), normal.__wrapped__(x, weight)
    np.testing.assert_allclose(have["y"], want["y"], 1e-12)
    np.testing.assert_allclose(have["most"], want["most"], 1e-12)


def test_what_cannot_leave_is_said_at_once(tmp_path: Path) -> None:
    def function(x: Tensor) -> Any:
        values = torch.linalg.eigvals(x)
        factor = torch.linalg.ldl_factor(x)[0]
        return values, factor

    with pytest.raises(FileError) as caught:
        dlc.save(function, tmp_path / "m.dlc", (torch.eye(3),))
    said = str(caught.value)
    assert "eig" in said and "ldl_factor" in said
    assert said.count("test_save.py:") >= 2
    assert not list(tmp_path.iterdir())


def test_objects_have_no_form(tmp_path: Path) -> None:
    class Thing:
        pass

    with pytest.raises((FileError, ValueError), match=r"Thing|unsupported"):
        dlc.save(lambda x, thing: x, tmp_path / "m.dlc", (torch.ones(2), Thing()))
    with pytest.raises(TypeError, match="args is a tuple"):
        dlc.save(lambda x: x, tmp_path / "m.dlc", torch.ones(2))
    with pytest.raises(TypeError, match="not a int"):
        dlc.save(3, tmp_path / "m.dlc", (torch.ones(2),))


SAVE = """
import torch, dlc, sys
from tests.files.test_save import net
dlc.save(net(), sys.argv[1], (torch.ones(8, 16),), dynamic_shapes={"x": {0: torch.export.Dim("B")}})
"""


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        environment = os.environ | {"PYTHONHASHSEED": "1" if name == "a" else "2", "PYTHONPATH": str(ROOT)}
        subprocess.run(
            [sys.executable, "-c", SAVE, str(tmp_path / name)], check=True, env=environment, cwd=ROOT
        )
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_saving_what_was_loaded_gives_the_same_bytes(tmp_path: Path) -> None:
    m = saved(net(), tmp_path / "m.dlc", torch.ones(8, 16))
    m.save(tmp_path / "n.dlc")
    assert (tmp_path / "m.dlc").read_bytes() == (tmp_path / "n.dlc").read_bytes()


FULL = """
import resource, signal, sys, torch, dlc
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # as a disk that is full
try:
    dlc.save(torch.nn.Linear(400, 400), sys.argv[1], (torch.ones(2, 400),))
except OSError as error:
    print("OSError")
"""


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    saved(net(), tmp_path / "m.dlc", torch.ones(8, 16))
    before = (tmp_path / "m.dlc").read_bytes()
    found = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "m.dlc")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "DLC_CACHE": "0"},
    )
    assert "OSError" in found.stdout, found.stderr
    assert (tmp_path / "m.dlc").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m.dlc"]


def test_an_interrupt_leaves_the_old_file(tmp_path: Path) -> None:
    from dlc.files.tensors import write

    path = tmp_path / "m.dlc"
    path.write_bytes(b"old")
    arrays = {f"a{k}": ("U8", np.zeros(1 << 20, np.uint8)) for k in range(40)}

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for step in range(12):
            signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.003 * step)
            try:
                write(path, arrays, lambda entries: {})
            except KeyboardInterrupt:
                interrupted += 1
                assert path.read_bytes()[:3] in (b"old",) or path.stat().st_size > 40 << 20
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert [found.name for found in tmp_path.iterdir()] == ["m.dlc"]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted


def test_permissions_and_links(tmp_path: Path) -> None:
    (tmp_path / "real.dlc").write_bytes(b"")
    (tmp_path / "real.dlc").chmod(0o640)
    (tmp_path / "m.dlc").symlink_to("real.dlc")
    saved(net(), tmp_path / "m.dlc", torch.ones(8, 16))
    assert (tmp_path / "m.dlc").is_symlink()
    assert (tmp_path / "real.dlc").stat().st_mode & 0o777 == 0o640


def test_bytes(tmp_path: Path) -> None:
    m = saved(lambda x: (x.exp().sum(-1, keepdim=True) + x).tanh(), tmp_path / "m.dlc", torch.ones(4, 8),
              dynamic_shapes=({0: Dim("B"), 1: Dim("N")},))  # fmt: skip
    assert m.bytes(B=100, N=200) >= 4 * 100 * 200
    assert m.bytes(B=200, N=200) > m.bytes(B=100, N=200)
    with pytest.raises(TypeError, match=r"B=\.\., N=\.\."):
        m.bytes(B=100)
    with pytest.raises(ValueError, match="N = 9223372036854775808 is not allowed"):
        m.bytes(B=100, N=2**63)


def test_without_torch(tmp_path: Path) -> None:
    model = net()
    dlc.save(model, tmp_path / "m.dlc", (torch.ones(8, 16),))
    code = """
import dlc, numpy as np
m = dlc.load(sys.argv[1])
print(m(np.ones((8, 16), np.float32))["y"][0].tolist())
assert not any(name.startswith("torch") and module for name, module in sys.modules.items())
"""
    found = json.loads(apart.run(code, str(tmp_path / "m.dlc")))
    near(found, model(torch.ones(8, 16))["y"][0].detach())


def test_threads_without_torch(tmp_path: Path) -> None:
    """Threads of dlc's own give the bits of one, under several callers and after a fork too."""
    dlc.save(lambda x: torch.softmax(x.sin() * 3, -1).cumsum(0), tmp_path / "m.dlc", (torch.ones(300, 700),))
    code = """
import hashlib, os, dlc, numpy as np
from concurrent.futures import ThreadPoolExecutor
m = dlc.load(sys.argv[1], tier="tcc")
x = np.random.default_rng(0).standard_normal((300, 700)).astype(np.float32)
def run(_):
    return hashlib.sha256(m(x).tobytes()).hexdigest()
found = {run(0)}
with ThreadPoolExecutor(4) as pool:
    found |= set(pool.map(run, range(40)))
child = os.fork()
if child == 0:
    os._exit(0 if run(0) in found else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
import threading
print(*found, len(os.listdir("/proc/self/task")) > 1)
"""
    one = apart.run(code, str(tmp_path / "m.dlc"), OMP_NUM_THREADS="1").split()
    three = apart.run(code, str(tmp_path / "m.dlc"), OMP_NUM_THREADS="3").split()
    assert len(one) == len(three) == 2
    assert one[0] == three[0]
    assert three[1] == "True"


def command(*args: Any) -> tuple[int, str, str]:
    head = (
        "import sys; sys.modules['torch'] = None; from dlc.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    found = subprocess.run(
        [sys.executable, "-c", head, *map(str, args)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return found.returncode, found.stdout, found.stderr


def test_commands(tmp_path: Path) -> None:
    path = tmp_path / "m.dlc"
    saved(net(), path, torch.ones(8, 16))
    np.save(tmp_path / "x.npy", np.ones((8, 16), F32))
    np.save(tmp_path / "w.npy", np.ones((8, 15), F32))
    status, out, error = command("run", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert (status, error) == (0, "")
    near(np.load(tmp_path / "y.npy"), net()(torch.ones(8, 16))["y"].detach())
    assert "result['y']: float32[8, 4]" in out
    assert command("run", path, "--input", f"x={tmp_path / 'x.npy'}")[1] == out
    status, out, error = command("run", path, "--input", tmp_path / "w.npy")
    assert status == 2 and "has size 15" in error
    status, out, error = command("info", path)
    assert status == 0 and "Net(x: f32[8, 16])" in out and "an example is stored" in out
    status, out, error = command("verify", path)
    assert status == 0 and out.startswith("the same bits")
    path.write_bytes(path.read_bytes()[:-1])
    status, out, error = command("verify", path)
    assert status == 3 and "dlc cannot load" in error and error.count("\n") == 1


def test_verify_says_when_bits_are_others(tmp_path: Path) -> None:
    m = saved(net(), tmp_path / "m.dlc", torch.ones(8, 16))
    m.metadata["dlc.example_sha256"] = "0" * 64
    m.save(tmp_path / "n.dlc")
    status, out, _ = command("verify", tmp_path / "n.dlc")
    assert status == 1 and out.startswith("other bits")
    dlc.save(net(), tmp_path / "o.dlc", (torch.ones(8, 16),), check=False)
    assert command("verify", tmp_path / "o.dlc")[0] == 3


@pytest.mark.parametrize("path", sorted(STORED.glob("*.dlc")), ids=lambda path: path.name)
def test_stored_files_load_for_ever(path: Path) -> None:
    """A file of each format that there has been: none of them is ever written again."""
    m = dlc.load(path, check=True, tier="tcc")
    rows, length = (STORED / f"{path.stem}.npz"), 5
    given = np.load(rows)
    result, state = m(given["x"], state={"seen": given["seen"]})
    near(result["y"], given["y"])
    assert state["seen"].tolist() == [1 + n for n in given["seen"].tolist()]
    assert m.sizes == {"B": (2, None, 1)} and m.bytes(B=length) > 0
    assert m.verify()[1] is not None


def test_weights_that_are_prepared_are_in_memory_once(tmp_path: Path) -> None:
    """Pages of the file are the system's again when the panels of a weight are made."""
    layers = [nn.Linear(1024, 1024, bias=False) for _ in range(10)]
    dlc.save(nn.Sequential(*layers).eval(), tmp_path / "m.dlc", (torch.ones(2, 1024),))
    found = in_process("benchmarks.loading", str(tmp_path / "m.dlc"), DLC_CACHE_DIR=str(tmp_path))
    assert found["weights"] == 10 * 4 * 1024 * 1024
    assert found["besides"] < 30e6, found
