"""docs/several_machines.md with two and four processes: DDP, FSDP2 and tensor parallel, by torchrun.

The page compares the gradients of each with those of one process. What is added here: that dlc compiled the
graphs, and refused none.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import PAGES, ROOT, blocks

# The last wait is for gloo: its threads let go of the last sums' tensors after those have been waited for,
# and need the interpreter for it. Where that has ended by then, they end the process with "terminate called
# without an active exception", on a loaded machine and with any backend (pytorch issue 190489).
COUNTED = """
import sys
import time

import dlc

counters = dlc.counters()
assert counters["graphs"] >= 6, counters  # a forward and a backward of each, at least
assert counters["eager_graphs"] == counters["eager_calls"] == 0, counters
# in one write: the processes share a pipe
sys.stdout.write(f"process {rank} of {world} compiled\\n")
time.sleep(1)
"""


@pytest.mark.in_turn(8, "2")
@pytest.mark.in_turn(8)
@pytest.mark.parametrize("processes", [2, 4])
def test_gradients_are_those_of_one_process(processes: int, tmp_path: Path) -> None:
    parts = [block.text for block in blocks(PAGES["several_machines.md"]) if block.title == "train.py"]
    assert len(parts) == 5
    (tmp_path / "train.py").write_text("".join(parts) + COUNTED)
    alone = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "DLC_TIER": "tcc", "DLC_STRICT": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", str(processes), "train.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env=os.environ | alone,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    for rank in range(processes):
        assert f"process {rank} of {processes} compiled" in done.stdout
