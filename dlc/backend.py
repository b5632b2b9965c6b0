"""The backend that torch.compile calls: Dynamo, then the compiler in C.

Between them comes AOTAutograd where gradients, mutation of inputs or other things that it alone can do are
needed. A function that csrc/capture/torch/torch.def does not list is traced by itself (inline.py).
"""

from __future__ import annotations

from . import torch_init  # noqa: F401  (first: it says that torch is another one, which imports below would not)

# isort: split
import dataclasses
import functools
import logging
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any

import torch
from torch._C._functorch import peek_interpreter_stack
from torch._dynamo.backends.registry import register_backend
from torch._dynamo.exc import TorchDynamoException, exceptions_allowed_to_be_fallback
from torch._dynamo.source import AttrSource
from torch._dynamo.variables.builder import VariableBuilder
from torch._functorch import predispatch
from torch._guards import CompileContext
from torch.autograd import forward_ad
from torch.fx import GraphModule, Node

from . import _C, torch_artifacts
from .bodies import bodies_of
from .compiler import compile_with
from .frozen import frozen_of_aot, frozen_of_dynamo
from .inputs import inputs_of, say_inputs
from .layouts import drawn_as_eager, laid_as_eager, made_in_rows, marked_in_place
from .lengths import equate_lengths
from .memory import MemoryLimitError, check, given_up, tangents_of
from .options import MODES, Options, parse, parse_saved, warn
from .refused import has_refused_write
from .weights import rows_of, say, say_gradients

log = logging.getLogger("dlc")

#: Reports of the graphs compiled while dlc.explain runs; None when it does not.
reports: list[dict[str, Any]] | None = None
#: Whether these keep the arguments of the first call, so that the graph can be measured.
keep_arguments = False


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


def _reason(error: Exception) -> str:
    """What the error says; Python's MemoryError often says nothing."""
    return str(error) or ("out of memory" if isinstance(error, MemoryError) else type(error).__name__)


def _warn_eager(error: Exception) -> None:
    _C.count("eager_graphs")
    log.debug("a graph runs eagerly", exc_info=error)
    reason, sign, place = _reason(error).partition("\n  at ")
    warn(
        f"dlc runs a graph eagerly: {reason}. Set DLC_STRICT=1 or options={{'strict': True}} to "
        f"raise instead.{sign}{place}",
        EagerGraphWarning,
    )


def _recorded(compiled: Any, gm: GraphModule, report: dict[str, Any], keys: list[str]) -> Any:
    """For dlc.explain: where the graph's nodes come from, and what is called with which arguments."""
    from .report.steps import node_places

    report["nodes"] = node_places(gm)
    report["compile_id"] = str(CompileContext.current_compile_id())
    report["callable"], report["keys"] = compiled, keys
    if not keep_arguments:
        return compiled

    def run(*given: Any) -> Any:
        boxed = len(given) == 1 and isinstance(given[0], list)
        report.setdefault("arguments", list(given[0]) if boxed else list(given))
        return compiled(*given)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _compile(
    gm: GraphModule,
    options: Options,
    report: dict[str, Any] | None,
    eager: Callable[..., Any],
    **kwargs: Any,
) -> Any:
    keys: list[str] = []
    coded: list[tuple[Any, ...]] = []
    if kwargs.get("weights"):
        kwargs["coded"] = coded
    compiled = compile_with(options, gm, eager, report=report, keys=keys, **kwargs)
    weights = say(options, gm, kwargs["weights"], coded) if coded else []
    compiled = getattr(options.weights, "wrap", lambda same, _: same)(compiled, weights)
    if report is not None:
        report["weights"] = weights
    if options.memory_limit is not None and (kwargs.get("direct") or kwargs.get("inference")):
        check(compiled, gm, options.memory_limit)
    torch_artifacts.record(keys, options.cache_folder, options.cc or "")
    return compiled if report is None else _recorded(compiled, gm, report, keys)


def _values_in(gm: GraphModule, values: Sequence[Any]) -> Sequence[Any]:
    """The values of Dynamo's inputs, if AOTAutograd's graph has the same ones."""
    fakes = [node.meta.get("val") for node in inputs_of(gm)]
    same = len(fakes) == len(values) and all(
        isinstance(fake, torch.Tensor) == isinstance(value, torch.Tensor)
        and (not isinstance(fake, torch.Tensor) or fake.dtype == value.dtype)
        for fake, value in zip(fakes, values, strict=True)
    )
    return values if same else ()


def compile_graph(
    gm: GraphModule,
    example_inputs: list[Any],
    *,
    options: Options,
    kind: str,
    indirect: str | None = None,
    partition: dict[str, Any] | None = None,
    inputs: Sequence[Node] = (),
    values: Sequence[Any] = (),
) -> Callable[[list[Any]], Any]:
    """One aten graph to a callable of a list of inputs.

    kind: "inference", "forward", "backward", or "body": of control flow in another graph.  indirect: why it
    was not taken as Dynamo gave it.  partition: what is to be said of training's two graphs.  inputs: the
    placeholders of Dynamo's graph, for messages.  values: what these stand for.  A graph that
    dlc cannot take runs as gm.forward after one warning; with options.strict its reason is raised
    (CaptureError, InternalError).
    """
    report: dict[str, Any] | None = None
    if reports is not None:
        report = {"kind": kind, "indirect": indirect, "partition": partition if kind == "forward" else None}
    try:
        bodies = bodies_of(gm, lambda body: compile_graph(body, [], options=options, kind="body"))
        given = given_up(gm, partition or {}) if kind == "backward" else []
        frozen = frozen_of_aot() if options.freeze and kind == "inference" else []
        inference = kind == "inference"
        weights = rows_of(options, frozen, _values_in(gm, values))
        if kind == "forward":
            say_gradients(options)
        compiled = laid_as_eager(
            gm,
            lambda: _compile(
                gm,
                options,
                report,
                gm.forward,
                bodies=bodies,
                frozen=frozen,
                inference=inference,
                given=given,
                **({"weights": weights} if weights else {}),
            ),
        )
        if kind != "body":
            _C.count("aot_graphs")
    except MemoryLimitError:
        raise
    except Exception as error:
        say_inputs(error, gm, list(inputs))
        if options.strict:
            raise
        _warn_eager(error)
        compiled = gm if kind == "body" else _boxed(gm.forward)
        if report is not None:
            report["error"] = _reason(error)
    if report is not None and reports is not None:
        report["tangents"] = tangents_of(gm) if kind == "backward" else []
        reports.append(report)
    return compiled


def _probe(gm: GraphModule, given: list[int], options: Options) -> _C.Callable:
    """The graph compiled to ask what memory it takes: by libtcc alone, as that depends on no tier."""
    quick = dataclasses.replace(options, tier="tcc", cache=False, tune=False, dump=None)
    bodies = bodies_of(gm, lambda body: _probe(body, [], options))

    def take() -> Any:
        return _C.compile(gm, gm.forward, **quick.compiler_arguments(), bodies=bodies, given=given)

    return laid_as_eager(gm, take)


def compile_aot(
    gm: GraphModule,
    example_inputs: list[Any],
    options: Options,
    indirect: str | None,
    cut: Callable[..., Any] | None = None,
) -> Any:
    """The graph through AOTAutograd; cut: its partition_fn, instead of dlc's own."""
    # Imported here: a graph that is taken directly needs none of it.
    from torch._dynamo.backends.common import aot_autograd

    from .decompositions import decompositions
    from .partition import Partitioner

    inner = functools.partial(
        compile_graph, options=options, indirect=indirect, inputs=inputs_of(gm), values=example_inputs
    )
    partitioner = Partitioner(
        options.memory_budget,
        options.fuel,
        options.products,
        options.memory_limit,
        functools.partial(_probe, options=options),
    )
    return aot_autograd(
        fw_compiler=functools.partial(inner, kind="forward", partition=partitioner.summary),
        bw_compiler=functools.partial(inner, kind="backward", partition=partitioner.summary),
        inference_compiler=functools.partial(inner, kind="inference"),
        decompositions=decompositions(),
        partition_fn=cut or partitioner,
        keep_inference_input_mutations=True,
    )(marked_in_place(drawn_as_eager(made_in_rows(gm))), example_inputs)


def _needs_aot(example_inputs: list[Any]) -> str | None:
    """What in the inputs and in torch's state only AOTAutograd takes care of."""
    tensors = [t for t in example_inputs if isinstance(t, torch.Tensor)]
    for t in tensors:
        if type(t) not in (torch.Tensor, torch.nn.Parameter):
            return f"an input is a {type(t).__name__}"
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return "it needs gradients"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    if forward_ad._current_level >= 0 or peek_interpreter_stack() is not None:
        return "a function transform is active"
    return None


def _batched(gm: GraphModule) -> GraphModule:
    """Regions under vmap as operators."""
    if not gm.graph.find_nodes(op="call_function", target=predispatch._vmap_increment_nesting, sort=False):
        return gm
    from .regions import batched

    return batched(gm)


def _compile_inlined(
    gm: GraphModule, values: Sequence[Any], options: Options, report: dict[str, Any] | None
) -> Any:
    """Functions that stop the walk are traced, each alone, as long as that helps."""
    graph, traced = _batched(gm), 0
    frozen = frozen_of_dynamo(gm) if options.freeze else []
    weights = rows_of(options, frozen, values)
    more = {"weights": weights} if weights else {}
    while True:
        try:
            return _compile(graph, options, report, gm.forward, direct=True, frozen=frozen, **more)
        except _C.CaptureError as error:
            # Imported here: most graphs need none of it.
            from .inline import MOST, inlined

            name = getattr(error, "node", None)
            if name is None or traced == MOST:
                raise
            traced += 1
            try:
                graph = inlined(graph, name)
            except Exception as other:
                log.debug("%s is not traced by itself: %s", name, other, exc_info=True)
                raise error from None


def _compile_direct(gm: GraphModule, values: Sequence[Any], options: Options) -> Any:
    """The graph as Dynamo gives it, without AOTAutograd.  Raises CaptureError when that cannot be done."""
    report: dict[str, Any] | None = None if reports is None else {"kind": "direct"}
    compiled = _compile_inlined(gm, values, options, report)
    _C.count("direct_graphs")
    if report is not None and reports is not None:
        reports.append(report)
    return compiled


def _is_refused(gm: GraphModule) -> bool:
    """Will eager raise?  It then does so itself."""
    try:
        return has_refused_write(gm)
    except Exception as error:
        log.debug("the writes of a graph are not known", exc_info=error)
        return False


def _compile_dynamo(gm: GraphModule, example_inputs: list[Any], options: Options) -> Any:
    """Directly where that is safe and known how, through AOTAutograd else."""
    if _is_refused(gm):
        return gm.forward
    if options.products != "library":
        equate_lengths(gm)
    if options.capture == "aot":
        return compile_aot(gm, example_inputs, options, None)
    indirect = _needs_aot(example_inputs)
    if forward_ad._current_level >= 0 and indirect == "it needs gradients":
        raise _C.CaptureError("gradients and tangents of forward mode at once")
    if indirect is None:
        try:
            return _compile_direct(gm, example_inputs, options)
        except MemoryLimitError:
            raise
        except Exception as error:
            say_inputs(error, gm, inputs_of(gm))
            if options.capture == "direct":
                raise
            indirect = _reason(error)
            log.debug("a graph goes through AOTAutograd", exc_info=error)
    elif options.capture == "direct":
        raise _C.CaptureError(
            f"the graph cannot be taken directly: {indirect}; option capture='auto' has AOTAutograd take it"
        )
    return compile_aot(gm, example_inputs, options, indirect)


def _is_saved(gm: GraphModule) -> bool:
    """Is it torch's aot_compile that asks, which saves what it is given?"""
    return hasattr(gm, "_backend_id") and torch._functorch.config.bypass_autograd_cache_key


def dlc_backend(
    gm: GraphModule,
    example_inputs: list[Any],
    *,
    options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> Any:
    """What torch.compile(..., backend="dlc") calls with each graph of Dynamo.

    Raises ValueError for an unknown option or mode, and with option strict CaptureError for a graph that
    dlc cannot take. torch wraps both: who calls the compiled function gets a BackendCompilerFailed of
    Dynamo's, a RuntimeError whose inner_exception they are. Only aot_compile lets a ValueError through.
    """
    if _is_saved(gm):
        from .aot_compile import compile_artifact

        parsed = parse_saved(options or {}, "aot_compile", mode)
        given = MODES[mode or "default"] | (options or {})
        return compile_artifact(gm, example_inputs, given, parsed)
    parsed = parse(options, mode)
    try:
        return _compile_dynamo(gm, example_inputs, parsed)
    except (TorchDynamoException, MemoryLimitError, *exceptions_allowed_to_be_fallback):
        raise  # Dynamo's own way of asking for a graph break
    except Exception as error:
        if parsed.strict:
            raise
        _warn_eager(error)
        return gm.forward


def _follow_jit(builder: Any, function: Any) -> Any:
    """What Dynamo makes of a function of dlc.jit: the function that it was given, as a part of the graph."""
    return type(builder)(builder.tx, AttrSource(builder.source, "__wrapped__"))(function.__wrapped__)


for _traces_numpy in (False, True):
    VariableBuilder._type_dispatch_impl(_traces_numpy)[_C.Jit] = _follow_jit

dlc_backend.reset = _C.release  # type: ignore[attr-defined]  # torch._dynamo.reset() calls it

# torch registers what the entry point names when it first meets "dlc"; a copy that is only on the path
# (PYTHONPATH, a notebook beside the sources) has no entry point.
if not entry_points(group="torch_dynamo_backends", name="dlc"):
    register_backend(dlc_backend, name="dlc")
