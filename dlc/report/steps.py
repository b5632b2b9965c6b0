"""From what the compiler in C says of a graph to the steps of a report."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .machine import Machine
from .model import Graph, Held, Place, Step

# What torch's libraries compute, and not the operator's own loop.
_PRODUCTS = {
    "mm", "bmm", "addmm", "baddbmm", "addbmm", "matmul", "linear", "mv", "addmv", "dot", "einsum",
    "_addmm_activation",
    "conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "convolution_backward", "scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
}  # fmt: skip
_DLC = str(Path(__file__).resolve().parents[1]) + "/"
_BINDER = re.compile(r"(\w+): (\w+\[[^\]]*\])")
_PLACE = re.compile(r'@(\w+)(?:\s+"([^"]*?[\w>]:\d+): ?(.*)")?\s*$')


@dataclasses.dataclass
class Let:
    """A line of the kernels stage with its body."""

    names: dict[str, str]  # what it binds: type
    op: str
    lines: list[str]

    @property
    def reads(self) -> set[str]:
        text = re.sub(r'\s@\w+( ".*")?$', "", "\n".join(self.lines), flags=re.MULTILINE)
        return set(re.findall(r"\b[a-zA-Z_]\w*\b", text)) - set(self.names)

    @property
    def operands(self) -> int:
        """Of a let without a body: those that are not attributes."""
        first = self.lines[0].partition(" = ")[2].split(" @")[0]
        return len(re.findall(r"(?<![\w=])[a-zA-Z_]\w*(?!\w*=)", first)) - 1

    def nodes(self) -> Iterator[str]:
        inner = self.lines[1:-1] if len(self.lines) > 1 else self.lines
        for line in inner:
            found = _PLACE.search(line)
            if found and not re.match(r"\s*let \w+: \S+( \d+\])* = const\b", line):
                yield found[1]


def lets_of(text: str) -> list[Let]:
    """Those at the top level of the function."""
    lets: list[Let] = []
    for line in text.splitlines():
        if line.startswith("  let "):
            head, _, rest = line.partition(" = ")
            lets.append(Let(dict(_BINDER.findall(head)), rest.split(" ", 1)[0], [line]))
        elif lets and (line.startswith("    ") or line.startswith("  }")):
            lets[-1].lines.append(line)
    return lets


def node_places(gm: Any) -> dict[str, dict[str, Any]]:
    """Of each node of a graph: the user's word for it, its line, and whether it may be run again."""
    found: dict[str, dict[str, Any]] = {}
    for node in gm.graph.nodes:
        if node.op in ("call_function", "call_method", "call_module"):
            found[node.name] = {"word": word_of(node), "base": _name(node.target)}
            found[node.name]["places"] = stack_place(node.stack_trace or "")
            found[node.name]["again"] = _may_run_again(node.target)
    return found


def _may_run_again(target: Any) -> bool:
    """An operator of somebody else's may do what nobody expects twice."""
    space = getattr(target, "namespace", None)
    if space is not None:
        return space in ("aten", "prims", "dlc")
    return isinstance(target, str) or str(getattr(target, "__module__", None)).split(".")[0] in (
        "torch", "_operator", "builtins", "math", "None",
    )  # fmt: skip


def stack_place(trace: str) -> Place | None:
    """The last frame that is the user's own; that of a library where there is no other."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in [^\n]*\n?([^\n]*)', trace)
    ours = ("/torch/", "site-packages", _DLC)
    own = [f for f in frames if not any(part in f[0] for part in ours)] or frames
    return Place(own[-1][0], int(own[-1][1]), own[-1][2].strip()) if own else None


def _name(target: Any) -> str:
    """addmm, conv2d, sin: of a function, an operator or a method."""
    word = target if isinstance(target, str) else getattr(target, "__name__", None) or str(target)
    return word.removeprefix("aten.").split(".")[0]


def word_of(node: Any) -> str:
    """What the user called: softmax, or Linear (blocks.0.up) where a module of torch's own did."""
    stack = node.meta.get("source_fn_stack") or node.meta.get("fwd_source_fn_stack")
    target = stack[-1][1] if stack else node.target
    word = _name(target.__name__ if isinstance(target, type) else target)
    modules = list((node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}).values())
    if not modules or not (isinstance(target, type) or _is_module_of_torch(modules[-1][1])):
        return word
    path = re.sub(r"\[['\"]?(\w+)['\"]?\]", r".\1", str(modules[-1][0])).replace("._modules.", ".")
    path = re.sub(r"^[LG]\.\w+\.?", "", path)
    kind = modules[-1][1]
    kind = getattr(kind, "__name__", str(kind).rsplit(".", 1)[-1])
    return f"{kind} ({path})" if path else kind


def _is_module_of_torch(kind: Any) -> bool:
    name = kind if isinstance(kind, str) else f"{getattr(kind, '__module__', '')}."
    return name.startswith("torch.nn.") and "container" not in name


def _elements(slot: dict[str, Any]) -> int:
    return math.prod(slot["sizes"])


_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16, "bool": 1}


def _bytes(slot: dict[str, Any]) -> int:
    digits = re.sub(r"^\D+", "", slot["dtype"]) or slot["dtype"]
    return min(_elements(slot) * _BYTES.get(digits, 1), slot["bytes"]) if slot["bytes"] else 0


def _is_wide(profile: dict[str, Any] | None, entry: dict[str, Any]) -> bool:
    return any(profile["slots"][s]["dtype"] == "f64" for s in entry.get("slots", ())) if profile else False


def _is_narrow(profile: dict[str, Any] | None, entry: dict[str, Any]) -> bool:
    """Are there operands of less than 32 bits, which some processors multiply by other instructions?"""
    dtypes = {profile["slots"][s]["dtype"] for s in entry.get("slots", ())} if profile else set()
    return bool(dtypes & {"f16", "bf16", "i8", "u8", "i16"})


def _product_operations(word: str, given: list[dict[str, Any]], made: list[dict[str, Any]]) -> int:
    """Terms count as two: a multiplication and an addition."""
    ranked = [slot["sizes"] for slot in given if len(slot["sizes"]) >= 1]
    if not ranked or not made:
        return 0
    outputs = _elements(made[0])
    if word == "convolution_backward" and len(ranked) > 2:
        filters = ranked[2]
        grads = sum(_elements(slot) > filters[0] for slot in made)
        return 2 * grads * math.prod(ranked[0]) * (math.prod(filters[1:]) if filters[0] else 0)
    if "conv" in word and len(ranked) > 1:
        filters = ranked[1]
        each = math.prod(filters) // max(filters[0], 1)
        return 2 * (math.prod(ranked[0]) * math.prod(filters[1:]) if "transpose" in word else outputs * each)
    if "attention" in word and len(ranked) > 2 and len(ranked[0]) > 1:
        query, key = (ranked[1], ranked[2]) if word.endswith("backward") else ranked[:2]
        return (10 if word.endswith("backward") else 4) * math.prod(query) * key[-2]
    a = ranked[1] if word in ("addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation") else ranked[0]
    return 2 * outputs * a[-1]


def _note(lets: list[Let], at: int, names: dict[int, str]) -> str:
    """Why the kernel lets[at] is not one with the step before it."""
    before = next((k for k in range(at - 1, -1, -1) if lets[k].op in ("kernel", "call")), None)
    if before is None:
        return "the first step"
    name = names.get(before, "the step before")
    views = {n: k for k in range(at) for n in lets[k].names if lets[k].op not in ("kernel", "call")}
    reads, todo = set(), list(lets[at].reads)
    while todo:
        read = todo.pop()
        if read not in reads:
            reads.add(read)
            if read in views:
                todo.extend(lets[views[read]].reads)
    shared = reads & set(lets[before].names)
    if not shared:
        return f"reads nothing that {name} makes"
    types = ", ".join(sorted({lets[before].names[n] for n in shared}))
    if lets[before].op == "call":
        return f"reads {types} of {name}, which dlc only calls"
    body = "\n".join(lets[before].lines)
    if " contract " in body:
        return f"reads {types} of {name}, which ends with a product"
    if not set(lets[at].names.values()) & set(lets[before].names.values()):
        return f"reads {types} of {name}, whose loops run over other sizes"
    return f"reads {types} of {name}; estimated to be no faster as one"


#: Texts of a graph that have a part for each kernel.
PARTS = ("kernels", "loops", "schedule", "cc", "tcc")


def _section(text: str, k: int, stage: str) -> str:
    """Of a text with all kernels, kernel k."""
    if stage in ("kernels", "loops"):
        kernels = [let for let in lets_of(text) if let.op == "kernel"]
        return "\n".join(line[2:] for line in kernels[k].lines) if k < len(kernels) else ""
    if stage == "schedule":
        of = re.split(r"^kernel k\d+\n", text, flags=re.MULTILINE)
        return of[k + 1] if k + 1 < len(of) else ""
    parts = re.split(r"\n(?=/\* k\d+_\d+, phase of)", text)
    return "\n".join(part for part in parts if part.startswith(f"/* k{k}_"))


def _why_called(base: str, options: Any) -> tuple[str, str, str]:
    """(kind, product, note) of a call."""
    if base in _PRODUCTS:
        if getattr(options, "products", "auto") == "library":
            hint = "products='library'"
        elif "backward" in base or "attention" in base:
            hint = "torch's library computes it"
        elif "conv" in base or getattr(options, "freeze", False):
            hint = "dlc can: products='own'"
        else:
            hint = "dlc can: products='own' or freeze=True"
        return "library", "library", hint
    if base == "contiguous":
        return "eager", "", "the order of axes that the next step reads"
    return "eager", "", "dlc has no kernel for it; torch's operator runs"


def add_steps(graph: Graph, report: dict[str, Any], options: Any) -> Graph:
    """The graph with what its plan measured."""
    profile, nodes = report.get("profile"), report.get("nodes", {})
    lets = lets_of(graph.texts["kernels"])
    kernels = [k for k, let in enumerate(lets) if let.op == "kernel"]
    calls = [k for k, let in enumerate(lets) if let.op == "call"]
    place = {k: f"k{n}" for n, k in enumerate(kernels)}
    site = {}
    for k in calls:
        found = re.search(r"\bsite=(\d+)", lets[k].lines[0])
        site[int(found[1]) if found else 0] = k
    words, bases = {}, {}
    for n, (target, node, _) in enumerate(graph.calls):
        word = nodes.get(node, {}).get("word") or _clean(target)
        words[n], bases[n] = word, nodes.get(node, {}).get("base") or _clean(target)
        if _clean(target) == "contiguous" != bases[n]:  # a layout that was chosen for the operator
            words[n], bases[n] = f"copy for {word}", "contiguous"
        if n in site:
            place[site[n]] = word
    steps: dict[tuple[str, int], dict[str, Any]] = {}
    # The plan copies the operands of each cat that stands alone, and at the end what results are.
    parts = [k for k, let in enumerate(lets) if let.op == "cat" for _ in range(let.operands)]
    if profile:
        last = 0
        for row in profile["steps"]:
            if row["kind"] == "launch":
                last = row["kernel"] if row["kernel"] >= 0 else last  # else its variant for short rows
                key = ("k", last)
            elif row["kind"] == "call":
                key = ("c", row["site"])
            elif row["kind"] == "copy":
                key = ("copy", parts.pop(0) if parts else -1)
            else:
                continue
            entry = steps.setdefault(
                key, {"seconds": 0.0, "slots": set(), "operations": 0, "tier": "", "symbols": []}
            )
            entry["seconds"] += row["seconds"]
            entry["slots"] |= set(row["slots"]) | set(row["results"])
            entry["operations"] += row["operations"]
            entry["symbols"] += [row["symbol"]] if row["symbol"] else []
            if row["kind"] == "call":
                given = [profile["slots"][s] for s in row["slots"]]
                made = [profile["slots"][s] for s in row["results"]]
                base = bases.get(row["site"], "")
                entry["operations"] = _product_operations(base, given, made) if base in _PRODUCTS else 0
            elif row["kind"] == "launch" and row["extent"]:
                entry["tier"] = min(filter(None, (entry["tier"], row["tier"])))
    made_steps = []

    def add_copies(key: int, word: str, found: list[str], note: str) -> None:
        entry = steps.get(("copy", key), {})
        made_steps.append(
            Step(
                name=word,
                kind="copy",
                operators=(word,),
                places=_places(found, nodes),
                seconds=entry.get("seconds", 0.0) if profile else None,
                bytes=sum(_bytes(profile["slots"][s]) for s in entry.get("slots", ())) if profile else 0,
                operations=0,
                wide=False,
                tier="",
                product="",
                note=note,
            )
        )

    for k, let in enumerate(lets):
        if let.op == "kernel":
            n = kernels.index(k)
            entry = steps.get(("k", n), {})
            found = list(dict.fromkeys(let.nodes()))
            operators = tuple(dict.fromkeys(_of_node(node, nodes) for node in found)) or ("copy",)
            own = any(" contract " in line for line in let.lines)
            panels = own and any(re.search(r"\bpanels\w*\b", line) for line in let.lines)
            texts = {s: _section(graph.texts[s], n, s) for s in PARTS}
            made_steps.append(
                Step(
                    name=f"k{n}",
                    kind="kernel",
                    operators=operators,
                    places=_places(found, nodes),
                    seconds=entry.get("seconds", 0.0) if profile else None,
                    bytes=sum(_bytes(profile["slots"][s]) for s in entry.get("slots", ())) if profile else 0,
                    operations=entry.get("operations", 0),
                    wide=_is_wide(profile, entry),
                    tier=entry.get("tier", ""),
                    product="frozen panels" if panels else "own" if own else "",
                    note=_note(lets, k, place),
                    texts=texts,
                    symbols=tuple(entry.get("symbols", ())),
                )
            )
        elif let.op == "cat":
            found = list(let.nodes())
            words_of = dict.fromkeys(_of_node(node, nodes) for node in found)
            many = f"the plan copies its {let.operands} operands"
            add_copies(k, " + ".join(words_of) or "cat", found, many)
        elif let.op == "call":
            n = next(s for s, at in site.items() if at == k)
            entry = steps.get(("c", n), {})
            word = words.get(n, "call")
            kind, product, note = _why_called(bases.get(n, ""), options)
            node = graph.calls[n][1] if n < len(graph.calls) else None
            made_steps.append(
                Step(
                    name=word,
                    kind=kind,
                    operators=(word,),
                    places=_places([node], nodes),
                    seconds=entry.get("seconds", 0.0) if profile else None,
                    bytes=sum(_bytes(profile["slots"][s]) for s in entry.get("slots", ())) if profile else 0,
                    operations=entry.get("operations", 0),
                    wide=_is_wide(profile, entry),
                    tier="",
                    product=product,
                    note=note,
                    narrow=_is_narrow(profile, entry),
                )
            )
    if ("copy", -1) in steps:
        add_copies(-1, "copy of results", [], "another tensor has to hold them")
    keys = tuple(report.get("keys", ()))
    calls = [(_clean(t) if t.startswith("<") else t, node, source) for t, node, source in graph.calls]
    graph = dataclasses.replace(graph, steps=made_steps, calls=calls, keys=keys, cache=options.cache_folder)
    if not profile:
        return graph
    return dataclasses.replace(
        graph,
        memory=_held(profile, words),
        workspace=profile["memory"]["workspace"],
        taken=profile["memory"] | {"tangents": report.get("tangents", []), "inside": report.get("inside", 0)},
        points=len(profile["steps"]),
        call_seconds=profile["seconds"],
        measured=profile["calls"],
    )


def add_predictions(graph: Graph, report: dict[str, Any], machine: Machine) -> Graph:
    """The graph with what its steps will take in a call of the sizes that were measured."""
    profile = report.get("profile")
    loops = report.get("cc_loops") or graph.texts["loops"]  # those that gcc gets, with their marks
    if not profile or not loops:
        return graph
    sizes = {name: size for name, size in profile["sizes"].items() if size >= 0}
    steps = list(graph.steps)
    for k, (_, moved, apart, seconds, limit) in enumerate(machine.predict(loops, sizes)):
        if k < len(steps) and steps[k].kind != "kernel":  # the library's arithmetic is not in the text
            computing = (
                steps[k].operations / (machine.product * machine.threads) * (2 if steps[k].wide else 1)
            )
            seconds, limit = max(apart, computing), "arithmetic" if computing > apart else limit
            if steps[k].kind != "copy":
                limit = "launch" if machine.call > seconds else limit
                seconds += machine.call
        if k < len(steps):
            found = {"predicted": seconds, "predicted_bytes": round(moved), "limit": limit}
            steps[k] = dataclasses.replace(steps[k], **found)
    for k, step in enumerate(steps):  # the copy of results is no line of the program
        if step.kind == "copy" and step.predicted is None:
            found = {"predicted": step.bytes / machine.bandwidth + machine.launch, "limit": "memory"}
            steps[k] = dataclasses.replace(step, predicted_bytes=step.bytes, **found)
    return dataclasses.replace(graph, steps=steps)


def _clean(target: str) -> str:
    """The name in what Python prints of a function."""
    found = re.match(r"<(?:built-in )?(?:function|method) ([\w.]+)", target)
    return found[1] if found else target.removeprefix("aten.").removesuffix(".default")


def _of_node(node: str, nodes: dict[str, Any]) -> str:
    known = nodes.get(node, {}).get("word")
    return known or re.sub(r"_\d+$", "", node)


def _places(names: list[Any], nodes: dict[str, Any]) -> tuple[Place, ...]:
    found = (nodes.get(name, {}).get("places") for name in names)
    return tuple(dict.fromkeys(place for place in found if place))


def _held(profile: dict[str, Any], words: dict[int, str]) -> list[Held]:
    """Memory that the call makes: workspace and tensors, by the step that makes them."""
    slots, steps = profile["slots"], profile["steps"]
    made: dict[int, str] = {}
    alive: dict[int, list[int]] = {}
    freed: set[int] = set()
    for k, row in enumerate(steps):
        for slot in (*row["slots"], *row["results"]):
            alive.setdefault(slots[slot]["root"], []).append(k)
            if row["kind"] == "launch":
                made.setdefault(slot, f"k{row['kernel']}")
        for slot in row["results"]:
            made.setdefault(slot, words.get(row["site"], "call") if row["kind"] == "call" else "copy")
        if row["kind"] == "free":
            freed.add(row["slots"][0])
    held = []
    for k, slot in enumerate(slots):
        if slot["kind"] not in ("work", "tensor") or not slot["bytes"] or k not in alive:
            continue
        kept = slot["kind"] == "tensor" and k not in freed  # a result
        last = len(steps) if kept else alive[k][-1]
        what = f"{made.get(k, 'copy')}: {slot['dtype']}{list(slot['sizes'])}"
        held.append(Held(what, slot["bytes"], alive[k][0], last))
    return held
