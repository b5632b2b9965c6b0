/* The two functions that a cut makes of a joint graph. */
#include "partition.h"

typedef struct {
    const Fn *joint;
    const Cut *cut;
    Fn *fn;
    Build *b;
    Value **map;                /* by Value.id of the joint graph */
    int *param, *result;        /* by position in the joint graph: that here, -1 */
} Half;

static Half
half_open(const Fn *joint, const Cut *cut, const char *name)
{
    Cx *cx = joint->cx;
    Half h = {.joint = joint, .cut = cut};
    h.fn = fn_new(cx, cx_format(cx, "%s_%s", joint->name, name), STAGE_GRAPH);
    h.b = build_new(h.fn);
    h.map = cx_alloc(cx, ((size_t)joint->nvalues + 1) * sizeof *h.map);
    h.param = cx_alloc(cx, ((size_t)joint->nparams + 1) * sizeof *h.param);
    h.result = cx_alloc(cx, ((size_t)joint->body->nrets + 1) * sizeof *h.result);
    for (int k = 0; k < joint->nparams; k++) {
        h.param[k] = -1;
    }
    for (int k = 0; k < joint->body->nrets; k++) {
        h.result[k] = -1;
    }
    for (int k = 0; k < joint->nsizes; k++) {
        fn_size(h.fn, joint->sizes[k]);
    }
    return h;
}

static void
take(Half *h, const Value *v)
{
    if (!v->def) {
        h->param[v->result] = h->fn->nparams;
    }
    h->map[v->id] = fn_param_like(h->fn, v);
}

/* A let of the half: one of its results is, or its effect. */
static bool
is_of(const Let *let, const bool *half, bool effects)
{
    bool in = effects && let->nres == 0;
    for (int k = 0; k < let->nres; k++) {
        in |= half[let->res[k]->id];
    }
    return in;
}

static void
fill(Half *h, const bool *half, const bool *late)
{
    for (int k = 0; k < h->joint->body->n; k++) {
        const Let *let = h->joint->body->lets[k];
        bool of_late = false;
        for (int j = 0; j < let->nargs; j++) {
            of_late |= late[let->args[j]->id];
        }
        if (is_of(let, half, of_late == (half == h->cut->backward))) {
            build_again(h->b, let, h->map);
        }
    }
}

/* The promise of result k, if the tensor whose storage it shares is in this half; otherwise it is
 * fresh. */
static Result
promise(const Half *h, int k)
{
    Result r = h->joint->results[k];
    bool of_param = r.kind == RESULT_INTO || r.kind == RESULT_VIEW_PARAM;
    int of = of_param ? h->param[r.of] : r.kind == RESULT_VIEW_RESULT ? h->result[r.of] : 0;
    return of < 0 ? (Result){.strides = r.strides} : (Result){r.kind, of, r.strides};
}

static void
half_close(Half *h, int from, int to, bool saves)
{
    Cx *cx = h->joint->cx;
    size_t room = (size_t)(to - from + h->cut->nsaved + 1);
    Value **values = cx_alloc(cx, room * sizeof *values);
    Result *results = cx_alloc(cx, room * sizeof *results);
    int n = 0;
    for (int k = from; k < to; k++) {
        h->result[k] = k - from;
    }
    for (int k = from; k < to; k++) {
        values[n] = h->map[h->joint->body->rets[k]->id];
        results[n++] = promise(h, k);
    }
    for (int k = 0; saves && k < h->cut->nsaved; k++) {
        const Value *v = h->cut->saved[k];
        if (v->def) {
            values[n] = h->map[v->id];
            results[n++] = (Result){.strides = v->strides};
        }
    }
    fn_results(h->fn, n, values, results);
}

/* Sizes that calls of the forward find are arguments of the backward. */
static void
take_sizes(Half *h)
{
    for (int k = 0; k < h->joint->body->n; k++) {
        const Let *let = h->joint->body->lets[k];
        for (int j = 0; j < let->nsizes && !is_of(let, h->cut->backward, false); j++) {
            fn_size(h->fn, let->sizes[j]);
        }
    }
}

void
partition_split(const Fn *joint, const CutRules *rules, const Cut *cut, Fn **forward, Fn **backward)
{
    Half f = half_open(joint, cut, "forward"), b = half_open(joint, cut, "backward");
    for (int k = 0; k < joint->nparams; k++) {
        if (!rules->tangents[k]) {
            take(&f, joint->params[k]);
        }
    }
    take_sizes(&b);
    for (int k = 0; k < cut->nsaved; k++) {
        take(&b, cut->saved[k]);
    }
    for (int k = 0; k < joint->nparams; k++) {
        if (rules->tangents[k]) {
            take(&b, joint->params[k]);
        }
    }
    fill(&f, cut->forward, cut->late);
    fill(&b, cut->backward, cut->late);
    half_close(&f, 0, rules->nforward, true);
    half_close(&b, rules->nforward, joint->body->nrets, false);
    *forward = f.fn;
    *backward = b.fn;
}
