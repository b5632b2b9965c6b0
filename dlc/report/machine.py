"""The limits of this machine, which are measured once and kept, and whether a measurement was disturbed.

A share of a limit says something only if the limit is one. So each is the most that was ever seen: what was
kept when the machine was busy is measured again, and only a larger value replaces it. They lie in
`limits.json` in the cache folder, by processor, instruction set and number of threads.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import _C

_DAYS = 30  # that limits are kept
_FILE = "limits.json"
_COPIES, _COPY_BYTES, _COPY_MOST = 8, 32 << 20, 128 << 20
_COPY_SECONDS = 0.3  # that copies take, about
_LAUNCHES = 200
_SPEEDS = 38  # numbers of _C.speeds()
_PRODUCTS = 20
_PRODUCT = 256  # rows, columns and terms of the product that is measured
_TRIVIAL = """dlc 1 graph

fn launch[N in 0..inf](x: f32[N]) -> (f32[N]) {
  let y: f32[N] = add x, x
  ret y
}
"""
_MULTIPLIES = f"""dlc 1 graph

fn product(x: f32[{_PRODUCT}, {_PRODUCT}], y: f32[{_PRODUCT}, {_PRODUCT}]) -> (f32[{_PRODUCT}, {_PRODUCT}]) {{
  let z: f32[{_PRODUCT}, {_PRODUCT}] = contract x, y over="mk,kn->mn"
  ret z
}}
"""


@dataclasses.dataclass(frozen=True)
class Machine:
    """What this machine was seen to do at most."""

    name: str
    isa: str
    threads: int
    bandwidth: float  # bytes a second: a copy that no cache holds, read and written
    flops: float  # a second, on f32, by all threads: multiply-adds of the microkernels' instruction set
    launch: float = 0.0  # seconds that the start of a kernel takes
    product: float = 0.0  # operations a second on f32 in a product, by one thread
    speeds: list[float] = dataclasses.field(default_factory=list)  # as _C.speeds() has them
    date: str = ""  # of the measurement
    disturbed: bool = False  # was the machine busy then?
    call: float = 0.0  # seconds that the start of an operator of torch takes

    def __str__(self) -> str:
        rates = f"copies {self.bandwidth / 1e9:.1f} GB/s, computes {self.flops / 1e9:.0f} GFLOP/s"
        threads = f"{self.threads} thread{'' if self.threads == 1 else 's'}"
        when = f"; measured {self.date}" if self.date else ""
        busy = ", while other programs ran: measured again next time" if self.disturbed else ""
        return f"{self.name}, {self.isa}, {threads}: {rates}{when}{busy}"

    def predict(self, loops: str, sizes: dict[str, int]) -> list[tuple[str, float, float, float, str]]:
        """(op, bytes, seconds to move them and to start, all seconds, limit) of each step of the loops."""
        rows = _C.predict(loops, sizes, self.threads, self.launch, self.product, self.speeds)
        return [
            (op, bytes_, moving + start, all_, limit) for op, bytes_, moving, _, start, all_, limit in rows
        ]

    def peak(self, wide: bool) -> float:
        """Operations a second on f32, or (wide) on f64, of which a vector holds half as many."""
        return self.flops / 2 if wide else self.flops


# ---- was it disturbed? ----


def _ticks() -> tuple[int, int]:
    """Of all processors since the start of the system: busy ones, and those that the host took away."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]
        user, nice, system, _, _, irq, softirq, steal = map(int, fields)
        return user + nice + system + irq + softirq, steal
    return 0, 0


class Watch:
    """Watches over a measurement, from when it is made until busy() is asked.

    The signs are independent: other programs used processors, the host took time away, the scheduler stopped
    a thread of this process, or calls that do the same took unlike times.
    """

    OTHERS = 0.1  # of a processor
    STOLEN = 0.02
    STOPS = 20.0  # of threads, a second
    SPREAD = 1.5  # of the median of calls over the fastest
    TICKS = 10  # a shorter time says nothing of processors

    def __init__(self) -> None:
        self.begin = time.perf_counter()
        self.ticks, self.own, self.stops = _ticks(), time.process_time(), self._stops()

    @staticmethod
    def _stops() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw

    def busy(self, calls: list[float] | None = None) -> str:
        """What disturbed the measurement, in words; "" if nothing did.  calls: the seconds of each."""
        seconds, hz = time.perf_counter() - self.begin, os.sysconf("SC_CLK_TCK")
        used, stolen = ((now - then) / hz for now, then in zip(_ticks(), self.ticks, strict=True))
        signs = []
        if seconds * hz >= self.TICKS:
            others = (used - (time.process_time() - self.own)) / seconds
            if others > self.OTHERS:
                signs.append(f"other programs used {others:.1f} processors")
            if stolen / seconds > self.STOLEN:
                signs.append(f"the host took {stolen / seconds:.2f} processors away")
        stops = self._stops() - self.stops
        if stops > max(1.0, self.STOPS * seconds):
            signs.append(f"threads were stopped {stops} times")
        if calls and len(calls) > 2 and (spread := statistics.median(calls) / min(calls)) > self.SPREAD:
            signs.append(f"half of the calls took {spread:.1f} times as long as the fastest or longer")
        return ", ".join(signs)


# ---- the limits ----


def _fastest(run: Callable[[], Any], times: int, seconds: float) -> float:
    """Of so many runs, or fewer if they take long, but of two."""
    best, first = float("inf"), time.perf_counter()
    for k in range(times):
        begin = time.perf_counter()
        run()
        end = time.perf_counter()
        best = min(best, end - begin)
        if k and end - first > seconds:
            break
    return best


def _copy_bytes() -> int:
    """More than the last cache holds, where that is known and is no more than memory has to spare."""
    size = _COPY_BYTES
    with contextlib.suppress(OSError, ValueError):
        text = Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text(encoding="utf-8").strip()
        size = max(size, 2 * int(text.removesuffix("K")) * 1024)
    spare = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") // 8
    return max(_COPY_BYTES, min(size, _COPY_MOST, spare))


def _bandwidth() -> float:
    import torch

    with torch.inference_mode():
        a, b = (torch.zeros(_copy_bytes() // 4) for _ in range(2))
        return 2 * 4 * a.numel() / _fastest(lambda: a.copy_(b), _COPIES, _COPY_SECONDS)


def _fastest_step(text: str, times: int, *args: Any) -> float:
    """The seconds of the only kernel of a program, in the fastest of its calls."""
    import torch

    from ..program import Program

    compiled = Program(text)._compile()
    _C.wait(1.0)
    with torch.no_grad():
        for _ in range(times):
            compiled(*args)
    found = compiled.profile()
    return min((row["seconds"] for row in found["steps"] if row["kind"] == "launch"), default=0.0)


def _launch() -> float:
    """The fastest step of a kernel that computes eight elements."""
    import torch

    return _fastest_step(_TRIVIAL, _LAUNCHES, torch.ones(8))


def _call() -> float:
    """The fastest operator of torch on eight elements."""
    import torch

    x = torch.ones(8)
    with torch.inference_mode():
        return _fastest(lambda: torch.neg(x), _LAUNCHES, _COPY_SECONDS)


def _product() -> float:
    """Operations a second of a product that caches hold, of one thread."""
    import torch

    x, y = (torch.ones(_PRODUCT, _PRODUCT) for _ in range(2))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        seconds = _fastest_step(_MULTIPLIES, _PRODUCTS, x, y)
    finally:
        torch.set_num_threads(threads)
    return 2 * _PRODUCT**3 / seconds if seconds else 0.0


def _measured(name: str, isa: str, threads: int) -> Machine:
    watch = Watch()
    bandwidth, flops, launch, product, speeds = _bandwidth(), _C.peak(), _launch(), _product(), _C.speeds()
    product = min(product or flops, flops / threads)  # flops: where no product was seen to run
    call, date, busy = _call(), time.strftime("%Y-%m-%d"), bool(watch.busy())
    return Machine(name, isa, threads, bandwidth, flops, launch, product, speeds, date, busy, call)


def _together(old: Machine | None, new: Machine) -> Machine:
    """The most of both.  Busy, if no part of it comes from a quiet machine."""
    if old is None:
        return new
    most = {name: max(getattr(old, name), getattr(new, name)) for name in ("bandwidth", "flops", "product")}
    # All are rates but the second, the seconds that all threads take to start.
    speeds = [
        (min if k == 1 else max)(pair) for k, pair in enumerate(zip(old.speeds, new.speeds, strict=True))
    ]
    least = {name: min(getattr(old, name), getattr(new, name)) for name in ("launch", "call")}
    best = dataclasses.replace(new, **most, **least, speeds=speeds)
    return dataclasses.replace(best, disturbed=old.disturbed and new.disturbed)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()


# ---- where they are kept ----


def _place(folder: str | None) -> Path | None:
    """folder: as Options.cache_folder has it."""
    if folder == "":
        return None
    listed = _C.cache_list(folder)
    return Path(listed[0]) / _FILE if listed else None


def _kept(place: Path | None) -> dict[str, Any]:
    """What the file has; nothing where it is damaged, or another process is about to write it."""
    if place is not None:
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(place.read_text(encoding="utf-8"))
            return found if isinstance(found, dict) else {}
    return {}


def _read(row: Any) -> Machine | None:
    try:
        machine = Machine(**row)
        rates = (
            machine.bandwidth, machine.flops, machine.product, machine.call, machine.speeds[0],
            *machine.speeds[2:],
        )  # fmt: skip
        good = (
            min(rates) > 0 and len(machine.speeds) == _SPEEDS and min(machine.launch, machine.speeds[1]) >= 0
        )
        return machine if good and time.strptime(machine.date, "%Y-%m-%d") else None
    except (TypeError, ValueError, IndexError):
        return None


def _is_stale(machine: Machine) -> bool:
    age = time.time() - time.mktime(time.strptime(machine.date, "%Y-%m-%d"))
    return machine.disturbed or not -86400 <= age <= _DAYS * 86400


def _keep(place: Path | None, key: str, machine: Machine) -> None:
    if place is None:
        return
    rows = _kept(place) | {key: dataclasses.asdict(machine)}
    made = place.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        made.write_text(json.dumps(rows, indent=1), encoding="utf-8")
        os.replace(made, place)


_machines: dict[str, Machine] = {}


def _machine_key() -> tuple[str, str, int, str]:
    import torch

    name, isa, threads = _processor(), _C.isa(), torch.get_num_threads()
    return name, isa, threads, f"{name}, {isa}, {threads}"


def measured_machine(folder: str | None = None) -> Machine:
    """The limits, from this process, from the file, or measured now, which takes about a second.

    folder: of the cache, as Options.cache_folder has it.
    """
    name, isa, threads, key = _machine_key()
    if key not in _machines:
        place = _place(folder)
        known = _read(_kept(place).get(key))
        if known is None or _is_stale(known):
            aged = known is not None and not known.disturbed
            known = _together(None if aged else known, _measured(name, isa, threads))
            _keep(place, key, known)
        _machines[key] = known
    return _machines[key]


def machine_now(folder: str | None = None) -> Machine:
    """The limits with the speeds that are measured now, which this process predicts with from then on.

    Who shares the hardware of a virtual machine takes a part of the memory's bandwidth, which changes within
    minutes by a factor of two.
    """
    now = dataclasses.replace(measured_machine(folder), speeds=_C.speeds())
    _machines[_machine_key()[3]] = now
    return now
