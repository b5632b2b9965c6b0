"""Losses and activations."""

import torch

from . import Rows, ints, of, reals

ROWS = Rows()
refuses, takes = ROWS.refuses, ROWS.takes

# ---- losses ----

UNIT, EDGES = reals(2), of(0.0, 1.0)
BCE = "binary_cross_entropy"
for reduction in ("none", "mean", "sum"):
    refuses(BCE, "no input above 1", f"F.{BCE}(x, y, reduction='{reduction}')", of(0.5, 1.5), EDGES)
for dtype in (torch.float64, torch.bfloat16, torch.float16):
    refuses(BCE, "no input above 1", f"F.{BCE}(x, y)", of(0.5, 1.5).to(dtype), EDGES.to(dtype))
for name, value in (("below 0", -0.5), ("that is nan", torch.nan), ("that is infinite", torch.inf)):
    refuses(BCE, f"no input {name}", f"F.{BCE}(x, y)", of(0.5, value), EDGES)
    refuses(BCE, f"no target {name}", f"F.{BCE}(y, x)", of(0.5, value), EDGES)
refuses(BCE, "no target above 1", f"F.{BCE}(x, y, z)", UNIT, of(0.0, 1.5), UNIT)
refuses(BCE, "no input above 1 in a larger kernel", f"F.{BCE}(x * 2, y) * 2 + 1", of(0.5, 0.75), EDGES)
refuses(BCE, "one dtype of input and target", f"F.{BCE}(x, y)", UNIT, EDGES.double())
for dtype in (torch.int64, torch.bool, torch.float16):
    refuses(BCE, "one dtype of input and target", f"F.{BCE}(x, y)", UNIT, EDGES.to(dtype))
refuses(BCE, "an input of floats", f"F.{BCE}(x, y)", ints(2), EDGES)
refuses(BCE, "one size of input and target", f"F.{BCE}(x, y)", UNIT, reals(3))
takes(BCE, "a target that broadcasts", f"aten.{BCE}(x, y)", reals(2, 2), UNIT)
refuses(BCE, "a weight of the input's size", f"F.{BCE}(x, y, z)", UNIT, EDGES, reals(3))
takes(BCE, "0 and 1", f"F.{BCE}(x, y)", EDGES, EDGES)
takes(BCE, "a weight outside of 0 .. 1", f"F.{BCE}(x, y, z.detach())", UNIT, EDGES, of(-1.0, 7.0))

LOGITS = "binary_cross_entropy_with_logits"
refuses(LOGITS, "a target that all is as large as", f"aten.{LOGITS}(x.detach(), y)", reals(2, 2), UNIT)
refuses(LOGITS, "one size of input and target", f"F.{LOGITS}(x, y)", UNIT, reals(3))
takes(LOGITS, "any numbers", f"F.{LOGITS}(x, y)", of(-3.0, 7.0), of(-1.0, 2.0))

for name, number in (("smooth_l1_loss", "beta"), ("huber_loss", "delta")):
    for value in ("-1.0", "nan"):
        refuses(name, f"{number} >= 0", f"F.{name}(x, y, {number}={value})", UNIT, EDGES)
    row = takes if number == "beta" else refuses
    row(name, f"{number} of 0", f"F.{name}(x, y, {number}=0.0)", UNIT, EDGES)
refuses("smooth_l1_loss", "beta >= 0", "F.smooth_l1_loss(x, y, reduction='none', beta=-1.0)", UNIT, EDGES)
for name in ("smooth_l1_loss", "huber_loss", "mse_loss", "soft_margin_loss"):
    for reduction in ("none", "mean", "sum"):
        refuses(name, "floats", f"F.{name}(x, y, reduction='{reduction}')", ints(2), ints(2))
    refuses(name, "sizes that broadcast", f"F.{name}(x, y)", UNIT, reals(3))
refuses("multi_margin_loss", "a target in range", "F.multi_margin_loss(x, y)", reals(2, 3), of(0, 3))
refuses("multi_margin_loss", "p of 1 or 2", "F.multi_margin_loss(x, y, p=3)", reals(2, 3), of(0, 2))

NLL = "nll_loss_forward"
for name in ("nll_loss", "cross_entropy"):
    for value in (3, -1, 2**40):
        for reduction in ("none", "mean", "sum"):
            program = f"F.{name}(x, y, reduction='{reduction}')"
            refuses(NLL, "a target in range", program, reals(2, 3), of(0, value))
    refuses(
        NLL,
        "a target that is ignored or in range",
        f"F.{name}(x, y, ignore_index=7)",
        reals(2, 3),
        of(0, -100),
    )
    takes(NLL, "an ignored target", f"F.{name}(x, y)", reals(2, 3), of(0, -100))
    takes(NLL, "an ignored target", f"F.{name}(x, y, ignore_index=7)", reals(2, 3), of(0, 7))
    refuses(NLL, "a weight a class", f"F.{name}(x, y, z)", reals(2, 3), of(0, 1), reals(2))
    refuses(NLL, "a target a row", f"F.{name}(x, y)", reals(2, 3), of(0, 1, 2))
    refuses(NLL, "an integer target", f"F.{name}(x, y)", reals(2, 3), of(0.0, 1.0))
    refuses(
        "nll_loss2d_forward",
        "a target in range",
        f"F.{name}(x, y)",
        reals(1, 3, 2, 1),
        of(0, 3).reshape(1, 2, 1),
    )
refuses(NLL, "a target in range", "F.cross_entropy(x, y, label_smoothing=0.1)", reals(2, 3), of(0, 3))
refuses(NLL, "a smoothing of 0 .. 1", "F.cross_entropy(x, y, label_smoothing=1.5)", reals(2, 3), of(0, 1))
refuses(NLL, "a target in range", "F.nll_loss(x, y)", reals(3), torch.tensor(3))

# ---- activations ----

SIGNS = of(-1.0, 1.0)
for value in ("0.0", "0"):
    refuses("celu", "alpha is not 0", f"F.celu(x, {value})", SIGNS)
    refuses("celu", "alpha is not 0", f"F.celu(x * 1, {value}, inplace=True)", SIGNS)
    refuses("celu", "alpha is not 0", f"torch.celu_(x * 1, {value})", SIGNS)
takes("celu", "a negative alpha", "F.celu(x, -1.0)", SIGNS)
takes("leaky_relu_backward", "a negative slope", "F.leaky_relu(x, -0.5)", SIGNS)
takes("leaky_relu_backward", "a slope of 0 in place", "F.leaky_relu_(x * 1, 0.0)", SIGNS)
takes("elu_backward", "a negative alpha", "F.elu(x, -0.5)", SIGNS)
for name in ("softshrink", "hardshrink", "celu", "selu", "gelu", "silu", "mish", "hardswish", "softplus"):
    refuses(name, "floats", f"F.{name}(x)", ints(2))
for name in ("softshrink", "gelu", "hardswish", "softplus", "leaky_relu", "elu"):
    refuses(name, "no complex numbers", f"F.{name}(x)", UNIT.cfloat())
NUMBERS = {"leaky_relu": "1e300", "elu": "-1e300", "softplus": "1e300", "threshold": "0.5, 1e300"}
for name, value in NUMBERS.items():
    refuses(name, "a number that the dtype holds", f"F.{name}(x, {value})", SIGNS)
    takes(name, "an infinite number", f"F.{name}(x, {value.replace('1e300', 'inf')})", SIGNS)
    takes(name, "a number that the dtype holds", f"F.{name}(x, {value})", SIGNS.double())
refuses("softshrink", "an edge of at least 0", "F.softshrink(x, -0.5)", SIGNS)
refuses("hardtanh", "no empty range", "F.hardtanh(x, 1.0, -1.0)", SIGNS)
refuses("hardtanh", "no truth values", "F.hardtanh(x)", SIGNS.bool())
refuses("hardtanh", "no negative bound of uint8", "F.hardtanh(x)", ints(2, dtype=torch.uint8))
refuses("relu", "no truth values", "F.relu(x)", SIGNS.bool())
refuses("glu", "an even size", "F.glu(x)", reals(3))
refuses("_prelu_kernel", "a weight a channel", "F.prelu(x, y)", reals(2, 3), reals(2))
refuses("_softmax", "an axis that there is", "F.softmax(x, 2)", reals(2, 2))
refuses("_log_softmax", "an axis that there is", "F.log_softmax(x, 2)", reals(2, 2))
for name in ("_softmax", "_log_softmax"):
    refuses(name, "floats", f"torch.{name[1:]}(x, 0)", ints(2))
    refuses(name, "halves to be widened", f"aten.{name}(x, 0, True)", UNIT)

#: Gradients of a result that was written over its operand: what eager refuses in the backward alone.
IN_PLACE = Rows()
for name in ("leaky_relu", "elu", "celu"):
    IN_PLACE.refuses(f"{name}_backward", "no negative slope in place", f"torch.{name}_(x * 1, -0.5)", SIGNS)
    program = f"F.{name}(x * 1, -0.5, inplace=True)"
    IN_PLACE.refuses(f"{name}_backward", "no negative slope in place", program, SIGNS)
