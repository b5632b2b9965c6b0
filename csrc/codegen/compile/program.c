/* Kernels as a program of their own: what a unit is lowered from, and what is written beside its
 * machine code. */
#include <string.h>

#include "kernels.h"

static bool
bound_in(KernelUse *const *uses, int n, const Value *v)
{
    for (int k = 0; k < n; k++) {
        if (v->def == uses[k]->let) {
            return true;
        }
    }
    return false;
}

static void
add_param(Fn *part, Value *v, bool *seen)
{
    if (!seen[v->id]) {
        seen[v->id] = true;
        part->params = cx_grow(part->cx, part->params, part->nparams, sizeof *part->params);
        part->params[part->nparams++] = v;
    }
}

/* Adds the size symbols of the function, and those that its calls bind: in `part`, all of them are
 * parameters. */
static void
add_sizes(Fn *part, const Fn *fn)
{
    part->nsizes = 0;
    part->sizes = NULL;
    for (int k = 0; k < fn->nsizes; k++) {
        fn_size(part, fn->sizes[k]);
    }
    for (int k = 0; k < fn->body->n; k++) {
        for (int j = 0; j < fn->body->lets[k]->nsizes; j++) {
            fn_size(part, fn->body->lets[k]->sizes[j]);
        }
    }
}

static void
add_result(Fn *part, Value *v)
{
    Cx *cx = part->cx;
    Block *body = part->body;
    body->rets = cx_grow(cx, body->rets, body->nrets, sizeof *body->rets);
    part->results = cx_grow(cx, part->results, body->nrets, sizeof *part->results);
    part->results[body->nrets] = (Result){.kind = RESULT_FRESH, .strides = v->strides};
    body->rets[body->nrets++] = v;
}

/* Does a result of one of the kernels take the memory of v? */
static bool
is_taken(KernelUse *const *uses, int n, const Value *v)
{
    bool taken = false;
    for (int k = 0; k < n && !taken; k++) {
        for (int j = 0; j < uses[k]->let->nres; j++) {
            taken |= uses[k]->let->res[j]->over == v;
        }
    }
    return taken;
}

Fn *
kernels_part(const Fn *fn, KernelUse *const *uses, int n)
{
    Cx *cx = fn->cx;
    Fn *part = cx_copy(cx, fn, sizeof *fn);
    bool *seen = cx_alloc(cx, (size_t)fn->nvalues * sizeof *seen);
    part->name = "kernels";
    part->params = NULL;
    part->results = NULL;
    part->body = cx_alloc(cx, sizeof *part->body);
    part->body->lets = lets_new(cx, n);
    part->nparams = 0;
    add_sizes(part, fn);
    for (int k = 0; k < n; k++) {
        const KernelKey *key = &uses[k]->key;
        part->body->lets[part->body->n++] = (Let *)uses[k]->let;
        for (int j = 0; j < key->noperands; j++) {
            if (!bound_in(uses, k, key->operands[j])) {
                add_param(part, key->operands[j], seen);
            }
        }
        for (int j = 0; j < uses[k]->let->nres; j++) {
            Value *v = uses[k]->let->res[j];
            if (v->over && !bound_in(uses, k, v->over)) {
                add_param(part, (Value *)v->over, seen);
            }
            if (!is_taken(uses, n, v)) {
                add_result(part, v);
            }
        }
    }
    return part;
}

const char *
kernels_text(const Fn *fn)
{
    Text text = {.cx = fn->cx}, out = {.cx = fn->cx};
    print_fn(fn, &text);
    for (const char *line = text.text; *line;) {
        size_t length = strcspn(line, "\n");
        const char *place = strstr(line, "  @");
        size_t kept = place && place < line + length ? (size_t)(place - line) : length;
        text_put(&out, line, kept);
        text_put(&out, "\n", 1);
        line += length + (line[length] == '\n');
    }
    return out.text;
}

const char *
kernels_program(const Kernels *ks, int *places)
{
    KernelUse **uses = cx_alloc(ks->cx, (size_t)ks->nuses * sizeof *uses);
    int n = 0;
    for (int k = 0; k < ks->nuses; k++) {
        KernelUse *use = &ks->uses[k];
        int at = 0;
        while (at < n && strcmp(uses[at]->key.key.hex, use->key.key.hex) != 0) {
            at++;
        }
        if (at == n) {
            uses[n++] = use;
        }
        places[k] = at;
    }
    return kernels_text(kernels_part(ks->fn, uses, n));
}
