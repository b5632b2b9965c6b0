/* Loops marked `recurrences` that only scan what they load, for both tiers.
 *
 * What:     which loops these are, and the steps in memory between rows and between elements.
 * Requires: a loop marked recurrences.
 * How:      The lets are matched with those that lower_scan.c makes of a scan alone.
 * Example:  y = cumsum of x[N, M] along M: rows are M elements apart; both tiers call a routine for
 *           eight rows.
 */
#include "loops.h"
#include "scan.h"

/* dtype: of the elements; wide: of the running result. */
static const struct {
    Op op;
    Dtype dtype, wide;
} scans[] = {
    {OP_add, DT_f32, DT_f64},     {OP_mul, DT_f32, DT_f64},  {OP_maximum, DT_f32, DT_f32},
    {OP_minimum, DT_f32, DT_f32}, {OP_add, DT_f64, DT_f64},  {OP_mul, DT_f64, DT_f64},
    {OP_add, DT_i64, DT_i64},     {OP_add, DT_bf16, DT_f32},
};

static const Let *
skip_cast(const Value *v, int *lets)
{
    const Let *let = value_is_const(v) ? NULL : v->def;
    if (let && let->op == OP_cast) {
        ++*lets;
        let = value_is_const(let->args[0]) ? NULL : let->args[0]->def;
    }
    return let;
}

/* The loop along the row: load x; load run; combine; store run; store. */
static bool
match_row(Scan *s)
{
    const Block *body = s->loop->body;
    int lets = 5;
    s->store = body->lets[body->n - 1];
    const Let *op = s->store->op == OP_store ? skip_cast(s->store->args[1], &lets) : NULL;
    if (!op || op->parent != body || op_info[op->op].kind != KIND_MAP || !loop_carried(op)) {
        return false;
    }
    s->load = skip_cast(op->args[1], &lets);
    s->op = op->op;
    if (!s->load || s->load->op != OP_load || s->load->parent != body || lets != body->n) {
        return false;
    }
    s->dtype = s->load->res[0]->type->dtype;
    s->wide = op->res[0]->type->dtype;
    return s->store->args[0]->type->dtype == s->dtype &&
           loop_carried(op)->args[0] == s->first->args[0];
}

/* Matches the loop marked recurrences: a buffer, the store of a row's first value, and the loop
 * along the row. */
static bool
match(const Let *recurrences, Scan *s)
{
    const Block *body = recurrences->body;
    if (body->n != 3 || body->lets[0]->op != OP_buffer || body->lets[1]->op != OP_store ||
        body->lets[2]->op != OP_for || body->lets[2]->body->n == 0) {
        return false;
    }
    s->first = body->lets[1];
    s->loop = body->lets[2];
    if (!literal_of(s->first->args[1]) || s->first->args[0] != body->lets[0]->res[0] ||
        !match_row(s)) {
        return false;
    }
    for (size_t k = 0; k < sizeof scans / sizeof *scans; k++) {
        if (scans[k].op == s->op && scans[k].dtype == s->dtype && scans[k].wide == s->wide) {
            return true;
        }
    }
    return false;
}

/* Finds the steps in memory from an element to the next one of the row, and to that of the next
 * row. */
static bool
find_steps(const Facts *facts, const Let *access, const Let *rows, const Let *loop,
           ScanSteps *steps)
{
    const Step *along = facts_step(facts, access, loop_index(loop)),
               *row = facts_step(facts, access, loop_index(rows));
    if (facts_access(facts, access)->is_private || !along || !row ||
        dim_uses(facts->cx, along->step, loop_index(rows))) {
        return false;
    }
    *steps = (ScanSteps){along->step, row->step};
    return true;
}

bool
scan_alone(const Facts *facts, const Let *recurrences, Scan *s)
{
    Cx *cx = facts->cx;
    if (!match(recurrences, s) || !find_steps(facts, s->store, recurrences, s->loop, &s->to) ||
        !find_steps(facts, s->load, recurrences, s->loop, &s->from)) {
        return false;
    }
    s->at_once = s->dtype == DT_f32 && s->wide == DT_f64 && dim_is(cx, s->to.along, 1) &&
                 dim_is(cx, s->from.along, 1);
    return true;
}
