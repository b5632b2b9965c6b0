"""A second module of the extension took what the first one knew of torch: a call ended the process."""

import subprocess
import sys

import pytest

SCRIPT = """
import gc, importlib, importlib.util, sys, torch, dlc

def function(x):
    return torch.sin(x) + 1

def compiled():
    torch._dynamo.reset()
    options = {"tier": "TIER", "cache": False, "strict": True}
    return torch.compile(function, backend="dlc", options=options)

def again():
    spec = importlib.util.find_spec("dlc._C")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

x = torch.arange(5.0)
first = compiled()
first(x)
WHAT
gc.collect()
for call in first, compiled():
    torch.testing.assert_close(call(x), function(x))
    if GRADIENTS:
        call(x.clone().requires_grad_()).sum().backward()
print(dlc.counters()["eager_graphs"] + dlc.counters()["eager_calls"])
"""
PURGED = """
for name in [name for name in sys.modules if name.split(".")[0] == "dlc"]:
    del sys.modules[name]
import dlc
"""
OTHER = """
code = f"import sys; sys.path[:] = {sys.path}; import importlib.util\\n"
code += f"spec = importlib.util.spec_from_file_location('dlc._C', {dlc._C.__file__!r})\\n"
code += "try: spec.loader.exec_module(importlib.util.module_from_spec(spec))\\n"
code += "except ImportError as error: assert 'interpreter' in str(error), error\\n"
code += "else: raise AssertionError"
import _testcapi
assert _testcapi.run_in_subinterp(code) == 0
"""
WAYS = {
    "reloaded": "importlib.reload(dlc._C)", "second": "other = again()",
    "second gone": "again()", "purged": PURGED, "another interpreter": OTHER,
}  # fmt: skip


@pytest.mark.in_turn(8, "second gone")
@pytest.mark.parametrize("way", WAYS)
def test_imported_again(way: str) -> None:
    """torch has no gradients after another interpreter was there: its lock is taken for held."""
    other = way == "another interpreter"
    if other:
        pytest.importorskip("_testcapi")
    script = SCRIPT.replace("WHAT", WAYS[way]).replace("GRADIENTS", str(not other))
    script = script.replace("TIER", "gcc" if way == "second gone" else "tcc")
    line = [sys.executable, "-c", script]
    done = subprocess.run(line, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
