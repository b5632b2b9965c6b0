"""An interrupt (Ctrl-C) ends the waiting for a C compiler at once, not when the compiler is done."""

from pathlib import Path

import pytest

from tests.fresh import run

SCRIPT = """
    import os, signal, threading, time, torch, dlc

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    waiting = threading.Event()  # not before: what checks guards in torch swallows an interrupt

    def interrupt():
        waiting.wait()
        while not os.path.exists("begun"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    f = torch.compile(lambda x: x.sin() + 1, backend="dlc", options={"tier": TIER, "strict": True})
    try:
        if TIER == "gcc":
            waiting.set()
        f(torch.ones(4))
        waiting.set()
        dlc.wait()
    except KeyboardInterrupt:
        print("interrupted")
    assert not os.path.exists("ended")
    os.environ["DLC_CC"] = "true"
    print(f(torch.zeros(4)).tolist())
"""


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("tier", ["auto", "gcc"])
def test_an_interrupt_ends_the_waiting(tmp_path: Path, tier: str) -> None:
    cc = tmp_path / "cc"
    cc.write_text(f"#!/bin/sh\ncd {tmp_path}\ntouch begun\nsleep 15\ntouch ended\n")
    cc.chmod(0o755)
    script = f"    import os; os.chdir({str(tmp_path)!r}); TIER = {tier!r}\n" + SCRIPT
    done = run(script, DLC_CC=str(cc), DLC_CACHE="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["interrupted", "[1.0, 1.0, 1.0, 1.0]"]
