"""verify="run": the first run of each kernel is compared with the interpreter.

Bugs on purpose (broken.c) are reported, in a process whose dlc has them; sound kernels are not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import dlc
from tests.fresh import run_file, run_module

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("DLC_BIN", ROOT / "build")) / "broken" / "site"

#: One process for all bugs: the environment is asked again in each compile and each call.
SCRIPT = """
import os, sys, torch, dlc

def norm(x):
    centred = x - x.mean(-1, keepdim=True)
    return torch.tanh(centred).exp() / x.abs().sum(-1, keepdim=True)

def attention(x):
    return torch.nn.functional.scaled_dot_product_attention(x, x, x)

def caught(bug, f, x):
    os.environ["BROKEN"] = bug
    options = {"strict": True, "verify": "run", "tier": "tcc", "cache": False, "products": "own"}
    try:
        torch.compile(f, backend="dlc", options=options, dynamic=False)(x)
        print("==", bug, "nothing")
    except dlc.InternalError as error:
        print("==", bug, error)
    torch.compiler.reset()

torch.manual_seed(0)
with torch.no_grad():
    caught("", norm, torch.randn(10, 50))
    caught("load", norm, torch.randn(11, 50))
    caught("strip", norm, torch.randn(12, 50))
    caught("range", norm, torch.randn(3000, 501))  # too large to be compared whole
    caught("blocks", attention, torch.randn(2, 2, 70, 16))
"""


@pytest.mark.in_turn(3)
def test_bugs_are_reported(tmp_path: Path) -> None:
    """With the kernel, the user's operators and lines, the element, both values, and a file."""
    assert SITE.exists(), "make -f csrc/build.mk broken builds it"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = run_file(script, PYTHONPATH=str(SITE), DLC_DUMP_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    said = dict(re.findall(r"^== (\S*) ((?:.|\n)*?)(?=^== |\Z)", done.stdout, re.M))
    assert said.pop("").startswith("nothing"), done.stdout
    assert len(said) == 4
    for bug, text in said.items():
        assert text.startswith("libtcc's code of a kernel stored another value"), (bug, text)
        found = re.search(r"python -m dlc run (\S+)$", text.strip())
        assert found is not None and Path(found[1]).read_text().startswith("dlc 1 graph"), text
    assert re.search(r"result 0, f32\[11, 50\], of dlc::\S+ .*at \[0, 0\] it is \S+ where", said["load"])
    assert re.search(r"at \[2999, 0\]", said["range"])
    assert "mean, script.py:5: centred = x - x.mean(-1, keepdim=True)" in said["load"]


HALVES = """
import os
os.environ["BROKEN"] = "load"
import torch
import dlc

options = {"strict": True, "verify": "run", "tier": "tcc", "cache": False}
for dtype in (torch.bfloat16, torch.float16):
    compiled = torch.compile(lambda x: x.sum(-1), backend="dlc", options=options, dynamic=False)
    x = (torch.rand(40, 300) / 4 + 0.5).to(dtype)
    for _ in range(3):
        try:
            compiled(x)
            print("nothing")
        except dlc.InternalError:
            print("reported")
"""


@pytest.mark.in_turn(3)
def test_a_wrong_sum_of_halves_is_reported_in_each_call(tmp_path: Path) -> None:
    """Half of the terms are not within what the order of a sum may change."""
    script = tmp_path / "script.py"
    script.write_text(HALVES)
    done = run_file(script, PYTHONPATH=str(SITE), DLC_DUMP_DIR=str(tmp_path))
    assert done.stdout.split() == ["reported"] * 6, done.stdout + done.stderr


INDEX = """
import os, sys
import torch
import dlc

options = {"strict": True, "verify": "run", "tier": sys.argv[1], "cache": False}
x, rows = torch.randn(9, 4), torch.tensor([1, 7, 0])
compiled = torch.compile(lambda x, rows: x[rows] * 2, backend="dlc", options=options, dynamic=False)
for part in (x, x[:5], x[:5]):
    try:
        compiled(part, rows)
        print("nothing")
    except (dlc.InternalError, IndexError) as error:
        print(type(error).__name__, error)
"""


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("bug", ["", "index"])
def test_a_missing_check_of_an_index_is_reported(bug: str, tier: str, tmp_path: Path) -> None:
    """What lies behind a tensor was read.  A kernel that raises is right, and due again in the next call."""
    script = tmp_path / "script.py"
    script.write_text(INDEX)
    done = run_file(script, tier, PYTHONPATH=str(SITE), BROKEN=bug, DLC_DUMP_DIR=str(tmp_path))
    first, *others = re.findall(r"^(?:nothing|IndexError|InternalError).*", done.stdout, re.M)
    assert first == "nothing" and len(others) == 2, done.stdout + done.stderr
    if not bug:
        assert all(said.startswith("IndexError index out of range") for said in others)
        return
    code = "libtcc's code" if tier == "tcc" else "the C compiler's code"
    for said in others:
        assert re.match(
            rf"InternalError {code} of a kernel, dlc::.*, raised nothing where .* index 7 .* 5 el", said
        )
    found = re.search(r"python -m dlc run (\S+)$", done.stdout.strip())
    assert found is not None and Path(found[1]).read_text().startswith("dlc 1 graph"), done.stdout


LATE = """
import os
os.environ["BROKEN"] = "late"
import torch
import dlc

options = {"strict": True, "verify": "run", "tier": "auto", "cache": False}
compiled = torch.compile(lambda x: x.exp(), backend="dlc", options=options, dynamic=False)
for _ in range(2):
    try:
        compiled(torch.ones(40, 30))
        print("nothing")
    except dlc.InternalError as error:
        print(error)
print(dlc.counters()["checked"])
"""


@pytest.mark.in_turn(3)
def test_the_code_that_runs_is_what_is_named(tmp_path: Path) -> None:
    """Better code that comes while the interpreter computes is compared in the next call."""
    script = tmp_path / "script.py"
    script.write_text(LATE)
    done = run_file(script, PYTHONPATH=str(SITE), DLC_DUMP_DIR=str(tmp_path))
    said = done.stdout.splitlines()
    assert said[0].startswith("libtcc's code of a kernel stored another value"), done.stdout + done.stderr
    assert said[-2:] == ["nothing", "2"], done.stdout


@pytest.mark.in_turn(3)
def test_a_report_repeats(tmp_path: Path) -> None:
    """Its file, run by the dlc that is wrong, is wrong again."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "options = {'strict': True, 'verify': 'run', 'tier': 'tcc', 'cache': False}\n"
        "torch.compile(lambda x: x.exp(), backend='dlc', options=options)(torch.ones(9, 64)[:, ::2])\n"
    )
    env = {"PYTHONPATH": str(SITE), "BROKEN": "strip", "DLC_DUMP_DIR": str(tmp_path)}
    done = run_file(script, where={"folder": tmp_path}, **env)
    found = re.search(r"python -m dlc run (\S+)", done.stderr)
    assert done.returncode == 1 and found is not None, done.stderr
    assert "strides=[64, 2]" in Path(found[1]).read_text()
    env |= {"PATH": "", "DLC_CC": ""}  # a C compiler is another way, which takes long
    again = run_module("dlc", "run", found[1], where={"folder": tmp_path}, **env)
    assert again.returncode == 1 and re.search(r"^  tcc .*WRONG", again.stdout, re.M), again.stdout


def index_rows(x: Tensor) -> Tensor:
    rows = torch.arange(x.shape[0]).flip(0) // 2
    return x[rows] * rows[:, None] + x.new_zeros(x.shape).index_add(0, rows, x)


def write(x: Tensor) -> Tensor:
    x.mul_(2).add_(x.flip(0))
    return x.sum(1)


#: What each op of the language does to a box of its result: too large to be compared whole.
LARGE: dict[str, Callable[[Tensor], object]] = {
    "rows": lambda x: (x * 2).softmax(-1),
    "columns": lambda x: (x - x.mean(0)).exp(),
    "turned": lambda x: (x.t() * 3).contiguous(),
    "split": lambda x: x.reshape(-1, 10, x.shape[1] // 5).sin() + 1,
    "joined": lambda x: (x.view(x.shape[0] // 4, 4, -1).transpose(1, 2).reshape(x.shape[0], -1) + 1).cos(),
    "parts": lambda x: torch.cat([x[:, 7:], x.flip(1), x[:, ::3]], 1) + 1,
    "padded": lambda x: nn.functional.pad(x.abs(), (3, 5, 2, 0), value=7.0) - 1,
    "gathered": index_rows,
    "running": lambda x: (x.cumsum(1) + x.cumsum(0), x.logcumsumexp(0)),
    "largest": lambda x: (x.argmax(1), x.argmin(0), x.amax(0) > 3),
    "product": lambda x: (x @ x.t()).relu(),
    "picture": lambda x: nn.functional.conv1d(x[None, :8], torch.ones(8, 8, 5), padding=2, dilation=2),
    "pooled": lambda x: nn.functional.max_pool2d(x[None, None], 3, 2, 1),
    "window": lambda x: x.as_strided((x.shape[0] - 2, 3, x.shape[1]), (x.shape[1], x.shape[1], 1)).sum(1),
    "written": write,
    "whole": lambda x: (x.double().sum(), x.prod(), (x > 0).any()),
}


def checked(f: Callable[..., object], *args: Tensor, **options: object) -> tuple[int, int]:
    """How many kernels were compared, and how many were not."""
    before = dlc.counters()
    settled = {"strict": True, "verify": "run", "cache": False} | options
    compiled = torch.compile(f, backend="dlc", options=settled, dynamic=False)
    for _ in range(2):
        compiled(*args)
        dlc.wait()
    after = dlc.counters()
    return tuple(after[name] - before[name] for name in ("checked", "unchecked"))  # type: ignore[return-value]


@pytest.mark.in_turn(4, "parts", "split")
@pytest.mark.parametrize("name", LARGE)
def test_sound_kernels_are_not_reported(name: str) -> None:
    x = torch.randn(1200, 1500)
    there, left_out = checked(LARGE[name], x, tier="tcc", products="own")
    assert there > 0 and left_out == 0


def test_a_kernel_whose_results_are_not_all_compared_is_not_counted() -> None:
    """One is a sum of so many terms that the interpreter would take long."""
    x = torch.rand(2200, 2200)
    assert checked(lambda x: (x + 1, x.exp()), x, tier="tcc") == (1, 0)
    there, left_out = checked(lambda x: ((x * 2).amax(1), (x * 2).sum()), x, tier="tcc")
    assert left_out == 1, there


def test_results_without_elements() -> None:
    """Nothing is computed, so that no index is out of range and nothing is left out."""
    x, rows = torch.randn(9, 4), torch.tensor([1, 70])
    assert checked(lambda x, rows: (x[:, :0][rows], x + 1), x, rows, tier="tcc") == (1, 0)


BEYOND: dict[str, Callable[[Tensor], object]] = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1).tanh(),
    "sign": lambda x: x.sum(1) > 0,
    "reciprocal": lambda x: 1 / x.sum(1),
    "columns": lambda x: x.t().sum(0) + 1,
    "product": lambda x: (x.sign() * x.abs().pow(0.6)).pow(x.sign()).prod(1),
    "product is more": lambda x: x.abs().pow(0.6).pow(x.sign()).prod(1) > 0.5,
    "small product": lambda x: (x.abs().pow(-0.6) + 0).pow(x.sign()).prod(1),
}


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sums_of_some_terms_that_overflow(dtype: torch.dtype, tier: str) -> None:
    """Infinite, NaN or a number: the order decides, and the interpreter adds in double."""
    big = torch.finfo(dtype).max * 0.9
    x = torch.tensor([big, big, -big, -big] * 20, dtype=dtype).repeat(3, 1)
    apart = torch.cat([x[:, ::4], x[:, 2::4], x[:, 1::4], x[:, 3::4]], 1)

    def together(x: Tensor) -> list[object]:
        return [f(x) for f in BEYOND.values()]

    for f in [*(BEYOND.values() if tier == "tcc" else []), together]:
        for order in (x, x.flip(1), apart) if f is together else (x,):
            torch._dynamo.reset()
            there, left_out = checked(f, order, tier=tier)
            assert there > 0 and left_out == 0


def test_sums_at_the_end_of_the_numbers() -> None:
    """Rounding decides whether they are infinite; those of one sign beyond it are, in any order."""
    for dtype, few in (torch.float32, 2.0**-25), (torch.float64, 2.0**-54), (torch.float16, 2.0**-12):
        most = torch.finfo(dtype).max
        for factor in (few / 2, few, few * 4):
            x = torch.tensor([most] + [most * factor] * 63, dtype=dtype).repeat(3, 1)
            torch._dynamo.reset()
            assert checked(lambda x: (x.sum(1), x.flip(1).sum(1)), x, tier="tcc")[1] == 0


def test_each_tier_is_compared_once() -> None:
    """And operands as they lie."""
    x = torch.randn(40, 64).t()[::2, 3:35]
    assert checked(lambda x: x.exp() + 1, x, tier="tcc") == (1, 0)
    assert checked(lambda x: x.exp() + 2, x, tier="auto") == (2, 0)
    assert checked(lambda x: x.exp() + 3, x, tier="gcc") == (1, 0)


def test_a_step_of_training() -> None:
    """Of a layer of a transformer, whose gradients are differences of what is nearly equal."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 2, 48, batch_first=True)
    there, left_out = checked(lambda x: layer(x).square().sum().backward(), torch.randn(3, 7, 32), tier="tcc")
    assert there > 5 and left_out == 0


def test_the_environment_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_VERIFY", "run")
    before = dlc.counters()["checked"]
    dlc.jit(lambda x: x * 3 + 1)(torch.ones(5))
    assert dlc.counters()["checked"] == before + 1
    monkeypatch.setenv("DLC_VERIFY", "often")
    with pytest.raises(ValueError, match=r"'verify' is True, False or .run., not 'often'"):
        dlc.jit(lambda x: x * 3 + 1)(torch.ones(5))
