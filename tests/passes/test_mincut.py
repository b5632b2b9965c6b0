"""Maximum flow and minimum cut: a driver in C compares them with slow references."""

from collections.abc import Callable


def test_driver(drive: Callable[[str], None]) -> None:
    drive("test_mincut")
