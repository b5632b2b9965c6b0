/* Functions with a form for near operands, for an optimising C compiler: see Note [Near] in
 * prelude.h.
 *
 * What:     a phase marked near calls such functions, and is a function with a parameter more: how?
 *           The phase itself calls it for one part of the iterations after the other: with the
 *           forms for near operands, and exactly if an operand was far.
 * Ensures:  the bits of the exact form, for each operand.
 * How:      `how` is a number in each call, so one of the two forms is left.  What is far is a
 *           disjunction beside the loop, and one for each lane where a loop is over lanes: across
 *           them it would cost half a function. Iterations that store over a parameter that they
 *           read run first without these stores: compilers leave of that what the operands need,
 *           mostly a load each.
 * Why not:  a choice for each vector: no compiler makes vectors of loops with branches.
 * Example:  k0_0_part(..., int64_t lo, int64_t hi, const int how, int *again)
 *           {
 *               uint32_t far_f32 = 0;
 *               for (...) {
 *                   far_f32 |= dlc_far_sin_f32(x0);
 *                   const float y0 = how == DLC_EXACT ? op_sin_f32(x0) : dlc_near_sin_f32(x0);
 *                   ...
 *               *again |= DLC_IS_FAR(far_f32);
 */
#include <string.h>

#include "emit_cc.h"

static bool
has_near_form(const Let *let)
{
    return op_info[let->op].kind == KIND_MAP && op_info[let->op].flags & OPF_NEAR;
}

/* ---- one part ---- */

static bool
stores_in_place(const Emit *e, const Let *loop)
{
    bool over = false;
    for (int k = 0; k < e->phase->nbuffers; k++) {
        const Value *v = e->phase->buffers[k];
        over |= v->over && loop_accesses(loop, OP_store, v);
    }
    return over;
}

static const struct {
    Dtype dtype;
    const char *name;
    int bits;
} widths[] = {{DT_f32, "f32", 32}, {DT_f64, "f64", 64}};

/* The work of an iteration of the parallel loop, which decides how many are a part. */
static Dim
work_of(const Emit *e)
{
    return e->ncollapsed ? e->phase->work : dim_int(e->cx, 1);
}

bool
cc_is_near(const Emit *e)
{
    return let_has(e->loop, MARK_near);
}

void
cc_near_lane(Emit *e, const Block *blk, const char *lane)
{
    for (int k = 0; k < blk->n && cc_is_near(e); k++) {
        const Let *let = blk->lets[k];
        if (has_near_form(let)) {
            cc_stand_value(
                e, let,
                lane ? cx_format(e->cx, "lanes_%s[%s]", compute_name(map_dtype(let)), lane) : NULL);
        }
        if (let->body) {
            cc_near_lane(e, let->body, lane);
        }
    }
}

void
cc_near_open(Emit *e)
{
    /* Both widths: what stands before the loop may be of another one. */
    for (int k = 0; k < 2 && cc_is_near(e); k++) {
        put(e, "uint%d_t far_%s = 0, lanes_%s[%d] = {0};", widths[k].bits, widths[k].name,
            widths[k].name, DLC_LANES);
    }
}

void
cc_near_close(Emit *e)
{
    for (int k = 0; k < 2 && cc_is_near(e); k++) {
        put_open(e, "for (int k = 0; k < %d; k++)", DLC_LANES);
        put(e, "far_%s |= lanes_%s[k];", widths[k].name, widths[k].name);
        put_close(e);
        put(e, "*again |= DLC_IS_FAR(far_%s);", widths[k].name);
    }
    if (cc_is_near(e) && !dim_is_int(e->cx, work_of(e), NULL)) {
        size_at(e, work_of(e)); /* the phase reads it */
    }
}

const char *
cc_near_call(Emit *e, const Let *let, const char *function, const char *operands)
{
    const char *dtype = compute_name(map_dtype(let));
    if (!(cc_is_near(e) && has_near_form(let))) {
        return cx_format(e->cx, "%s(%s)", function, operands);
    }
    const char *form = cx_format(e->cx, "%s_%s(%s)", op_info[let->op].name, dtype, operands);
    const char *far = cc_stands(e, let);
    put(e, "%s |= dlc_far_%s;", far ? far : cx_format(e->cx, "far_%s", dtype), form);
    return cx_format(e->cx, "how == DLC_EXACT ? %s(%s) : dlc_near_%s", function, operands, form);
}

const char *
cc_near_stores(const Emit *e, const Let *store)
{
    return cc_is_near(e) && store->args[0]->over ? "if (how != DLC_TEST) " : "";
}

void
cc_near_head(const Emit *e, Text *unit)
{
    text_add(unit,
             "DLC_FN int\n"
             "%s_part(void *const *p, const int64_t *n, int64_t lo, int64_t hi, const int how, "
             "int *again)\n{\n",
             e->phase->name);
}

/* ---- all parts ---- */

/* How many iterations of the parallel loop are a part. */
static const char *
part_c(Emit *e, const Let *loop)
{
    Dim work = work_of(e);
    bool known = dim_is_int(e->cx, work, NULL);
    const char *each = known ? dim_c(e, work)
                             : cx_format(e->cx, "n[%d]", e->sizes[size_at(e, work)].place);
    return cx_format(e->cx, "dlc_part(%d, %s)", (int)let_mark_value(loop, MARK_near), each);
}

void
cc_near_phase(Emit *e, const Let *loop, Text *unit)
{
    const char *name = e->phase->name, *part = part_c(e, loop);
    text_add(unit, "\n");
    put_phase_head(e, unit, "static");
    text_add(unit,
             "    int fault = 0;\n    const int64_t part = %s;\n"
             "    for (; lo < hi; lo += part) {\n"
             "        const int64_t end = hi - lo < part ? hi : lo + part;\n"
             "        int again = 0, wrong = 0;       "
             "/* a near form of a far operand may be a wrong index */\n",
             part);
    text_add(unit,
             stores_in_place(e, loop)
                 ? "        %s_part(p, n, lo, end, DLC_TEST, &again);\n"
                   "        if (!again) {\n"
                   "            wrong = %s_part(p, n, lo, end, DLC_NEAR, &again);\n"
                   "        } else {\n"
                 : "        wrong = %s_part(p, n, lo, end, DLC_NEAR, &again);\n"
                   "        if (again) {\n",
             name, name);
    text_add(unit,
             "            wrong = %s_part(p, n, lo, end, DLC_EXACT, &again);\n"
             "        }\n        fault |= wrong;\n    }\n    (void)n;\n    return fault;\n}\n",
             name);
}
