"""The process around the compiler: forks, its end, modules that come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fresh import run


def test_a_child_process_goes_on() -> None:
    done = run("""
        import os, signal, torch, dlc
        f = torch.compile(lambda x: torch.softmax(x * 2, -1), backend="dlc")
        x = torch.randn(4000, 1000)         # large enough for several threads
        want = f(x)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            right = f(x)[::500].tolist() == want[::500].tolist()    # torch's own loops would hang
            torch.compile(lambda x: x + 1, backend="dlc")(x[0])
            os._exit(0 if right and dlc.wait() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert torch.equal(f(x), want)
    """)
    assert done.returncode == 0, done.stderr


def test_the_process_may_end_while_compiles_are_under_way() -> None:
    done = run("""
        import torch
        for k in range(4):
            torch.compile(lambda x: torch.softmax(x * k, -1), backend="dlc",
                          options={"cache": False})(torch.randn(4, 4))
    """)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


@pytest.mark.in_turn(3)
def test_the_modules_may_be_imported_again() -> None:
    done = run("""
        import gc, sys, torch, dlc
        f = torch.compile(lambda x: x.sin() + 1, backend="dlc")
        f(torch.ones(4))
        for name in [name for name in sys.modules if name.partition(".")[0] == "dlc"]:
            del sys.modules[name]
        del dlc
        gc.collect()
        import dlc, dlc.backend
        assert f(torch.ones(4)).shape == (4,)
        assert torch.compile(lambda x: x.cos(), backend="dlc")(torch.ones(4)).shape == (4,)
        dlc.wait()
    """)
    assert done.returncode == 0, done.stderr


def test_compile_says_that_torch_init_comes_first() -> None:
    done = run("""
        import torch
        from torch.fx.experimental.proxy_tensor import make_fx
        from dlc import _C
        graph = make_fx(lambda: (torch.ones(3) * 2,), tracing_mode="fake")()
        _C.compile(graph, graph.forward)([])
    """)
    assert done.returncode == 1 and "import dlc.backend" in done.stderr


@pytest.mark.in_turn(3)
def test_another_torch_is_refused() -> None:
    """Its number is all that is another here: nobody knows what else a next one changes."""
    for variable, refused in (("0", True), ("1", False)):
        done = run(f"""
            import os
            import torch
            os.environ["DLC_ANY_TORCH"] = "{variable}"
            torch.__version__ = "2.99.1+cpu"
            import dlc.backend
        """)
        assert (done.returncode == 1) == refused, done.stderr
        assert (
            "is for PyTorch 2.12 to 2.14, and this is PyTorch 2.99.1+cpu: install" in done.stderr
        ) == refused


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("mode", ["torch.inference_mode()", "torch.device('meta')"])
def test_the_first_import_may_be_anywhere(mode: str) -> None:
    done = run(
        f"""
        import torch
        x = torch.ones(3)
        f = torch.compile(lambda x: x + 1, backend="dlc")
        with {mode}:
            assert f(x).tolist() == [2, 2, 2]
        import dlc
        assert dlc.jit(lambda x: x * 2)(x).tolist() == [2, 2, 2]
    """,
        where={"bare": True},
    )
    assert done.returncode == 0, done.stderr


def test_threads_of_torch_are_those_of_every_thread() -> None:
    """torch gives the runtime the number that was set when a thread first works for it: dlc.jit asks."""
    done = run(
        """
        import os
        import threading
        import dlc
        import torch
        torch.set_num_threads(1)
        f = dlc.jit(lambda x: x * 2 + 1)
        x = torch.ones(1 << 22)
        f(x)
        dlc.wait()
        found = []

        def call():
            before = len(os.listdir("/proc/self/task"))
            f(x)
            found.append(len(os.listdir("/proc/self/task")) - before)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert found == [0], found
    """,
        OMP_NUM_THREADS="2",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["torch", "numpy"])
def test_import_is_cheap(module: str) -> None:
    done = run(f"import sys, dlc; assert {module!r} not in sys.modules", where={"bare": True})
    assert done.returncode == 0, done.stderr


def is_running(pid: int) -> bool:
    """Is it more than an entry in the table that nobody has read yet?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("tier", ["auto", "gcc"])
def test_the_end_of_the_process_ends_its_compilers(tmp_path: Path, tier: str) -> None:
    """The compiler here would never end: in the background, or waited for by a thread."""
    cc, pids = tmp_path / "cc", tmp_path / "pids"
    cc.write_text(f"#!/bin/sh\nsleep 100000 &\necho $$ $! >{pids}.new\nmv {pids}.new {pids}\nwait\n")
    cc.chmod(0o700)
    done = run(
        f"""
        import pathlib, threading, time, torch, dlc
        def work():
            torch.compile(lambda x: x.sin() + 1, backend="dlc", options={{"tier": "{tier}"}})(torch.ones(4))
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        while not pathlib.Path("{pids}").exists():
            time.sleep(0.01)
        if "{tier}" == "auto":
            thread.join()
        """,
        DLC_CC=str(cc),
        DLC_CC_TIMEOUT="100000",
        DLC_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    for pid in pids.read_text().split():
        assert not is_running(int(pid))
