"""Positions that are data: gathers, scatters, embeddings, searches."""

import torch

from . import Rows, of, reals

ROWS = Rows()
refuses, takes = ROWS.refuses, ROWS.takes

# ---- indices out of range; of five rows ----

X, LINE, SQUARE = reals(5, 3), reals(5), reals(5, 5)
ROW_PROGRAMS = {
    "index_select": "torch.index_select(x, 0, y)",
    "index_copy": "torch.index_copy(x, 0, y, x[:2])",
    "index_add": "torch.index_add(x, 0, y, x[:2])",
    "index_reduce": "torch.index_reduce(x, 0, y, x[:2], 'amax')",
    "embedding": "F.embedding(y, x)",
    "_embedding_bag": "F.embedding_bag(y.reshape(1, 2), x)",
}
ELEMENT_PROGRAMS = {
    "gather": "torch.gather(x, 0, y)",
    "scatter.src": "torch.scatter(x, 0, y, x[:1])",
    "scatter.value": "torch.scatter(x, 0, y, 1.0)",
    "scatter_add": "torch.scatter_add(x, 0, y, x[:1])",
    **{
        f"scatter_reduce.two {r}": f"torch.scatter_reduce(x, 0, y, x[:1], '{r}')"
        for r in ("sum", "prod", "mean", "amax")
    },
}
FROM_END = {
    "index.Tensor": "x[y]",
    "index.Tensor of two": "x[y, y]",
    "index_put": "torch.index_put(x, (y,), x[:2])",
    "index_put added": "torch.index_put(x, (y,), x[:2], accumulate=True)",
    "index_fill": "torch.index_fill(x, 0, y, 1.0)",
}
for value in (5, -1, -6):
    for name, program in ROW_PROGRAMS.items():
        refuses(name.split()[0], "an index in range", program, X, of(0, value))
    for name, program in ELEMENT_PROGRAMS.items():
        refuses(name.split()[0], "an index in range", program, X, torch.tensor([[0, 1, value]]))
    refuses(
        "index_select", "an index in range", "torch.index_select(x, 1, y)", X.t().contiguous(), of(0, value)
    )
    refuses("one_hot", "a class in range", "F.one_hot(y, 5)", X, of(0, value))
    refuses(
        "searchsorted.Tensor",
        "a sorter in range",
        "torch.searchsorted(x, x, sorter=y)",
        reals(2),
        of(0, value),
    )
    refuses(
        "max_unpool2d",
        "an index in range",
        "F.max_unpool2d(x, y, 2)",
        reals(1, 1, 1, 1),
        torch.full((1, 1, 1, 1), value),
    )
for value in (5, -6):
    for name, program in FROM_END.items():
        refuses(name.split()[0], "an index in range", program, SQUARE, of(0, value))
    for name, program in {
        "take": "torch.take(x, y)",
        "put": "aten.put(x.detach(), y, x.detach()[:2])",
    }.items():
        refuses(name, "an index in range", program, LINE, of(0, value))
    for program in ("x.select(0, {})", "x[{}]"):
        refuses("select.int", "an index in range", program.format(value), X)
for name, program in FROM_END.items():
    takes(name.split()[0], "an index from the end", program, SQUARE, of(0, -5))

# ---- dtypes and sizes of an index ----

LONG_ONLY = {
    "index_copy": "torch.index_copy(x, 0, y, x[:2])",
    "index_fill": "torch.index_fill(x, 0, y, 1.0)",
    "put": "aten.put(x.detach(), y, x.detach()[:2])",
    "take": "torch.take(x, y)",
    "one_hot": "F.one_hot(y, 5)",
}
SHORT_TOO = {
    "index_select": "torch.index_select(x, 0, y)",
    "index_add": "torch.index_add(x, 0, y, x[:2])",
    "embedding": "F.embedding(y, x)",
}
for name, program in (LONG_ONLY | SHORT_TOO).items():
    source = X if name == "embedding" else LINE
    if name != "one_hot":
        refuses(name, "an index of integers", program, source, of(0.0, 1.0))
    (refuses if name in LONG_ONLY else takes)(name, "an index of int64", program, source, of(0, 1).int())
for name, program in SHORT_TOO.items():
    if name != "embedding":
        refuses(name, "an index of one axis", program, LINE, of(0, 1).reshape(1, 2))
refuses("one_hot", "at least one class", "F.one_hot(x, 0)", of(0, 1))
refuses("one_hot", "no class below 0", "F.one_hot(x)", of(0, -1))

# ---- what is written ----

INDEX = torch.tensor([[0, 1, 2]])
for name in ("scatter", "scatter_add"):
    refuses(name, "a source of the same dtype", f"torch.{name}(x, 0, y, x.double())", X, INDEX)
    refuses(name, "as many axes of the index", f"torch.{name}(x, 0, y[0], x)", X, INDEX)
    refuses(name, "no larger index than source", f"torch.{name}(x, 0, y.expand(3, 3), x[:1])", X, INDEX)
refuses(
    "scatter_reduce.two", "a reduction that there is", "torch.scatter_reduce(x, 0, y, x, 'foo')", X, INDEX
)
refuses("gather", "no larger index across", "torch.gather(x, 0, y)", X, torch.zeros(1, 4, dtype=torch.int64))
for name in ("index_add", "index_copy"):
    refuses(name, "a row for each index", f"torch.{name}(x, 0, y[0], x[:2])", X, INDEX)
    refuses(name, "rows of the same size", f"torch.{name}(x, 0, y[0], x[:3, :2])", X, INDEX)
    refuses(name, "a source of the same dtype", f"torch.{name}(x, 0, y[0], x[:3].double())", X, INDEX)
refuses("index_reduce", "a reduction that there is", "torch.index_reduce(x, 0, y[0], x[:3], 'foo')", X, INDEX)
refuses("index_put", "values that broadcast", "torch.index_put(x, (y[0],), x[:2])", X, INDEX)
refuses("index_put", "values of the same dtype", "torch.index_put(x, (y[0],), x[0].double())", X, INDEX)
refuses("put", "a value for each index", "aten.put(x.detach(), y, x.detach()[:2])", X, INDEX)
refuses("masked_scatter", "enough values", "torch.masked_scatter(x, x > 0, x[:1])", X)
refuses("masked_scatter", "values of the same dtype", "torch.masked_scatter(x, x > 0, x.double())", X)
refuses("masked_fill.Scalar", "a mask of truth values", "torch.masked_fill(x, (x > 0).byte(), 1)", X)
refuses("masked_fill.Scalar", "a number that fits", "torch.masked_fill(x.to(torch.int8), x > 0, 300)", X)
refuses("masked_fill.Scalar", "no complex number", "torch.masked_fill(x, x > 0, 1j)", X)
refuses("where.self", "a condition of truth values", "torch.where(x, x, x)", X)

# ---- sources that take a place: of the sizes of the place ----

for rows, row in ((1, refuses), (2, takes), (3, refuses)):
    source = reals(rows, 3)
    row("slice_scatter", "a source of the slice's size", "torch.slice_scatter(x, y, 0, 1, 3)", X, source)
    row("slice_scatter", "a source of the slice's size", "x.slice_scatter(y, 0, -4, -2)", X, source)
    row("slice_scatter", "a source of the slice's size", "torch.slice_scatter(x, y, 0, 0, 4, 2)", X, source)
    row(
        "diagonal_scatter",
        "a source of the diagonal's size",
        "torch.diagonal_scatter(x, y, 1)",
        X,
        reals(rows),
    )
    row(
        "diagonal_scatter",
        "a source of the diagonal's size",
        "torch.diagonal_scatter(x, y, -3)",
        X,
        reals(rows),
    )
refuses("slice_scatter", "a source of the slice's size", "torch.slice_scatter(x, y, 0, 1, 3)", X, reals(2, 1))
takes("slice_scatter", "an end beyond the end", "torch.slice_scatter(x, y, 0, 3, 99)", X, reals(2, 3))
takes("slice_scatter", "an empty slice", "torch.slice_scatter(x, y, 0, 3, 1)", X, reals(0, 3))
for source in (reals(1), torch.tensor(1.0), reals(3)):
    refuses("slice_scatter", "a source of the slice's rank", "torch.slice_scatter(x, y, 0, 1, 3)", X, source)
for source in (reals(1), reals(2), reals(4), torch.tensor(1.0), reals(3, 1)):
    refuses("diagonal_scatter", "a source of the diagonal's size", "x.diagonal_scatter(y)", X, source)
    refuses("select_scatter", "a source of the row's size", "x.select_scatter(y, 0, 1)", X, source)
refuses(
    "diagonal_scatter",
    "a source of the diagonals' size",
    "x.diagonal_scatter(y, 0, 1, 2)",
    reals(2, 3, 3),
    reals(3, 3),
)
refuses("select_scatter", "an index in range", "x.select_scatter(y, 0, 5)", X, reals(3))
for source in (reals(1, 2), reals(3, 2), reals(2)):
    row_ = "torch.as_strided_scatter(x, y, (2, 2), (1, 2))"
    refuses("as_strided_scatter", "a source of the view's size", row_, X, source)
refuses(
    "as_strided_scatter", "a view inside", "torch.as_strided_scatter(x, y, (2, 2), (1, 20))", X, reals(2, 2)
)
refuses("as_strided", "a view inside", "torch.as_strided(x, (2, 2), (1, 20))", X)

# ---- searches ----

EDGES, FEW = of(1.0, 2.0, 3.0), reals(2)
refuses("bucketize.Tensor", "boundaries of one axis", "torch.bucketize(x, y)", FEW, reals(2, 3))
refuses("searchsorted.Tensor", "as many rows", "torch.searchsorted(x, y)", reals(2, 3), reals(3, 2))
takes("searchsorted.Tensor", "two dtypes", "torch.searchsorted(x, y)", EDGES, FEW.double())
refuses(
    "searchsorted.Tensor",
    "a sorter of the same size",
    "torch.searchsorted(x, y, sorter=z)",
    EDGES,
    FEW,
    of(0, 1),
)
refuses("searchsorted.Tensor", "a side that there is", "torch.searchsorted(x, y, side='foo')", EDGES, FEW)
refuses("histc", "at least one bin", "torch.histc(x, 0)", FEW)
refuses("histc", "a range", "torch.histc(x, 2, 1, 0)", FEW)
refuses("histc", "a finite range", "torch.histc(x, 2, 0, inf)", FEW)
for value in (torch.inf, torch.nan):
    refuses("histc", "finite data without a range", "torch.histc(x, 2)", of(1.0, value))
takes("histc", "any data with a range", "torch.histc(x, 2, 0, 1)", of(1.0, torch.nan))
