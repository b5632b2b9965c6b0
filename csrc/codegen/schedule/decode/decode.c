/* Products of few rows whose columns are computed: computed where they are multiplied.
 *
 * What:     of a product that fills panels by computing, or from a small table, makes for few rows
 *           loops that compute each column in registers, without panels, once for all rows
 *           (sums.c).  Where a size says how
 *           many rows there are, the loops are copied into an if for few of them, and its else.
 * Requires: a scheduled function.
 * Ensures:  every bit: each sum has its chains and its order, and what is computed of a column is
 *           the same operations.
 * How:      the loops that fill the panel end with their stores.  Of each load of the panel in a
 *           sum, the index says for which iteration it was stored, and by which store: those lets
 *           are copied into the sum, and a `where` by the index chooses among the values of several
 *           stores.  It is gone where as many terms stand side by side.
 *           With one row, a panel costs a store, a load and two loops for each column that is used
 *           once; with more rows than a processor has registers for, it is read as often as it
 *           costs.
 * Why not:  panels of bytes: instructions multiply four of them at a time, which loops that compute
 *           a column in registers do not.
 *           Columns that are not adjacent in memory: each would be loaded alone, while panels are
 *           filled through a transposition.  What is read must stay as it is until then, so it may
 *           not be written in the same kernel.
 * Example:  if M <= 4 { for q in 8 { the loops of sums.c } } else { .. }
 */
#include <string.h>

#include "codegen/rewrites.h"
#include "decode.h"

/* Loops that fill a panel, one in the other, with so many stores at the end of the innermost one:
 * of an element, or of adjacent terms of a column, as two codes of one byte are. */
typedef struct {
    Let *loops, *inner;
    int nstores;
} Maker;

/* A product of few rows, and what fills the panel that it reads. */
typedef struct {
    Let *micro;
    Maker maker;
} Use;

/* All uses of one panel, in the block that declares it. */
typedef struct {
    Fn *fn;
    const Facts *facts;
    Let *panel;
    Block *block;
    Use *uses;
    int nuses;
    Dim rows; /* how many the first tile has */
    bool known; /* they are few, whatever the sizes are */
} Decoded;

typedef struct {
    const PhaseView *phase;     /* at hand */
    Decoded *all;
    int n;
} Found;

/* ---- what fills a panel ---- */

static bool
stores_to(const void *panel, const Let *let)
{
    return let->op == OP_store && let->args[0] == panel;
}

static bool
loads_from(const void *panel, const Let *let)
{
    return let->op == OP_load && let->args[0] == panel;
}

static bool
accesses(const void *panel, const Let *let)
{
    return stores_to(panel, let) || loads_from(panel, let);
}

/* Is the memory from outside of the kernel, which does not write to it? */
static bool
stays(const Facts *facts, const Value *v)
{
    const Block *body = facts->kernel->body;
    bool written = v->def && v->def->op == OP_buffer;
    for (int k = 0; k < body->n && !written; k++) {
        written = loop_writes(body->lets[k], v);
    }
    return !written;
}

/* Has the load no index that its own loop binds, or is its memory small enough for one? */
static bool
is_table(const Facts *facts, const Let *load)
{
    Cx *cx = facts->cx;
    const Block *blk = load->parent;
    bool bound = false;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        bound |= let->op == OP_bind &&
                 dim_uses(cx, facts_access(facts, load)->offset, let->sizes[0]);
    }
    const Type *t = load->args[0]->type;
    Dim n = dim_int(cx, 1);
    for (int ax = 0; ax < t->rank; ax++) {
        n = dim_mul(cx, n, t->dims[ax]);
    }
    return !bound || dim_range(cx, n).hi <= CONTRACTION_CHAIN;
}

/* Does the let compute, load or look up, as each of a vector's columns may? */
static bool
is_decoding(const Facts *facts, const Let *let, Dim column)
{
    if (let->op != OP_load) {
        return let_is_map(let) || let->op == OP_size || let->op == OP_bind;
    }
    return stays(facts, let->args[0]) &&
           (facts_contiguous(facts, let, column) ||
            (!dim_uses(facts->cx, facts_access(facts, let)->offset, column) &&
             is_table(facts, let)));
}

static Let *
maker_store(const Maker *maker, int k)
{
    return maker->inner->body->lets[maker->inner->body->n - maker->nstores + k];
}

/* The loops that fill the panel, if each iteration of them stores what it computes. */
static Maker
maker_of(const Facts *facts, Let *loop, const Value *panel)
{
    Maker maker = {.loops = loop, .inner = loop};
    while (loop_inner(maker.inner)) {
        maker.inner = loop_inner(maker.inner);
    }
    const Block *last = maker.inner->body;
    while (maker.nstores < last->n && stores_to(panel, last->lets[last->n - 1 - maker.nstores])) {
        maker.nstores++;
    }
    bool good = maker.inner->op == OP_for && maker.nstores > 0, computes = false;
    for (int k = 0; good && k < maker.nstores; k++) {
        const Value *v = maker_store(&maker, k)->args[1];
        good = !value_is_const(v);
        computes |= good && let_is_map(v->def);
    }
    for (const Let *at = loop; good; at = at->body->lets[at->body->n - 1]) {
        int stores = at == maker.inner ? maker.nstores : 1;
        good = at->op == OP_for && !let_has(at, MARK_micro) && at->body->n > 0;
        for (int k = 0; good && k < at->body->n - stores; k++) {
            computes |= at->body->lets[k]->op == OP_bind;
            good = is_decoding(facts, at->body->lets[k], loop_index(maker.inner));
        }
        if (at == maker.inner) {
            break;
        }
    }
    return good && computes ? maker : (Maker){0};
}

/* ---- which products ---- */

/* The iterations of a maker that store what a load reads: of each index, its value.  Of several
 * stores in an iteration, store k is of the element at `places[k]` where that is the digit. */
typedef struct {
    Cx *cx;
    const Maker *maker;
    Dim indices[MAX_LOOPS], values[MAX_LOOPS];
    int n;
    Dim digit; /* DIM_NONE: there is one store */
    int64_t places[MAX_LOOPS];
} Solution;

/* The loop of the maker whose index has the largest step in `of`; *step: that.  NULL: none has a
 * step, or one has none that is known. */
static const Let *
largest_step(const Solution *s, Dim of, int64_t *step)
{
    const Let *largest = NULL;
    *step = 0;
    for (const Let *loop = s->maker->inner;; loop = let_around(loop)) {
        Dim by, rest;
        int64_t known;
        if (!dim_affine(s->cx, of, loop_index(loop), &by, &rest) ||
            !dim_is_int(s->cx, by, &known) || known < 0) {
            return NULL;
        }
        if (known > *step) {
            largest = loop;
            *step = known;
        }
        if (loop == s->maker->loops) {
            return largest;
        }
    }
}

/* What the indices leave of a place, which is that of store k. */
static bool
solve_place(Solution *s, Dim of, Dim at, int64_t step, int k)
{
    bool first = s->digit == DIM_NONE && k == 0;
    s->digit = first ? at : s->digit;
    return s->digit == at && step == s->maker->nstores && dim_is_int(s->cx, of, &s->places[k]) &&
           s->places[k] < step;
}

/* The digits of `at`, of which the indices make `of`, in store k.  False: they are not known. */
static bool
solve_axis(Solution *s, Dim of, Dim at, int k)
{
    Cx *cx = s->cx;
    bool several = s->maker->nstores > 1;
    int64_t step, left = INT64_MAX;
    while (of != at) {
        const Let *loop = largest_step(s, of, &step);
        int64_t most = loop ? dim_range(cx, loop_extent(loop)).hi : 0;
        if (!loop && several) {
            return solve_place(s, of, at, left, k);
        }
        if (!loop || most > left / step || s->n == MAX_LOOPS) {
            return false;
        }
        Dim index = loop_index(loop), by = dim_int(cx, step), rest = DIM_NONE, same;
        dim_affine(cx, of, index, &same, &rest);
        s->indices[s->n] = index;
        s->values[s->n++] = dim_div(cx, at, by);
        at = dim_mod(cx, at, by);
        of = rest;
        left = step;
    }
    return true;
}

static int
count_loops(const Maker *maker)
{
    int loops = 1;
    for (const Let *loop = maker->inner; loop != maker->loops; loops++) {
        loop = let_around(loop);
    }
    return loops;
}

static bool
solve_axes(Solution *s, const Let *load, int k)
{
    const Attr *of = let_attr(maker_store(s->maker, k), "at"), *at = let_attr(load, "at");
    for (int ax = 0; ax < of->n; ax++) {
        Range known = dim_range(s->cx, at->dims[ax]); /* an index of one iteration is 0 */
        Dim is = known.lo == known.hi ? dim_int(s->cx, known.lo) : at->dims[ax];
        if (!solve_axis(s, of->dims[ax], is, k)) {
            return false;
        }
    }
    return s->n == count_loops(s->maker);
}

/* An index of a loop that goes along several axes is one of the offset. */
static bool
solve_store(Solution *s, const Let *load, int k)
{
    const Let *store = maker_store(s->maker, k);
    s->n = 0;
    if (solve_axes(s, load, k)) {
        return true;
    }
    s->n = 0;
    return solve_axis(s, index_offset(s->cx, store->args[0], let_attr(store, "at")->dims),
                      index_offset(s->cx, load->args[0], let_attr(load, "at")->dims), k) &&
           s->n == count_loops(s->maker);
}

/* All stores are of one iteration, each of another element. */
static bool
solve(Solution *s, const Let *load)
{
    int n = s->maker->nstores;
    bool seen[MAX_LOOPS] = {false}, good = n <= MAX_LOOPS && solve_store(s, load, 0);
    Solution first = *s;
    for (int k = 1; good && k < n; k++) {
        good = solve_store(s, load, k) && s->digit == first.digit;
        for (int j = 0; good && j < s->n; j++) {
            good = s->indices[j] == first.indices[j] && s->values[j] == first.values[j];
        }
    }
    for (int k = 0; good && n > 1 && k < n; k++) {
        good = s->digit != DIM_NONE && !seen[s->places[k]];
        seen[good ? s->places[k] : 0] = true;
    }
    return good;
}

/* Is it a product that can compute the columns of the panel by itself? */
static bool
is_use(const Decoded *d, const Let *micro, const Maker *maker)
{
    Cx *cx = d->fn->cx;
    Solution s = {.cx = cx, .maker = maker, .digit = DIM_NONE};
    const Product p = product_of(d->facts, micro);
    const Let *sum = p.sum;
    int room = MICRO_ROW_BYTES / dtype_info[sum->res[0]->type->dtype].bytes;
    bool bytes = panel_dtype(d->panel->res[0]->type->dtype) != sum->res[0]->type->dtype;
    return !bytes && p.b->args[0] == d->panel->res[0] && p.a->args[0] != d->panel->res[0] &&
           !p.each && dim_range(cx, loop_extent(p.columns)).hi <= room &&
           dim_range(cx, loop_extent(sum)).hi <= CONTRACTION_CHAIN &&
           !dim_uses(cx, loop_extent(sum), loop_index(p.columns)) &&
           !dim_uses(cx, loop_extent(sum), loop_index(micro)) &&
           !dim_uses(cx, loop_extent(p.columns), loop_index(micro)) &&
           !(p.panels && dim_uses(cx, loop_extent(p.panels), loop_index(micro))) &&
           !(p.panels && dim_uses(cx, loop_extent(micro), loop_index(p.panels))) &&
           !loop_carries(cx, micro) && solve(&s, p.b);
}

/* The rows of the first tile: the extent of the loop, with 0 for each index. */
static Dim
rows_of(const Decoded *d, const Let *micro)
{
    Cx *cx = d->fn->cx;
    Dim rows = loop_extent(micro), zero = dim_int(cx, 0);
    for (const Let *loop = let_around(micro); loop_is(loop); loop = let_around(loop)) {
        rows = dim_uses(cx, rows, loop_index(loop)) ? dim_replace(cx, rows, loop_index(loop), zero)
                                                    : rows;
    }
    return dim_without_limit(cx, rows, DLC_DECODED_ROWS);
}

static bool
add_use(Decoded *d, Let *micro, const Maker *maker)
{
    Dim rows = rows_of(d, micro);
    if (!maker->loops || !is_use(d, micro, maker) || (d->nuses && rows != d->rows)) {
        return false;
    }
    d->rows = rows;
    d->uses = cx_grow(d->fn->cx, d->uses, d->nuses, sizeof *d->uses);
    d->uses[d->nuses++] = (Use){micro, *maker};
    return true;
}

/* Adds what reads the panel in the block, where it was filled by the maker at first.  False:
 * something else fills or reads it. */
static bool
add_uses(Decoded *d, const Block *blk, Maker maker)
{
    const Value *panel = d->panel->res[0];
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        bool fills = let_any(let, stores_to, panel), reads = let_any(let, loads_from, panel);
        bool good = true;
        if (fills && !reads) {
            maker = loop_is(let) ? maker_of(d->facts, let, panel) : (Maker){0};
            good = maker.loops != NULL;
        } else if (reads && loop_is(let) && let_has(let, MARK_micro)) {
            good = !fills && add_use(d, let, &maker);
        } else if (reads) {
            good = let->op == OP_for && add_uses(d, let->body, fills ? (Maker){0} : maker);
            maker = fills ? (Maker){0} : maker;
        }
        if (!good) {
            return false;
        }
    }
    return true;
}

/* Is it a loop whose iterations run one by one? */
static bool
is_plain(const Let *loop)
{
    return loop->op == OP_for && !loop_is_vector(loop) && !let_has(loop, MARK_tile) &&
           !let_has(loop, MARK_recurrences) && !loop_is_call(loop);
}

static bool
is_buffer(const void *arg, const Let *let)
{
    (void)arg;
    return let->op == OP_buffer;
}

/* May all buffers in the let stand before it? */
static bool
may_lift(const Cx *cx, const Let *let)
{
    bool may = is_plain(let) || !let_any(let, is_buffer, NULL);
    for (int k = 0; may && is_plain(let) && k < let->body->n; k++) {
        const Let *own = let->body->lets[k];
        const Type *t = own->op == OP_buffer ? own->res[0]->type : NULL;
        for (int ax = 0; t && ax < t->rank; ax++) {
            may &= !dim_has_index(cx, t->dims[ax]);
        }
        may = may && (t || may_lift(cx, own));
    }
    return may;
}

/* May an if stand in the block, around all but its buffers? */
static bool
may_choose(const Cx *cx, const Block *blk)
{
    for (const Let *loop = blk->owner; loop->op != OP_kernel; loop = loop->parent->owner) {
        if (!is_plain(loop)) {
            return false;
        }
    }
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        bool moves = (loop_is(let) || let_is_choice(let)) && may_lift(cx, let);
        if (let->op != OP_buffer && !moves) {
            return false;
        }
    }
    return true;
}

/* The panel that the let declares, if its products can do without it for few rows. */
static bool
find_panel(Decoded *d)
{
    Cx *cx = d->fn->cx;
    Range rows = {0};
    if (d->panel->op != OP_buffer || !add_uses(d, d->block, (Maker){0}) || !d->nuses) {
        return false;
    }
    rows = dim_range(cx, d->rows);
    d->known = rows.hi <= DLC_DECODED_ROWS;
    if (rows.hi < 1) { /* nothing would read what the phase of other targets reads */
        return false;
    }
    return d->known || (rows.lo <= DLC_DECODED_ROWS && may_choose(cx, d->block));
}

/* One panel of a block: what stands in an if then is not in this block any more. */
static bool
find_in_loop(Let *loop, void *arg)
{
    Found *found = arg;
    bool added = false;
    for (int k = 0; k < loop->body->n && !added; k++) {
        Decoded d = {found->phase->fn, found->phase->facts, loop->body->lets[k], loop->body};
        added = loop->op == OP_for && find_panel(&d);
        if (added) {
            found->all = cx_grow(d.fn->cx, found->all, found->n, sizeof *found->all);
            found->all[found->n++] = d;
        }
    }
    return true;
}

static void
find(const PhaseView *phase, const void *arg)
{
    Found *found = *(Found *const *)arg;
    found->phase = phase;
    phase_visit_loops(phase, find_in_loop, found);
}

/* ---- the loops for few rows ---- */

static void
take_out(Let *let)
{
    Block *blk = let->parent;
    int at = place_of(let);
    memmove(blk->lets + at, blk->lets + at + 1, (size_t)(blk->n - 1 - at) * sizeof *blk->lets);
    blk->n--;
}

/* Inserts a let of one element. */
static Value *
insert(Fn *fn, Block *to, int *at, Let *let, Dtype dtype)
{
    let->loc = to->owner->loc;
    block_insert(fn->cx, to, (*at)++, let);
    return let_result(fn, let, fn_fresh_name(fn, op_info[let->op].name),
                      type_of(fn->cx, dtype, 0, NULL), NULL);
}

/* Which of the values that an iteration stores is the one at the digit. */
static Value *
choose_value(Fn *fn, const Solution *s, const Copies *copies, Block *to, int *at)
{
    const Maker *maker = s->maker;
    Value *v = copied_value(copies, maker_store(maker, 0)->args[1]), *digit = NULL;
    if (maker->nstores > 1) {
        Attr dim = attr_dim(fn->cx, "dim", s->digit);
        digit = insert(fn, to, at, let_new(fn, OP_size, 0, NULL, 1, &dim), DT_i64);
    }
    for (int k = 1; k < maker->nstores; k++) {
        Value *place = cx_alloc(fn->cx, sizeof *place);
        place->literal = (Literal){.is_int = true, .i = s->places[k]};
        Let *eq = let_new(fn, OP_eq, 2, (Value *[]){digit, place}, 0, NULL);
        Value *is = insert(fn, to, at, eq, DT_bool);
        Value *other = copied_value(copies, maker_store(maker, k)->args[1]);
        Let *where = let_new(fn, OP_where, 3, (Value *[]){is, other, v}, 0, NULL);
        v = insert(fn, to, at, where, v->type->dtype);
    }
    return v;
}

/* Computes first in the sum what that loads of the panel. */
static void
compute_in_sum(Fn *fn, const Use *use, const Let *load)
{
    Block *sum = load->parent;
    int at = 0;
    Solution s = {.cx = fn->cx, .maker = &use->maker, .digit = DIM_NONE};
    Copies copies = copies_of(fn);
    solve(&s, load);
    for (int k = 0; k < s.n; k++) {
        copies_index(&copies, s.indices[k], s.values[k]);
    }
    for (const Let *loop = use->maker.loops;; loop = loop->body->lets[loop->body->n - 1]) {
        int inner = loop == use->maker.inner, last = inner ? use->maker.nstores : 1;
        for (int k = 0; k < loop->body->n - last; k++) {
            const Let *let = loop->body->lets[k];
            Let *copy = copied_let(&copies, let, sum);
            block_insert(fn->cx, sum, at++, copy);
            if (let->op == OP_bind) {
                copies_index(&copies, let->sizes[0], copy->sizes[0]);
            }
        }
        if (inner) {
            break;
        }
    }
    copies.values[load->res[0]->id] = choose_value(fn, &s, &copies, sum, &at);
    take_out((Let *)load);
    for (int k = at; k < sum->n; k++) {
        for (int j = 0; j < sum->lets[k]->nargs; j++) {
            sum->lets[k]->args[j] = copied_value(&copies, sum->lets[k]->args[j]);
        }
    }
}

/* The loop over panels goes around that over rows. */
static void
exchange(Let *rows)
{
    Let *panels = rows->body->lets[0];
    Block *outer = rows->parent, *inner = panels->body;
    outer->lets[place_of(rows)] = panels;
    rows->body->lets[0] = inner->lets[0];
    rows->body->lets[0]->parent = rows->body;
    inner->lets[0] = rows;
    panels->parent = outer;
    rows->parent = inner;
}

static void
make_sums(Fn *fn, const Decoded *d, const Use *use)
{
    const Product p = product_of(d->facts, use->micro);
    compute_in_sum(fn, use, p.b);
    let_mark(use->micro, MARK_micro | MARK_prefetch_tile | MARK_prefetch_pack, false);
    if (p.panels) {
        exchange(use->micro);
    }
    decode_sums(fn, use->micro, d->rows);
}

/* Takes the buffers out of the block and its loops. */
static void
take_buffers(Cx *cx, Block *from, Block *to)
{
    int n = 0;
    for (int k = 0; k < from->n; k++) {
        Let *let = from->lets[k];
        if (let->op == OP_buffer) {
            block_append(cx, to, let);
            continue;
        }
        if (is_plain(let)) {
            take_buffers(cx, let->body, to);
        }
        from->lets[n++] = let;
    }
    from->n = n;
}

/* All of the block but its buffers, and those of its loops, goes into an if for few rows; the else
 * has copies. */
static void
choose(Fn *fn, const Decoded *d)
{
    Cx *cx = fn->cx;
    Block *blk = d->block;
    Attr attrs[] = {attr_dim(cx, "left", d->rows),
                    attr_dim(cx, "right", dim_int(cx, DLC_DECODED_ROWS))};
    Let *few = choice_new(fn, blk, OP_if, 2, attrs), *many = choice_new(fn, blk, OP_else, 0, NULL);
    Block all = {0};
    take_buffers(cx, blk, &all);
    for (int k = 0; k < blk->n; k++) {
        block_append(cx, many->body, let_copy(fn, blk->lets[k], many->body));
        block_append(cx, few->body, blk->lets[k]);
    }
    blk->n = 0;
    for (int k = 0; k < all.n; k++) {
        block_append(cx, blk, all.lets[k]);
    }
    block_append(cx, blk, few);
    block_append(cx, blk, many);
}

static void
make(Fn *fn, const Decoded *d)
{
    if (!fuel_spend(fn->cx)) {
        return;
    }
    if (!d->known) {
        choose(fn, d);
    }
    for (int k = 0; k < d->nuses; k++) {
        make_sums(fn, d, &d->uses[k]);
    }
    for (int k = 0; k < d->nuses; k++) {
        if (!k || d->uses[k].maker.loops != d->uses[k - 1].maker.loops) {
            take_out(d->uses[k].maker.loops);
        }
    }
    if (d->known && !block_any(d->panel->parent, accesses, d->panel->res[0])) {
        take_out(d->panel);
    }
}

Fn *
rewrite_decode(Fn *fn)
{
    Found found = {0}, *to = &found;
    phases_visit(fn, find, &to);
    for (int k = 0; k < found.n; k++) {
        make(fn, &found.all[k]);
    }
    if (found.n) {
        facts_forget(fn);
    }
    return fn;
}
