/* The operator of dlc.kernel: einstein notation, whose lets take the place of the call. */
#include "capture/aten/aten.h"

/* kernel(text, args, steps) */
Value *
aten_kernel(Aten *n)
{
    const Arg *text = arg_at(n, 0), *list = arg_at(n, 1), *steps = arg_at(n, 2);
    if (text->kind != ARG_TEXT || list->kind != ARG_LIST) {
        return NULL;
    }
    Value **args = cx_alloc(n->cx, (size_t)(list->n + 1) * sizeof *args);
    for (int k = 0; k < list->n; k++) {
        if (list->items[k].kind != ARG_TENSOR) {
            return NULL;
        }
        args[k] = list->items[k].v;
    }
    Notation *of = notation_parse(n->cx, text->text, "kernel");
    const char *then = steps->kind == ARG_TEXT ? steps->text : "";
    return notation_build(of, then, n->b, list->n, args, n->nres, n->res) ? n->res[0] : NULL;
}
