"""Workers, and what becomes of their jobs."""

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.ops.check import Way

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 180.0  # seconds for one sample
CRASHES = 5  # of one job; then its other samples are given up
# MiB of a worker, at which another takes its place: what Dynamo made of sizes that are names stays with any
# backend, 200 KB a graph, and slows Python's collections down.
ROOM = 1200


@dataclass
class Outcome:
    """What one entry did. A failure is [sample, reason, reason for aot_eager or None]."""

    name: str
    way: Way
    samples: int = 0
    graphs: int = 0
    eager: int = 0  # of the graphs, those that dlc could not take
    failures: list[list[Any]] = field(default_factory=list)

    @property
    def own(self) -> list[list[Any]]:
        """The failures that aot_eager does not have."""
        return [f for f in self.failures if f[2] is None]

    def line(self) -> str:
        return json.dumps(asdict(self))


def resident(process: int) -> float:
    """MiB that a process has in memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Worker:
    """A child process that is started when it is needed, again after each crash."""

    def __init__(self, log: Path | None = None) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self.log = log

    def start(self) -> subprocess.Popen[bytes]:
        if self.child is None or self.child.poll() is not None:
            with open(self.log or os.devnull, "ab") as log:
                self.child = subprocess.Popen(
                    [sys.executable, "-m", "tests.ops.worker"],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    # A kernel that the cache has would not be compiled by both tiers.
                    env=os.environ | {"OMP_NUM_THREADS": "1", "DLC_CACHE": "0"},
                )
        return self.child

    def stop(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.communicate()
            self.child = None

    def attempt(self, job: dict[str, Any]) -> tuple[list[Any] | None, int | None, str]:
        """(what was done, None, "") or (None, the last sample begun or None, how the child ended)."""
        child, at = self.start(), None
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(json.dumps(job).encode() + b"\n")
            child.stdin.flush()
        except BrokenPipeError:
            self.stop()
            return None, None, "the worker did not start"
        while line := self.read(child):
            message = json.loads(line)
            if "done" in message:
                if resident(child.pid) > ROOM:
                    self.stop()
                return message["done"], None, ""
            at = message["sample"]
        code = child.poll()
        self.stop()
        if at is None and code is not None and code > 0:
            raise RuntimeError(f"the worker raised an exception, see {self.log}")
        return None, at, "no end after minutes" if code is None else f"crash, status {code}"

    @staticmethod
    def read(child: subprocess.Popen[bytes]) -> bytes:
        """A line; nothing when the child has ended or is silent for too long."""
        assert child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            # A line is written at once, so a readable pipe has a whole one.
            if not child.stdout.peek(0) and not selector.select(PATIENCE):  # type: ignore[attr-defined]
                return b""
        line = child.stdout.readline()
        if not line:
            child.wait()
        return line

    def run(self, job: dict[str, Any]) -> Outcome:
        """The job to its end; a sample that crashes fails, and the others go on without it.

        After a crash each sample runs alone, which says which one it was.
        """
        outcome, skip = Outcome(job["name"], Way(**job["way"])), list[int]()
        while True:
            done, at, end = self.attempt(job | {"skip": skip})
            if done is None and job["together"] > 1:
                job = job | {"together": 1}
                continue
            if done is not None:
                outcome.samples, outcome.graphs, outcome.eager = done[0] + len(skip), done[1], done[2]
                outcome.failures += done[3]
                return outcome
            peer = None
            if at is not None and job["backend"] != "aot_eager":
                others = job | {"backend": "aot_eager", "only": [at]}
                peer = None if self.attempt(others | {"skip": []})[0] is not None else end
            outcome.failures.append([-1 if at is None else at, end, peer])
            skip.append(-1 if at is None else at)
            if at is None or len(skip) >= CRASHES:
                outcome.samples = len(skip)
                return outcome


class Pool:
    """Workers that share a list of jobs."""

    def __init__(self, workers: int, log: Path | None = None) -> None:
        self.free: SimpleQueue[Worker] = SimpleQueue()
        self.all = [Worker(log) for _ in range(workers)]
        for worker in self.all:
            self.free.put(worker)
        self.threads = ThreadPoolExecutor(workers)

    def one(self, job: dict[str, Any]) -> Outcome:
        worker = self.free.get()
        try:
            return worker.run(job)
        finally:
            self.free.put(worker)

    def run(self, jobs: list[dict[str, Any]]) -> Iterator[Outcome]:
        """Outcomes in the order in which they come."""
        for future in as_completed([self.threads.submit(self.one, job) for job in jobs]):
            yield future.result()

    def close(self) -> None:
        self.threads.shutdown(cancel_futures=True)
        for worker in self.all:
            worker.stop()
