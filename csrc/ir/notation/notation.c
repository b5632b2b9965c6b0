/* Einstein notation: programs of a text. */
#include "notation.h"

#include <string.h>

int
notation_nparams(const Notation *n)
{
    return n->nparams;
}

const char *
notation_param(const Notation *n, int k)
{
    return n->params[k];
}

int
notation_rank(const Notation *n, int k)
{
    return n->ranks[k];
}

int
notation_nresults(const Notation *n)
{
    return n->nresults;
}

static Scene
scene_of(const Notation *n, Cx *cx)
{
    Scene s = {.notation = n, .cx = cx};
    s.named = cx_alloc(cx, (size_t)(n->nparams + n->nlines) * sizeof *s.named);
    s.nnamed = n->nparams;
    for (int k = 0; k < n->nparams; k++) {
        s.named[k] = (Named){.name = n->params[k], .rank = n->ranks[k], .param = true};
    }
    return s;
}

/* The value of a line over its indices. */
static Value *
line_value(Scene *s, const Line *line)
{
    int letters[MAX_RANK];
    Dim dims[MAX_RANK];
    Part t = part_of(s, line->body);
    for (int k = 0; k < line->nleft; k++) {
        letters[k] = letter_find(s, line->left[k]);
        dims[k] = s->letters[letters[k]].dim;
    }
    if (value_is_const(t.v)) {
        return build_const(s->b, type_of(s->cx, t.dtype, line->nleft, dims), t.v->literal);
    }
    return part_expand(s, t, line->nleft, letters);
}

static void
run_lines(Scene *s)
{
    s->nnamed = s->notation->nparams;
    for (int k = 0; k < s->notation->nlines && !s->again; k++) {
        const Line *line = &s->notation->lines[k];
        Named *made = &s->named[s->nnamed];
        s->line = line;
        sizes_of_line(s, line);
        *made = (Named){.name = line->name, .rank = line->nleft};
        for (int ax = 0; ax < line->nleft; ax++) {
            made->dims[ax] = s->letters[letter_find(s, line->left[ax])].dim;
        }
        if (s->b && !s->again) {
            made->v = line_value(s, line);
        }
        s->nnamed++;
    }
}

/* ---- a function of its own ---- */

/* A symbol for each axis of each parameter, then those that are equal made one. */
static void
symbols_of(Scene *s)
{
    const Notation *n = s->notation;
    for (int k = 0; k < n->nparams; k++) {
        for (int ax = 0; ax < n->ranks[k]; ax++) {
            char *name = cx_format(s->cx, "%s_%d", n->params[k], ax);
            for (int j = 0; j < n->nparams; j++) {
                if (strcmp(n->params[j], name) == 0) {
                    name = cx_format(s->cx, "%s_", name);
                    j = -1;
                }
            }
            s->named[k].dims[ax] = dim_size(s->cx, cx_intern(s->cx, name, strlen(name)));
        }
    }
    do {
        s->again = false;
        run_lines(s);
    } while (s->again);
}

static void
add_size(void *fn, Dim name)
{
    Fn *f = fn;
    for (int k = 0; k < f->nsizes; k++) {
        if (f->sizes[k] == name) {
            return;
        }
    }
    fn_size(f, name);
}

/* A line that nothing reads is a result. */
static int
results_of(const Scene *s, Value **out)
{
    int n = 0;
    for (int k = 0; k < s->notation->nlines; k++) {
        if (!s->notation->lines[k].read) {
            out[n++] = s->named[s->notation->nparams + k].v;
        }
    }
    return n;
}

static Fn *
fn_of(Scene *s, const Dtype *dtypes)
{
    const Notation *n = s->notation;
    symbols_of(s);
    Fn *fn = fn_new(s->cx, "kernel", STAGE_GRAPH);
    for (int k = 0; k < n->nparams; k++) {
        for (int ax = 0; ax < n->ranks[k]; ax++) {
            dim_names(s->cx, s->named[k].dims[ax], add_size, fn);
        }
    }
    for (int k = 0; k < n->nparams; k++) {
        const Type *t = type_of(s->cx, dtypes[k], n->ranks[k], s->named[k].dims);
        s->named[k].v = fn_param(fn, n->params[k], t, NULL);
    }
    s->b = build_new(fn);
    run_lines(s);
    return fn;
}

Fn *
notation_fn(const Notation *n, const Dtype *dtypes)
{
    Scene s = scene_of(n, n->cx);
    Fn *fn = fn_of(&s, dtypes);
    Value **results = cx_alloc(n->cx, (size_t)n->nresults * sizeof *results);
    results_of(&s, results);
    fn_results(fn, n->nresults, results, NULL);
    return fn;
}

void
notation_build(const Notation *n, Build *b, Value *const *args, Value **results)
{
    Scene s = scene_of(n, build_cx(b));
    s.b = b;
    s.fixed = true;
    for (int k = 0; k < n->nparams; k++) {
        s.named[k].v = args[k];
        memcpy(s.named[k].dims, args[k]->type->dims, (size_t)n->ranks[k] * sizeof(Dim));
    }
    run_lines(&s);
    results_of(&s, results);
}

/* Ends the function with the gradients of what is wanted. */
static Fn *
gradient_of(Scene *s, Fn *fn, const bool *wanted)
{
    const Notation *n = s->notation;
    Cx *cx = s->cx;
    Value **results = cx_alloc(cx, (size_t)n->nresults * sizeof *results);
    Value **seeds = cx_alloc(cx, (size_t)n->nresults * sizeof *seeds);
    Value **by = cx_alloc(cx, (size_t)(n->nparams + 1) * sizeof *by);
    Value **gradients = cx_alloc(cx, (size_t)(n->nparams + 1) * sizeof *gradients);
    int nby = 0;
    results_of(s, results);
    for (int k = 0; k < n->nresults; k++) {
        const Type *t = results[k]->type;
        if (dtype_info[t->dtype].class == CLASS_FLOAT) {
            seeds[k] = fn_param(fn, fn_fresh_name(fn, "seed"), t, NULL);
        }
    }
    for (int k = 0; k < n->nparams; k++) {
        if (wanted[k]) {
            by[nby++] = s->named[k].v;
        }
    }
    derive(s->b, n->nresults, results, seeds, nby, by, gradients);
    for (int k = 0; k < nby; k++) {
        if (!gradients[k]) {
            gradients[k] = build_const(s->b, by[k]->type, (Literal){.f = 0});
        }
    }
    fn_results(fn, nby, gradients, NULL);
    return fn;
}

Fn *
notation_gradient(const Notation *n, const Dtype *dtypes, const bool *wanted)
{
    Scene s = scene_of(n, n->cx);
    Fn *fn = fn_of(&s, dtypes);
    return gradient_of(&s, fn, wanted);
}

/* By way of a function of its own: what is derived is not to be mixed with lets that stand around
 * it. */
bool
notation_build_gradient(const Notation *n, Build *b, int nargs, Value *const *args,
                        const bool *wanted, Value **gradients)
{
    Cx *cx = build_cx(b);
    Scene s = scene_of(n, cx);
    Fn *fn = fn_new(cx, "gradient", STAGE_GRAPH);
    s.b = build_new(fn);
    s.fixed = true;
    for (int k = 0; k < n->nparams; k++) {
        s.named[k].v = fn_param(fn, n->params[k], args[k]->type, NULL);
        memcpy(s.named[k].dims, args[k]->type->dims, (size_t)n->ranks[k] * sizeof(Dim));
    }
    run_lines(&s);
    gradient_of(&s, fn, wanted);
    if (nargs != fn->nparams) {
        return false;
    }
    Value **map = cx_alloc(cx, (size_t)fn->nvalues * sizeof *map);
    for (int k = 0; k < nargs; k++) {
        if (args[k]->type != fn->params[k]->type) {
            return false;
        }
        map[fn->params[k]->id] = args[k];
    }
    for (int k = 0; k < fn->body->n; k++) {
        build_again(b, fn->body->lets[k], map);
    }
    for (int k = 0; k < fn->body->nrets; k++) {
        gradients[k] = map[fn->body->rets[k]->id];
    }
    return true;
}
