"""The options of the backend: torch.compile(..., backend="dlc", options={...}).

Each has an environment variable DLC_<NAME>; an argument wins over the environment.  Who calls dlc.jit
gets what is raised here as it is; who calls what torch.compile made, in a BackendCompilerFailed of Dynamo's.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from . import environment, option_values
from ._C import cache_refusal, compiler_failure

COMPILERS = ("cc", "gcc", "clang")
#: What was warned of, and the cache folders that were looked at, in this process.
said: set[str] = set()
looked_at: set[str] = set()


@dataclasses.dataclass(frozen=True)
class Options:
    """What a compile may be told.  docs/options.md has each in a sentence."""

    tier: str = "auto"
    cache: bool | str = True
    strict: bool = False
    cc: str | None = None
    verify: bool | str = False
    dump: str | None = None
    fuel: int = -1
    capture: str = "auto"
    memory_budget: float = 1.0
    memory_limit: int | None = None
    tune: bool = False
    tune_budget: float = 20.0
    freeze: bool = False
    products: str = "auto"
    weights: Any = None  # or what dlc.quantize has found
    activations: str = "exact"

    @property
    def cache_folder(self) -> str | None:
        """As the extension takes it: None for the default folder, "" for no cache."""
        return self.cache if isinstance(self.cache, str) else None if self.cache else ""

    def compiler_arguments(self) -> dict[str, Any]:
        """Those of the options that the compiler in C takes, by its names for them."""
        names = ("tier", "cc", "dump", "fuel", "products", "activations")
        given = {name: getattr(self, name) for name in names}
        given |= {"verify": self.verify is True, "checks": self.verify == "run"}
        given |= {"cache": self.cache_folder, "cc": self.cc or ""}  # None would ask the environment again
        given |= {"own_tensors": self.memory_limit is not None}
        if not self.tune:
            return given
        from .tune import Progress

        return given | {"tune": Progress(), "tune_budget": self.tune_budget}


# What torch.compile(..., mode=...) means here.  A call costs as little as it can in any mode.
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {"tune": True},
    "max-autotune-no-cudagraphs": {"tune": True},
}
_FIELDS = {field.name: field for field in dataclasses.fields(Options)}


_OURS = (str(Path(__file__).parent), str(Path(sys.prefix) / "lib"), "<frozen ")


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """At the user's line, which called torch, which called dlc."""
    frame = outer = sys._getframe(1)
    while frame is not None and (
        frame.f_code.co_filename.startswith(_OURS) or "/torch/" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    frame = frame or outer
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    name = frame.f_globals.get("__name__", "<unknown>")
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, name, registry)


def _say_once(text: str, about: str | None = None) -> None:
    """A warning, once in the process: torch lets Python forget what was said, at each graph."""
    if (about or text) not in said:
        said.add(about or text)
        warn(text)


def failure_text() -> str | None:
    """What is to be said of a C compiler that compiled nothing of what it was last given."""
    failure = compiler_failure()
    if failure is None:
        return None
    return (
        f"the C compiler {failure[0]!r} failed: {failure[1]}. Kernels of libtcc run instead, which are right "
        "but slower. `python -m dlc doctor` tries the compiler; option cc (DLC_CC) names another one, and "
        "tier 'tcc' asks for none"
    )


def say_failure() -> None:
    """Tells who named the C compiler, or waited for it, that it fails: once for each command."""
    failure, text = compiler_failure(), failure_text()
    if failure is not None and text is not None and failure[2]:
        _say_once(f"dlc: {text}", about=f"failed: {failure[0]}")


def _which(command: str) -> str | None:
    import shutil  # here: with the archives it knows it takes a fifth of the time of dlc.load

    return shutil.which(command)


def _check_compiler(command: str) -> None:
    """Says that a compiler that was asked for is not there: everything works without."""
    if not any(map(_which, (command, command.split()[0] if command.strip() else ""))):
        _say_once(
            f"dlc finds no C compiler {command!r} (option cc): kernels that the cache lacks are libtcc's"
        )


def _check_folder(folder: str) -> None:
    """Says that a folder that was asked for is not used; the extension makes one that is missing."""
    if folder not in looked_at:
        looked_at.add(folder)
        if reason := cache_refusal(folder):
            _say_once(f"dlc keeps no kernels in {folder!r} (option cache): {reason}")


def _check_default_folder() -> None:
    """Says that there is no place to keep kernels in, once."""
    if "" not in looked_at:
        looked_at.add("")
        if reason := cache_refusal():
            _say_once(
                f"dlc keeps no kernels for the next process: {reason}. DLC_CACHE_DIR names a folder; "
                "DLC_CACHE=0 asks for none"
            )


def _check_settled(options: Options) -> None:
    """Says that the C compiler that was asked to be waited for is not there."""
    asked = "option tune" if options.tune else "tier 'gcc'" if options.tier == "gcc" else None
    if asked and not options.cc and not any(map(_which, COMPILERS)):
        _say_once(f"dlc finds no C compiler on the PATH ({asked}): kernels that the cache lacks are libtcc's")


def _checked(name: str, value: Any) -> Any:
    if name == "cc" and value:
        _check_compiler(value)
    return value


def _from_environment(given: Iterable[str]) -> dict[str, Any]:
    """The options that are not given but have a variable; one that is empty is as good as none."""
    found = {}
    for name in _FIELDS:
        variable = f"DLC_{name.upper()}"
        text = os.environ.get(variable, "")
        if text and name not in given:
            try:
                found[name] = _checked(name, option_values.read(name, text))
            except ValueError as error:
                raise ValueError(f"{error} (from the environment: {variable})") from None
    return found


def environment_problems() -> list[str]:
    """Of the variables DLC_<NAME> that are set: names that nothing reads, and values that are none."""
    found = environment.unknown(_FIELDS) + environment.wrong()
    for name in _FIELDS:
        try:
            _from_environment(_FIELDS.keys() - {name})
        except ValueError as error:
            found.append(str(error))
    return found


def _check_environment() -> None:
    for text in environment.unknown(_FIELDS):
        _say_once(f"dlc: {text}")
    wrong = environment.wrong()
    if wrong:
        raise ValueError(f"dlc: {wrong[0]}")


#: What others call options, and how dlc is told the same.
_ELSEWHERE = {
    **dict.fromkeys(("max_autotune", "autotune", "coordinate_descent_tuning"), "{'tune': True} is dlc's"),
    **dict.fromkeys(("freezing", "frozen"), "{'freeze': True} is dlc's"),
    **dict.fromkeys(
        ("threads", "num_threads", "nthreads", "cpp.threads"),
        "torch.set_num_threads(n) says how many threads run",
    ),
    **dict.fromkeys(
        ("dynamic", "fullgraph", "mode", "backend"), "it is an argument of torch.compile, and not of options"
    ),
    **dict.fromkeys(("constants", "constant"), "constants=True is an argument of dlc.jit"),
    **dict.fromkeys(("compiler", "cxx", "cpp.cxx"), "{'cc': 'gcc'} is dlc's"),
    **dict.fromkeys(("cache_dir", "cache_folder"), "{'cache': '~/folder'} is dlc's"),
    **dict.fromkeys(("debug", "trace.enabled"), "{'dump': 'all'} prints what dlc makes"),
    **dict.fromkeys(("fallback", "fallback_to_eager"), "{'strict': True} raises instead of running eagerly"),
}


def _hint(name: str) -> str:
    """What whoever wrote a name that is no option's means."""
    if name in _ELSEWHERE:
        return f" ({_ELSEWHERE[name]})"
    near = difflib.get_close_matches(name, _FIELDS, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def parse_saved(options: dict[str, Any], what: str, mode: str | None = None) -> Options:
    """parse() for what may meet other sizes without a compile; what: its name, for the message."""
    if options.get("memory_limit") is not None:
        raise ValueError(
            f"{what} does not take dlc option 'memory_limit', which depends on the sizes of each compile: "
            'leave it out, or use torch.compile(fn, backend="dlc")'
        )
    if options.get("weights") is not None:
        raise ValueError(f"{what} does not take dlc option 'weights': use torch.compile(fn, backend=\"dlc\")")
    return parse(options, mode)


def parse(options: dict[str, Any] | None, mode: str | None = None) -> Options:
    """Options from the environment, the mode, and the user's dict; the later one wins.

    Raises ValueError for an unknown name, with the valid ones and the nearest of them, and for a
    value that the option, or another variable of dlc's, does not take.
    """
    _check_environment()
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"options is a dict, such as {{'freeze': True}}, not {options!r}")
    given = dict(options or {})
    if mode is not None and mode not in MODES:
        near = difflib.get_close_matches(str(mode), MODES, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"unknown mode {mode!r}{hint}; the modes are {', '.join(MODES)}")
    for name in given:
        if name not in _FIELDS:
            hint = _hint(str(name))
            raise ValueError(f"unknown dlc option {name!r}{hint}; the options are {', '.join(_FIELDS)}")
    asked = MODES[mode or "default"] | given
    taken = {name: _checked(name, option_values.take(name, value)) for name, value in asked.items()}
    found = _from_environment(asked) | taken
    settled = Options(**found)
    if settled.weights is not None and not settled.freeze:
        raise ValueError(
            f"dlc option 'weights' is about weights that are kept from call to call: write "
            f"{{'freeze': True, 'weights': {settled.weights!r}}}"
        )
    _check_settled(settled)
    if isinstance(settled.cache, str) and settled.tier != "tcc":
        _check_folder(settled.cache)
    elif settled.cache is True and settled.tier != "tcc":
        _check_default_folder()
    return settled
