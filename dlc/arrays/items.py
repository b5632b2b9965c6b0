"""What a loop of the program goes over: ranges, rows of arrays, and enumerate, zip and reversed of these."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from ..trace import Never
from .value import MAX_UNROLLED, is_array, is_symbol, refuse


class Items(NamedTuple):
    """The items of a loop by their number, which may be a value.

    count: an int or a size; None where it is a value of an array. in_python: what Python's own loop goes
    over; it is told why each step is captured by itself. ends: of a range. copies: the items are elements,
    which are read when their step begins: the array may be another one later.
    """

    count: Any
    at: Callable[[Any], Any]
    in_python: Callable[[str], Any]
    ends: tuple[Any, Any, Any] | None = None
    copies: bool = False


def items_of(value: Any) -> Items | None:
    """None for what is known to Python alone, or has no items."""
    if isinstance(value, Items):
        return value
    if type(value) is range:
        ends = (value.start, value.stop, value.step)
        return Items(len(value), value.__getitem__ if not value else _nth(*ends), lambda _: value, ends)
    if is_array(value) and value.ndim and value.chosen is None:
        return Items(
            value.shape[0], lambda k: value[k], lambda why: _rows(value, why), copies=value.ndim == 1
        )
    return None


def _rows(array: Any, why: str) -> Any:
    if array.shape[0] > MAX_UNROLLED:
        refuse(
            f"it loops over the elements of an array, of which each is captured by itself, since {why}",
            f"write it as operations on whole arrays (loops of up to {MAX_UNROLLED} are unrolled)",
            Never,
        )
    return array


def _nth(start: Any, stop: Any, by: Any) -> Callable[[Any], Any]:
    return lambda k: start + k * by


def count_of(start: Any, stop: Any, by: int) -> Any:
    """The steps of the range, where it has some; else a number that is not positive."""
    return (stop - start + by - 1) // by if by > 0 else (start - stop - by - 1) // -by


def of_range(numbers: tuple[Any, ...], in_python: Callable[[str], Any]) -> Items:
    start, stop = (0, numbers[0]) if len(numbers) == 1 else numbers[:2]
    by = numbers[2] if len(numbers) == 3 else 1
    if any(map(is_array, numbers)):
        return Items(None, _nth(start, stop, by), in_python, (start, stop, by))
    start, stop, by = (n if is_symbol(n) else operator.index(n) for n in (start, stop, by))
    by = int(by)
    if by == 0:
        range(1, 2, by)  # raises Python's error
    return Items(count_of(start, stop, by), _nth(start, stop, by), in_python, (start, stop, by))


def _reversed(items: Items) -> Items:
    n, (start, _, by) = items.count, items.ends or (0, 0, 1)
    ends = None
    if items.ends:
        ends = (start + (n - 1) * by, start - by, -by) if n > 0 else (0, 0, 1)
    return Items(
        n, lambda k: items.at(n - 1 - k), lambda why: reversed(items.in_python(why)), ends, items.copies
    )


def _zipped(parts: list[Items], strict: bool) -> Items:
    count = parts[0].count if parts else 0
    for k, part in enumerate(parts[1:]):
        if strict and part.count != count:
            word = "shorter" if part.count < count else "longer"
            before = "argument 1" if k == 0 else f"arguments 1-{k + 1}"
            raise ValueError(f"zip() argument {k + 2} is {word} than {before}")
        if part.count < count:
            count = part.count

    def at(k: Any) -> tuple[Any, ...]:
        return tuple(part.at(k) for part in parts)

    return Items(count, at, lambda why: zip(*(p.in_python(why) for p in parts), strict=strict))


def _enumerated(items: Items, start: Any) -> Items:
    return Items(
        items.count, lambda k: (start + k, items.at(k)), lambda why: enumerate(items.in_python(why), start)
    )


def combined(function: Any, parts: tuple[Any, ...], options: dict[str, Any], why: str = "") -> Any:
    """enumerate, zip or reversed of parts: as items, if all of them are; else what Python makes of them."""
    arrays = parts[:1] if function is enumerate else parts
    known = [items_of(part) for part in arrays]
    found = [items for items in known if items is not None and items.count is not None]
    if function is enumerate:
        start = parts[1] if len(parts) == 2 else options.get("start", 0)
        if len(found) == 1 and len(parts) <= 2 and isinstance(start, int) and not options.keys() - {"start"}:
            return _enumerated(found[0], start)
    elif parts and len(found) == len(parts) and not options.keys() - {"strict"}:
        if function is reversed and len(parts) == 1 and not options:
            if isinstance(parts[0], Items) and parts[0].ends is None:
                raise TypeError("an iterator, such as that of zip or enumerate, is not reversible")
            return _reversed(found[0])
        if function is zip:
            return _zipped(found, bool(options.get("strict", False)))
    plain = [
        part if items is None else items.in_python(why) for part, items in zip(arrays, known, strict=True)
    ]
    return function(*plain, *parts[len(arrays) :], **options)
