/* The table of Python functions and their builders.  As in aten.h there is no Python below this
 * line: a function's arguments are bound to its parameters by torch_table.c. */
#ifndef DLC_TORCH_H
#define DLC_TORCH_H

#include "capture/aten/aten.h"

typedef struct {
    const char *in, *name;      /* where the function is found, see torch.def */
    const char *parameters;     /* NULL: it is called as it is */
    const char *overload;       /* SAME: whose builder it takes */
    AtenBuilder build;          /* FORM, OVER */
    int axes;                   /* OVER: how many of the last axes are meant */
} TorchRow;

enum { TORCH_HOLDERS = 6 };    /* modules that torch.def has a letter for */

extern const TorchRow torch_rows[];
extern const int torch_nrows;

/* ---- torch_form.c, torch_nn.c, torch_view.c: builders of Python's own forms ---- */

/* The builder of an overload on other arguments, for one result of type t. */
Value *as_overload(Aten *n, const char *overload, const Type *t, int nargs, const Arg *args);

#define FORM(in, name, parameters, builder) Value *torch_##builder(Aten *n);
#define OVER(in, name, parameters, builder, axes) Value *builder(Aten *n);
#include "torch.def"

#endif
