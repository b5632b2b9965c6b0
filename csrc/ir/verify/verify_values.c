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
    if (let_has(let, MARK_merged) && !let_accesses(let) &&
        (!loop_is(let_around(let)) || uses_by_next(let) != uses_in(let->parent, let->res[0]))) {
        verify_broken(v, 49,
                      "merged marks a value that is not used by the operation that computes it "
                      "too, or by others as well");
    }
}

/* ---- V50: what is read and written where it is ---- */

static bool
shares_memory(const Value *a, const Value *b)
{
    return a == b || a->over == b || b->over == a || (a->over && a->over == b->over);
}

static bool
is_access_of(const void *of, const Let *let)
{
    return let_accesses(let) && shares_memory(let->args[0], of);
}

static bool
is_write_of(const void *of, const Let *let)
{
    return let_writes(let) && shares_memory(let->args[0], of);
}

static int
place_in_block(const Let *let)
{
    int k = 0;
    while (let->parent->lets[k] != let) {
        k++;
    }
    return k;
}

/* The place behind which nothing in the block reads the value, or what is computed with it. */
static int
last_use(const Block *blk, const Value *v)
{
    int last = 0;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        bool uses = let->body && uses_in(let->body, v);
        for (int j = 0; j < let->nargs; j++) {
            uses |= let->args[j] == v;
        }
        bool later = uses && let_is_map(let) && let_has(let, MARK_merged);
        int at = !uses ? 0 : later ? last_use(blk, let->res[0]) : k;
        last = at > last ? at : last;
    }
    for (int k = 0; k < blk->nrets; k++) {
        last = blk->rets[k] == v ? blk->n : last;
    }
    return last;
}

/* The let of the block that computes what the store stores, or NULL. */
static const Let *
computed_for(const Let *store)
{
    const Value *v = store->op == OP_store ? store->args[1] : NULL;
    const Let *let = v && !value_is_const(v) ? v->def : NULL;
    return let && let->parent == store->parent && let_is_map(let) ? let : NULL;
}

/* Does the let, at place k, or a store that is as early as it, write before `last`?  A loop uses
 * again what it has used. */
static bool
is_before(const Let *let, int k, int last)
{
    const Let *early = let_has(let, MARK_merged) ? computed_for(let) : NULL;
    int at = early ? place_in_block(early) : k;
    return at < last || (at == last && let->body);
}

bool
load_is_unchanged(const Let *load)
{
    const Block *blk = load->parent;
    int last = -1;
    bool good = true;
    for (int k = place_in_block(load) + 1; k < blk->n && good; k++) {
        const Let *let = blk->lets[k];
        if ((let->body || let_writes(let)) && let_any(let, is_write_of, load->args[0])) {
            last = last < 0 ? last_use(blk, load->res[0]) : last;
            good = !is_before(let, k, last);
        }
    }
    return good;
}

static bool
is_other_element(Cx *cx, const Let *a, const Let *b)
{
    int64_t distance = 0;
    const Value *of = a->args[0];
    Dim from = index_offset(cx, of, let_attr(a, "at")->dims),
        to = index_offset(cx, of, let_attr(b, "at")->dims);
    return dim_is_int(cx, dim_sub(cx, to, from), &distance) && distance != 0;
}

/* Two stores to other elements may change places, as may two to a result, which is stored once. */
static bool
may_be_early(const Verifier *v, const Let *store)
{
    const Let *let = computed_for(store);
    const Value *to = store->args[0];
    bool good = let && let->res[0]->type->dtype == to->type->dtype;
    for (int k = good ? place_in_block(let) + 1 : 0; good && store->parent->lets[k] != store; k++) {
        const Let *between = store->parent->lets[k];
        bool stores = between->op == OP_store && between->args[0] == to &&
                      (to->def == v->kernel || is_other_element(v->cx, between, store));
        good = stores || !let_any(between, is_access_of, to);
    }
    return good;
}

void
verify_merged_access(Verifier *v, const Let *access)
{
    bool good = access->op == OP_load ? load_is_unchanged(access)
                                      : loop_is(let_around(access)) && may_be_early(v, access);
    if (let_has(access, MARK_merged) && !good) {
        verify_broken(v, 50,
                      access->op == OP_load
                          ? "merged marks a load whose memory is stored to before what it has "
                            "read is used"
                          : "merged marks a store of what no operation beside it computes in its "
                            "dtype, or behind other accesses to its memory");
    }
}

/* ---- V58: terms in an array ---- */

void
verify_terms(Verifier *v, const Let *loop)
{
    if (!let_has(loop, MARK_terms)) {
        return;
    }
    bool good = !let_has(loop, MARK_fused) && !let_has(loop, MARK_onehot) &&
                op_info[let_op(loop)].rule != RULE_INDEX;
    for (int k = 0; k < loop->body->n; k++) {
        good = good && !loop->body->lets[k]->body && loop->body->lets[k]->op != OP_bind;
    }
    if (!good) {
        verify_broken(
            v, 58,
            "terms marks a reduction that is fused or onehot, returns an index, or has loops or an "
            "index that is data");
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
