/* Facts of a loop nest.
 *
 * What:     for each access its offset, its step along each loop around, its bytes, where its
 *           buffer is made and whether data give its place; for each loop what its own lets cost.
 * Requires: a kernel of the loops stage, which does not change while its facts are asked for (marks
 *           may).
 * Ensures:  each question has one answer, for rewrites and emitters alike.
 * How:      one pass over the lets; a struct for each, found by the let.
 * Example:  `load x[i0, i1]` of f32[B, N]: offset N*i0 + i1, steps N along i0 and 1 along i1.
 */
#include <string.h>

#include "facts.h"
#include "loops.h"

typedef struct {
    AccessFacts access;
    LoopFacts loop;
} LetFacts;

static void
key_of(const Let *let, uint32_t key[2])
{
    memset(key, 0, 2 * sizeof *key);
    memcpy(key, &let, sizeof let);
}

static const LetFacts *
find(const Facts *facts, const Let *let)
{
    uint32_t key[2];
    key_of(let, key);
    const LetFacts *found = map_get(&facts->lets, key, 2);
    if (!found) {
        fail(facts->cx, DIAG_NO_FACTS, op_info[let->op].name);
    }
    return found;
}

const AccessFacts *
facts_access(const Facts *facts, const Let *access)
{
    return &find(facts, access)->access;
}

const LoopFacts *
facts_loop(const Facts *facts, const Let *loop)
{
    return &find(facts, loop)->loop;
}

const Step *
facts_step(const Facts *facts, const Let *access, Dim index)
{
    const AccessFacts *a = facts_access(facts, access);
    const Step *step = &a->still;
    for (int k = 0; k < a->nsteps && step == &a->still; k++) {
        step = a->steps[k].index == index ? &a->steps[k] : step;
    }
    return step->step == DIM_NONE ? NULL : step;
}

bool
facts_contiguous(const Facts *facts, const Let *access, Dim index)
{
    const Step *step = facts_step(facts, access, index);
    return step && dim_is(facts->cx, step->step, 1);
}

bool
facts_from_memory(const Facts *facts, const Let *load)
{
    if (load->op != OP_load) {
        return false;
    }
    const AccessFacts *a = facts_access(facts, load);
    return !a->is_private && a->bytes > 1 && a->from_loops &&
           !buffer_is_small(facts->cx, load->args[0]);
}

Dim
facts_row(const Facts *facts, const Let *load, Dim index)
{
    bool adjacent = load->op == OP_load && facts_contiguous(facts, load, index);
    return adjacent ? facts_step(facts, load, index)->rest : DIM_NONE;
}

const Let *
facts_reduced_row(const Facts *facts, const Let *reduce)
{
    const Let *load = reduce->body->n == 1 ? reduce->body->lets[0] : NULL;
    bool found = load && load->op == OP_load && reduce->body->rets[0] == load->res[0] &&
                 !is_narrow(load->res[0]->type->dtype) &&
                 facts_contiguous(facts, load, loop_index(reduce));
    return found ? load : NULL;
}

bool
facts_in_lanes(const Facts *facts, const Let *reduce)
{
    bool index = op_info[let_op(reduce)].rule == RULE_INDEX;
    return let_has(reduce, MARK_lanes) &&
           (!index || let_has(reduce, MARK_array) || facts_reduced_row(facts, reduce));
}

int
facts_adjacent_bytes(const Facts *facts, const Let *access, Dim index)
{
    const AccessFacts *a = facts_access(facts, access);
    bool adjacent = !a->is_private && (a->bytes == 4 || a->bytes == 8);
    return adjacent && facts_contiguous(facts, access, index) ? a->bytes : 0;
}

bool
facts_transposed(const Facts *facts, const Let *load, const Let *rows, const Let *inner, Dim *step)
{
    Cx *cx = facts->cx;
    Dim offset = facts_access(facts, load)->offset;
    const Step *along = facts_step(facts, load, loop_index(inner));
    *step = along ? along->step : DIM_NONE;
    return along && facts_contiguous(facts, load, loop_index(rows)) &&
           !dim_is_bound_in(cx, offset, rows->body) && !dim_is_bound_in(cx, offset, inner->body) &&
           !dim_is(cx, *step, 0) && !dim_is(cx, *step, 1);
}

/* ---- finding them ---- */

static int
loops_around(const Let *let)
{
    int n = 0;
    for (const Let *loop = let_around(let); loop_is(loop); loop = let_around(loop)) {
        n++;
    }
    return n;
}

static void
add_access(const Facts *facts, const Let *let, AccessFacts *a)
{
    Cx *cx = facts->cx;
    const Value *buffer = let->args[0];
    a->offset = index_offset(cx, buffer, let_attr(let, "at")->dims);
    a->bytes = dtype_info[buffer->type->dtype].bytes;
    a->per_line = DLC_LINE / a->bytes;
    a->is_private = buffer_is_private(buffer);
    a->from_loops = loops_give(cx, let_around(let), a->offset);
    a->still = (Step){DIM_NONE, dim_int(cx, 0), a->offset};
    a->steps = cx_alloc(cx, (size_t)(loops_around(let) + 1) * sizeof *a->steps);
    for (const Let *loop = let_around(let); loop_is(loop); loop = let_around(loop)) {
        Step *step = &a->steps[a->nsteps++];
        step->index = loop_index(loop);
        if (!dim_affine(cx, a->offset, step->index, &step->step, &step->rest)) {
            step->step = step->rest = DIM_NONE;
        }
    }
}

static void
add_loop(const Let *loop, LoopFacts *l)
{
    l->is_plain = true;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        l->cost += let_is_map(let) ? op_info[let->op].cost : 0;
        l->loops += loop_is(let);
        l->is_plain &= loop_is(let) || let_is_plain(let) || let->op == OP_store ||
                       let->op == OP_buffer;
    }
}

/* Adds the facts of a let of the kernel's own block and of all that is in it. */
static void
facts_add(Facts *facts, const Let *let)
{
    uint32_t key[2];
    key_of(let, key);
    facts->updates |= let->op == OP_update;
    if (let_accesses(let)) {
        LetFacts *f = map_at(facts->cx, &facts->lets, key, 2, sizeof *f);
        add_access(facts, let, &f->access);
    } else if (loop_is(let)) {
        LetFacts *f = map_at(facts->cx, &facts->lets, key, 2, sizeof *f);
        add_loop(let, &f->loop);
    }
    bool choice = let_enter(facts->cx, let);
    for (int k = 0; let->body && k < let->body->n; k++) {
        facts_add(facts, let->body->lets[k]);
    }
    if (choice) {
        dim_forget(facts->cx);
    }
}

struct PhaseFacts {
    Map phases;
};

const Facts *
facts_of_phase(const Fn *fn, const Let *phase)
{
    Fn *keeper = (Fn *)fn; /* what is kept is no part of the program */
    if (!keeper->facts) {
        keeper->facts = cx_alloc(fn->cx, sizeof *keeper->facts);
    }
    uint32_t key[2];
    key_of(phase, key);
    Facts *facts = map_at(fn->cx, &keeper->facts->phases, key, 2, sizeof *facts);
    if (facts->kernel) {
        return facts;
    }
    *facts = (Facts){.cx = fn->cx, .kernel = phase_kernel(phase)};
    facts_add(facts, phase);
    for (const Block *root = phase->parent; root; root = block_around(root)) {
        for (int k = 0; k < root->n; k++) {
            if (let_accesses(root->lets[k])) {
                facts_add(facts, root->lets[k]);
            }
        }
    }
    return facts;
}

void
facts_forget(Fn *fn)
{
    fn->facts = NULL;
}

int
facts_prefetched(const Facts *facts, const Let *load, const Let *rows, int64_t least)
{
    int64_t along = let_mark_value(load, MARK_prefetch), elements = 0,
            ahead = let_mark_value(load, MARK_prefetch_rows);
    const Step *next = ahead ? facts_step(facts, load, loop_index(rows)) : NULL;
    if (next && dim_is_int(facts->cx, next->step, &elements)) {
        return (int)(elements * ahead * facts_access(facts, load)->bytes);
    }
    return (int)(along && along < least ? least : along);
}

/* ---- costs ---- */

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

/* How many there are in the first iteration of the loops around; a loop may have less than none. */
static Dim
without_indices(Cx *cx, Dim d)
{
    Bare s = {cx, d};
    dim_names(cx, d, drop_index, &s);
    return dim_max(cx, s.d, dim_int(cx, 0));
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
            Dim terms = without_indices(cx, loop_extent(let));
            work = dim_add(cx, work, dim_div(cx, terms, dim_int(cx, COST_FUSED)));
        } else if (loop_is(let)) {
            Dim each = dim_add(cx, block_work(cx, let->body), dim_int(cx, combine_cost(let)));
            own += COST_LOOP + ends_cost(let);
            work = dim_add(cx, work, dim_mul(cx, without_indices(cx, loop_extent(let)), each));
        } else if (let_is_choice(let)) {
            Dim share = without_indices(cx, choice_share(cx, let));
            work = dim_add(cx, work, dim_mul(cx, share, block_work(cx, let->body)));
        } else {
            own += op_info[let->op].kind == KIND_MAP ? op_info[let->op].cost : COST_LOAD;
        }
    }
    return dim_add(cx, work, dim_int(cx, own));
}

Dim
work_of_iteration(Cx *cx, const Let *loop)
{
    return block_work(cx, loop->body);
}

Dim
work_of_loop(Cx *cx, const Let *loop)
{
    return dim_mul(cx, without_indices(cx, loop_extent(loop)), work_of_iteration(cx, loop));
}
