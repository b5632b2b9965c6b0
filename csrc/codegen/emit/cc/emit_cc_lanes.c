/* A block of a vector reduction in C: lanes, and the rest of a row.
 *
 * What:     16 lanes in an array that the compiler keeps in registers.
 * Ensures:  the order of prelude_reduce.h.
 * How:      What is left of a block in a reduction marked fill (schedule/fill.c) is copied to
 *           arrays of 16, filled up with the first element, the body runs over all lanes, and the
 *           lanes without an element get the identity and store nothing.
 * Example:  const float first = x[sum_at];
 *           for (int k = 0; k < 16; k++) {
 *               const int64_t i = sum_at + k;
 *               x_rest[k] = k < sum_left ? x[i] : first;
 *           }
 *           for (int k = 0; k < 16; k++) {
 *               sum_has[k] = -(k < sum_left);
 *           }
 *           for (int k = 0; k < 16; k++) {
 *               const float x0 = x_rest[k];
 *               const float y0 = op_exp_f32(x0);
 *               sum_term[k] = y0;
 *           }
 *           for (int k = 0; k < 16; k++) {
 *               const float term = dlc_only_f32(sum_has[k], sum_term[k], dlc_identity_sum_f32());
 *               sum_lane[k] = dlc_combine_sum_f32(sum_lane[k], term);
 *           }
 */
#include "emit_cc.h"

/* Extremes of floats look for NaN beside their lanes: a step then waits for one comparison, not
 * three. */
static bool
checks_nan(const Reduction *r)
{
    return (r->op == OP_amax || r->op == OP_amin) && dtype_info[r->dtype].class == CLASS_FLOAT;
}

/* One more element, `term`, for lane k. */
static void
put_lane_step(Emit *e, const Reduction *r, const char *term)
{
    const char *out = r->out;
    if (r->places) {
        put(e, "%s_place[k] = dlc_place_%s(%s_place[k], (dlc_size_%s)(%s) + k, %s_lane[k], %s);",
            out, r->name, out, compute_name(r->dtype), r->places, out, term);
    }
    put(e, "%s_lane[k] = dlc_combine_%s%s(%s_lane[k], %s);", out, checks_nan(r) ? "further_" : "",
        r->name, out, term);
    if (checks_nan(r)) {
        put(e, "%s_size[k] = dlc_size_seen_%s(%s_size[k], %s);", out, compute_name(r->dtype), out,
            term);
    }
}

/* ---- the rest of a block ---- */

/* The value that names an access, and no other of the body: what is loaded, where it is stored;
 * lowering keeps each value in a buffer of its own. */
static const Value *
accessed(const Let *access)
{
    return access->op == OP_load ? access->res[0] : access->args[0];
}

/* The loads, or the stores, of the body that go along the reduction: how many. */
static int
find_along(Emit *e, const Let *reduce, Op op, const Let **along)
{
    const Block *blk = reduce->body;
    int n = 0;
    for (int k = 0; k < blk->n; k++) {
        if (blk->lets[k]->op == op && facts_uses(e->facts, blk->lets[k], loop_index(reduce))) {
            along[n++] = blk->lets[k];
        }
    }
    return n;
}

static void
put_arrays(Emit *e, const Let *const *along, int n)
{
    for (int k = 0; k < n; k++) {
        const Value *v = accessed(along[k]);
        put(e, "%s %s_rest[%d];", storage_c(v->type->dtype), name_c(e, v), DLC_LANES);
    }
}

/* Into its array what a load has of the elements that are left, from <out>_at on, and the first of
 * them again. */
static void
put_rest_in(Emit *e, const Reduction *r, const Let *load)
{
    const char *name = name_c(e, accessed(load)), *from = cc_element(e, load), *out = r->out;
    bool masked = let_has(load, MARK_masked);
    put_scope(e);
    if (masked) {
        put(e, "const int64_t %s = %s_at;", r->i, out);
        put(e, "const %s first = %s;", storage_c(load->args[0]->type->dtype), from);
        put(e, "LANES");
    }
    put_open(e, "for (int k = 0; k < %d; k++)", DLC_LANES);
    if (masked) {
        put(e, "const int64_t %s = %s_at + k;", r->i, out);
        put(e, "%s_rest[k] = k < %s_left ? %s : first;", name, out, from);
    } else {
        put(e, "const int64_t %s = %s_at + (k < %s_left ? k : 0);", r->i, out, out);
        put(e, "%s_rest[k] = %s;", name, from);
    }
    put_close(e);
    put_close(e);
}

static void
put_rest_out(Emit *e, const Reduction *r, const Let *const *stores, int n)
{
    put_open(e, "for (int k = 0; k < %s_left; k++)", r->out);
    put(e, "const int64_t %s = %s_at + k;", r->i, r->out);
    for (int k = 0; k < n; k++) {
        put(e, "%s%s = %s_rest[k];", cc_near_stores(e, stores[k]), cc_element(e, stores[k]),
            name_c(e, accessed(stores[k])));
    }
    put_close(e);
}

/* The body and the lanes, over all lanes, each in a loop of its own.  Compilers follow a choice in
 * the body into the lanes else, in branches. */
static void
put_body_over_lanes(Emit *e, const Let *let, const Reduction *r)
{
    const char *out = r->out;
    put(e, "LANES");
    put_open(e, "for (int k = 0; k < %d; k++)", DLC_LANES);
    put(e, "const int64_t %s = %s_at + k;", r->i, out);
    put(e, "(void)%s;", r->i);
    cc_near_lane(e, let->body, "k");
    cc_block(e, let->body);
    cc_near_lane(e, let->body, NULL);
    put(e, "%s_term[k] = %s;", out, cc_term(e, r));
    if (r->kept) {
        put(e, "%s[%s - %s_from] = %s;", r->kept, r->i, out, cc_term(e, r));
    }
    put_close(e);

    put(e, "LANES");
    put_open(e, "for (int k = 0; k < %d; k++)", DLC_LANES);
    put(e, "const %s term = dlc_only_%s(%s_has[k], %s_term[k], dlc_identity_%s());", r->type,
        compute_name(r->dtype), out, out, r->name);
    put_lane_step(e, r, "term");
    put_close(e);
}

/* The elements that are left, over all lanes. */
static void
put_filled(Emit *e, const Let *let, const Reduction *r)
{
    const char *out = r->out;
    const Let **along = cx_alloc(e->cx, (size_t)let->body->n * sizeof *along);
    int loads = find_along(e, let, OP_load, along),
        stores = find_along(e, let, OP_store, along + loads);
    put(e, "const int %s_left = (int)(%s_end - %s_at%s);", out, out, out,
        let_has(let, MARK_hidden) ? " + opaque" : "");
    put_open(e, "if (%s_left > 0)", out);
    put(e, "int32_t %s_has[%d];", out, DLC_LANES);
    put(e, "%s %s_term[%d];", r->type, out, DLC_LANES);
    put_arrays(e, along, loads + stores);
    for (int k = 0; k < loads; k++) {
        put_rest_in(e, r, along[k]);
    }
    put(e, "LANES");
    put_open(e, "for (int k = 0; k < %d; k++)", DLC_LANES);
    put(e, "%s_has[k] = -(k < %s_left);", out, out);
    put_close(e);
    for (int k = 0; k < loads + stores; k++) {
        cc_stand(e, along[k], cx_format(e->cx, "%s_rest[k]", name_c(e, accessed(along[k]))));
    }
    put_body_over_lanes(e, let, r);
    for (int k = 0; k < loads + stores; k++) {
        cc_stand(e, along[k], NULL);
    }
    if (stores) {
        put_rest_out(e, r, along + loads, stores);
    }
    put_close(e);
}

/* ---- vector loops ---- */

bool
cc_widen_open(Emit *e, const Let *loop)
{
    bool open = false;
    int64_t elements = 0;
    dim_is_int(e->cx, loop_extent(loop), &elements);
    for (int k = 0; k < loop->body->n; k++) {
        const Let *load = loop->body->lets[k];
        if (load->op != OP_load || !let_has(load, MARK_widened)) {
            continue;
        }
        const char *name = name_c(e, load->res[0]);
        if (!open) {
            put_scope(e);
        }
        open = true;
        put(e, "int32_t %s_wide[%lld];", name, (long long)elements);
        put(e, "dlc_widen_%s(%s_wide, %s + (%s));", dtype_info[load->args[0]->type->dtype].name,
            name, name_c(e, load->args[0]), offset_c(e, row_offset(e, load, loop)));
        cc_stand_value(e, load,
                       cx_format(e->cx, "%s_wide[%s]", name, index_c(e, loop_index(loop))));
    }
    return open;
}

void
cc_widen_close(Emit *e, const Let *loop)
{
    for (int k = 0; k < loop->body->n; k++) {
        const Let *load = loop->body->lets[k];
        if (load->op == OP_load && let_has(load, MARK_widened)) {
            cc_stand_value(e, load, NULL);
        }
    }
    put_close(e);
}

/* ---- whole lanes ---- */

/* Opens the loop over lanes from element `at` on, in a scope of its own where loads are widened
 * before. */
static void
open_lanes(Emit *e, const Let *let, const char *at)
{
    bool scope = false;
    for (int k = 0; k < let->body->n; k++) {
        const Let *load = let->body->lets[k];
        if (!let_has(load, MARK_widened)) {
            continue;
        }
        if (!scope) {
            put_scope(e);
        }
        scope = true;
        put(e, "DLC_WIDE_BF16(%s_wide, %s + %s + %s);", name_c(e, load->res[0]),
            name_c(e, load->args[0]), offset_c(e, row_offset(e, load, let)), at);
        cc_stand_value(e, load,
                       cx_format(e->cx, "DLC_WIDENED(%s_wide[k], %s)", name_c(e, load->res[0]),
                                 cc_loaded(e, load, cc_element(e, load))));
    }
    put(e, "LANES");
    put_open(e, "for (int k = 0; k < %d; k++)", DLC_LANES);
    cc_near_lane(e, let->body, "k");
}

static void
close_lanes(Emit *e, const Let *let)
{
    bool scope = false;
    cc_near_lane(e, let->body, NULL);
    put_close(e);
    for (int k = 0; k < let->body->n; k++) {
        if (let_has(let->body->lets[k], MARK_widened)) {
            cc_stand(e, let->body->lets[k], NULL);
            scope = true;
        }
    }
    if (scope) {
        put_close(e);
    }
}

static void
put_lanes_body(Emit *e, const Let *let, const Reduction *r, const char *at)
{
    put(e, "const int64_t %s = %s_at + k;", r->i, at);
    cc_block(e, let->body);
    put_lane_step(e, r, cc_term(e, r));
    if (r->kept) {
        put(e, "%s[%s - %s_from] = %s;", r->kept, r->i, r->out, cc_term(e, r));
    }
}

static void
put_empty_lanes(Emit *e, const Reduction *r)
{
    put(e, "%s %s_lane[%d];", r->type, r->out, DLC_LANES);
    if (checks_nan(r)) {
        put(e, "dlc_size_%s %s_size[%d] = {0};", compute_name(r->dtype), r->out, DLC_LANES);
    }
    if (r->places) {
        put(e, "dlc_size_%s %s_place[%d];", compute_name(r->dtype), r->out, DLC_LANES);
    }
    put_open(e, "for (int k = 0; k < %d; k++)", DLC_LANES);
    put(e, "%s_lane[k] = dlc_identity_%s();", r->out, r->name);
    if (r->places) {
        put(e, "%s_place[k] = k;", r->out);
    }
    put_close(e);
}

/* Sixteen elements at a time, of the blocks of n rows: where the first one's are. */
static void
put_whole_lanes(Emit *e, const Let *let, const Jam *jam, const Reduction *r, int n)
{
    const char *out = r->out;
    put(e, "int64_t %s_at = %s_from;", out, out);
    put_open(e, "for (; %s_at + %d <= %s_end; %s_at += %d)", out, DLC_LANES, out, out, DLC_LANES);
    for (int k = 0; k < n; k++) {
        if (jam) {
            cc_copy(e, jam, k);
        }
        cc_prefetch_lanes(e, let, r->together, cx_format(e->cx, "%s_at", out), 0);
        open_lanes(e, let, cx_format(e->cx, "%s_at", out));
        put_lanes_body(e, let, &r[k], out);
        close_lanes(e, let);
    }
    if (jam) {
        cc_copy(e, jam, 0);
    }
    put_close(e);
}

/* What is left of a block, from <out>_at on. */
static void
put_last_lanes(Emit *e, const Let *let, const Reduction *r)
{
    if (let_has(let, MARK_fill)) {
        put_filled(e, let, r);
    } else {
        put_open(e, "for (int k = 0; k < (int)(%s_end - %s_at); k++)", r->out, r->out);
        put_lanes_body(e, let, r, r->out);
        put_close(e);
    }
}

/* One block of a vector reduction, from <out>_from to <out>_end, through lanes. */
static void
put_lanes(Emit *e, const Let *let, const Reduction *r)
{
    put_empty_lanes(e, r);
    put_whole_lanes(e, let, NULL, r, 1);
    put_last_lanes(e, let, r);
}

const char *
cc_lanes_value(Emit *e, const Reduction *r)
{
    return cx_format(
        e->cx, checks_nan(r) ? "dlc_lanes_checked_%s(%s_lane, %s_size)" : "dlc_lanes_%s(%s_lane)",
        r->name, r->out, r->out);
}

const char *
cc_lanes_block(Emit *e, const Let *let, const Reduction *r)
{
    put_lanes(e, let, r);
    return cc_lanes_value(e, r);
}

/* A step of n parts of a row that begin so many elements apart. */
static void
put_parts(Emit *e, const Let *let, const Reduction *parts, int n, int stride)
{
    for (int k = 0; k < n; k++) {
        const char *at = cx_format(e->cx, "%s_at + %d", parts->out, k * stride);
        cc_prefetch_lanes(e, let, parts->together, at, n * stride);
        open_lanes(e, let, at);
        put(e, "const int64_t %s = %s + k;", parts->i, at);
        cc_block(e, let->body);
        put_lane_step(e, &parts[k], cc_term(e, parts));
        close_lanes(e, let);
    }
}

void
cc_lanes_parts(Emit *e, const Let *let, const Reduction *parts, int n, int length,
               const char *first)
{
    const char *out = parts->out;
    for (int k = 0; k < n; k++) {
        put_empty_lanes(e, &parts[k]);
    }
    put_open(e, "for (int64_t %s_at = %s; %s_at < %s + %d; %s_at += %d)", out, first, out, first,
             length, out, DLC_LANES);
    put_parts(e, let, parts, n, length);
    put_close(e);
}

void
cc_lanes_places(Emit *e, const Let *let, Reduction *parts, int n)
{
    const char *out = parts->out;
    for (int k = 0; k < n; k++) {
        parts[k].places = cx_format(e->cx, "%s_at + %d", out, k * DLC_LANES);
        put_empty_lanes(e, &parts[k]);
    }
    put(e, "const int64_t %s_end = %s;", out, parts->extent);
    put(e, "int64_t %s_at = 0;", out);
    for (int some = n; some > 0; some -= n - 1) {
        put_open(e, "for (; %s_at + %d <= %s_end; %s_at += %d)", out, some * DLC_LANES, out, out,
                 some * DLC_LANES);
        put_parts(e, let, parts, some, DLC_LANES);
        put_close(e);
    }
    put_last_lanes(e, let, parts);
    for (int k = 1; k < n; k++) {
        const char *part = parts[k].out;
        put(e, "dlc_lanes_join_%s(%s_lane, %s_size, %s_place, %s_lane, %s_size, %s_place);",
            parts->name, out, out, out, part, part, part);
    }
}

/* Part k of a reduction, under a name of its own. */
Reduction
cc_part(Emit *e, const Reduction *r, int k)
{
    Reduction part = *r;
    part.out = cx_format(e->cx, "%s_%d", r->out, k);
    return part;
}

void
cc_lanes_two(Emit *e, const Let *let, const Jam *jam, const Reduction r[2],
             void (*value)(Emit *e, const Reduction *r))
{
    for (int k = 0; k < 2; k++) {
        put_empty_lanes(e, &r[k]);
    }
    put_whole_lanes(e, let, jam, r, 2);
    put(e, "const int64_t %s_end = %s_end;", r[1].out, r[0].out);
    put(e, "int64_t %s_at = %s_at;", r[1].out, r[0].out);
    for (int k = 0; k < 2; k++) {
        cc_copy(e, jam, k);
        put_last_lanes(e, let, &r[k]);
        value(e, &r[k]);
    }
    cc_copy(e, jam, 0);
}
