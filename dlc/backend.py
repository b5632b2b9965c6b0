"""The backend that torch.compile calls: Dynamo, then AOTAutograd, then the compiler in C."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend
from torch._dynamo.exc import TorchDynamoException, exceptions_allowed_to_be_fallback
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from . import _C
from .decompositions import decompositions
from .options import Options, parse

log = logging.getLogger("dlc")

_C.torch_init(torch.Tensor, torch.nn.Parameter, torch.empty(0))

#: Reports of the graphs compiled while dlc.explain runs; None when it does not.
reports: list[dict[str, Any]] | None = None


class EagerGraphWarning(UserWarning):
    """A graph runs as torch would run it, because dlc could not compile it."""


def _boxed(fn: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """fn(*args) as a function of one list, which it empties."""

    def run(args: list[Any]) -> Any:
        taken = list(args)
        args.clear()
        return fn(*taken)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _warn_eager(error: Exception) -> None:
    _C.count("eager_graphs")
    log.debug("a graph runs eagerly", exc_info=error)
    warnings.warn(
        f"dlc runs a graph eagerly: {error}. Set DLC_STRICT=1 or options={{'strict': True}} to raise "
        "instead.",
        EagerGraphWarning,
        stacklevel=3,
    )


def compile_graph(
    gm: GraphModule, example_inputs: list[Any], *, options: Options, kind: str
) -> Callable[[list[Any]], Any]:
    """One aten graph to a callable of a list of inputs.

    kind: "inference", "forward" or "backward".  A graph that dlc cannot take runs as gm.forward after
    one warning; with options.strict its reason is raised (CaptureError, InternalError).
    """
    report: dict[str, Any] | None = None if reports is None else {"kind": kind}
    try:
        compiled = _C.compile(
            gm,
            gm.forward,
            tier=options.tier,
            cc=options.cc,
            cache=options.cache_folder,
            verify=options.verify,
            dump=options.dump,
            fuel=options.fuel,
            report=report,
        )
        _C.count("aot_graphs")
    except Exception as error:
        if options.strict:
            raise
        _warn_eager(error)
        compiled = _boxed(gm.forward)
        if report is not None:
            report["error"] = str(error)
    if report is not None and reports is not None:
        reports.append(report)
    return compiled


def _compile_aot(gm: GraphModule, example_inputs: list[Any], options: Options) -> Any:
    inner = functools.partial(compile_graph, options=options)
    return aot_autograd(
        fw_compiler=functools.partial(inner, kind="forward"),
        bw_compiler=functools.partial(inner, kind="backward"),
        inference_compiler=functools.partial(inner, kind="inference"),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(gm, example_inputs)


def dlc_backend(
    gm: GraphModule,
    example_inputs: list[Any],
    *,
    options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> Any:
    """What torch.compile(..., backend="dlc") calls with each graph of Dynamo.

    Raises ValueError for an unknown option or a mode: dlc has no modes.
    """
    if mode not in (None, "default"):
        raise ValueError(f"dlc has no modes; leave out mode={mode!r} and use options={{...}}")
    parsed = parse(options)
    try:
        return _compile_aot(gm, example_inputs, parsed)
    except (TorchDynamoException, *exceptions_allowed_to_be_fallback):
        raise  # Dynamo's own way of asking for a graph break
    except Exception as error:
        if parsed.strict:
            raise
        _warn_eager(error)
        return gm.forward


dlc_backend.reset = _C.release  # type: ignore[attr-defined]  # torch._dynamo.reset() calls it

# torch registers what the entry point names when it first meets "dlc"; a copy that is only on the path
# (PYTHONPATH, a notebook beside the sources) has no entry point.
if not entry_points(group="torch_dynamo_backends", name="dlc"):
    register_backend(dlc_backend, name="dlc")
