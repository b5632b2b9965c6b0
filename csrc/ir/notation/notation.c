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

/* Computes the right side of a line over the indices on its left. */
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

static Build *
finish(Scene *s, Fn *fn)
{
    Value **results = cx_alloc(s->cx, (size_t)s->notation->nresults * sizeof *results);
    s->b = build_new(fn);
    run_lines(s);
    results_of(s, results);
    fn_results(fn, s->notation->nresults, results, NULL);
    return s->b;
}

Build *
notation_of_dtypes(const Notation *n, const Dtype *dtypes)
{
    Scene s = scene_of(n, n->cx);
    symbols_of(&s);
    Fn *fn = fn_new(s.cx, "kernel", STAGE_GRAPH);
    for (int k = 0; k < n->nparams; k++) {
        for (int ax = 0; ax < n->ranks[k]; ax++) {
            dim_names(s.cx, s.named[k].dims[ax], add_size, fn);
        }
    }
    for (int k = 0; k < n->nparams; k++) {
        const Type *t = type_of(s.cx, dtypes[k], n->ranks[k], s.named[k].dims);
        s.named[k].v = fn_param(fn, n->params[k], t, NULL);
    }
    return finish(&s, fn);
}

Build *
notation_of_types(const Notation *n, Cx *cx, const Type *const *types)
{
    Scene s = scene_of(n, cx);
    Fn *fn = fn_new(cx, "kernel", STAGE_GRAPH);
    s.fixed = true;
    for (int k = 0; k < n->nparams; k++) {
        s.named[k].v = fn_param(fn, n->params[k], types[k], NULL);
        memcpy(s.named[k].dims, types[k]->dims, (size_t)n->ranks[k] * sizeof(Dim));
    }
    return finish(&s, fn);
}

void
notation_lines(const Notation *n, Build *b, Value *const *args, Value **results)
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
