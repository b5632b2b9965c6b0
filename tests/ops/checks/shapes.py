"""Reductions, scans, views, rearrangements, norms, and what is made from nothing."""

from . import Rows, ints, reals

ROWS = Rows()
refuses, takes = ROWS.refuses, ROWS.takes
X, NONE = reals(2, 3), reals(0, 3)

# ---- reductions and scans ----

SEVERAL = "sum.dim_IntList mean.dim amax amin any.dims all.dims var.correction std.correction logsumexp"
ONE = "prod.dim_int argmax argmin max.dim min.dim cumsum cumprod cummax cummin logcumsumexp"
for overload in (SEVERAL + " " + ONE).split():
    name = overload.split(".")[0]
    refuses(overload, "an axis that there is", f"torch.{name}(x, 2)", X)
    refuses(overload, "an axis that there is", f"torch.{name}(x, -3)", X)
    if overload in SEVERAL.split():
        refuses(overload, "no axis twice", f"torch.{name}(x, (0, -2))", X)
for overload in ("amax", "amin", "max.dim", "argmax", "argmin", "aminmax"):
    name = overload.split(".")[0]
    axis = "dim=0" if name == "aminmax" else "0"
    refuses(overload, "an element to choose", f"torch.{name}(x, {axis})", NONE)
    refuses(overload, "an element to choose", f"torch.{name}(x)", NONE)
refuses("mean.default", "floats", "torch.mean(x)", ints(2))
refuses("var.correction", "floats", "torch.var(x)", ints(2))
refuses("linalg_vector_norm", "floats", "torch.linalg.vector_norm(x)", ints(2))
refuses("linalg_vector_norm", "an element of the largest", "torch.linalg.vector_norm(x, inf)", reals(0))
refuses("linalg_vector_norm", "no narrower dtype", "torch.linalg.vector_norm(x, dtype=torch.float16)", X)
refuses("renorm", "p above 0", "torch.renorm(x, 0, 0, 1.0)", X)
refuses("renorm", "a norm of at least 0", "torch.renorm(x, 2, 0, -1.0)", X)
refuses("trace", "a matrix", "torch.trace(x)", reals(3))
refuses("trace", "no truth values", "torch.trace(x)", reals(2, 2).bool())

# ---- views ----

for program in (
    "x.view(4)",
    "x.t().view(6)",
    "x.view(-1, -1)",
    "x.reshape(5)",
    "x.unflatten(1, (2, 2))",
    "x.expand(3, 3)",
    "x.expand(3)",
    "x.permute(0, 0)",
    "x.permute(0)",
    "x.transpose(0, 2)",
    "x.squeeze(2)",
    "x.unsqueeze(4)",
    "x.narrow(0, 1, 3)",
    "x.narrow(0, 0, -1)",
    "x[::0]",
    "x[0, 0, 0]",
    "x.split(-1)",
    "x.split([1, 2])",
    "x.unbind(2)",
    "x.diagonal(0, 0, 0)",
    "x.unfold(0, 3, 1)",
    "x.unfold(0, 1, 0)",
    "x.view_as(x[:1])",
):
    refuses("view", "sizes and axes that there are", program, X)
for program in (
    "torch.narrow_copy(x, 0, 1, 3)",
    "torch.unfold_copy(x, 0, 3, 1)",
    "torch.view_copy(x, (4,))",
    "torch.expand_copy(x, (3, 3))",
    "torch.diagonal_copy(x, 0, 0, 0)",
    "torch.permute_copy(x, (0, 0))",
    "torch.unsafe_split(x, -1)",
    "torch.unsafe_split_with_sizes(x, [1, 2])",
    "torch.unbind_copy(x, 2)",
):
    refuses("view_copy", "sizes and axes that there are", program, X)

# ---- rearrangements ----

for program in (
    "torch.cat([x, x[:, :2]])",
    "torch.cat([x, x[0]])",
    "torch.cat([x], 2)",
    "torch.cat([])",
    "torch.stack([x, x[:1]])",
    "torch.stack([])",
    "torch.vstack([x, x[:, :2]])",
):
    refuses("cat", "sizes that fit", program, X)
takes("cat", "no elements", "torch.cat([x, y])", X, reals(0))
for program in (
    "x.flip(2)",
    "x.flip(0, 0)",
    "x.flip(0, -2)",
    "x.roll(1, 2)",
    "x.roll((1, 2), 0)",
    "torch.rot90(x, 1, (0, 0))",
    "x.repeat(2)",
    "x.repeat(-1, 1)",
    "x.repeat_interleave(-1)",
    "torch.diag_embed(x, 0, 0, 0)",
    "torch.outer(x, x)",
):
    refuses("flip", "axes and counts that fit", program, X)
for program in (
    "F.pixel_shuffle(x, 2)",
    "F.pixel_unshuffle(x, 3)",
    "F.channel_shuffle(x, 2)",
    "F.pixel_shuffle(x, 0)",
):
    refuses(program[2:].split("(")[0], "a factor that divides", program, reals(1, 3, 2, 2))
for program in (
    "F.interpolate(x)",
    "F.interpolate(x, size=2, scale_factor=2)",
    "F.interpolate(x, size=0)",
    "F.interpolate(x, size=2, mode='foo')",
    "F.interpolate(x, size=2, align_corners=True)",
):
    refuses("upsample_nearest1d", "one size that is wanted", program, reals(1, 1, 2))
refuses("tril", "a matrix", "torch.tril(x)", reals(3))
for mode in ("reflect", "circular"):
    refuses("reflection_pad1d", "no more than there is", f"F.pad(x, (5, 0), mode='{mode}')", reals(1, 2, 4))
for mode in ("constant", "reflect", "replicate"):
    refuses("constant_pad_nd", "something to be left", f"F.pad(x, (-2, -3), mode='{mode}')", reals(1, 2, 4))
    refuses("constant_pad_nd", "pairs", f"F.pad(x, (1,), mode='{mode}')", reals(1, 2, 4))
takes("reflection_pad1d", "all but one", "F.pad(x, (3, 3), mode='reflect')", reals(1, 2, 4))
refuses("replication_pad1d", "an element", "F.pad(x, (1, 1), mode='replicate')", reals(1, 2, 0))

# ---- norms ----

refuses("native_layer_norm", "the last sizes", "F.layer_norm(x, (4,))", X)
refuses("native_layer_norm", "a weight of these sizes", "F.layer_norm(x, (3,), y)", X, reals(1))
refuses("native_layer_norm", "floats", "F.layer_norm(x, (3,))", ints(2, 3))
refuses("native_layer_norm", "a weight of the same dtype", "F.layer_norm(x, (3,), y)", X, reals(3).double())
refuses("_fused_rms_norm", "the last sizes", "F.rms_norm(x, (4,))", X)
refuses("_fused_rms_norm", "a weight of these sizes", "F.rms_norm(x, (3,), y)", X, reals(1))
refuses("native_group_norm", "groups that divide", "F.group_norm(x, 2)", reals(2, 3, 2))
refuses("native_group_norm", "a weight a channel", "F.group_norm(x, 2, y)", reals(2, 4, 2), reals(2))
BATCH = "F.batch_norm(x, y.detach().clone(), y.detach().clone(), training={})"
for training in (False, True):
    for stats in (reals(2), reals(1), reals(3).double()):
        refuses("native_batch_norm", "statistics of channels, of x's dtype", BATCH.format(training), X, stats)
refuses("native_batch_norm", "statistics", "F.batch_norm(x, None, None)", X)
refuses("native_batch_norm", "more than one value", "F.batch_norm(x, None, None, training=True)", reals(1, 3))
takes("native_batch_norm", "float32 beside halves", BATCH.format(True), X.bfloat16(), reals(3))

# ---- made from nothing ----

for program in (
    "torch.zeros(-1)",
    "torch.full((2, -1), 0)",
    "torch.eye(-1)",
    "torch.arange(0, 5, 0)",
    "torch.arange(-3)",
    "torch.arange(0, 5, -1)",
    "torch.linspace(0, 1, -1)",
    "x.new_zeros(-1)",
    "torch.full((2,), 300, dtype=torch.int8)",
):
    refuses("full", "sizes and numbers that can be", f"{program} + x[0, 0]", X)
