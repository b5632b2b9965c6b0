"""The cache of compiled kernels on disk, and python -m dlc cache."""

from __future__ import annotations

import argparse
import time
from typing import Any

from . import _C


def folder() -> str | None:
    """The default cache folder, made when it was missing; None when none can be used."""
    listed = _C.cache_list()
    return None if listed is None else listed[0]


def describe(path: str | None = None) -> str:
    """One line: entries, bytes, bound."""
    listed = _C.cache_list(path)
    if listed is None:
        return "no usable folder"
    _, entries, bound = listed
    held = sum(size for _, size, _, _ in entries)
    return f"{len(entries)} kernels, {held / 2**20:.1f} of {bound / 2**20:.0f} MiB"


def _list(args: argparse.Namespace) -> int:
    listed = _C.cache_list(args.folder, args.check)
    if listed is None:
        print("no usable folder")
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


def _trim(args: argparse.Namespace) -> int:
    print(f"{_C.cache_trim(int(args.mib * 2**20), args.folder)} kernels removed")
    return 0


def add_command(commands: Any) -> None:
    parser = commands.add_parser("cache", help="list, check, trim or clear the cache of compiled kernels")
    parser.add_argument("--folder", help="instead of the default one")
    parser.set_defaults(run=_list, check=False)
    actions = parser.add_subparsers(metavar="action")
    actions.add_parser("list", help="the kernels, latest used first").set_defaults(run=_list)
    actions.add_parser("check", help="the same, reading each").set_defaults(run=_list, check=True)
    actions.add_parser("clear", help="remove every kernel").set_defaults(run=_clear)
    trim = actions.add_parser("trim", help="remove the least recently used kernels")
    trim.add_argument("mib", type=float, help="MiB to keep")
    trim.set_defaults(run=_trim)
