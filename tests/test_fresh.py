"""A script sees the same whether a new interpreter or a child of the server runs it."""

import subprocess
from pathlib import Path

import pytest

from tests import fresh
from tests.fresh import Where, run, run_file, run_module

SEES = """
import json, os, sys, tempfile, threading
main = sys.modules["__main__"]
print(json.dumps({
    "words": sys.argv, "path": sys.path, "folder": os.getcwd(), "variables": dict(os.environ),
    "name": __name__, "file": globals().get("__file__"), "main": main.__dict__ is globals(),
    "input": sys.stdin.read(), "temporary": tempfile.gettempdir(),
    "threads": threading.active_count(), "descriptors": os.listdir("/proc/self/fd"),
}, sort_keys=True))
"""


def both(way: str, tmp_path: Path, **environment: str) -> list[subprocess.CompletedProcess[str]]:
    script = tmp_path / "script.py"
    script.write_text(SEES)
    found = []
    for bare in (True, False):
        where: Where = {"bare": bare, "folder": tmp_path, "text": "what it reads"}
        if way == "file":
            found.append(run_file(script, "a", "b c", where=where, **environment))
        else:
            found.append(run(SEES, "a", "b c", where=where, **environment))
    return found


@pytest.mark.parametrize("way", ["file", "script"])
def test_it_sees_the_same(way: str, tmp_path: Path) -> None:
    more = {"DLC_LOG": "1", "PYTHONPATH": f"{tmp_path}:/nowhere", "TMPDIR": str(tmp_path)}
    bare, forked = both(way, tmp_path, **more)
    assert (bare.returncode, bare.stderr) == (forked.returncode, forked.stderr) == (0, "")
    assert bare.stdout == forked.stdout


def test_it_has_torch_and_nothing_of_dlc() -> None:
    script = "import sys; print([name in sys.modules for name in ('torch', 'torch._dynamo', 'dlc')])"
    assert run(script).stdout == "[True, True, False]\n"
    assert run(script, where={"bare": True}).stdout == "[False, False, False]\n"


def test_what_is_read_before_it_begins_takes_a_new_interpreter() -> None:
    script = "import sys; print('torch' in sys.modules)"
    assert run(script, OMP_NUM_THREADS="1").stdout == "False\n"
    assert run(script, PYTHONUTF8="1").stdout == "False\n"
    assert run(script, DLC_TIER="tcc").stdout == "True\n"


@pytest.mark.parametrize(
    ("end", "code"),
    [("", 0), ("sys.exit(5)", 5), ("1 / 0", 1), ("os.kill(os.getpid(), 9)", -9), ("os._exit(3)", 3)],
)
def test_its_end(end: str, code: int) -> None:
    """Functions of atexit run, and threads are waited for."""
    done = run(f"""
        import atexit, os, sys, threading, time
        atexit.register(print, "at the end", flush=True)
        threading.Thread(target=lambda: time.sleep(0.2) or print("late", flush=True)).start()
        {end}
    """)
    assert done.returncode == code
    assert done.stdout == ("late\nat the end\n" if code in (0, 1, 5) else "")
    assert ("ZeroDivisionError" in done.stderr) == (end == "1 / 0")


def test_a_module_runs() -> None:
    assert run_module("json.tool", where={"text": "[1]"}).stdout.split() == ["[", "1", "]"]
    assert run_module("nothing.of.this").returncode == 1


def test_who_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh.server()
    monkeypatch.setattr(fresh, "SECONDS", 1)
    with pytest.raises(subprocess.TimeoutExpired):
        run("while True: pass")
    monkeypatch.undo()
    assert run("print(1)").stdout == "1\n"
