/* Loops whose iterations follow each other, and those around them that are marked recurrences.
 *
 * What:     which operation continues the iteration before, and whether recurrences may run
 *           together (V20).
 * Requires: the loops stage.
 * How:      a recurrence keeps one number, in a buffer of one element.  A constant starts it, and
 *           the loop inside loads it for one operation and stores what that makes.  So emitters may
 *           keep it elsewhere, and run the recurrences in any order, or several at a time.
 *           What stands beside the loop inside may be made again for each of its iterations, so it
 *           loads nothing that is stored.
 * Example:  for i in N recurrences=8 { let run = buffer  store run[0] = 0.0
 *               for j in M { let a = load x[i, j]  let r = load run[0]  let s = add r, a
 *                            store run[0] = s  store y[i, j] = s } }
 */
#include "recurrence.h"
#include "ir/cx.h"

const Let *
loop_carried(const Let *combine)
{
    const Block *body = combine->parent;
    const Let *load = combine->nargs == 2 && !value_is_const(combine->args[0])
                          ? combine->args[0]->def
                          : NULL;
    const Let *buffer = load && load->op == OP_load && load->parent == body ? load->args[0]->def
                                                                            : NULL;
    if (!buffer || buffer->op != OP_buffer || buffer->parent == body) {
        return NULL;
    }
    for (int k = 0; k < body->n; k++) {
        const Let *store = body->lets[k];
        if (store->op == OP_store && store->args[0] == load->args[0] &&
            store->args[1] == combine->res[0]) {
            return load;
        }
    }
    return NULL;
}

static bool
is_buffer(const Value *v, const Block *of)
{
    return v->def && v->def->op == OP_buffer && v->def->parent == of;
}

/* Is it an operation that a scan is made of? */
static bool
is_of_scans(Op op)
{
    bool found = op == OP_logaddexp;
    for (Op red = 0; red < OP_COUNT; red++) {
        found |= op_info[red].kind == KIND_RED && op_info[red].rule == RULE_ACC &&
                 op_info[red].combine == op;
    }
    return found;
}

/* Does the loop load the buffer once and store to it once, and is that one operation's?  Nothing
 * else uses what is loaded. */
static bool
is_continued(const Block *body, const Value *run)
{
    const Let *combine = NULL;
    int accesses = 0;
    for (int k = 0; k < body->n; k++) {
        const Let *let = body->lets[k];
        bool map = let_is_map(let) && loop_carried(let);
        combine = map && loop_carried(let)->args[0] == run ? let : combine;
        accesses += let_accesses(let) && let->args[0] == run;
    }
    const Let *load = combine ? loop_carried(combine) : NULL;
    bool good = load && accesses == 2 && is_of_scans(combine->op);
    for (int k = 0; good && k < body->n; k++) {
        const Let *user = body->lets[k];
        for (int j = 0; j < user->nargs; j++) {
            good &= user->args[j] != load->res[0] || (user == combine && j == 0);
        }
    }
    return good;
}

/* Is the buffer of one number, which is kept as it is computed? */
static bool
is_number(Cx *cx, const Value *run)
{
    Dtype dtype = run->type->dtype;
    return dim_is(cx, type_numel(cx, run->type), 1) && dtype_info[dtype].compute == dtype;
}

/* Is a constant stored to the buffer, once, before the loop? */
static bool
is_started(const Let *loop, const Value *run)
{
    const Block *own = loop->parent;
    int stores = 0;
    bool before = true, good = true;
    for (int k = 0; k < own->n; k++) {
        const Let *let = own->lets[k];
        bool starts = let_writes(let) && let->args[0] == run;
        before &= let != loop;
        stores += starts;
        good &= !starts || (before && let->op == OP_store && value_is_const(let->args[1]));
    }
    return good && stores == 1;
}

/* Does the loop store to the tensor, or to a result that takes its memory? */
static bool
stores_to(const Block *body, const Value *v)
{
    bool found = false;
    for (int k = 0; k < body->n; k++) {
        const Let *let = body->lets[k];
        found |= let_writes(let) && (let->args[0] == v || let->args[0]->over == v);
    }
    return found;
}

/* May the access of the loop be made for several elements at a time? */
static bool
is_free(const Let *access)
{
    const Value *v = access->args[0];
    bool tensor = !v->def || v->def->op != OP_buffer || !loop_is(let_around(v->def));
    bool stored = false;
    for (int k = 0; k < access->parent->n; k++) {
        const Let *let = access->parent->lets[k];
        stored |= let_writes(let) && let->args[0] == v;
    }
    return tensor && (access->op != OP_load || !stored);
}

const char *
recurrences_wrong(Cx *cx, const Let *loop)
{
    const Block *own = loop->parent, *body = loop->body;
    const char *why = NULL;
    for (int k = 0; k < own->n && !why; k++) {
        const Let *let = own->lets[k];
        if (let->op == OP_buffer && !is_number(cx, let->res[0])) {
            why = "a buffer is not of one number, of a dtype that is computed in";
        } else if (let->op == OP_buffer && !is_started(loop, let->res[0])) {
            why = "a constant must start what a buffer holds";
        } else if (let->op == OP_buffer && !is_continued(body, let->res[0])) {
            why = "not one operation alone continues what a buffer holds";
        } else if (let_writes(let) && !is_buffer(let->args[0], own)) {
            why = "more is stored beside the loop than what starts it";
        } else if (let->op == OP_load && stores_to(body, let->args[0])) {
            why = "what the loop stores is loaded beside it";
        }
    }
    for (int k = 0; k < body->n && !why; k++) {
        const Let *let = body->lets[k];
        if (let_accesses(let) && !is_buffer(let->args[0], own) && !is_free(let)) {
            why = "the loop loads what it stores, or has other buffers";
        }
    }
    return why;
}
