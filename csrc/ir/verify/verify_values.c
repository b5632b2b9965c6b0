/* The rules of marks that say how single values are computed and kept, V49 to V52 and V54; verify.c
 * has the list. */
#include "verify.h"

/* ---- V49: what is computed with its user ---- */

static int
uses_in(const Block *blk, const Value *value)
{
    int uses = 0;
    for (int k = 0; k < blk->n; k++) {
        for (int j = 0; j < blk->lets[k]->nargs; j++) {
            uses += blk->lets[k]->args[j] == value;
        }
        uses += blk->lets[k]->body ? uses_in(blk->lets[k]->body, value) : 0;
    }
    for (int k = 0; k < blk->nrets; k++) {
        uses += blk->rets[k] == value;
    }
    return uses;
}

/* How often the let after `let` uses it that comes first, if an operation does and nothing in
 * between writes, binds or has a body. */
static int
uses_by_next(const Let *let)
{
    const Block *blk = let->parent;
    int k = 0, uses = 0;
    while (blk->lets[k] != let) {
        k++;
    }
    for (k++; k < blk->n && uses == 0; k++) {
        const Let *next = blk->lets[k];
        if (let_writes(next) || next->op == OP_bind || next->body) {
            return 0;
        }
        for (int j = 0; j < next->nargs; j++) {
            uses += let_is_map(next) && next->args[j] == let->res[0];
        }
    }
    bool returned = uses == 0 && blk->owner->op == OP_reduce && blk->rets[0] == let->res[0] &&
                    blk->lets[blk->n - 1] == let;
    return returned ? 1 : uses;
}

void
verify_merged(Verifier *v, const Let *let)
{
    if (let_has(let, MARK_merged) &&
        (!loop_is(let_around(let)) || uses_by_next(let) != uses_in(let->parent, let->res[0]))) {
        verify_broken(v, 49,
                      "merged marks a value that is not used by the operation that computes it "
                      "too, or by others as well");
    }
}

/* ---- V50: sums in an array ---- */

void
verify_interchange(Verifier *v, const Let *loop)
{
    const Block *body = loop->body;
    const Let *sum = body->n ? body->lets[0] : NULL;
    int64_t room = let_mark_value(loop, MARK_interchange);
    if (!let_has(loop, MARK_interchange)) {
        return;
    }
    bool good = sum && sum->op == OP_reduce && let_has(sum, MARK_fused) &&
                !let_has(loop, MARK_parallel) && !let_has(loop, MARK_vector) &&
                room <= MICRO_ROW_BYTES / dtype_info[sum->res[0]->type->dtype].bytes &&
                dim_range(v->cx, let_dim(loop, "extent")).hi <= room &&
                dim_range(v->cx, let_dim(sum, "extent")).hi <= CONTRACTION_CHAIN &&
                !dim_uses(v->cx, let_dim(sum, "extent"), let_attr(loop, "index")->d) &&
                !loop_carries(v->cx, loop);
    for (int k = 1; k < body->n; k++) {
        good = good && body->lets[k]->body == NULL;
    }
    if (!good) {
        verify_broken(v, 50,
                      "interchange marks a loop that does not begin with a short sum marked fused, "
                      "or whose iterations need each other");
    }
}

/* ---- V58: terms in an array ---- */

void
verify_terms(Verifier *v, const Let *loop)
{
    if (!let_has(loop, MARK_terms)) {
        return;
    }
    bool good = !let_has(loop, MARK_pairs) && !let_has(loop, MARK_fused) &&
                op_info[let_op(loop)].rule != RULE_INDEX;
    for (int k = 0; k < loop->body->n; k++) {
        good = good && !loop->body->lets[k]->body && loop->body->lets[k]->op != OP_bind;
    }
    if (!good) {
        verify_broken(
            v, 58,
            "terms marks a reduction that is in pairs or fused, returns an index, or has loops "
            "or an index that is data");
    }
}

/* ---- V51: lanes that are loaded together ---- */

bool
is_unbound(Cx *cx, const Let *access, const Let *loop)
{
    Dim offset = index_offset(cx, access->args[0], let_attr(access, "at")->dims);
    bool unbound = true;
    for (int k = 0; unbound && k < loop->body->n; k++) {
        const Let *bind = loop->body->lets[k];
        unbound = bind->op != OP_bind || !dim_uses(cx, offset, bind->sizes[0]);
    }
    return unbound;
}

/* A byte of an iteration of a vector loop, beside those of the others. */
static bool
is_of_vector(Cx *cx, const Let *load)
{
    const Let *loop = let_around(load);
    Dtype dtype = load->args[0]->type->dtype;
    return loop->op == OP_for && let_has(loop, MARK_vector) && load->parent == loop->body &&
           dim_is(cx, let_dim(loop, "extent"), MICRO_ROW_BYTES / 4) &&
           (dtype == DT_i8 || dtype == DT_u8) && steps_by(cx, load, loop, dim_int(cx, 1)) &&
           is_unbound(cx, load, loop);
}

void
verify_widened(Verifier *v, const Let *load)
{
    const Let *reduce = let_around(load);
    if (!let_has(load, MARK_widened) || is_of_vector(v->cx, load)) {
        return;
    }
    if (reduce->op != OP_reduce || !let_has(reduce, MARK_lanes) || let_has(reduce, MARK_onehot) ||
        load->args[0]->type->dtype != DT_bf16 ||
        !steps_by(v->cx, load, reduce, dim_int(v->cx, 1)) || !is_unbound(v->cx, load, reduce)) {
        verify_broken(v, 51,
                      "widened marks a load that is neither of bf16 along a reduction in lanes nor "
                      "of bytes along a vector loop of 32 iterations");
    }
}

/* ---- V52: reductions of one primitive ---- */

void
verify_primitive(Verifier *v, const Let *reduce)
{
    const Let *around = let_around(reduce);
    if (!let_has(reduce, MARK_primitive)) {
        return;
    }
    while (loop_is(around) && !(around->op == OP_for && let_has(around, MARK_vector))) {
        around = let_around(around);
    }
    bool good = !let_has(reduce, MARK_onehot) && op_info[let_op(reduce)].rule != RULE_INDEX &&
                (let_has(reduce, MARK_lanes) || loop_is(around));
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *let = reduce->body->lets[k];
        good = good && !let->body && !let_writes(let);
    }
    if (!good) {
        verify_broken(v, 52,
                      "primitive marks a reduction that is neither in lanes nor in a vector loop, "
                      "or does more than load and compute");
    }
}

/* Of accesses: all parts of an element in one go. */
void
verify_primitive_access(Verifier *v, const Let *access)
{
    enum { MOST = 4, BYTES = 4 };
    bool good = !let_has(access, MARK_primitive);
    for (const Let *loop = let_around(access); !good && loop_is(loop); loop = let_around(loop)) {
        for (int n = 2; n <= MOST; n++) {
            good |= dtype_info[access->args[0]->type->dtype].bytes == BYTES &&
                    steps_by(v->cx, access, loop, dim_int(v->cx, n));
        }
    }
    if (!good) {
        verify_broken(v, 52,
                      "primitive marks a load or store that does not go by 2 to 4 elements of four "
                      "bytes along a loop");
    }
}

/* ---- V54: buffers in registers ---- */

void
verify_registers(Verifier *v, const Let *buffer)
{
    const Let *around = let_around(buffer);
    int64_t elements;
    bool good = around->op == OP_for && !let_has(around, MARK_vector) &&
                !let_has(buffer, MARK_array) && !buffer->res[0]->strides &&
                dim_is_int(v->cx, type_numel(v->cx, buffer->res[0]->type), &elements) &&
                elements > 0 &&
                elements <= MICRO_ROW_BYTES / dtype_info[buffer->res[0]->type->dtype].bytes;
    if (let_has(buffer, MARK_registers) && !good) {
        verify_broken(
            v, 54,
            "registers marks a buffer that stands in no loop or a vector loop, is in an array of "
            "a tile, or has more elements than a row of a panel");
    }
}
