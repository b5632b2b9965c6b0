/* The loops of a product of few rows whose columns are computed.
 *
 * What:     in the place of a loop over rows around one over columns that begins with a sum: sums
 *           of all columns of each row, in registers; a loop over terms around a vector loop over
 *           columns, which computes each column once and adds it to the sums of all rows; and a
 *           loop for each row that does what followed the sum.
 * Requires: what decode.c found.
 * Ensures:  the chain of fused multiply-adds of each sum, in its order.
 * How:      A row and a term of those that stand side by side are a variant: the body of the sum
 *           is copied for each, but what two of them have in common is made once.  So a byte of
 *           two codes is loaded once for two terms, and their shifts are constants.  How many
 *           terms stand side by side is a matter of counting what a term costs then.
 * Why not:  one loop for all numbers of rows: its sums would not be in registers.
 * Example:  if M <= 1 { .. } else { .. } around
 *             let t: f32[32] = buffer registers
 *             for l in 32 vector { store t[l] = 0.0 }
 *             for p in 256 {
 *               let a: f32 = load x[i, p]
 *               for l in 32 vector { let c: i8 = load w[p, l] widened  let b: f32 = cast c
 *                 let s: f32 = load t[l]  let n: f32 = fma a, b, s  store t[l] = n } }
 *             for l in 32 vector { let s: f32 = load t[l]  store y[i, l] = s }
 */
#include <string.h>

#include "decode.h"
#include "codegen/schedule/nest/nest.h"
#include "ir/eval/eval.h"

/* ---- copies ---- */

Copies
copies_of(Fn *fn)
{
    Copies c = {.fn = fn, .nvalues = fn->nvalues};
    c.values = cx_alloc(fn->cx, (size_t)c.nvalues * sizeof *c.values);
    return c;
}

void
copies_index(Copies *c, Dim index, Dim by)
{
    c->indices = cx_grow(c->fn->cx, c->indices, c->n, sizeof *c->indices);
    c->by = cx_grow(c->fn->cx, c->by, c->n, sizeof *c->by);
    c->indices[c->n] = index;
    c->by[c->n++] = by;
}

Value *
copied_value(const Copies *c, Value *v)
{
    bool copied = !value_is_const(v) && v->id < c->nvalues && c->values[v->id];
    return copied ? c->values[v->id] : v;
}

Dim
copied_dim(const Copies *c, Dim d)
{
    for (int k = 0; k < c->n; k++) {
        d = dim_uses(c->fn->cx, d, c->indices[k])
                ? dim_replace(c->fn->cx, d, c->indices[k], c->by[k])
                : d;
    }
    return d;
}

Let *
copied_let(Copies *c, const Let *let, Block *to)
{
    Let *copy = let_copy(c->fn, let, to);
    for (int k = 0; k < copy->nargs; k++) {
        copy->args[k] = copied_value(c, copy->args[k]);
    }
    for (int k = 0; k < copy->nattrs; k++) {
        Attr *a = &copy->attrs[k];
        if (a->kind == ATTR_DIM) {
            a->d = copied_dim(c, a->d);
        } else if (a->kind == ATTR_DIMS) {
            Dim *dims = cx_copy(c->fn->cx, a->dims, (size_t)a->n * sizeof *dims);
            for (int j = 0; j < a->n; j++) {
                dims[j] = copied_dim(c, dims[j]);
            }
            a->dims = dims;
        }
    }
    if (marks_of(copy->op)) {
        let_take_marks(c->fn->cx, copy);
        let_mark(copy, marks_of(copy->op), false);
    }
    for (int k = 0; k < copy->nres; k++) {
        c->values[let->res[k]->id] = copy->res[k];
    }
    return copy;
}

void
block_insert(Cx *cx, Block *blk, int at, Let *let)
{
    block_append(cx, blk, let);
    memmove(blk->lets + at + 1, blk->lets + at, (size_t)(blk->n - 1 - at) * sizeof *blk->lets);
    blk->lets[at] = let;
}

/* ---- limits ---- */

/* The operands and the result of what was walked last. */
typedef struct {
    Cx *cx;
    Dim stack[64];
    int n;
    char kind;
    Dim a, b;
} Walk;

static void
walk_leaf(void *arg, char kind, int64_t value, Dim name)
{
    Walk *w = arg;
    w->kind = kind;
    if (w->n < (int)(sizeof w->stack / sizeof *w->stack)) {
        w->stack[w->n] = kind == 'i' ? dim_int(w->cx, value) : name;
    }
    w->n++;
}

static void
walk_binary(void *arg, char kind)
{
    Walk *w = arg;
    w->kind = kind;
    w->n--;
    if (w->n < (int)(sizeof w->stack / sizeof *w->stack)) {
        w->a = w->stack[w->n - 1];
        w->b = w->stack[w->n];
        w->stack[w->n - 1] = dim_apply(w->cx, kind, w->a, w->b);
    }
}

Dim
dim_without_limit(Cx *cx, Dim d, int64_t least)
{
    Walk w = {.cx = cx};
    int64_t limit;
    dim_walk(cx, d, &(DimWalk){walk_leaf, walk_binary}, &w);
    if (w.kind != 'm') {
        return d;
    }
    return dim_is_int(cx, w.b, &limit) && limit >= least   ? w.a
           : dim_is_int(cx, w.a, &limit) && limit >= least ? w.b
                                                           : d;
}

/* ---- new lets ---- */

typedef struct {
    Fn *fn;
    Cx *cx;
    const Let *rows, *columns, *sum;
    Dim few; /* as many as the rows, where they are few */
    bool *by_column; /* by let of the sum's body: does it depend on the column? */
    int room; /* columns of a panel */
} Sums;

/* The rows that stand side by side, and the array of each. */
typedef struct {
    int n;
    Dim row[DLC_DECODED_ROWS];
    Value *sums[DLC_DECODED_ROWS];
    Dim columns; /* the extent */
} Side;

static Value *
put_value(const Sums *s, Block *to, Op op, int nargs, Value *const *args, const Dim *at)
{
    return nest_value(s->fn, to, s->sum, op, nargs, args, at);
}

/* ---- what variants have in common ---- */

/* A row and a term of those that stand side by side. */
typedef struct {
    const Sums *sums;
    int n; /* variants */
    Dim *row, *term;
    int **first; /* by let of the body, by variant: the first one for which it is the same */
    bool *known; /* by let of the body: is it a constant, of each variant? */
} Variants;

static Dim
variant_dim(const Variants *v, Dim d, int k)
{
    const Sums *s = v->sums;
    Dim row = loop_index(s->rows), term = loop_index(s->sum);
    d = dim_uses(s->cx, d, row) ? dim_replace(s->cx, d, row, v->row[k]) : d;
    return dim_uses(s->cx, d, term) ? dim_replace(s->cx, d, term, v->term[k]) : d;
}

static bool
uses_index(Cx *cx, const Let *let, Dim index)
{
    bool uses = false;
    for (int k = 0; k < let->nattrs && !uses; k++) {
        const Attr *a = &let->attrs[k];
        uses = a->kind == ATTR_DIM && dim_uses(cx, a->d, index);
        for (int j = 0; a->kind == ATTR_DIMS && j < a->n && !uses; j++) {
            uses = dim_uses(cx, a->dims[j], index);
        }
    }
    return uses;
}

/* Does the let use what the other one makes: a value, or an index? */
static bool
needs(Cx *cx, const Let *let, const Let *other)
{
    bool needed = other->op == OP_bind && uses_index(cx, let, other->sizes[0]);
    for (int k = 0; k < let->nargs && !needed; k++) {
        needed = let->args[k]->def == other;
    }
    return needed;
}

/* Is let `at` of the body the same for the variants a and b? */
static bool
is_same(const Variants *v, int at, int a, int b)
{
    const Block *body = v->sums->sum->body;
    const Let *let = body->lets[at];
    bool same = true;
    for (int k = 0; k < let->nattrs && same; k++) {
        const Attr *attr = &let->attrs[k];
        same = attr->kind != ATTR_DIM || variant_dim(v, attr->d, a) == variant_dim(v, attr->d, b);
        for (int j = 0; attr->kind == ATTR_DIMS && j < attr->n && same; j++) {
            same = variant_dim(v, attr->dims[j], a) == variant_dim(v, attr->dims[j], b);
        }
    }
    for (int k = 0; k < at && same; k++) {
        same = !needs(v->sums->cx, let, body->lets[k]) || v->first[k][a] == v->first[k][b];
    }
    return same;
}

/* Is it an integer that is computed of constants alone? */
static bool
is_known(const Variants *v, int at)
{
    const Block *body = v->sums->sum->body;
    const Let *let = body->lets[at];
    bool known = let->op == OP_size || let_is_map(let);
    known = known && dtype_info[let->res[0]->type->dtype].class < CLASS_FLOAT &&
            (let->op == OP_size || op_info[let->op].flags & OPF_TOTAL);
    for (int k = 0; k < v->n && known && let->op == OP_size; k++) {
        known = dim_is_int(v->sums->cx, variant_dim(v, let_dim(let, "dim"), k), NULL);
    }
    for (int k = 0; k < at && known; k++) {
        known = !needs(v->sums->cx, let, body->lets[k]) || v->known[k];
    }
    for (int k = 0; k < let->nargs && known; k++) {
        known = value_is_const(let->args[k]) || let->args[k]->def->parent == body;
    }
    return known;
}

/* `rows` rows by `terms` terms: those that begin at index `from`. */
static Variants
variants_of(const Sums *s, int rows, const Dim *row, int terms, Dim from)
{
    int n = s->sum->body->n;
    Variants v = {.sums = s, .n = rows * terms};
    v.row = cx_alloc(s->cx, (size_t)v.n * sizeof *v.row);
    v.term = cx_alloc(s->cx, (size_t)v.n * sizeof *v.term);
    v.first = cx_alloc(s->cx, (size_t)n * sizeof *v.first);
    v.known = cx_alloc(s->cx, (size_t)n * sizeof *v.known);
    for (int k = 0; k < v.n; k++) {
        v.row[k] = row[k % rows];
        v.term[k] = dim_add(s->cx, from, dim_int(s->cx, k / rows));
    }
    for (int at = 0; at < n; at++) {
        v.first[at] = cx_alloc(s->cx, (size_t)v.n * sizeof *v.first[at]);
        for (int k = 0; k < v.n; k++) {
            while (v.first[at][k] < k && !is_same(&v, at, v.first[at][k], k)) {
                v.first[at][k]++;
            }
        }
        v.known[at] = is_known(&v, at);
    }
    return v;
}

/* ---- how many terms stand side by side ---- */

static Dim
terms_from(const Sums *s, Dim index, int terms)
{
    return dim_mul(s->cx, index, dim_int(s->cx, terms));
}

/* Lets of columns that are made for so many terms of one row. */
static int
count_lets(const Sums *s, int terms)
{
    Dim row = loop_index(s->rows), from = terms_from(s, loop_index(s->sum), terms);
    Variants v = variants_of(s, 1, &row, terms, from);
    int count = 0;
    for (int at = 0; at < s->sum->body->n; at++) {
        const Let *let = s->sum->body->lets[at];
        for (int k = 0; k < v.n && s->by_column[at] && !v.known[at]; k++) {
            count += v.first[at][k] == k && (v.n > 1 || let->op != OP_bind);
        }
    }
    return count;
}

/* Twice as many as long as that saves a let of each term or more. */
static int
terms_side_by_side(const Sums *s)
{
    int64_t extent;
    int terms = 1, lets = count_lets(s, 1);
    bool known = dim_is_int(s->cx, loop_extent(s->sum), &extent);
    while (known && extent % (2 * terms) == 0) {
        int more = count_lets(s, 2 * terms);
        if (2 * lets - more < 2 * terms) {
            break;
        }
        terms *= 2;
        lets = more;
    }
    return terms;
}

/* ---- the sums ---- */

/* The copies of the variants, which go into two blocks: what does not depend on the column is
 * before the loop over columns. */
typedef struct {
    const Sums *s;
    Variants v;
    Copies *copies;
    Let *steps, *across;
    bool whole; /* as many columns as an array has room for */
} Making;

/* The integer that an operation on integers makes of constants. */
static int64_t
computed(const Let *let, Value *const *args)
{
    Dtype to = let->res[0]->type->dtype, compute = dtype_info[to].compute;
    char in[3][sizeof(Elem)] = {{0}}, out[sizeof(Elem)] = {0};
    for (int k = 0; k < let->nargs; k++) {
        Dtype from = operand_dtype(let, k);
        elem_store(from, elem_literal(from, args[k]->literal), in[k]);
    }
    eval_map(let->op, map_dtype(let), to, in[0], in[1], in[2], out);
    Elem is = elem_load(to, out);
    return compute == DT_bool ? is.b : compute == DT_i32 ? is.i : is.l;
}

/* What the let is of variant k without a copy of its own: a constant, or an operand that a constant
 * chooses.  NULL: it needs one. */
static Value *
folded(const Making *t, int at, int k)
{
    const Let *let = t->s->sum->body->lets[at];
    Value *args[3] = {NULL};
    Literal is = {.is_int = true};
    for (int j = 0; j < let->nargs; j++) {
        args[j] = copied_value(&t->copies[k], let->args[j]);
    }
    if (let->op == OP_where && value_is_const(args[0])) {
        Value *chosen = args[args[0]->literal.i ? 1 : 2];
        if (!value_is_const(chosen)) {
            return chosen;
        }
    }
    if (!t->v.known[at]) {
        return NULL;
    }
    if (let->op == OP_size) {
        dim_is_int(t->s->cx, variant_dim(&t->v, let_dim(let, "dim"), k), &is.i);
    } else {
        is.i = computed(let, args);
    }
    return nest_literal(t->s->cx, is);
}

/* Operands that have become constants, of a let that needs one with a dtype: their `const`.  The
 * condition of a `where` says no dtype. */
static void
put_constants(const Making *t, const Let *let, int k, Block *to)
{
    int first = let->op == OP_where;
    bool all = let_is_map(let);
    for (int j = first; j < let->nargs; j++) {
        all = all && value_is_const(copied_value(&t->copies[k], let->args[j]));
    }
    for (int j = first; all && j < let->nargs; j++) {
        Value *v = let->args[j], *is = copied_value(&t->copies[k], v);
        if (v != is) {
            Let *constant = let_new(t->s->fn, OP_const, 1, &is, 0, NULL);
            block_append(t->s->cx, to, constant);
            t->copies[k].values[v->id] = let_result(
                t->s->fn, constant, fn_fresh_name(t->s->fn, v->name), v->type, NULL);
        }
    }
}

/* Loads of bytes of all columns are widened together.  What depends on the term is prefetched: a
 * panel ends too soon for the processor to do it. */
static void
mark_load(const Sums *s, Let *load, Dim column, Dim term)
{
    Dim at = index_offset(s->cx, load->args[0], let_attr(load, "at")->dims), step, rest;
    Dtype dtype = load->args[0]->type->dtype;
    if (!dim_affine(s->cx, at, column, &step, &rest) || !dim_is(s->cx, step, 1)) {
        return;
    }
    if ((dtype == DT_i8 || dtype == DT_u8) && s->room == MICRO_ROW_BYTES / 4) {
        let_mark(load, MARK_widened, true);
    }
    if (dim_uses(s->cx, rest, term)) {
        let_mark_with(s->cx, load, MARK_prefetch, DLC_PREFETCH_DECODED);
    }
}

/* Let `at` of the body, for variant k. */
static void
put_variant(const Making *t, int at, int k)
{
    const Let *let = t->s->sum->body->lets[at];
    Copies *own = &t->copies[k], *first = &t->copies[t->v.first[at][k]];
    Value *is = own == first && let->nres ? folded(t, at, k) : NULL;
    Block *to = t->s->by_column[at] ? t->across->body : t->steps->body;
    if (own != first && let->op == OP_bind) {
        copies_index(own, let->sizes[0], copied_dim(first, let->sizes[0]));
    } else if (own != first || is) {
        own->values[let->res[0]->id] = is ? is : first->values[let->res[0]->id];
    } else {
        put_constants(t, let, k, to);
        Let *copy = copied_let(own, let, to);
        block_append(t->s->cx, to, copy);
        if (let->op == OP_bind) {
            copies_index(own, let->sizes[0], copy->sizes[0]);
        }
        if (t->whole && copy->op == OP_load && to == t->across->body) {
            mark_load(t->s, copy, loop_index(t->across), loop_index(t->steps));
        }
    }
}

/* Is the value used in the loop, or does the let do more than make one? */
static bool
is_used(const void *value, const Let *let)
{
    bool used = false;
    for (int k = 0; k < let->nargs && !used; k++) {
        used = let->args[k] == value;
    }
    return used;
}

static void
take_unused(Let *loop, Block *blk)
{
    for (int k = blk->n - 1; k >= 0; k--) {
        const Let *let = blk->lets[k];
        if ((let_is_plain(let) || let_is_map(let)) && !let_any(loop, is_used, let->res[0])) {
            memmove(blk->lets + k, blk->lets + k + 1, (size_t)(blk->n - 1 - k) * sizeof *blk->lets);
            blk->n--;
        }
    }
}

/* All terms, so many side by side. */
static void
put_terms(const Sums *s, Block *to, const Side *side, int terms)
{
    const Block *body = s->sum->body;
    const Let *product = body->rets[0]->def;
    Making t = {.s = s, .whole = dim_is(s->cx, side->columns, s->room)};
    t.steps = nest_loop(s->fn, s->sum, dim_div(s->cx, loop_extent(s->sum), dim_int(s->cx, terms)),
                        0);
    t.across = nest_loop(s->fn, s->columns, side->columns, MARK_vector);
    Dim column = loop_index(t.across), from = terms_from(s, loop_index(t.steps), terms);
    t.v = variants_of(s, side->n, side->row, terms, from);
    t.copies = cx_alloc(s->cx, (size_t)t.v.n * sizeof *t.copies);
    for (int k = 0; k < t.v.n; k++) {
        t.copies[k] = copies_of(s->fn);
        copies_index(&t.copies[k], loop_index(s->rows), t.v.row[k]);
        copies_index(&t.copies[k], loop_index(s->sum), t.v.term[k]);
        copies_index(&t.copies[k], loop_index(s->columns), column);
        for (int at = 0; at < body->n; at++) {
            if (body->lets[at] != product) {
                put_variant(&t, at, k);
            }
        }
        nest_step(s->fn, t.across->body, s->sum, copied_value(&t.copies[k], product->args[0]),
                  copied_value(&t.copies[k], product->args[1]), side->sums[k % side->n], column);
    }
    block_append(s->cx, t.steps->body, t.across);
    take_unused(t.steps, t.across->body);
    take_unused(t.steps, t.steps->body);
    block_append(s->cx, to, t.steps);
}

/* ---- before and after them ---- */

/* What is done with the sums of a row. */
static void
put_results(const Sums *s, Block *to, const Side *side, int k)
{
    const Block *body = s->columns->body;
    Let *across = nest_loop(s->fn, s->columns, side->columns, MARK_vector);
    Dim column = loop_index(across);
    Copies c = copies_of(s->fn);
    copies_index(&c, loop_index(s->rows), side->row[k]);
    copies_index(&c, loop_index(s->columns), column);
    c.values[s->sum->res[0]->id] = put_value(s, across->body, OP_load, 1, &side->sums[k], &column);
    for (int at = 1; at < body->n; at++) {
        block_append(s->cx, across->body, copied_let(&c, body->lets[at], across->body));
    }
    block_append(s->cx, to, across);
}

/* So many rows side by side.  one: the row of that index; else the first rows. */
static void
put_rows(const Sums *s, Block *to, int n, Dim columns, Dim one)
{
    Side side = {.n = n, .columns = columns};
    for (int k = 0; k < n; k++) {
        side.row[k] = one == DIM_NONE ? dim_int(s->cx, k) : one;
        side.sums[k] = nest_sums(s->fn, to, s->sum, s->room);
    }
    nest_zeros(s->fn, to, s->sum, s->columns, columns, n, side.sums);
    put_terms(s, to, &side, terms_side_by_side(s));
    for (int k = 0; k < n; k++) {
        put_results(s, to, &side, k);
    }
}

/* ---- choices ---- */

/* Rows of which there are at least `least`, and at most as many as stand side by side. */
static void
put_numbers(const Sums *s, Block *to, Dim columns, Range rows)
{
    Dim extent = loop_extent(s->rows);
    if (rows.lo <= 1 && rows.hi > 1) {
        put_numbers(s, nest_choice(s->fn, to, OP_if, s->few, dim_int(s->cx, 1)), columns,
                    (Range){rows.lo, 1});
        put_numbers(s, nest_choice(s->fn, to, OP_else, DIM_NONE, DIM_NONE), columns,
                    (Range){2, rows.hi});
    } else if (rows.lo < rows.hi && rows.hi > 1) {
        Dim most = dim_int(s->cx, rows.lo);
        put_rows(s, nest_choice(s->fn, to, OP_if, s->few, most), (int)rows.lo, columns, DIM_NONE);
        put_numbers(s, nest_choice(s->fn, to, OP_else, DIM_NONE, DIM_NONE), columns,
                    (Range){rows.lo + 1, rows.hi});
    } else if (rows.lo == rows.hi) {
        put_rows(s, to, (int)rows.hi, columns, DIM_NONE);
    } else {
        Let *loop = nest_loop(s->fn, s->rows, extent, 0);
        block_append(s->cx, to, loop);
        put_rows(s, loop->body, 1, columns, loop_index(loop));
    }
}

/* Fewer columns than arrays have room for have loops of their own, a row at a time: sums are in
 * registers only where the number is known. */
static void
put_all(const Sums *s, Block *to, Range rows)
{
    Dim extent = loop_extent(s->columns), room = dim_int(s->cx, s->room);
    if (dim_is_int(s->cx, extent, NULL)) {
        put_numbers(s, to, extent, rows);
        return;
    }
    for (const Let *loop = let_around(s->rows); loop_is(loop); loop = let_around(loop)) {
        Range index = dim_range(s->cx, loop_index(loop));
        if (index.lo == index.hi && dim_uses(s->cx, extent, loop_index(loop))) {
            extent = dim_replace(s->cx, extent, loop_index(loop), dim_int(s->cx, index.lo));
        }
    }
    Dim most = dim_without_limit(s->cx, extent, s->room);
    if (most == extent && !dim_is_name(s->cx, extent)) {
        put_numbers(s, to, extent, (Range){0, 1}); /* what the condition says would not be seen */
        return;
    }
    put_numbers(s, nest_choice(s->fn, to, OP_if, room, most), room, rows);
    put_numbers(s, nest_choice(s->fn, to, OP_else, DIM_NONE, DIM_NONE), extent, (Range){0, 1});
}

static void
find_columns(Sums *s)
{
    const Block *body = s->sum->body;
    s->by_column = cx_alloc(s->cx, (size_t)body->n * sizeof *s->by_column);
    for (int at = 0; at < body->n; at++) {
        const Let *let = body->lets[at];
        s->by_column[at] = uses_index(s->cx, let, loop_index(s->columns));
        for (int k = 0; k < at; k++) {
            s->by_column[at] |= s->by_column[k] && needs(s->cx, let, body->lets[k]);
        }
    }
}

/* Assumes the conditions of all choices around the let; how many to forget. */
static int
assume_around(Cx *cx, const Let *let)
{
    const Let *owner = let->parent->owner;
    int n = owner && owner->op != OP_kernel ? assume_around(cx, owner) : 0;
    return n + (owner && let_enter(cx, owner));
}

/* The numbers of rows that there may be; where that many do not stand side by side, as if of one
 * after the other. */
static Range
range_of_rows(Cx *cx, const Let *rows)
{
    int assumed = assume_around(cx, rows);
    Range range = dim_range(cx, loop_extent(rows));
    for (; assumed; assumed--) {
        dim_forget(cx);
    }
    range.lo = range.lo < 0 ? 0 : range.lo;
    return range.hi <= DLC_DECODED_ROWS ? range : (Range){0, 1};
}

void
decode_sums(Fn *fn, Let *rows, Dim few)
{
    Sums s = {.fn = fn, .cx = fn->cx, .rows = rows, .few = few, .columns = rows->body->lets[0]};
    Block *parent = rows->parent, old = *parent;
    s.sum = s.columns->body->lets[0];
    s.room = MICRO_ROW_BYTES / dtype_info[s.sum->res[0]->type->dtype].bytes;
    find_columns(&s);
    Range range = range_of_rows(s.cx, rows);
    parent->lets = NULL;
    parent->n = 0;
    for (int k = 0; k < old.n; k++) {
        if (old.lets[k] == rows) {
            put_all(&s, parent, range);
        } else {
            block_append(s.cx, parent, old.lets[k]);
        }
    }
}
