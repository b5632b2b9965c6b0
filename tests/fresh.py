"""Scripts in processes of their own that need not import torch again, which takes five seconds.

A server has imported torch and Dynamo, and nothing of dlc. For each script it forks, and the child goes on as
a new interpreter would: with the script as its main module, its own standard streams, environment and folder,
and the end of every process. Where torch or Python would read the environment before the script does, and
where the import itself is what is tested (`bare`), a new interpreter is started.
"""

import array
import contextlib
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import types
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, TypedDict

ROOT = Path(__file__).resolve().parents[1]
MOST = 1 << 17  # bytes of a message
SECONDS = 300  # that a script may take
#: TorchInductor sets two of them itself when it first compiles.
LATER = {
    *("BROKEN", "PATH", "PYTEST_CURRENT_TEST", "PYTHONPATH", "TMPDIR"),
    *("TORCHINDUCTOR_CACHE_DIR", "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"),
}


def is_read_later(variable: str) -> bool:
    """Is the variable read by the script, or by `begin`, and by nothing that the server has imported?"""
    return variable.startswith("DLC_") or variable in LATER


def read_first(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not is_read_later(name)}


# ---- the tests' side ----


class Server:
    """Started when a test first wants it; it ends with the process that started it."""

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.fresh", str(theirs.fileno())]
        self.process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
        theirs.close()

    def run(self, job: dict[str, Any], streams: list[IO[str]]) -> int:
        """The return code, as subprocess has it."""
        files = array.array("i", [stream.fileno() for stream in streams])
        self.channel.sendmsg([json.dumps(job).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        child = self.answer(None)
        try:
            return os.waitstatus_to_exitcode(self.answer(SECONDS))
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            self.answer(None)
            raise subprocess.TimeoutExpired(job["words"], SECONDS) from None
        except BaseException:  # an answer is under way that nobody would read
            self.process.kill()
            raise

    def answer(self, seconds: float | None) -> int:
        self.channel.settimeout(seconds)
        answer = self.channel.recv(MOST)
        assert answer, "the server has ended"
        return int(answer)


Done = subprocess.CompletedProcess[str]

_servers: list[Server] = []


def server() -> Server:
    if not _servers or _servers[0].process.poll() is not None:
        _servers[:] = [Server()]
    return _servers[0]


class Where(TypedDict, total=False):
    """text: what it reads from its standard input. folder: its current one. bare: in a new interpreter."""

    text: str
    folder: Path
    bare: bool


def run(script: str, *words: str, where: Where | None = None, **environment: str) -> Done:
    """What `python -c script words` does, with more variables in its environment."""
    script = textwrap.dedent(script)
    return start(["-c", script, *words], {"script": script, "words": ["-c", *words]}, where, environment)


def run_file(file: Path, *words: str, where: Where | None = None, **environment: str) -> Done:
    """What `python file words` does."""
    command = [str(file), *words]
    return start(command, {"file": str(file), "words": command}, where, environment)


def run_module(module: str, *words: str, where: Where | None = None, **environment: str) -> Done:
    """What `python -m module words` does."""
    return start(["-m", module, *words], {"module": module, "words": ["-m", *words]}, where, environment)


def start(words: list[str], job: dict[str, Any], where: Where | None, more: dict[str, str]) -> Done:
    """`words`: of the command line that does the same as the job."""
    where, environment = where or {}, os.environ | more
    folder, text, command = where.get("folder", Path.cwd()), where.get("text", ""), [sys.executable, *words]
    if where.get("bare") or read_first(environment) != read_first(server().environment):
        return subprocess.run(
            command, input=text, capture_output=True, text=True, env=environment, cwd=folder, timeout=SECONDS
        )
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3)]
        streams[0].write(text)
        streams[0].seek(0)
        code = server().run(job | {"environment": environment, "folder": str(folder)}, streams)
        for stream in streams[1:]:
            stream.seek(0)
        return subprocess.CompletedProcess(command, code, streams[1].read(), streams[2].read())


# ---- the server's side ----


def serve(channel: socket.socket) -> dict[str, Any] | None:
    """In a child its job; in the server, at the end, None."""
    while True:
        message, files, _, _ = socket.recv_fds(channel, MOST, 3)
        if not message:
            return None
        child = os.fork()
        if child == 0:
            channel.close()
            for stream, file in enumerate(files):
                os.dup2(file, stream)
                os.close(file)
            return dict(json.loads(message))
        for file in files:
            os.close(file)
        channel.send(str(child).encode())
        channel.send(str(os.waitpid(child, 0)[1]).encode())


def begin(job: dict[str, Any]) -> None:
    """Goes on as the interpreter does with `-c`, `-m` or a file."""
    before = folders(os.environ)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    sys.argv[:] = job["words"]
    sys.path[1:] = folders(os.environ) + sys.path[1 + len(before) :]
    if "module" in job:
        sys.path[0] = os.getcwd()
        runpy.run_module(job["module"], run_name="__main__", alter_sys=True)
    elif "file" in job:
        sys.path[0] = os.path.dirname(os.path.abspath(job["file"]))
        become(Path(job["file"]).read_text(), job["file"], __file__=job["file"])
    else:
        sys.path[0] = ""
        become(job["script"], "<string>")


def become(text: str, name: str, **more: str) -> None:
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__.update(more)
    exec(compile(text, name, "exec"), main.__dict__)


def folders(environment: Mapping[str, str]) -> list[str]:
    """What PYTHONPATH puts into sys.path, behind its first entry."""
    return [
        os.path.abspath(folder) for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder
    ]


if __name__ == "__main__":
    import torch._dynamo  # noqa: F401

    assert "dlc" not in sys.modules
    tempfile.tempdir = None  # TMPDIR is read again
    assert sys.path[1 : 1 + len(folders(os.environ))] == folders(os.environ)
    gc.collect()
    gc.freeze()
    mine = serve(socket.socket(fileno=int(sys.argv[1])))
    if mine is not None:
        begin(mine)
