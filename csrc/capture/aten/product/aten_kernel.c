/* The operators of dlc.kernel: einstein notation, whose lets take the place of the call. */
#include "capture/aten/aten.h"

/* The text's parameters from a list of tensors; NULL: they do not fit. */
static Value **
operands(const Aten *n, const Arg *list, const Notation *of)
{
    int count = notation_nparams(of);
    Value **args = cx_alloc(n->cx, (size_t)(count + 1) * sizeof *args);
    if (list->kind != ARG_LIST || list->n != count) {
        return NULL;
    }
    for (int k = 0; k < count; k++) {
        const Arg *a = &list->items[k];
        if (a->kind != ARG_TENSOR || a->v->type->rank != notation_rank(of, k)) {
            return NULL;
        }
        args[k] = a->v;
    }
    return args;
}

/* kernel(text, args) */
Value *
aten_kernel(Aten *n)
{
    const Arg *text = arg_at(n, 0);
    if (text->kind != ARG_TEXT) {
        return NULL;
    }
    Notation *of = notation_parse(n->cx, text->text, "kernel");
    Value **args = operands(n, arg_at(n, 1), of);
    if (!args || notation_nresults(of) != n->nres) {
        return NULL;
    }
    notation_build(of, n->b, args, n->res);
    return n->res[0];
}

/* kernel_gradient(text, args, seeds, wanted) */
Value *
aten_kernel_gradient(Aten *n)
{
    const Arg *text = arg_at(n, 0), *seeds = arg_at(n, 2), *flags = arg_at(n, 3);
    if (text->kind != ARG_TEXT || seeds->kind != ARG_LIST || flags->kind != ARG_LIST) {
        return NULL;
    }
    Notation *of = notation_parse(n->cx, text->text, "kernel");
    int count = notation_nparams(of), nwanted = 0;
    Value **args = operands(n, arg_at(n, 1), of);
    if (!args || flags->n != count) {
        return NULL;
    }
    Value **all = cx_alloc(n->cx, (size_t)(count + seeds->n + 1) * sizeof *all);
    bool *wanted = cx_alloc(n->cx, (size_t)(count + 1) * sizeof *wanted);
    for (int k = 0; k < count; k++) {
        all[k] = args[k];
        wanted[k] = arg_true(&flags->items[k]);
        nwanted += wanted[k];
    }
    for (int k = 0; k < seeds->n; k++) {
        if (seeds->items[k].kind != ARG_TENSOR) {
            return NULL;
        }
        all[count + k] = seeds->items[k].v;
    }
    bool built = nwanted == n->nres &&
                 notation_build_gradient(of, n->b, count + seeds->n, all, wanted, n->res);
    return built ? n->res[0] : NULL;
}
