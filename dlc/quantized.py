"""dlc.quantize: codes of few bits for weights of a model, chosen by what its layers lose on given data."""

from __future__ import annotations

import dataclasses
import functools
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .backend import _compile_dynamo
from .options import Options, parse
from .weights import Row, Weight

FORMATS = ("auto", "int8", "int4")
ROWS = ("auto", "exact", "i32", "i16", "i8")
_POWERS = 6  # of a layer's result, and of what the errors of each format and of rows add: weights_profile
_HEAD = ("layer", "format", "rows", "signal above noise", "bytes before", "after", "why it stays float")


@dataclasses.dataclass(frozen=True)
class QuantizeReport:
    """What became of the weights that products read. Printed it is a table; in a notebook a page."""

    weights: list[Weight]

    @property
    def before(self) -> int:
        """Bytes of all of these weights in the model."""
        return sum(weight.before for weight in self.weights)

    @property
    def after(self) -> int:
        """Bytes that products read of them."""
        return sum(weight.after for weight in self.weights)

    def _rows(self) -> list[tuple[str, ...]]:
        rows = []
        for w in self.weights:
            signal = "" if w.decibels != w.decibels else f"{w.decibels:.1f} dB"
            rows.append((w.name, w.format, w.rows, signal, f"{w.before:,}", f"{w.after:,}", w.why or ""))
        coded = sum(w.why is None for w in self.weights)
        rows.append(
            (
                "all",
                f"{coded} of {len(self.weights)} are codes",
                "",
                "",
                f"{self.before:,}",
                f"{self.after:,}",
                "",
            )
        )
        return rows

    def __str__(self) -> str:
        if not self.weights:
            return "no product of the model has been compiled with a frozen weight"
        rows = [_HEAD, *self._rows()]
        widths = [max(len(row[k]) for row in rows) for k in range(len(_HEAD))]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if 3 <= k <= 5 else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        def line(cells: Sequence[str], tag: str) -> str:
            return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

        if not self.weights:
            return f"<p>{html.escape(str(self))}</p>"
        return f"<table>{line(_HEAD, 'th')}{''.join(line(row, 'td') for row in self._rows())}</table>"


class _Named:
    """What the compiler is told of each weight of a model, and what it says; names are the model's."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.names: dict[int, str] = {}
        for name, tensor in (
            *model.named_parameters(remove_duplicate=False),
            *model.named_buffers(remove_duplicate=False),
        ):
            self.names.setdefault(id(tensor), name)
        self.heard: dict[str, Weight] = {}

    def _name(self, rows: Sequence[Row], position: int, name: str) -> str:
        tensor = next((row[1] for row in rows if row[0] == position), None)
        return self.names.get(id(tensor), name)

    def hear(self, rows: Sequence[Row], coded: Sequence[tuple[int, Weight]]) -> list[Weight]:
        found = [dataclasses.replace(w, name=self._name(rows, at, w.name)) for at, w in coded]
        self.heard |= {weight.name: weight for weight in found}
        return found


class _Profile(_Named):
    """Sums the powers that profiled graphs return after their results."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self.powers: dict[str, Tensor] = {}

    def row(self, position: int, tensor: Tensor | None) -> Row:
        return position, tensor, "profile", None, None, "exact"

    def __str__(self) -> str:
        return "profile"

    def wrap(self, compiled: Callable[..., Any], weights: Sequence[Weight]) -> Callable[..., Any]:
        names = [weight.name for weight in weights if weight.why is None]
        if not names:
            return compiled

        def run(*given: Any) -> Any:
            out = compiled(*given)
            cut = len(out) - _POWERS * len(names)
            for k, name in enumerate(names):
                powers = torch.stack(list(out[cut + _POWERS * k : cut + _POWERS * (k + 1)]))
                self.powers[name] = self.powers[name] + powers if name in self.powers else powers
            return out[:cut]

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


class _Choice(_Named):
    """The formats that a profile suggests; the compiler chooses (csrc/capture/weights.c)."""

    def __init__(
        self,
        model: torch.nn.Module,
        format: str,
        activations: str,
        least: float | None,
        state: Mapping[str, Tensor],
    ) -> None:
        super().__init__(model)
        self.format, self.activations, self.least = format, activations, least
        self.state = {name: powers.tolist() for name, powers in state.items()}

    def row(self, position: int, tensor: Tensor | None) -> Row:
        powers = self.state.get(self.names.get(id(tensor), ""))
        return position, tensor, self.format, self.least, powers, self.activations

    def __str__(self) -> str:
        return self.format


def _arguments(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(batch, Mapping):
        return (), dict(batch)
    return (tuple(batch), {}) if isinstance(batch, (tuple, list)) else ((batch,), {})


def _compiled(model: torch.nn.Module, options: Options) -> Callable[..., Any]:
    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return _compile_dynamo(gm, inputs, options)

    def forward(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    # Dynamo compiles a code object a few times and then no more, whoever asks: each model has one of its own.
    forward.__code__ = forward.__code__.replace()
    compiled = torch.compile(forward, backend=backend)

    @functools.wraps(model.forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            return compiled(*args, **kwargs)

    return run


def _profile(model: torch.nn.Module, batches: Iterable[Any], options: Options) -> dict[str, Tensor]:
    profile = _Profile(model)
    run = _compiled(model, dataclasses.replace(options, weights=profile))
    for batch in batches:
        args, kwargs = _arguments(batch)
        run(*args, **kwargs)
    return dict(sorted(profile.powers.items()))


class Quantized:
    """A model whose products read codes. Called as the model is, without gradients.

    report: what became of each weight so far; graphs are compiled at the first call. state: the profile, a
    dict of small tensors by the names of parameters, which quantize takes instead of batches.
    """

    def __init__(
        self, model: torch.nn.Module, options: Options, choice: _Choice, state: Mapping[str, Tensor]
    ) -> None:
        self.model, self.state, self._choice = model, dict(state), choice
        self._run = _compiled(model, dataclasses.replace(options, weights=choice))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs)

    @property
    def report(self) -> QuantizeReport:
        return QuantizeReport([self._choice.heard[name] for name in sorted(self._choice.heard)])

    def __repr__(self) -> str:
        return f"<dlc.quantize of {type(self.model).__name__}>\n{self.report}"


def _check(model: Any, batches: Any, weights: Any, activations: Any, snr: Any, state: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"dlc.quantize takes a torch.nn.Module, not a value of type {type(model).__name__}")
    if weights not in FORMATS:
        raise ValueError(f"dlc.quantize: weights is {', '.join(map(repr, FORMATS))}, not {weights!r}")
    if activations not in ROWS:
        words = ", ".join(map(repr, ROWS))
        raise ValueError(f"dlc.quantize: activations is {words}, not {activations!r}")
    if snr is not None and (isinstance(snr, bool) or not isinstance(snr, (int, float)) or snr != snr):
        raise ValueError(f"dlc.quantize: snr is a number of decibels or None, not {snr!r}")
    if (batches is None) == (state is None):
        raise ValueError("dlc.quantize takes batches to profile, or the state of an earlier profile")


def _check_state(names: set[str], state: Mapping[str, Tensor]) -> None:
    wrong = sorted(set(state) - names)
    if wrong:
        raise ValueError(f"dlc.quantize: the state is of another model: this one has no {wrong[0]!r}")
    for name, powers in state.items():
        if not isinstance(powers, Tensor) or powers.shape != (_POWERS,):
            raise ValueError(f"dlc.quantize: {name!r} in the state is not a tensor of {_POWERS} numbers")


def quantize(
    model: torch.nn.Module,
    batches: Iterable[Any] | None,
    weights: str,
    activations: str,
    snr: float | None,
    state: Mapping[str, Tensor] | None,
    options: dict[str, Any] | None,
) -> Quantized:
    _check(model, batches, weights, activations, snr, state)
    parsed = parse({**(options or {}), "freeze": True}, None)
    first: list[Any] = []
    if state is None:
        given = list(batches or ())
        if not given:
            raise ValueError("dlc.quantize: batches is empty: there is nothing to profile")
        state, first = _profile(model, given, parsed), given[:1]
    choice = _Choice(model, weights, activations, snr, state)
    _check_state(set(choice.names.values()), state)
    made = Quantized(model, parsed, choice, state)
    for batch in first:  # so that there is a report
        args, kwargs = _arguments(batch)
        made(*args, **kwargs)
    return made
