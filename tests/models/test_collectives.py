"""Functional collectives are calls in the order of the program: two processes that talk over gloo."""

import socket
import subprocess
import sys

import pytest
import torch.distributed as dist


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="torch has no gloo")
@pytest.mark.in_turn(4)
def test_two_processes() -> None:
    command = [sys.executable, "-m", "tests.models.collectives"]
    port = str(free_port())
    both = [
        subprocess.Popen(
            [*command, str(rank), port], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for rank in range(2)
    ]
    texts = [process.communicate()[0] for process in both]
    for rank, (process, text) in enumerate(zip(both, texts, strict=True)):
        assert process.returncode == 0, text
        assert f"done {rank}" in text
