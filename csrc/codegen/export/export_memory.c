/* Where values are in the workspace, for all sizes at once.
 *
 * What:     each value between two kernels, the memory of the pieces of a kernel and the workspace
 *           of a body get a block of the workspace; a block holds what is never needed at the same
 *           time, and has the size of the largest.
 * How:      Values are taken by the size that they have for sizes about TYPICAL, largest first, and
 *           each goes into the first block where no life overlaps its own.  So all sizes that are
 *           allowed have one plan, whose bytes are a formula.
 * Why not   the places that plan_memory.c finds: they are those of one combination of sizes, found
 *           in a time that is quadratic in the number of values.
 */
#include <stdlib.h>
#include <string.h>

#include "export_text.h"

enum { TYPICAL = 64 };

/* Of a slot, of the pieces of a launch, or of the body that a step runs. */
typedef struct {
    int at;                     /* its place in ExportPlan.block */
    int first, last;            /* steps */
    int64_t estimate;
    const char *bytes;
} Want;

typedef struct {
    Export *x;
    ExportPlan *p;
    Want *wants;
    int nwants;
} Placing;

/* ---- estimates ---- */

static int64_t
typical(const Plan *plan, int size)
{
    int64_t value = TYPICAL;
    if (size < plan->ndeclared) {
        const Solve *s = &plan->solves[size];
        value = value < s->range.lo ? s->range.lo : value > s->range.hi ? s->range.hi : value;
    }
    return value;
}

/* About the value of a size: what is too large for 64 bits does not matter here. */
static double
estimate(const Plan *plan, DimRef ref)
{
    const DimCode *code = &plan->dims[ref];
    if (code->op == 'i' || code->op == 'n') {
        return (double)(code->op == 'i' ? code->value : typical(plan, code->a));
    }
    double a = estimate(plan, code->a);
    if (code->op == 's') {
        return a * dim_factor(plan->dims[code->b].value);
    }
    double b = estimate(plan, code->b);
    switch (code->op) {
    case '+':
        return a + b;
    case '*':
        return a * b;
    case '/':
        return b != 0 ? a / b : 0;
    case 'M':
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

static int64_t
slot_estimate(const Plan *plan, const Slot *slot)
{
    double elements = 1;
    for (int ax = 0; ax < slot->rank; ax++) {
        elements *= estimate(plan, slot->sizes[ax]);
    }
    elements *= dtype_info[slot->dtype].bytes;
    return elements < 1e15 ? (int64_t)elements : (int64_t)1e15;
}

/* ---- wants ---- */

static void
add_want(Placing *a, Want want)
{
    int64_t number;
    if (!size_number(want.bytes, &number) || number > 0) {
        a->wants = cx_grow(a->x->cx, a->wants, a->nwants, sizeof *a->wants);
        a->wants[a->nwants++] = want;
    }
}

/* In whole lines; a number, if it is one. */
static const char *
room(Export *x, const char *bytes)
{
    int64_t number;
    if (size_number(bytes, &number)) {
        number = bytes_sum(x, number, DLC_LINE - 1) / DLC_LINE * DLC_LINE;
        return cx_format(x->cx, "%lld", (long long)number);
    }
    return cx_format(x->cx, "size_room(%s)", bytes);
}

static void
want_step(Placing *a, int step)
{
    Export *x = a->x;
    const Plan *plan = a->p->plan;
    const Step *s = &plan->steps[step];
    if (s->kind == STEP_LAUNCH) {
        const char *each = room(x, launch_scratch_c(x, a->p, &plan->launches[s->launch], false));
        int64_t number;
        bool known = size_number(each, &number);
        const char *all = known ? cx_format(x->cx, "%lld",
                                            (long long)bytes_product(x, number, x->options->pieces))
                                : cx_format(x->cx, "%d * %s", x->options->pieces, each);
        add_want(a, (Want){plan->nslots + s->launch, step, step, known ? number : 1 << 12, all});
    } else if (s->kind == STEP_FLOW) {
        const Flow *flow = &plan->flows[s->flow];
        const char *all = "0";
        for (int k = 0; k < (flow->loops ? 1 : 2); k++) {
            const char *one = plan_of_body(x, &flow->bodies[k])->workspace;
            all = strcmp(all, "0") == 0 || strcmp(all, one) == 0 ? one
                  : strcmp(one, "0") == 0                        ? all
                                          : cx_format(x->cx, "size_max(%s, %s)", all, one);
        }
        add_want(a, (Want){plan->nslots + plan->nlaunches + s->flow, step, step, 1 << 20, all});
    }
}

/* By slot: is it copied to a result, after the last step? */
static const bool *
find_copied(const Placing *a)
{
    const Plan *plan = a->p->plan;
    bool *copied = cx_alloc(a->x->cx, (size_t)plan->nslots + 1);
    for (int k = 0; k < plan->nresults && a->p == a->x->main; k++) {
        copied[plan->slots[plan->results[k].slot].root] |= plan->results[k].kind != RESULT_INTO;
    }
    return copied;
}

static void
list_wants(Placing *a)
{
    const Plan *plan = a->p->plan;
    const bool *copied = find_copied(a);
    for (int k = 0; k < plan->nslots; k++) {
        const Slot *slot = &plan->slots[k];
        bool here = slot->kind == SLOT_WORK || (slot->kind == SLOT_OBJECT && !a->p->output[k]);
        if (here && slot->last >= 0) {
            int last = copied[k] ? plan->nsteps : slot->last;
            add_want(a, (Want){k, slot->first, last, slot_estimate(plan, slot),
                               room(a->x, slot_bytes_c(a->x, a->p, k))});
        }
    }
    for (int k = 0; k < plan->nsteps; k++) {
        want_step(a, k);
    }
}

static int
larger_first(const void *a, const void *b)
{
    const Want *x = a, *y = b;
    return x->estimate != y->estimate ? (x->estimate < y->estimate ? 1 : -1) : x->at - y->at;
}

/* ---- blocks ---- */

static bool
fits(const Placing *a, int block, int want)
{
    bool free = true;
    for (int k = 0; k < want && free; k++) {
        const Want *other = &a->wants[k];
        free = a->p->block[other->at] != block || other->last < a->wants[want].first ||
               a->wants[want].last < other->first;
    }
    return free;
}

/* The larger one of two rooms, as far as it is known. */
static const char *
larger(Cx *cx, const char *a, const char *b)
{
    int64_t x, y;
    if (strcmp(a, b) == 0) {
        return a;
    }
    bool number = size_number(b, &y);
    if (number && size_number(a, &x)) {
        return x > y ? a : b;
    }
    return !number && strstr(a, b) && strncmp(a, "size_max", 8) == 0
               ? a
               : cx_format(cx, "size_max(%s,\n            %s)", a, b);
}

static void
assign(Placing *a)
{
    Cx *cx = a->x->cx;
    ExportPlan *p = a->p;
    for (int k = 0; k < a->nwants; k++) {
        int block = 0;
        while (block < p->nblocks && !fits(a, block, k)) {
            block++;
        }
        if (block == p->nblocks) {
            p->rooms = cx_grow(cx, p->rooms, block, sizeof *p->rooms);
            p->rooms[p->nblocks++] = a->wants[k].bytes;
        } else {
            p->rooms[block] = larger(cx, p->rooms[block], a->wants[k].bytes);
        }
        p->block[a->wants[k].at] = block;
    }
}

/* The blocks one behind the other: at numbers, as long as all before are. */
static void
lay_out(Export *x, ExportPlan *p)
{
    int64_t at = 0, number;
    int unknown = 0;
    p->offsets = cx_alloc(x->cx, ((size_t)p->nblocks + 1) * sizeof *p->offsets);
    for (int k = 0; k <= p->nblocks; k++) {
        p->offsets[k] = unknown ? cx_format(x->cx, "at[%d]", k)
                                : cx_format(x->cx, "%lld", (long long)at);
        if (k < p->nblocks && !unknown && size_number(p->rooms[k], &number)) {
            at = bytes_sum(x, at, number);
        } else {
            unknown = 1;
        }
    }
    bool known = size_number(p->offsets[p->nblocks], &number);
    p->workspace = known
                       ? p->offsets[p->nblocks]
                       : cx_format(x->cx, "places%d(%sNULL)", p->number, size_params(x, p, false));
}

void
place_values(Export *x, ExportPlan *p)
{
    Placing a = {x, p, NULL, 0};
    int n = p->plan->nslots + p->plan->nlaunches + p->plan->nflows;
    p->block = cx_alloc(x->cx, ((size_t)n + 1) * sizeof *p->block);
    for (int k = 0; k < n; k++) {
        p->block[k] = -1;
    }
    list_wants(&a);
    qsort(a.wants, (size_t)a.nwants, sizeof *a.wants, larger_first);
    assign(&a);
    lay_out(x, p);
}

void
put_places(Export *x, ExportPlan *p, Text *out)
{
    int64_t number;
    if (size_number(p->workspace, &number)) {
        return;
    }
    text_add(out, "\n/* Where values are in the workspace, if that is asked, and its bytes. */\n");
    text_add(out, "static int64_t\nplaces%d(%sint64_t *places)\n{\n", p->number,
             size_params(x, p, true));
    text_add(out, "    int64_t at[%d];\n    at[0] = 0;\n", p->nblocks + 1);
    for (int k = 0; k < p->nblocks; k++) {
        text_add(out, "    at[%d] = size_sum(at[%d], %s);\n", k + 1, k, p->rooms[k]);
    }
    put_unused(x, p, out);
    text_add(out,
             "    for (int k = 0; places && k < %d; k++) {\n        places[k] = at[k];\n    }\n"
             "    return at[%d];\n}\n",
             p->nblocks, p->nblocks);
}

const char *
block_c(Export *x, ExportPlan *p, int block)
{
    const char *offset = p->offsets[block];
    int64_t number;
    p->computed |= !size_number(offset, &number);
    return strcmp(offset, "0") == 0 ? "work" : cx_format(x->cx, "work + %s", offset);
}
