"""The cache of compiled kernels on disk, and python -m dlc cache."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _C, portable
from .portable import PortableError

__all__ = ["PortableError", "describe", "export", "folder", "import_"]


def _path(folder: str | os.PathLike[str] | None) -> str | None:
    """As the extension takes it: with the home that ~ stands for."""
    return None if folder is None else os.path.expanduser(folder)


def folder() -> str | None:
    """The default cache folder, made when it was missing; None when none can be used."""
    listed = _C.cache_list()
    return None if listed is None else listed[0]


def describe(path: str | Path | None = None) -> str:
    """One line: entries, bytes, bound."""
    listed = _C.cache_list(_path(path))
    if listed is None:
        return "no usable folder"
    _, entries, bound = listed
    held = sum(size for _, size, _, _ in entries)
    return f"{len(entries)} kernels, {held / 2**20:.1f} of {bound / 2**20:.0f} MiB"


def export(path: str | Path, *, folder: str | Path | None = None, cc: str | None = None) -> int:
    """Write the kernels of the cache to a file for another machine; returns the number of units.

    The file has each unit's text in dlc's language, and the machine code that was made of it.  folder:
    the cache, None for the default one; cc: the compiler that filled it, as in the option of that name.
    """
    place = _path(folder)
    listed = _C.cache_list(place)
    keys = [] if listed is None else [entry[0] for entry in listed[1]]
    archive = portable.collect(keys, place, cc)
    Path(path).write_bytes(portable.pack(archive))
    return len(archive.units)


def import_(
    path: str | Path, *, trusted: bool = False, folder: str | Path | None = None, cc: str | None = None
) -> dict[str, int]:
    """Put the kernels of an exported file into the cache, and wait until they are there.

    The texts are compiled here, with cc or the compiler that is found.  trusted: whoever wrote the file
    may run code in this process.  Then its machine code is taken as it is where the processor, the
    compiler and dlc are the same, or where there is no compiler here and the rest is the same.

    Returns how many units were "present", "taken", "compiled", and "failed" (no compiler, no usable
    folder).  Raises PortableError, a ValueError, for a file that is damaged or no export, and stores
    nothing then; OSError when it cannot be read.
    """
    try:
        archive = portable.unpack(portable.read(path))
        return portable.install(archive, trusted=trusted, folder=_path(folder), cc=cc)
    except PortableError as error:
        raise PortableError(f"{path}: {error}") from None


def _list(args: argparse.Namespace) -> int:
    listed = _C.cache_list(args.folder, args.check)
    if listed is None:
        print(f"no usable folder: {_C.cache_refusal(args.folder)}")
        return 1
    path, entries, _ = listed
    print(f"{path}: {describe(args.folder)}")
    for key, size, used, sound in sorted(entries, key=lambda entry: -entry[2]):
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(used))
        print(f"{key[:16]}  {size / 1024:9.1f} KiB  {when}{'' if sound else '  damaged'}")
    return 0 if all(sound for _, _, _, sound in entries) else 1


def _clear(args: argparse.Namespace) -> int:
    print(f"{_C.cache_clear(args.folder)} kernels removed")
    return 0


def _fault(file: str, error: Exception) -> str:
    from .opt import reason  # here: the package imports this module first

    return f"{file}: {reason(error)}" if isinstance(error, OSError) else str(error)


def _trim(args: argparse.Namespace) -> int:
    print(f"{_C.cache_trim(int(args.mib * 2**20), args.folder)} kernels removed")
    return 0


def _export(args: argparse.Namespace) -> int:
    try:
        print(f"{export(args.file, folder=args.folder)} units written")
    except OSError as error:
        print(_fault(args.file, error))
        return 1
    return 0


def _import(args: argparse.Namespace) -> int:
    try:
        counts = import_(args.file, trusted=args.trusted, folder=args.folder)
    except (PortableError, OSError) as error:
        print(_fault(args.file, error))
        return 1
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    return 1 if counts["failed"] else 0


def _there(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The action on a folder that is there: a cache would make the one that was mistyped."""

    def action(args: argparse.Namespace) -> int:
        if args.folder is None or Path(args.folder).is_dir():
            return run(args)
        print(f"{args.folder} is no folder: nothing is kept there")
        return 1

    return action


def _mib(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= (mib := float(text)) < math.inf:
            return mib
    raise argparse.ArgumentTypeError(f"{text!r} is no number of MiB: write one from 0 on, such as 64")


def add_command(commands: Any) -> None:
    parser = commands.add_parser("cache", help="list, check, trim, clear, export or import compiled kernels")
    parser.add_argument(
        "--folder", type=os.path.expanduser, help="use this cache folder, not the default one"
    )
    parser.set_defaults(run=_there(_list), check=False)
    actions = parser.add_subparsers(metavar="action")
    actions.add_parser("list", help="list the kernels, most recently used first").set_defaults(
        run=_there(_list)
    )
    actions.add_parser("check", help="list the kernels, and read and check each").set_defaults(
        run=_there(_list), check=True
    )
    actions.add_parser("clear", help="remove every kernel").set_defaults(run=_there(_clear))
    trim = actions.add_parser("trim", help="remove the least recently used kernels")
    trim.add_argument("mib", type=_mib, help="how many MiB to keep")
    trim.set_defaults(run=_there(_trim))
    out = actions.add_parser("export", help="write the kernels to a file for another machine")
    out.add_argument("file")
    out.set_defaults(run=_there(_export))
    into = actions.add_parser("import", help="put the kernels of such a file into the cache")
    into.add_argument("file")
    into.add_argument(
        "--trusted",
        action="store_true",
        help="take the machine code too (it can do anything)",
    )
    into.set_defaults(run=_import)
