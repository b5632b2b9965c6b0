"""Products of matrices, attention, recurrent layers."""

from . import Rows, ints, reals

ROWS = Rows()
refuses = ROWS.refuses

A, B, BATCH, OTHER = reals(2, 3), reals(3, 2), reals(2, 2, 3), reals(2, 3, 2)
for name, x, y in (
    ("mm", A, B),
    ("matmul", A, B),
    ("bmm", BATCH, OTHER),
    ("mv", A, reals(3)),
    ("dot", reals(3), reals(3)),
):
    refuses(name, "sizes that fit", f"torch.{name}(x, y)", x, reals(*[4] * y.dim()))
    refuses(name, "one dtype", f"torch.{name}(x, y)", x, y.double())
    refuses(name, "one dtype", f"torch.{name}(x, y)", x, y.half())
    refuses(name, "one dtype", f"torch.{name}(x, y)", x, y.long())
refuses("bmm", "as many matrices", "torch.bmm(x, y[:1])", BATCH, OTHER)
for name, sum_of, x, y in (
    ("addmm", reals(2, 2), A, B),
    ("addbmm", reals(2, 2), BATCH, OTHER),
    ("baddbmm", reals(2, 2, 2), BATCH, OTHER),
    ("addmv", reals(2), A, reals(3)),
):
    refuses(name, "a sum that broadcasts", f"torch.{name}(z, x, y)", x, y, reals(5))
    refuses(name, "a sum of the same dtype", f"torch.{name}(z, x, y)", x, y, sum_of.double())
refuses("linear", "sizes that fit", "F.linear(x, y)", A, reals(4, 2))
refuses("linear", "a bias of the outputs", "F.linear(x, y, z)", A, reals(4, 3), reals(3))
refuses("linear", "one dtype", "F.linear(x, y)", A, reals(4, 3).double())
for equation in ("ij,jk->ii", "ij,jk->il", "ijk,jk->ik", "ij->i", "i1,jk->ik"):
    refuses("einsum", "letters that fit", f"torch.einsum('{equation}', x, y)", A, B)
refuses("einsum", "sizes that fit", "torch.einsum('ij,jk->ik', x, x)", A)
refuses("_cdist_forward", "as many columns", "torch.cdist(x, y)", A, B)
refuses("_cdist_forward", "p of at least 0", "torch.cdist(x, x, p=-1.0)", A)
refuses("_cdist_forward", "floats", "torch.cdist(x, x)", ints(2, 3))
refuses("_trilinear", "sizes that fit", "F.bilinear(x, x, y)", A, reals(5, 3, 2))

Q = reals(1, 2, 3, 4)
ATTENTION = "F.scaled_dot_product_attention"
for what, arguments in (
    ("one size of rows", "x, x[..., :3], x"),
    ("one dtype", "x, x.double(), x"),
    ("a mask of x's dtype", "x, x, x, x[0, 0, :, :3].double()"),
    ("a mask that fits", "x, x, x, x[0, 0]"),
    ("a chance", "x, x, x, dropout_p=1.5"),
    ("as many matrices", "x, x[:, :0], x"),
    ("heads that divide", "x[:, :1], x, x, enable_gqa=True"),
):
    refuses("_scaled_dot_product_flash_attention_for_cpu", what, f"{ATTENTION}({arguments})", Q)

for name, gates in (("gru", 3), ("rnn_tanh", 1)):
    row = f"torch.{name}(x, y, [z, u, v, v], True, 1, 0.0, False, False, False)[0].detach()"
    X, H, W, U, V = reals(3, 2, 5), reals(1, 2, 4), reals(4 * gates, 5), reals(4 * gates, 4), reals(4 * gates)
    refuses(name, "inputs of the weights' size", row, reals(3, 2, 6), H, W, U, V)
    refuses(name, "states of the batch", row, X, reals(1, 3, 4), W, U, V)
    refuses(name, "states of the weights' size", row, X, reals(1, 2, 5), W, U, V)
    refuses(name, "one dtype", row, X.double(), H, W, U, V)
