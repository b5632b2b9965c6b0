/* What is so of a phase for all targets: its buffers, its parallel loops, its cost.
 *
 * Requires: a top-level loop of a scheduled kernel.
 * How:      p[k] are the operands, results and buffers of the kernel that the loop accesses, and
 *           those that lets of the kernel's own block access for it, in order of first use.
 *           Parallel loops with nothing between them are one, whose iterations threads share.
 */
#include "emit.h"

/* ---- what a phase uses of the kernel's own block ---- */

typedef struct {
    const Emit *e;
    bool *used;
} Using;

static void use_let(const Emit *e, bool *used, const Let *let);

static void
use_value(const Emit *e, bool *used, const Value *v)
{
    if (value_is_const(v) || used[v->id]) {
        return;
    }
    used[v->id] = true;
    if (v->def && v->def->parent && v->def->parent->owner == e->phase->kernel) {
        use_let(e, used, v->def);
    }
}

/* If the kernel's own block binds the index, marks the value that it is bound from as used: the
 * index is used with that let. */
static void
use_name(void *arg, Dim name)
{
    const Using *using = arg;
    const Block *root = using->e->phase->kernel->body;
    for (int k = 0; k < root->n; k++) {
        if (root->lets[k]->nsizes && root->lets[k]->sizes[0] == name) {
            use_value(using->e, using->used, root->lets[k]->args[0]);
        }
    }
}

static void
use_let(const Emit *e, bool *used, const Let *let)
{
    Using using = {e, used};
    for (int k = 0; k < let->nargs; k++) {
        use_value(e, used, let->args[k]);
    }
    for (int k = 0; k < let->nattrs; k++) {
        const Attr *a = &let->attrs[k];
        for (int j = 0; a->kind == ATTR_DIMS && j < a->n; j++) {
            dim_names(e->cx, a->dims[j], use_name, &using);
        }
        if (a->kind == ATTR_DIM) {
            dim_names(e->cx, a->d, use_name, &using);
        }
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        use_let(e, used, let->body->lets[k]);
    }
    for (int k = 0; let->body && k < let->body->nrets; k++) {
        use_value(e, used, let->body->rets[k]);
    }
}

bool
phase_begins_with(const Emit *e, const Let *let)
{
    bool bound = let->op == OP_bind && e->used[let->args[0]->id];
    return bound || (let->nres && let->op != OP_buffer && e->used[let->res[0]->id]);
}

/* Finds p[k] of the phase: operands, results and buffers of the kernel, in order of first use. */
static void
add_buffers(Emit *e, const Let *let, bool *seen)
{
    const Value *v = let_accesses(let) ? let->args[0] : NULL;
    if (v && !is_private(e, v) && !seen[v->id]) {
        Phase *ph = e->phase;
        seen[v->id] = true;
        ph->buffers = cx_grow(e->cx, ph->buffers, ph->nbuffers, sizeof *ph->buffers);
        ph->buffers[ph->nbuffers++] = let->args[0];
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        add_buffers(e, let->body->lets[k], seen);
    }
}

/* Of all its tensors, each once. */
static Dim
bytes_of(Cx *cx, const Phase *phase)
{
    Dim all = dim_int(cx, 0);
    for (int k = 0; k < phase->nbuffers; k++) {
        const Type *t = phase->buffers[k]->type;
        Dim bytes = dim_int(cx, dtype_info[t->dtype].bytes);
        all = dim_add(cx, all, dim_mul(cx, type_numel(cx, t), bytes));
    }
    return all;
}

/* ---- cost ---- */

typedef struct {
    Cx *cx;
    Dim d;
} Bare;

static void
drop_index(void *arg, Dim name)
{
    Bare *s = arg;
    if (dim_extent(s->cx, name) != DIM_NONE) {
        s->d = dim_replace(s->cx, s->d, name, dim_int(s->cx, 0));
    }
}

static Dim
without_indices(Cx *cx, Dim d)
{
    Bare s = {cx, d};
    dim_names(cx, d, drop_index, &s);
    return s.d;
}

/* The cost of adding an element's value to a reduction.  ends_cost: that of joining its lanes. */
static int64_t
combine_cost(const Let *let)
{
    return let->op == OP_reduce ? op_info[op_info[let_op(let)].combine].cost : 0;
}

static int64_t
ends_cost(const Let *let)
{
    return let_has(let, MARK_lanes) ? DLC_LANES * combine_cost(let) : 0;
}

static Dim
block_work(Cx *cx, const Block *blk)
{
    int64_t own = 0;
    Dim work = dim_int(cx, 0);
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (loop_is(let) && let_has(let, MARK_fused)) {
            work = dim_add(
                cx, work,
                dim_div(cx, without_indices(cx, loop_extent(let)), dim_int(cx, COST_FUSED)));
        } else if (loop_is(let)) {
            Dim each = dim_add(cx, block_work(cx, let->body), dim_int(cx, combine_cost(let)));
            own += COST_LOOP + ends_cost(let);
            work = dim_add(cx, work, dim_mul(cx, without_indices(cx, loop_extent(let)), each));
        } else {
            own += op_info[let->op].kind == KIND_MAP ? op_info[let->op].cost : COST_LOAD;
        }
    }
    return dim_add(cx, work, dim_int(cx, own));
}

/* ---- the parallel loop ---- */

/* The number of parallel iterations of a loop.  *each: the number of its own iterations in one. */
static Dim
parallel_count(Cx *cx, const Let *loop, Dim *each)
{
    Dim extent = loop_extent(loop), step = dim_int(cx, loop_step(loop));
    if (loop_step(loop) == 1) {
        *each = step;
        return extent;
    }
    *each = dim_min(cx, extent, step);
    return dim_div(cx, dim_add(cx, extent, dim_int(cx, loop_step(loop) - 1)), step);
}

static void
find_collapsed(Emit *e, const Let *loop)
{
    Dim each, together = dim_int(e->cx, 1);
    const Let *whole = loop;
    e->ncollapsed = 0;
    while (loop && let_has(loop, MARK_parallel)) {
        e->counts[e->ncollapsed] = parallel_count(e->cx, loop, &each);
        together = dim_mul(e->cx, together, each);
        e->collapsed[e->ncollapsed++] = loop;
        const Let *inner = NULL;
        for (int k = 0; k < loop->body->n && !let_has(loop, MARK_vector); k++) {
            inner = loop->body->lets[k]->op == OP_for ? loop->body->lets[k] : inner;
        }
        loop = inner;
    }
    if (e->ncollapsed) {
        e->phase->work = dim_mul(e->cx, block_work(e->cx, e->collapsed[e->ncollapsed - 1]->body),
                                 together);
    } else {
        e->phase->work = dim_mul(e->cx, without_indices(e->cx, loop_extent(whole)),
                                 block_work(e->cx, whole->body));
    }
    e->phase->extent = dim_int(e->cx, 1);
    for (int k = 0; k < e->ncollapsed; k++) {
        e->phase->extent = dim_mul(e->cx, e->phase->extent, e->counts[k]);
    }
}

Emit
phase_interface(const Fn *fn, const Let *loop, Phase *phase)
{
    Cx *cx = fn->cx;
    size_t values = (size_t)fn->nvalues;
    bool *used = cx_alloc(cx, values * sizeof *used), *seen = cx_alloc(cx, values * sizeof *seen);
    Facts *facts = cx_alloc(cx, sizeof *facts);
    *facts = (Facts){.cx = cx, .kernel = phase->kernel};
    Emit e = {.cx = cx, .fn = fn, .facts = facts, .phase = phase, .used = used};
    e.scratch = dim_int(cx, 0);
    use_let(&e, used, loop);
    facts_add(facts, loop);
    for (int k = 0; k < phase->kernel->body->n; k++) {
        const Let *let = phase->kernel->body->lets[k];
        if (let_accesses(let)) {
            facts_add(facts, let);
        }
        if (let == loop || (let->op == OP_load && used[let->res[0]->id])) {
            add_buffers(&e, let, seen);
        }
    }
    e.bytes = bytes_of(cx, phase);
    find_collapsed(&e, loop);
    return e;
}
