"""Loops and branches of a user's function, as loops and branches of the program.

syntax.py has made calls of them. Here such a call is traced as an operator of torch's (scan, while_loop,
cond) whose body is a graph of its own (csrc/capture/walk/walk_flow.c), if the body is the same function of
tensors at each step; otherwise its steps run one after another, each captured by itself.

A body reads arrays from outside of it and may write to them. Its graph is recorded while it runs on fake
tensors: memory from outside becomes an operand when the body reads or writes it first. The names that it
assigns are carried from one step to the next, but for those that are the same object, or the same constant,
after a step. If some are to be carried, the body runs again with these as its operands, too. A name that has
no value before the loop, and is an array after a step, is carried without another run: nothing has read it.
A loop in a body is traced at each run of that body, and begins with what was found at the first of them.

Carried values have to keep their dtype and shape. A number of Python's that is one of NumPy's after a step is
one before the loop, too, if the step has the same graph then. Otherwise, and where an argument is exchanged
for a new array, the first step is done by itself before the loop. Where two names exchange arrays that are
written to, two steps are one of the loop: then each name has the same memory after it. The loop begins
with copies: an array that a carried name has before it, and that it writes to, is lost, so that a read of it
by another name is refused.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op

from .bodies import (
    UNBOUND,
    Kind,
    Known,
    Otherwise,
    Traced,
    Trial,
    array_of,
    check_own,
    fake_of,
    finished,
    form_of,
    is_exact,
    kind_of,
    lose,
    node,
    operands_of,
    ordered,
    plain,
    stays,
    traced,
    trial_of,
    written_in,
)
from .effects import held
from .items import Items, combined, count_of, items_of, of_range
from .value import FRAMES, MAX_STEPS, Array, Unknown, is_array, is_symbol, lift, refuse, torch_dtype

#: Loops of so many steps or fewer are captured step by step: what they compute runs in one kernel.
SHORT = 16

# -- loops ---------------------------------------------------------------------------------------------

Step = Callable[..., tuple[Any, ...]]


def _caught(function: Callable[[], Any]) -> Any:
    """The function's value; an error of a trial says why it is done otherwise."""
    depth = len(FRAMES)
    try:
        return function()
    except Otherwise:
        raise
    except Exception as error:
        raise Otherwise(str(error)) from error
    finally:
        del FRAMES[depth:]


def _as_long(bound: Any, values: list[Any]) -> None:
    """Axes that are as long as the range of a loop are so in each call of the variant.

    Then an index that is the number of a step is in the axis, and the loop does not ask.
    """
    for value in values:
        for n in value.shape if is_array(value) and value.chosen is None else ():
            if is_symbol(n) and _hint(n) == _hint(bound):
                bool(n == bound)  # a condition of the variant


def counted(indices: Any, step: Step, names: list[str], initial: list[Any], known: Known) -> list[Any]:
    """A loop over indices: a tensor of them, at least one.

    Raises Otherwise, and then nothing has been traced.
    """
    number = Kind(np.dtype(np.int64), (), True, True)
    between: list[Any] = []

    def run(values: list[Any]) -> list[Any]:
        index, placeholder = FRAMES[-1].operand(fake_of(number))
        between[:] = [placeholder]
        return list(step(Array(index, scalar=True, weak=True), *values))

    body, trial = _caught(lambda: trial_of(run, names, initial, join=False, known=known))
    body.arrange(trial.written, between, trial.read)
    operands = operands_of(trial, initial)
    state = [*operands.carried, *operands.written]
    args = (body.graph, state, [plain(indices)], operands.read)
    results = node(scan_op, "scan", [body.graph], args, state)
    return finished(trial, results)


def conditional(
    test: Callable[..., Any], step: Step, names: list[str], initial: list[Any], known: Known
) -> list[Any]:
    """A loop that goes on as long as test(values) is true. Raises Otherwise as counted() does."""
    body, trial = _caught(
        lambda: trial_of(lambda values: list(step(*values)), names, initial, join=True, known=known)
    )
    condition = _caught(
        lambda: traced(
            lambda values: [truth(test(*values))],
            initial,
            trial.carried,
            lambda found: [found.results[0].tensor],
        )
    )
    if written_in(condition.frame) or condition.frame.lost:
        raise Otherwise("its condition writes to an array")
    known = body.frame.bases
    trial.read.extend(base for key, base in condition.frame.bases.items() if key not in known)
    for one in (condition, body):
        one.arrange(trial.written, [], trial.read)
    operands = operands_of(trial, initial)
    state, graphs = [*operands.carried, *operands.written], [condition.graph, body.graph]
    args = (*graphs, tuple(state), tuple(operands.read))
    results = node(while_loop_op, "while_loop", graphs, args, state)
    return finished(trial, results)


# -- branches ------------------------------------------------------------------------------------------


class _Way(NamedTuple):
    """One way of a branch that has been traced; its graph gives these arrays, and what it writes."""

    body: Traced
    arrays: list[Array | None]  # of the names; None for what is no array and no number
    kinds: list[Kind | None]


def _kinds(arrays: list[Array | None]) -> list[Kind | None]:
    return [None if array is None else kind_of(array) for array in arrays]


def _way(run: Step, initial: list[Any]) -> _Way:
    arrays: list[Array | None] = []
    kinds: list[Kind | None] = []

    def outputs(found: Traced) -> list[Tensor]:
        arrays[:] = map(array_of, found.results)
        kinds[:] = _kinds(arrays)
        given = [array.tensor.clone() for array in arrays if array is not None]
        return given + [base.inner for base in written_in(found.frame)]

    return _Way(traced(lambda values: list(run(*values)), initial, {}, outputs), arrays, kinds)


def _give(way: _Way, carried: dict[int, Kind], written: dict[int, Any], read: list[Any]) -> None:
    """Has its graph take and give what the graphs of both ways do."""
    if way.body.graph is None:
        return
    placed = way.body.arrange(list(written.values()), [], read)
    (output,) = way.body.graph.graph.find_nodes(op="output")
    names = [k for k, array in enumerate(way.arrays) if array is not None]
    keys = [id(base.outer) for base in written_in(way.body.frame)]
    given = dict(zip([*names, *keys], output.args[0], strict=True))
    for k, kind in carried.items():
        if given[k].meta["val"].dtype != torch_dtype(kind.dtype):
            with way.body.graph.graph.inserting_before(output):
                to = {"dtype": torch_dtype(kind.dtype)}
                given[k] = way.body.graph.graph.call_function(
                    torch.ops.aten._to_copy.default, (given[k],), to
                )
            given[k].meta["val"] = fake_of(kind)
    output.args = ((*(given[k] for k in carried), *(given.get(key, placed[key]) for key in written)),)


def _joined(names: list[str], k: int, values: list[Any], kinds: list[Kind | None]) -> Kind | None:
    """The kind of a name after one way or the other; None: it is the same constant."""
    if stays(*values):
        return None
    if any(value is UNBOUND for value in values):
        raise Otherwise(f"{names[k]} has a value after one way of the branch alone")
    x, y = kinds
    if x is None or y is None:
        raise Otherwise(f"{names[k]} is no array and no number")
    if x == y:
        return x
    for one, other, value in ((x, y, values[1]), (y, x, values[0])):
        if other.weak and not one.weak and is_exact(value, one):
            return one
    raise Otherwise(f"{names[k]} is {x} after one way of the branch and {y} after the other")


def branch(test: Array, ways: list[Step], names: list[str], initial: list[Any]) -> list[Any]:
    """One of two ways, by a value; names: of the results, for messages. Raises Otherwise."""
    found = [_caught(lambda run=run: _way(run, initial)) for run in ways]
    results = [way.body.results for way in found]
    if len(results[0]) != len(results[1]):
        raise Otherwise("it gives another number of results on one of the ways")
    names = names or ["a result"] * len(results[0])
    pairs = [([r[k] for r in results], [way.kinds[k] for way in found]) for k in range(len(names))]
    kinds = {k: _joined(names, k, *pair) for k, pair in enumerate(pairs)}
    carried = {k: kind for k, kind in kinds.items() if kind is not None}
    outer = len(FRAMES)
    for one in results:
        check_own(names, one, carried, initial, outer)
    shared = {k: [r[k].root for r in results if is_array(r[k]) and r[k].root.level <= outer] for k in carried}
    bases = {key: base for way in found for key, base in way.body.frame.bases.items()}
    bases = {id(base.outer): base for base in ordered(bases.values())}
    written = {id(base.outer): base for way in found for base in written_in(way.body.frame)}
    read = [base for key, base in bases.items() if key not in written]
    lost = list(dict.fromkeys(root for way in found for root in way.body.frame.lost))
    if not carried and not written:
        lose(lost)
        return results[0]
    for way in found:
        _give(way, carried, written, read)
    operands = operands_of(Trial({}, results[0], list(written.values()), read, {}, []), initial).all()
    like = [fake_of(kind) for kind in carried.values()] + [plain(base.outer) for base in written.values()]
    graphs = [way.body.graph for way in found]
    made = node(cond_op, "cond", graphs, (plain(truth(test).tensor), *graphs, operands), like)
    return finished(Trial(carried, results[0], list(written.values()), read, shared, lost), made)


def truth(value: Any) -> Array:
    """bool(value) as a value: of one element, as in NumPy."""
    array = value if is_array(value) else Array(lift(bool(value)).tensor, scalar=True)
    if array.size != 1:
        raise ValueError(
            "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
        )
    tensor = array.tensor.reshape(())
    return Array(tensor if tensor.dtype == torch.bool else tensor != 0, scalar=True)


def choose(test: Any, yes: Any, no: Any) -> Any:
    """yes if test else no, of numbers, by a value."""
    if not is_array(test):
        return yes if test else no
    found = [array_of(value) for value in (yes, no)]
    kind = _joined(["the value"], 0, [yes, no], _kinds(found))
    if kind is None:
        return yes
    a, b = (array.tensor.to(torch_dtype(kind.dtype)) for array in found if array is not None)
    roots = [array.root for array in found if array is not None]
    made = Array(torch.where(truth(test).tensor, a, b), scalar=kind.scalar, weak=kind.weak)
    if not kind.scalar:
        made.root.may_share(roots)
    return made


# -- what the rewritten function calls -----------------------------------------------------------------


def values(*names: Callable[[], Any]) -> list[Any]:
    """The values of names, UNBOUND for those that have none."""
    found = []
    for name in names:
        try:
            found.append(name())
        except NameError:
            found.append(UNBOUND)
    return found


def _check_reads(objects: list[Any]) -> None:
    """What a body reads by its names can be read twice."""
    for value in objects:
        if isinstance(value, types.FunctionType):
            raise Otherwise(f"it reads {value.__name__}, a function that is not known before it runs")
        if why := held("what it reads", value):
            raise Otherwise(why)


#: Objects without effects of their own that cannot be changed.
_VALUES = (bool, int, float, complex, str, bytes, tuple, range, slice, type(None), Unknown)


def _is_value(value: Any) -> bool:
    return is_array(value) or is_symbol(value) or isinstance(value, np.generic) or type(value) in _VALUES


def _checked_array(value: Any) -> Any:
    """What a body writes to: an array that is traced, or a tuple of them or None (of out=)."""
    parts = value if type(value) is tuple else (value,)
    if FRAMES and not all(is_array(part) or part is None for part in parts):
        raise Otherwise(f"it changes an object of type {type(value).__name__}")
    return value


def _checked_value(value: Any) -> Any:
    """What a body changes by an operator such as +=, which gives another object if it is no array."""
    if FRAMES and not _is_value(value):
        raise Otherwise(f"it changes an object of type {type(value).__name__}")
    return value


def _checked_object(value: Any) -> Any:
    """What a body calls a method of, whose name is one of a method that only computes."""
    if FRAMES and not (_is_value(value) or type(value) in (list, dict, set, frozenset, np.ndarray)):
        raise Otherwise(f"it calls a method of an object of type {type(value).__name__}")
    return value


def _no_loop(why: str, steps: Any) -> NoReturn:
    refuse(
        f"its loop of {steps} steps is not taken as a whole, since {why}",
        "write it as operations on whole arrays, or compile one step and call it in Python's loop",
    )


def _with_item(item: Callable[[Any], Any], step: Step) -> Step:
    """A step that carries the item of the step before, and makes its own."""

    def made(k: Any, _: Any, *values: Any) -> tuple[Any, ...]:
        found = item(k)
        return (found, *step(found, *values))

    return made


class Flow:
    """The calls that one function's statements have become; steps: scope's, which counts what is unrolled."""

    def __init__(self, steps: Any) -> None:
        self.steps = steps
        self.loops: dict[Any, Known] = {}
        self.names = {
            "_dlc_for": self.for_,
            "_dlc_while": self.while_,
            "_dlc_if": self.if_,
            "_dlc_end": self.end,
            "_dlc_either": self.either,
            "_dlc_until": self.until,
            "_dlc_items": self.items,
            "_dlc_each": self.each,
            "_dlc_step": self.one_more,
            "_dlc_decided": self.decided,
            "_dlc_array": _checked_array,
            "_dlc_value": _checked_value,
            "_dlc_object": _checked_object,
            "_dlc_values": values,
            "_dlc_and": lambda *parts: self.combined(parts, np.logical_and, False),
            "_dlc_or": lambda *parts: self.combined(parts, np.logical_or, True),
            "_dlc_and_then": lambda *parts: self.in_order(parts, False),
            "_dlc_or_then": lambda *parts: self.in_order(parts, True),
            "_dlc_not": lambda part: np.logical_not(found) if is_array(found := part()) else not found,
        }

    def known(self, step: Step, state: list[Any], reads: list[Any], *way: bool) -> Known:
        """What is known of a loop that has been traced before.

        way: what else makes it another loop; whether its first step is behind it does, since forms have no
        sizes.
        """
        forms = tuple(map(form_of, state)), tuple(map(form_of, reads))
        return self.loops.setdefault((step.__code__, way, *forms), Known())  # type: ignore[attr-defined]

    # A loop over a range, or over the items of arrays.

    def items(self, function: Any, *parts: Any, **options: Any) -> Any:
        """What range, enumerate, zip or reversed give: as items by their numbers, if that can be."""
        if function == self.steps.range:
            return of_range(parts, lambda why: self.steps.range(*parts, why=why))
        return combined(function, parts, options)

    def each(self, why: str, over: Any) -> Any:
        """What a loop goes over that is as it was written."""
        items = items_of(over)
        return over if items is None else items.in_python(why)

    def for_(
        self, over: Any, step: Step, names: list[str], initial: list[Any], reads: list[Any], last: bool
    ) -> tuple[Any, ...]:
        """last: is the last item read behind the loop?"""
        items, first, state = items_of(over), initial[0], initial[1:]
        if items is None:
            return self.unrolled(over, step, first, state)
        if items.count is None:
            return self.to_value(items, step, names, first, state, reads)
        start, stop, by = items.ends or (0, items.count, 1)
        item = (lambda k: k) if items.ends else items.at
        symbolic = is_symbol(start) or is_symbol(stop)
        if symbolic and len(range(_hint(start), _hint(stop), by)) <= SHORT:
            start, stop, symbolic = int(start), int(stop), False
        if not symbolic and len(range(start, stop, by)) <= SHORT:
            return self.unrolled(map(item, self.steps.range(start, stop, by)), step, first, state)
        count = count_of(start, stop, by)
        if symbolic and not count > 0:  # a condition of the variant
            return (first, *state)
        _as_long(stop if by > 0 else start + 1, [*state, *reads])
        taken, at = self.steps.taken, start
        pairs = peeled = False
        of = step if items.ends else lambda k, *values: step(item(k), *values)
        copied = last and items.copies
        if copied:
            of, names, state = _with_item(item, step), ["the item", *names], [first, *state]
        while True:
            try:
                _check_reads(reads)
                known = self.known(step, state, reads, pairs, peeled)
                found = self.whole(at, stop, by, of, names, state, known, pairs=pairs)
                return tuple(found) if copied else (item(start + (count - 1) * by) if last else first, *found)
            except Otherwise as error:
                self.steps.taken = taken
                if error.twice and not pairs and not symbolic:
                    pairs = True
                elif error.first and not peeled and (not symbolic or count > 1):
                    state, at, peeled = list(of(at, *state)), at + by, True
                elif symbolic:
                    _no_loop(str(error), _hint(count))
                else:
                    rest = self.steps.range(at, stop, by, why=str(error))
                    if copied:
                        first, *state = state
                    elif peeled and last:
                        first = item(at - by)
                    return self.unrolled(map(item, rest), step, first, state)

    def until(
        self,
        over: Any,
        step: Step,
        names: list[str],
        initial: list[Any],
        reads: list[Any],
        last: bool,
        flag: int,
    ) -> tuple[Any, ...]:
        """A loop that ends as soon as the name with number `flag` is false."""
        items, first, state = items_of(over), initial[0], initial[1:]
        if items is None:
            for first in over:
                state = list(step(first, *state))
                if not self.decided("it goes over what Python alone knows: go over a range", state[flag]):
                    break
            return (first, *state)
        at, stop, by = items.ends or (0, items.count, 1)
        if is_array(by):
            refuse("a range has a step that is a value of an array", "give it an int")
        item = (lambda k: k) if items.ends else items.at
        of_value = is_array(at) or is_array(stop)

        def more(k: Any) -> Any:
            return k < stop if by > 0 else k > stop

        def goes_on(k: Any, *values: Any) -> Any:
            return self.combined((lambda: values[flag], lambda: more(k)), np.logical_and, False)

        copied = last and items.copies
        of = _with_item(item, step) if copied else lambda k, *values: step(item(k), *values)

        def one(k: Any, *values: Any) -> tuple[Any, ...]:
            return (k + by, *of(k, *values))

        if not of_value and not more(at):
            return (first, *state)
        steps = SHORT + 1 if of_value else len(range(_hint(at), _hint(stop), by))
        whole = of_value or steps > SHORT
        if not whole:
            at, stop = int(at), int(stop)
        # What Python alone decides ends the loop at a step that is known: the last item is no value.
        known = last and steps <= MAX_STEPS and type(at) is type(stop) is int
        if copied:
            names, state, flag = ["the item", *names], [first, *state], flag + 1
        taken, why, peeled = self.steps.taken, "", False
        while of_value or (more(at) and (is_array(state[flag]) or state[flag])):
            if (whole and not known) or is_array(state[flag]):
                try:
                    _check_reads(reads)
                    all_names, given = ["the number of the step", *names], [at, *state]
                    before = self.known(step, given, reads, peeled)
                    at, *state = conditional(goes_on, one, all_names, given, before)
                    if of_value:
                        first = Unknown("the last item of a loop to a value is a value", "compute it")
                        return (first, *state)
                    return tuple(state) if copied else (item(at - by) if last else first, *state)
                except Otherwise as error:
                    self.steps.taken, why = taken, str(error)
                    if is_array(state[flag]) or of_value:
                        refuse(
                            f"a loop is left by a value, and is not taken as a whole, since {why}",
                            "begin it with copies of the arrays that it exchanges or writes to" * error.first,
                        )
                    if peeled or not error.first:
                        whole = False
                        at, stop = int(at), int(stop)
                        continue
            self.one_more(why)
            first, peeled = first if copied else item(at), True
            at, *state = one(at, *state)
        return tuple(state) if copied else (first, *state)

    @staticmethod
    def whole(
        at: Any,
        stop: Any,
        by: int,
        step: Step,
        names: list[str],
        state: list[Any],
        known: Known,
        *,
        pairs: bool,
    ) -> list[Any]:
        """The loop as one of the program; pairs: two steps are one of its. Raises Otherwise."""
        if not pairs:
            return counted(torch.arange(at, stop, by), step, names, state, known)
        steps = len(range(at, stop, by))
        last = at + by * (steps - steps % 2)

        def both(k: Any, *values: Any) -> tuple[Any, ...]:
            return step(k + by, *step(k, *values))

        state = counted(torch.arange(at, last, 2 * by), both, names, state, known)
        return list(step(last, *state)) if steps % 2 else state

    @staticmethod
    def unrolled(indices: Any, step: Step, last: Any, state: list[Any]) -> tuple[Any, ...]:
        for last in indices:
            state = list(step(last, *state))
        return (last, *state)

    def to_value(
        self, items: Items, step: Step, names: list[str], first: Any, state: list[Any], reads: list[Any]
    ) -> tuple[Any, ...]:
        """A range of values: a loop that counts by itself."""
        start, stop, by = items.ends or (0, 0, 0)
        if is_array(by) or by == 0:
            refuse("a range has a step that is a value of an array", "give it an int")
        found = self.while_(
            lambda k, *_: k < stop if by > 0 else k > stop,
            lambda k, *values: (k + by, *step(k, *values)),
            ["the number of the step", *names],
            [start, *state],
            reads,
            step,
        )
        return (Unknown("the number of the last step of a loop is a value", "compute it"), *found[1:])

    # while.

    def while_(
        self,
        test: Callable[..., Any],
        step: Step,
        names: list[str],
        initial: list[Any],
        reads: list[Any],
        of: Step | None = None,
    ) -> tuple[Any, ...]:
        """of: the step as it was written, if it is part of this one."""
        state, taken = list(initial), 0
        while True:
            found = test(*state)
            if is_array(found):
                try:
                    _check_reads(reads)
                    return tuple(conditional(test, step, names, state, self.known(of or step, state, reads)))
                except Otherwise as error:
                    refuse(f"a loop decides by values, and is not taken as a whole, since {error}")
            if not found:
                return tuple(state)
            taken += 1
            self.steps.more(taken)
            state = list(step(*state))

    # if.

    def if_(
        self, test: Any, yes: Step, no: Step, names: list[str], initial: list[Any], reads: list[Any]
    ) -> tuple[Any, ...]:
        if not is_array(test):
            return (yes if test else no)(*initial)
        try:
            _check_reads(reads)
            return tuple(branch(test, [yes, no], names, initial))
        except Otherwise as error:
            refuse(f"it decides by the values of an array, and {error}", "np.where chooses by them")

    def either(self, test: Any, yes: Callable[[], Any], no: Callable[[], Any], reads: list[Any]) -> Any:
        """yes() if test else no()"""
        return self.if_(test, lambda: (yes(),), lambda: (no(),), ["its value"], [], reads)[0]

    def end(
        self,
        test: Any,
        yes: Callable[..., Any],
        no: Callable[..., Any],
        initial: list[Any],
        reads: list[Any],
    ) -> Any:
        """What the function returns on one of two ways."""
        if not is_array(test):
            return (yes if test else no)(*initial)
        trees: list[Any] = [None, None]

        def way(k: int, function: Callable[..., Any]) -> Step:
            def run(*values: Any) -> tuple[Any, ...]:
                leaves, trees[k] = pytree.tree_flatten(function(*values))
                return tuple(leaves)

            return run

        found = self.if_(test, way(0, yes), way(1, no), [], initial, reads)
        if trees[0] != trees[1]:
            refuse("it returns another structure on one of the ways of a branch", "return the same on both")
        return pytree.tree_unflatten(list(found), trees[0])

    def combined(self, parts: tuple[Callable[[], Any], ...], combine: Any, stops: bool) -> Any:
        """`and`, `or` of what is a value, or a number of Python's."""
        found: Any = None
        for part in parts:
            value = part()
            if is_array(value):
                found = truth(value) if found is None else combine(found, truth(value))
            elif bool(value) == stops:
                return value if found is None else combine(found, stops)
            elif found is None and part is parts[-1]:
                return value
        return found

    def in_order(self, parts: tuple[Callable[[], Any], ...], stops: bool) -> Any:
        """combined(), of which a part is read only where those before it do not decide, as in Python.

        So a part may read an element that the parts before it say is there.
        """
        found = parts[0]()
        for part in parts[1:]:
            if not is_array(found):
                found = found if bool(found) == stops else part()
                continue
            rest = lambda part=part: truth(part())  # noqa: E731
            end = lambda: Array(lift(stops).tensor, scalar=True)  # noqa: E731
            ways = (end, rest) if stops else (rest, end)
            found = self.either(truth(found), *ways, [])
        return found

    def one_more(self, why: str) -> None:
        """A step of a loop of `while` that is as it was written."""
        self.steps.taken += 1
        self.steps.more(self.steps.taken, why)

    @staticmethod
    def decided(why: str, test: Any) -> Any:
        """The condition of a branch that is as it was written."""
        if is_array(test):
            refuse(f"it decides by the values of an array, and {why}", "np.where chooses by them")
        return test


def _hint(value: Any) -> int:
    return value.node.hint if is_symbol(value) and value.node.has_hint() else int(value)


__all__ = ["SHORT", "Flow", "choose"]
