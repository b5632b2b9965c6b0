/* Smaller programs that still fail.
 *
 * Tried again and again until nothing helps: return one result instead of several; return an
 * operand instead of a result; cut: make a parameter of a value instead of computing it.  What no
 * result needs goes away each time. */
#include "shrink.h"

#include <string.h>

/* A candidate: what is returned and which values are parameters. */
typedef struct {
    const Fn *fn;
    Value **rets;
    int nrets;
    bool *cut, *live;           /* by Value.id */
} Candidate;

static void
need(Candidate *c, Value *v)
{
    if (value_is_const(v) || c->live[v->id]) {
        return;
    }
    c->live[v->id] = true;
    for (int k = 0; v->def && !c->cut[v->id] && k < v->def->nargs; k++) {
        need(c, v->def->args[k]);
    }
}

static void
put_binder(const Value *v, bool first, Text *out)
{
    text_add(out, "%s%s: ", first ? "" : ", ", v->name);
    type_text(out->cx, v->type, out);
}

static void
put_size(Dim size, bool first, Text *out)
{
    Range r = dim_range(out->cx, size);
    text_add(out, "%s%s in %lld..", first ? "[" : ", ", dim_name(out->cx, size), (long long)r.lo);
    text_add(out, r.hi == DIM_INF ? "inf" : "%lld", (long long)r.hi);
    text_add(out, " %% %lld", (long long)dim_divisor(out->cx, size));
}

/* The candidate's text; results are fresh and dense, parameters dense. */
static const char *
write_text(Cx *cx, Candidate *c)
{
    const Fn *fn = c->fn;
    Text out = {.cx = cx};
    int n = 0;
    memset(c->live, 0, (size_t)fn->nvalues * sizeof *c->live);
    for (int k = 0; k < c->nrets; k++) {
        need(c, c->rets[k]);
    }
    text_add(&out, "dlc 1 graph\n\nfn fuzz");
    for (int k = 0; k < fn->nsizes; k++) {
        put_size(fn->sizes[k], k == 0, &out);
    }
    text_add(&out, fn->nsizes ? "](" : "(");
    for (int k = 0; k < fn->nparams; k++) {
        if (c->live[fn->params[k]->id]) {
            put_binder(fn->params[k], n++ == 0, &out);
        }
    }
    for (int k = 0; k < fn->body->n; k++) {
        const Value *v = fn->body->lets[k]->res[0];
        if (c->live[v->id] && c->cut[v->id]) {
            put_binder(v, n++ == 0, &out);
        }
    }
    text_add(&out, ") -> (");
    for (int k = 0; k < c->nrets; k++) {
        text_add(&out, k ? ", " : "");
        type_text(cx, c->rets[k]->type, &out);
    }
    text_add(&out, ") {\n");
    for (int k = 0; k < fn->body->n; k++) {
        const Value *v = fn->body->lets[k]->res[0];
        if (c->live[v->id] && !c->cut[v->id]) {
            print_let(fn->body->lets[k], 2, &out);
        }
    }
    for (int k = 0; k < c->nrets; k++) {
        text_add(&out, k ? ", %s" : "  ret %s", c->rets[k]->name);
    }
    text_add(&out, "\n}\n");
    return out.text;
}

typedef struct {
    Cx *cx;
    bool (*fails)(void *arg, const char *text);
    void *arg;
    const char *best;
} Shrink;

/* A smaller text that fails becomes the best one. */
static bool
try_it(Shrink *s, Candidate *c)
{
    const char *text = write_text(s->cx, c);
    bool better = strlen(text) < strlen(s->best) && s->fails(s->arg, text);
    s->best = better ? text : s->best;
    return better;
}

static bool
one_turn(Shrink *s)
{
    Fn *fn = parse_fn(s->cx, s->best, "case");
    Candidate c = {.fn = fn, .rets = fn->body->rets, .nrets = fn->body->nrets};
    c.cut = cx_alloc(s->cx, (size_t)fn->nvalues * sizeof *c.cut);
    c.live = cx_alloc(s->cx, (size_t)fn->nvalues * sizeof *c.live);
    if (try_it(s, &c)) {                        /* without what is dead */
        return true;
    }
    for (int k = 0; k < fn->body->nrets && fn->body->nrets > 1; k++) {
        c.rets = &fn->body->rets[k];
        c.nrets = 1;
        if (try_it(s, &c)) {
            return true;
        }
    }
    for (int k = 0; k < fn->body->n; k++) {
        Value *v = fn->body->lets[k]->res[0];
        c.rets = &v;
        c.nrets = 1;
        if (try_it(s, &c)) {
            return true;
        }
        c.rets = fn->body->rets;
        c.nrets = fn->body->nrets;
        c.cut[v->id] = true;
        if (try_it(s, &c)) {
            return true;
        }
        c.cut[v->id] = false;
    }
    return false;
}

const char *
shrink(Cx *cx, const char *text, bool (*fails)(void *arg, const char *text), void *arg)
{
    Shrink s = {cx, fails, arg, text};
    while (one_turn(&s)) { }
    return s.best;
}
