"""python -m benchmarks kernels|models|training|compile|settle|growth|overhead|predicted|tuned [options]
python -m benchmarks operators|products|convolutions|attention|notation|arrays|onnx|exported|loading .."""

import argparse
from pathlib import Path

import torch

from benchmarks import (
    arrays,
    attention,
    convolutions,
    exported,
    first_call,
    growth,
    kernels,
    lengths,
    loading,
    notation,
    onnx_files,
    operators,
    predicted,
    products,
    report,
    settle,
    steady,
    summary,
    training,
    tuned,
)
from benchmarks.direct import DIRECT

DEFAULT = "eager,tcc,dlc,inductor,xla"
PEERS = {
    "kernels": DEFAULT,
    "models": "eager,tcc,dlc,frozen,jit,inductor,freezing",
    "training": f"eager,dlc,{training.CUT},inductor",
    "overhead": ",".join(("eager,dynamo,aot_eager,tcc,dlc,inductor", *DIRECT)),
    "compile": ",".join(first_call.PEERS),
    "settle": "dlc,tcc",
    "growth": "tcc",
    "operators": "eager,dlc",
    "products": "torch",
    "convolutions": "eager,last,dlc,frozen,inductor,freezing",
    "notation": "torch",
    "attention": "eager,dlc,frozen,inductor",
    "lengths": "dlc,sizes",
    "arrays": ",".join(("dlc", *arrays.PEERS)),
    "onnx": "onnxruntime",
    "exported": "c",
    "loading": "",
    "predicted": "",
    "tuned": "",
}
SIZE_HELP = (
    "of kernels: l1, l2, mem; of operators: small, middle, large; or numbers of elements; commas between"
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", choices=PEERS)
    parser.add_argument("--peers", help="a comma between names; dlc is always among them")
    parser.add_argument("--tune", action="store_true", help="also dlc with schedules that are measured")
    parser.add_argument(
        "--only",
        default="",
        metavar="TEXT",
        help="cases with TEXT in their name; of compile: several, commas between",
    )
    parser.add_argument("--size", default="all", help=SIZE_HELP)
    parser.add_argument("--small", action="store_true", help="small models and networks")
    parser.add_argument("--batch", type=int, default=1, help="of convolutions: how many images")
    parser.add_argument("--step", action="store_true", help="of convolutions: steps of training")
    parser.add_argument("--sizes", action="store_true", help="of convolutions: images whose sizes change")
    parser.add_argument("--budget", type=float, default=3.0, help="seconds of turns a case")
    parser.add_argument(
        "--way",
        default="static",
        help=f"of compile: {', '.join(first_call.WAYS)}, or several, commas between",
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="processes a figure, for compile, settle, growth"
    )
    parser.add_argument(
        "--packages", metavar="FOLDER", help="of compile: packages that come first, as another transformers"
    )
    parser.add_argument("--threads", type=int, help="threads of torch")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    args = parser.parse_args()
    if not set(args.way.split(",")) <= set(first_call.WAYS):
        parser.error(f"--way {args.way}: there are {', '.join(first_call.WAYS)}")
    return args


def steady_rows(args: argparse.Namespace, peers: list[str]) -> list[report.Row]:
    if args.what == "kernels":
        return kernels.run(args.only, args.size, peers, args.budget)
    if args.what == "attention":
        return attention.run(args.only, peers, args.budget)
    if args.what == "lengths":
        return lengths.run(args.only, args.budget)
    if args.what == "models":
        return steady.run_models(args.only, peers, args.budget, args.small)
    return steady.run(steady.overhead_cases(args.only), peers, args.budget)


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads or torch.get_num_threads())
    peers = (args.peers or PEERS[args.what]).split(",")
    if "dlc" not in peers:
        peers.append("dlc")
    if args.tune and args.what in ("kernels", "models", "overhead"):
        peers.append("tuned")
    if args.what == "compile":
        rows = []
        if args.packages:
            first_call.put_first(args.packages)
        print(first_call.versions())
        for way in args.way.split(","):
            found = first_call.run(args.only, peers, args.repeats, way)
            for figure, title in first_call.FIGURES.items():
                report.show_first(title.format(first_call.WAYS[way]), figure, found)
            rows += found if way == args.way else [row | {"way": way} for row in found]
    elif args.what == "settle":
        rows = settle.run(args.only, args.repeats)
        report.wide().print(settle.table(rows))
    elif args.what == "growth":
        rows = growth.run(args.only, args.repeats)
        report.wide().print(growth.table(rows))
    elif args.what == "products":
        rows, layers = [], {}
        for threads in [args.threads] if args.threads else sorted({1, torch.get_num_threads()}):
            torch.set_num_threads(threads)
            rows += products.run(args.only, args.budget)
            layers[threads] = products.fused(args.only, args.budget)
        print(products.alone())
        report.wide().print(products.table(rows))
        for threads, found in layers.items():
            report.show(f"layers around products, {threads} threads", found)
            rows += [row.data() | {"threads": threads} for row in found]
    elif args.what == "convolutions" and args.sizes:
        with torch.no_grad():
            rows = convolutions.run_sizes(args.only, args.budget, args.batch, args.small)
        report.show(f"convolutions, sizes that change, {torch.get_num_threads()} threads", rows)
    elif args.what == "convolutions":
        with torch.no_grad():
            rows = convolutions.run(args.only, peers, args.budget, args.batch, args.step, args.small)
        what = f"{'training' if args.step else 'evaluation'}, batch {args.batch}"
        report.show(f"convolutions, {what}, {torch.get_num_threads()} threads", rows, share="the peak")
    elif args.what == "notation":
        with torch.no_grad():
            found = notation.run(args.only, args.budget)
        report.wide().print(notation.table(found))
        rows = notation.data(found)
    elif args.what == "arrays":
        programs = arrays.run(args.only, peers, args.budget, torch.get_num_threads())
        report.wide().print(arrays.table(programs, peers))
        rows = arrays.data(programs)
    elif args.what == "onnx":
        rows = onnx_files.run(args.only, args.budget, args.repeats, args.threads)
        report.wide().print(onnx_files.table(rows))
    elif args.what == "loading":
        rows = list(loading.run(args.only, args.repeats))
        report.wide().print(loading.table(rows))
    elif args.what == "exported":
        rows = list(exported.run(args.only, args.budget, args.small))
        report.wide().print(exported.table(rows))
    elif args.what == "operators":
        with torch.no_grad():
            rows = operators.run(args.only, args.size, peers, args.budget)
        report.wide().print(operators.table(rows))
    elif args.what == "predicted":
        predictions = predicted.run(args.only, args.size, args.small)
        report.wide().print(predicted.table(predictions))
        print(predicted.text(predictions))
        rows = [row.data() for row in predictions]
    elif args.what == "tuned":
        gains = tuned.run(args.only, args.size, args.budget)
        report.wide().print(tuned.table(gains))
        print(tuned.text(gains))
        rows = [row.data() for row in gains]
    elif args.what == "training":
        steps, cuts = training.run(args.only, peers, args.budget, args.small)
        report.show(f"training, {torch.get_num_threads()} threads", steps)
        if training.CUT in peers:
            report.wide().print(training.table(cuts))
        rows = [step.data() | {"cuts": cut} for step, cut in zip(steps, cuts, strict=True)]
    else:
        with torch.no_grad():
            rows = steady_rows(args, peers)
        report.show(f"{args.what}, {torch.get_num_threads()} threads", rows)
        if args.what == "kernels":
            print(summary.text(rows))
    if args.json:
        report.save(args.json, args.what, rows)


if __name__ == "__main__":
    main()
