"""A loop without results wrote the address of a bool behind the slots of its body, whose memory ends there.
A long loop of short loops kept the interpreter's lock: each short one counted its own work from 0 on."""

import threading
import time
from typing import Any

import torch

import dlc.backend  # noqa: F401  (the compiler wants to know of torch)
from dlc import ir
from dlc.compiler import compile_with
from dlc.options import parse
from dlc.repro import Repro
from dlc.run import _outputs


def compiled(text: str, calls: list[Any]) -> Any:
    def refused(*args: Any) -> Any:
        raise AssertionError("the plan does not take these arguments")

    parts = {
        "text": text,
        "inputs": [("tensor", k) for k in range(len(ir.parse(text).params))],
        "outputs": _outputs(Repro(text))[0],
        "calls": calls,
    }
    return compile_with(parse({"tier": "tcc", "verify": True}), parts, refused)


def test_a_loop_without_results_writes_no_bool_behind_its_parameters() -> None:
    names = [f"p{k}" for k in range(100)]
    typed = ", ".join(f"{name}: f32" for name in names)
    text = f"""dlc 1 graph

fn f({typed}) -> (f32) {{
  loop {", ".join(names)} carries=0 steps=[5] (i: i64, {typed}) {{
    call target="tick" effect=1
  }}
  let r: f32 = exp p0
  ret r
}}
"""
    ticks: list[int] = []
    run = compiled(text, [("tick", lambda: ticks.append(1), (), None, "tick", None, [])])
    with torch.no_grad():
        for _ in range(20):
            run(*(torch.tensor(float(k)) for k in range(100)))
    assert len(ticks) == 100


def test_short_loops_in_a_long_one_release_the_lock() -> None:
    """The body of the long loop computes nothing itself, and a short one too little in one go."""
    text = """dlc 1 graph

fn f(x: f32[64]) -> (f32[64]) {
  let y: f32[64] = loop x carries=1 steps=[300000] (i: i64, a: f32[64]) {
    let b: f32[64] = loop a carries=1 steps=[20] (j: i64, a: f32[64]) {
      let c: f32[64] = mul a, 0.5
      let d: f32[64] = add c, 1.0
      ret d
    }
    ret b
  }
  ret y
}
"""
    run = compiled(text, [])
    ran: list[int] = []
    ended = threading.Event()

    def other() -> None:
        while not ended.is_set():
            ran.append(1)
            time.sleep(0.001)

    thread = threading.Thread(target=other)
    with torch.no_grad():
        x = torch.ones(64)
        run(x)
        thread.start()
        before = len(ran)
        run(x)
        during = len(ran) - before
    ended.set()
    thread.join()
    assert during > 10
