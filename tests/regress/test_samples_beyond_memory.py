"""Elements 2^63 - 1 apart: the bytes of a sample wrapped round, and it was written outside of them."""

import subprocess

from tests.dlc_opt import PROGRAM

TEXT = """dlc 1 graph

fn f(x: i8[3, 3] strides=[1, 9223372036854775807]) -> (i8[3, 3]) {
  ret x
}
"""


def test_samples_beyond_memory() -> None:
    command = [str(PROGRAM), "--eval", "1", "-"]
    done = subprocess.run(command, input=TEXT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "does not fit in 64 bits" in done.stderr, done
