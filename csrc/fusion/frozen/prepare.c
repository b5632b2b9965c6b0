/* Prepare: what a function computes of frozen parameters alone, or of nothing, is made before its
 * calls.
 *
 * What:     a function and which of its parameters are frozen become one function for each prepared
 *           value, and one that reads these values as further parameters.  Two kinds are prepared:
 *           - what a contraction reads as its columns, also where it is computed of nothing, as a
 *             constant or the matrix of a Fourier transform, if that is small.  It becomes panels,
 *             as the microkernels read them: each has MICRO_ROW_BYTES of every row, one row after
 *             the other.  Of columns that are computed of codes, which have fewer bytes, the codes
 *             are prepared, and in the order in which their panels are computed: so a call reads
 *             them from end to end.  Where a code holds several columns in an order that no panel
 *             has, what is computed of it is prepared, two elements of four bits in a byte;
 *           - what costs more to compute than to be handed over and read.
 * Requires  a verified graph.
 * Ensures   the same results, bit for bit.  Not prepared: what depends on another parameter, on a
 *           size that is not a constant, or on a call; a result, and what a result is a part of.
 *           Views of parameters and of prepared values stay where they are read.
 * How:      a forward walk finds what values depend on.  A backward walk goes to the border between
 *           values of frozen parameters and others; there it chooses which values are prepared, and
 *           which are computed in each call.  A panel is a pad, a reshape and a permutation.  The
 *           call reads it through the views that undo these, so that code generation sees where an
 *           element lies.  O(lets).
 * Why not   a pass: in one function the views and what undoes them would cancel.  As the partition
 *           does, a cut gives two functions.
 * Why not   prepare whatever can be: to compare a parameter in each call may cost more than to
 *           compute what is made of it.
 * Example:  contract x, w over="mk,nk->mn" with w: f32[50, 64] reads p: f32[2, 64, 32] as
 *           slice(reshape(permute p perm=[0, 2, 1])) start=0; p is made of w once.
 */
#include "weights.h"

#include <string.h>

typedef enum { FROM_NOTHING, FROM_FROZEN, FROM_OTHERS } Source;

/* Codes of four bits: each a byte that is less than 16, or two in a byte. */
typedef enum { WHOLE, LOW_BITS, PAIRS } PairForm;

typedef struct {
    const Value *v;
    PanelAxes axes; /* of v, which becomes panels; none: v as it is */
    const Type *codes; /* what reads v computes columns of it: the type with the axes; else NULL */
    PairForm form; /* in which v is stored */
    int pairs; /* with PAIRS: along this axis */
    Value *param; /* in the function that runs */
} Ready;

typedef struct {
    const Fn *fn;
    Cx *cx;
    int64_t *fuel;
    Source *source; /* by Value.id */
    int64_t *cost, *read; /* ...: the cost of computing it; bytes of the parameters that it is
                           * computed from */
    bool *again, *memory; /* ...: each call computes it; its readers read memory */
    bool *decoded; /* ...: the call computes it of codes, where it multiplies with it */
    Columns *columns; /* ...: of codes, where the columns run (codes_columns) */
    int *width; /* ...: the columns of a panel of what is computed of them */
    int64_t *fewest; /* ...: the bytes of what has fewest of that it is computed of, element by
                      * element; its own, if it has fewer */
    int *taken; /* ...: for which let its bytes were counted last */
    bool *narrow; /* ...: it has fewer than that which it is computed of, and may be prepared */
    Ready *ready;
    int nready;
} Cutter;

static void *
by_value(const Cutter *c, size_t size)
{
    return cx_alloc(c->cx, ((size_t)c->fn->nvalues + 1) * size);
}

/* ---- what values depend on ---- */

static bool
are_constant(Cx *cx, int n, const Dim *dims)
{
    bool all = true;
    for (int k = 0; k < n; k++) {
        all &= dim_is_int(cx, dims[k], NULL);
    }
    return all;
}

static bool
has_constant_sizes(Cx *cx, const Let *let)
{
    const Type *t = let->res[0]->type;
    bool all = are_constant(cx, t->rank, t->dims);
    for (int k = 0; k < let->nattrs; k++) {
        const Attr *a = &let->attrs[k];
        all &= a->kind != ATTR_DIM || are_constant(cx, 1, &a->d);
        all &= a->kind != ATTR_DIMS || are_constant(cx, a->n, a->dims);
    }
    return all;
}

static Source
source_of(const Cutter *c, const Let *let)
{
    Source from = FROM_NOTHING;
    if (let_is_opaque(let) || let->nres != 1 || !has_constant_sizes(c->cx, let)) {
        return FROM_OTHERS;
    }
    for (int k = 0; k < let->nargs; k++) {
        const Value *v = let->args[k];
        from = !value_is_const(v) && c->source[v->id] > from ? c->source[v->id] : from;
    }
    return from;
}

static void
find_params(Cutter *c, const bool *frozen)
{
    const Fn *fn = c->fn;
    for (int k = 0; k < fn->nparams; k++) {
        const Value *v = fn->params[k];
        bool strides = !v->strides || are_constant(c->cx, v->type->rank, v->strides);
        bool constant = strides && are_constant(c->cx, v->type->rank, v->type->dims);
        c->source[v->id] = frozen && frozen[k] && constant ? FROM_FROZEN : FROM_OTHERS;
        c->read[v->id] = type_typical_bytes(c->cx, v->type);
    }
    for (int k = 0; k < fn->body->nrets; k++) {
        if (fn->results[k].kind == RESULT_INTO) {
            c->source[fn->params[fn->results[k].of]->id] = FROM_OTHERS;
        }
    }
}

static void
find_sources(Cutter *c)
{
    for (int k = 0; k < c->fn->body->n; k++) {
        const Let *let = c->fn->body->lets[k];
        Source from = source_of(c, let);
        for (int j = 0; j < let->nres; j++) {
            c->source[let->res[j]->id] = from;
        }
        if (from != FROM_FROZEN) {
            continue;
        }
        int id = let->res[0]->id;
        double cost = value_is_view(let->res[0]) ? 0
                                                 : (double)cost_terms(c->cx, let) * cost_let(let);
        double read = 0;
        for (int j = 0; j < let->nargs; j++) {
            cost += value_is_const(let->args[j]) ? 0 : (double)c->cost[let->args[j]->id];
            read += value_is_const(let->args[j]) ? 0 : (double)c->read[let->args[j]->id];
        }
        c->cost[id] = cost < 1e18 ? (int64_t)cost : (int64_t)1e18;
        c->read[id] = read < 1e18 ? (int64_t)read : (int64_t)1e18;
    }
}

/* ---- where codes are narrow ---- */

/* The fewest bytes from which v can be computed, element by element, beside what mark has taken:
 * those of parameters, narrow values, and views that have fewer bytes than all that they are
 * views of. */
static int64_t
bytes_beside(Cutter *c, const Value *v, int mark)
{
    if (value_is_const(v) || c->taken[v->id] == mark) {
        return 0;
    }
    c->taken[v->id] = mark;
    bool ends = !v->def || c->narrow[v->id] ||
                (value_is_view(v) && c->fewest[v->id] < c->fewest[v->def->args[0]->id]);
    int64_t sum = ends ? c->fewest[v->id] : 0;
    for (int k = 0; !ends && k < v->def->nargs; k++) {
        sum += bytes_beside(c, v->def->args[k], mark);
    }
    return sum;
}

/* The fewest bytes from which the operands of a let can be computed.  The sum over the operands
 * takes what two of them share twice, so it is counted only where that sum decides. */
static int64_t
fewest_of(Cutter *c, const Let *let, int64_t bytes)
{
    int64_t sum = 0;
    for (int k = 0; k < let->nargs; k++) {
        const Value *v = let->args[k];
        sum += value_is_const(v) ? 0 : c->fewest[v->id];
    }
    if (value_is_view(let->res[0])) {
        return sum > bytes ? bytes : sum;
    }
    if (sum > bytes && let->nargs > 1) {
        sum = 0;
        for (int k = 0; k < let->nargs; k++) {
            sum += bytes_beside(c, let->args[k], let->res[0]->id + 1);
        }
    }
    return sum;
}

/* Is it computed of reductions and of values that are computed of these, so that it has one number
 * for many elements of the parameters? */
static bool
is_reduced(const Cutter *c, const Let *let)
{
    bool any = false, all = true;
    for (int k = 0; k < let->nargs; k++) {
        const Value *v = let->args[k];
        any |= !value_is_const(v);
        all &= value_is_const(v) || c->narrow[v->id];
    }
    return any && all;
}

/* What a weight is rounded to is prepared, and not what that stands for: the columns of a product
 * are computed of values with fewer bytes.  So are the numbers for groups of elements, which have
 * fewer still. */
static void
find_narrow(Cutter *c)
{
    for (int k = 0; k < c->fn->nparams; k++) {
        const Value *v = c->fn->params[k];
        c->fewest[v->id] = type_typical_bytes(c->cx, v->type);
    }
    for (int k = 0; k < c->fn->body->n; k++) {
        const Let *let = c->fn->body->lets[k];
        const Value *v = let->res[0];
        if (let->nres != 1 || c->source[v->id] != FROM_FROZEN) {
            continue;
        }
        int64_t bytes = type_typical_bytes(c->cx, v->type), of = fewest_of(c, let, bytes);
        bool reduces = op_info[let->op].kind == KIND_RED;
        c->narrow[v->id] = !value_is_view(v) &&
                           (reduces || bytes < of || (bytes == of && is_reduced(c, let)));
        c->fewest[v->id] = c->narrow[v->id] || bytes < of ? bytes : of;
    }
}

/* ---- what is prepared ---- */

static const PanelAxes AS_IT_IS = {.columns = -1};

static Ready *
find_ready(const Cutter *c, const Value *v, const PanelAxes *axes)
{
    for (int k = 0; k < c->nready; k++) {
        if (c->ready[k].v == v && memcmp(&c->ready[k].axes, axes, sizeof *axes) == 0) {
            return &c->ready[k];
        }
    }
    return NULL;
}

/* Is the value there, or may it be? */
static bool
make_ready(Cutter *c, const Value *v, const PanelAxes *axes)
{
    if (find_ready(c, v, axes)) {
        return true;
    }
    if (*c->fuel == 0) {
        return false;
    }
    *c->fuel -= *c->fuel > 0;
    c->ready = cx_grow(c->cx, c->ready, c->nready, sizeof *c->ready);
    c->ready[c->nready++] = (Ready){.v = v, .axes = *axes};
    return true;
}

/* Does the call save time if it reads v instead of computing it?  If a large value replaces the
 * values it is computed from, there is as much to read.  It then has to save arithmetic that
 * vectors do not hide, or a kernel that writes it. */
static bool
is_worth(const Cutter *c, const Value *v, bool memory)
{
    int64_t bytes = type_typical_bytes(c->cx, v->type),
            numel = dims_typical(c->cx, v->type->rank, v->type->dims);
    double saved = (double)c->cost[v->id] + cost_traffic((double)c->read[v->id] - (double)bytes);
    saved += memory ? cost_traffic(2 * (double)bytes) + COST_LAUNCH : 0;
    bool small = bytes <= COST_CACHED, dear = memory || c->cost[v->id] / 4 >= numel;
    return saved > COST_PREPARED && (small || (bytes <= c->read[v->id] && dear));
}

/* A let that runs in each call reads v, which depends on frozen parameters. */
static void
read_frozen(Cutter *c, const Value *v, bool memory)
{
    if (!v->def || find_ready(c, v, &AS_IT_IS)) {
        return;
    }
    if (c->decoded[v->id]) {
        c->again[v->id] = true;
        return;
    }
    if (value_is_view(v)) {
        c->memory[v->id] |= memory;
        c->again[v->id] = true;
    } else if (c->again[v->id] || !is_worth(c, v, memory) || !make_ready(c, v, &AS_IT_IS)) {
        c->again[v->id] = true;
    }
}

/* Each call computes v, and the values that v is a view of; codes among them stay as they are. */
static void
compute_in_call(Cutter *c, const Value *v)
{
    c->again[v->id] = true;
    c->columns[v->id].are = COLUMNS_VARY;
    while (value_is_view(v)) {
        v = v->def->args[0];
        c->again[v->id] = true;
        c->columns[v->id].are = COLUMNS_VARY;
    }
}

static void
keep_results(Cutter *c)
{
    for (int k = 0; k < c->fn->body->nrets; k++) {
        compute_in_call(c, c->fn->body->rets[k]);
    }
}

static bool
runs(const Cutter *c, const Let *let)
{
    return let->nres != 1 || c->source[let->res[0]->id] != FROM_FROZEN || c->again[let->res[0]->id];
}

/* May results of the let share its operands' memory?  A call's result may be a view of an operand,
 * or an effect may change it. */
static bool
takes_memory(const Let *let)
{
    return let_has_effect(let) || (let->op == OP_call && let_int(let, "shares"));
}

/* ---- codes that are computed again ---- */

/* Do the columns of frozen codes that v is computed of lie in no order that panels have? */
static bool
varies(const Cutter *c, const Value *v)
{
    if (value_is_const(v) || c->source[v->id] != FROM_FROZEN) {
        return false;
    }
    bool any = c->columns[v->id].are == COLUMNS_VARY;
    for (int k = 0; v->def && k < v->def->nargs && !any; k++) {
        any = c->decoded[v->id] && varies(c, v->def->args[k]);
    }
    return any;
}

/* Prepares integers whose columns run along an axis, if they take hardly more memory than their
 * codes: those of the whole weight, which has so many elements, and of which no codes in the order
 * of panels are known; or those for groups of its elements. */
static bool
recode(Cutter *c, const Value *v, int64_t numel)
{
    const Type *t = v->type;
    const Columns *columns = &c->columns[v->id];
    int64_t bytes = type_typical_bytes(c->cx, t), n;
    bool few = bytes <= numel / (2 * COST_CODES_ROOM);
    int axis = t->rank - 1 - (columns->axis == t->rank - 1);
    if (dtype_info[t->dtype].class != CLASS_INT || value_is_view(v) ||
        columns->are != COLUMNS_ALONG || !(few || varies(c, v))) {
        return false;
    }
    bool four = pairs_hold(v), even = axis >= 0 && t->rank + 2 < MAX_RANK &&
                                      dim_is_int(c->cx, t->dims[axis], &n) && n % 2 == 0;
    PairForm form = !four ? WHOLE : even && !few ? PAIRS : LOW_BITS;
    bytes = form == PAIRS ? type_typical_bytes(c->cx, pairs_type(c->cx, t, axis)) : bytes;
    if ((!few && bytes > bytes_beside(c, v, c->fn->nvalues + v->id + 1)) ||
        !make_ready(c, v, &AS_IT_IS)) {
        return false;
    }
    Ready *ready = find_ready(c, v, &AS_IT_IS);
    ready->form = form;
    ready->pairs = axis;
    return true;
}

/* Of the values that columns are computed of, the first ones that can be. */
static void
recode_columns(Cutter *c, const Value *v, const Codes *codes, int width)
{
    if (value_is_const(v) || !v->def || c->source[v->id] != FROM_FROZEN ||
        find_ready(c, v, &AS_IT_IS)) {
        return;
    }
    if (recode(c, v, codes->numel)) {
        c->width[v->id] = width;
        return;
    }
    for (int k = 0; c->decoded[v->id] && k < v->def->nargs; k++) {
        recode_columns(c, v->def->args[k], codes, width);
    }
}

/* The columns of operand j are computed in each call: panels of them would take the memory of a
 * weight without codes. */
static void
note_decoded(Cutter *c, const Codes *codes, const Let *let, int j)
{
    const Value *v = let->args[j];
    const Contraction *over = let_contraction(let);
    const char *mine = j ? over->b : over->a;
    int column = -1;
    for (int ax = 0; ax < v->type->rank; ax++) {
        bool one = dim_is(c->cx, v->type->dims[ax], 1);
        column = !one && letter_axis(over->out, over->nout, mine[ax]) >= 0 ? ax : column;
    }
    for (int k = 0; k < codes->n; k++) {
        c->decoded[codes->inner[k]->id] = true;
    }
    codes_columns(codes, v, column, c->columns);
    for (int k = 0; k < codes->ncodes; k++) {
        c->width[codes->codes[k]->id] = (int)panel_width(v->type->dtype);
    }
    recode_columns(c, v, codes, (int)panel_width(v->type->dtype));
}

/* The dtype as which codes are prepared.  Panels are padded, and some dtypes have no constant. */
static Dtype
padded_dtype(Dtype dtype)
{
    static const Dtype integer[] = {[1] = DT_u8, [2] = DT_i16, [4] = DT_i32, [8] = DT_i64};
    bool other = dtype_info[dtype].class == CLASS_OTHER;
    return other ? integer[dtype_info[dtype].bytes] : dtype;
}

/* The axes of codes in the order of panels, and the type that has them; none: codes stay as they
 * are, as they are small, or something else reads them, too. */
static PanelAxes
axes_of_codes(const Cutter *c, const Value *v, const Type *t, const Type **as)
{
    const PanelAxes none = {.columns = -1};
    const Columns *columns = &c->columns[v->id];
    PanelAxes axes = {.width = c->width[v->id]};
    bool any = false;
    if (columns->are != COLUMNS_ALONG || !columns->n || !axes.width ||
        !are_constant(c->cx, t->rank, t->dims)) {
        return none;
    }
    *as = columns_own_axis(c->cx, t, columns, &axes.columns);
    *as = *as ? type_with(c->cx, *as, padded_dtype(t->dtype)) : NULL;
    for (int ax = 0; *as && ax < (*as)->rank; ax++) {
        if (ax != axes.columns) {
            axes.sums[axes.nsums++] = ax;
            any |= !dim_is(c->cx, (*as)->dims[ax], 1);
        }
    }
    int64_t n = columns->n, padded = (n + axes.width - 1) / axes.width * axes.width;
    bool room = COST_CODES_ROOM * (padded - n) <= n;
    return any && room && n > axes.width ? axes : none;
}

static const Type *
stored_type(const Cutter *c, const Ready *ready)
{
    const Type *t = ready->v->type;
    return ready->form == PAIRS ? pairs_type(c->cx, t, ready->pairs) : t;
}

/* Codes that only columns are computed of get the order of panels. */
static void
order_codes(Cutter *c)
{
    bool *read = by_value(c, sizeof *read);
    for (int k = 0; k < c->fn->body->n; k++) {
        const Let *let = c->fn->body->lets[k];
        for (int j = 0; runs(c, let) && j < let->nargs; j++) {
            if (!value_is_const(let->args[j])) {
                read[let->args[j]->id] = true;
            }
        }
    }
    for (int k = 0; k < c->fn->nparams; k++) {
        const Value *v = c->fn->params[k];
        const Type *as;
        PanelAxes axes = axes_of_codes(c, v, v->type, &as);
        if (c->source[v->id] == FROM_FROZEN && read[v->id] && axes.nsums &&
            make_ready(c, v, &axes)) {
            find_ready(c, v, &axes)->codes = as;
        }
    }
    for (int k = 0; k < c->nready; k++) {
        Ready *ready = &c->ready[k];
        const Type *as;
        PanelAxes axes = axes_of_codes(c, ready->v, stored_type(c, ready), &as);
        if (!ready->axes.nsums && axes.nsums) {
            ready->axes = axes;
            ready->codes = as;
        }
    }
}

/* The panels of which a body may read v, as a product reads it so anyway: one copy is enough. */
static PanelAxes
axes_elsewhere(const Cutter *c, const Value *v)
{
    PanelAxes axes = {.columns = -1};
    for (int k = 0; k < c->fn->body->n && !axes.nsums; k++) {
        const Let *let = c->fn->body->lets[k];
        for (int j = 0; let->op == OP_contract && j < 2 && !axes.nsums; j++) {
            bool read = let->args[j] == v && c->source[let->res[0]->id] == FROM_OTHERS;
            axes = read ? panel_axes(c->cx, let, j) : axes;
        }
    }
    return axes;
}

/* Is it computed of nothing, and small enough to be kept?  No parameter has as many bytes, so a
 * large one would take memory that nothing else asks for: a product computes its columns panel by
 * panel. */
static bool
is_small_of_nothing(const Cutter *c, const Value *v)
{
    return !value_is_const(v) && c->source[v->id] == FROM_NOTHING &&
           type_typical_bytes(c->cx, v->type) <= COST_PACKED_BYTES;
}

static void
find_border(Cutter *c)
{
    for (int k = c->fn->body->n - 1; k >= 0; k--) {
        const Let *let = c->fn->body->lets[k];
        bool view = let->nres == 1 && value_is_view(let->res[0]);
        for (int j = 0; runs(c, let) && j < let->nargs; j++) {
            const Value *v = let->args[j];
            PanelAxes axes = let->op == OP_branch ? axes_elsewhere(c, let->args[j])
                                                  : panel_axes(c->cx, let, j);
            if (axes.nsums && is_small_of_nothing(c, v)) {
                make_ready(c, v, &axes);
            }
            if (value_is_const(v) || c->source[v->id] != FROM_FROZEN) {
                continue;
            }
            Codes codes;
            if (columns_of_codes(c->cx, let, j, c->narrow, &codes)) {
                note_decoded(c, &codes, let, j);
            } else if (let->nres != 1 || !c->decoded[let->res[0]->id]) {
                c->columns[v->id].are = COLUMNS_VARY;
            }
            bool memory = view ? c->memory[let->res[0]->id] : op_reads(let->op, j) == 'm';
            if (takes_memory(let)) {
                compute_in_call(c, v);
            } else if (c->decoded[v->id] || !axes.nsums || !make_ready(c, v, &axes)) {
                read_frozen(c, v, memory);
            }
        }
    }
}

/* ---- the functions ---- */

static void
mark_needed(const Value *v, bool *needed)
{
    if (value_is_const(v) || needed[v->id]) {
        return;
    }
    needed[v->id] = true;
    for (int k = 0; v->def && k < v->def->nargs; k++) {
        mark_needed(v->def->args[k], needed);
    }
}

/* Names that say nothing, and no places: the function is known by its text. */
static void
rename_values(Fn *fn)
{
    for (int k = 0; k < fn->body->n; k++) {
        Let *let = fn->body->lets[k];
        let->loc = (Loc){0};
        const char *name = cx_format(fn->cx, "v%d", k);
        let->res[0]->name = cx_intern(fn->cx, name, strlen(name));
    }
}

static PreparedValue
make_function(const Cutter *c, const Ready *ready)
{
    const Fn *fn = c->fn;
    PreparedValue made = {.make = fn_new(c->cx, "prepare", STAGE_GRAPH)};
    Build *b = build_new(made.make);
    Value **map = by_value(c, sizeof *map);
    bool *needed = by_value(c, sizeof *needed);
    mark_needed(ready->v, needed);
    made.params = cx_alloc(c->cx, ((size_t)fn->nparams + 1) * sizeof *made.params);
    for (int k = 0; k < fn->nparams; k++) {
        const Value *v = fn->params[k];
        if (needed[v->id]) {
            made.params[made.make->nparams] = k;
            map[v->id] = fn_param(made.make, cx_format(c->cx, "p%d", made.make->nparams), v->type,
                                  v->strides);
        }
    }
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        if (let->nres == 1 && needed[let->res[0]->id]) {
            build_again(b, let, map);
        }
    }
    Value *v = map[ready->v->id];
    if (ready->form == PAIRS) {
        v = pairs_make(b, v, ready->pairs, stored_type(c, ready)->dims[ready->pairs]);
    }
    if (ready->codes) {
        v = build_reshape(b, build_bitcast(b, v, ready->codes->dtype), ready->codes->rank,
                          ready->codes->dims);
    }
    v = ready->axes.nsums ? panels_make(b, v, &ready->axes) : v;
    fn_results(made.make, 1, &v, NULL);
    rename_values(made.make);
    made.bytes = type_typical_bytes(c->cx, v->type);
    return made;
}

/* Replaces operands of a contraction by their panels, if they have any. */
static void
run_contract(const Cutter *c, Build *b, const Let *let, Value **map)
{
    Value *kept[2];
    for (int j = 0; j < 2; j++) {
        const Value *v = let->args[j];
        PanelAxes axes = panel_axes(c->cx, let, j);
        bool panels = axes.nsums && c->source[v->id] != FROM_OTHERS;
        const Ready *ready = panels ? find_ready(c, v, &axes) : NULL;
        kept[j] = map[v->id];
        if (ready) {
            build_at(b, let->loc);
            map[v->id] = panels_read(b, ready->param, v->type, &axes);
        }
    }
    build_again(b, let, map);
    for (int j = 1; j >= 0; j--) {
        map[let->args[j]->id] = kept[j];
    }
}

/* The panels that bodies take for operand k of a branch, or NULL. */
static const Ready *
ready_for_body(const Cutter *c, const Let *let, int k)
{
    const Value *v = let->args[k];
    bool may = k > 0 && !value_is_const(v) && c->source[v->id] == FROM_FROZEN;
    PanelAxes axes = may ? axes_elsewhere(c, v) : (PanelAxes){.columns = -1};
    return axes.nsums ? find_ready(c, v, &axes) : NULL;
}

/* The body, which reads panels of some operands. */
static Fn *
body_of_panels(const Cutter *c, const Let *let, const Fn *old)
{
    Value **map;
    Fn *fn = rebuild_open(old, old->stage, &map);
    Build *b = build_new(fn);
    for (int k = 0; k < fn->nparams; k++) {
        const Ready *ready = ready_for_body(c, let, k + 1);
        if (ready) {
            fn->params[k]->type = ready->param->type;
            map[old->params[k]->id] = panels_read(b, fn->params[k], ready->v->type, &ready->axes);
        }
    }
    for (int k = 0; k < old->body->n; k++) {
        build_again(b, old->body->lets[k], map);
    }
    fn = rebuild_close(old, fn, map);
    fn_free_sizes(fn);
    return fn;
}

/* Replaces operands of a branch by their panels, if they have any. */
static void
run_branch(const Cutter *c, Build *b, const Let *let, Value **map)
{
    bool any = false;
    for (int k = 1; k < let->nargs; k++) {
        any |= ready_for_body(c, let, k) != NULL;
    }
    if (!any) {
        build_again(b, let, map);
        return;
    }
    const Type **types = cx_alloc(c->cx, ((size_t)let->nres + 1) * sizeof *types);
    Value **args = cx_alloc(c->cx, ((size_t)let->nargs + 1) * sizeof *args);
    Fn *bodies[2];
    for (int k = 0; k < let->nargs; k++) {
        const Value *v = let->args[k];
        const Ready *ready = ready_for_body(c, let, k);
        args[k] = ready ? ready->param : value_is_const(v) ? let->args[k] : map[v->id];
    }
    for (int k = 0; k < let->nres; k++) {
        types[k] = let->res[k]->type;
    }
    for (int k = 0; k < 2; k++) {
        bodies[k] = body_of_panels(c, let, let->bodies[k]);
    }
    const Let *to = build_flow(b, let, args, types, bodies);
    for (int k = 0; k < let->nres; k++) {
        map[let->res[k]->id] = to->res[k];
    }
}

/* v of what is stored of it. */
static Value *
of_stored(Build *b, const Ready *ready, Value *stored)
{
    Value *bytes = ready->form == PAIRS ? pairs_read(b, stored, ready->pairs) : stored;
    bytes = ready->form == LOW_BITS ? pairs_low(b, stored) : bytes;
    return build_cast(b, bytes, ready->v->type->dtype);
}

static Fn *
run_function(const Cutter *c)
{
    Value **map;
    Fn *run = rebuild_open(c->fn, STAGE_GRAPH, &map);
    Build *b = build_new(run);
    for (int k = 0; k < c->nready; k++) {
        Ready *ready = &c->ready[k];
        bool panels = ready->axes.nsums > 0;
        const Type *own = stored_type(c, ready), *of = ready->codes ? ready->codes : own,
                   *t = panels ? panels_type(c->cx, of, &ready->axes) : own;
        ready->param = fn_param(run, fn_fresh_name(run, panels ? "panels" : "prepared"), t, NULL);
        if (ready->codes) {
            Value *v = panels_read(b, ready->param, of, &ready->axes);
            v = build_bitcast(b, build_reshape(b, v, own->rank, own->dims), own->dtype);
            map[ready->v->id] = of_stored(b, ready, v);
        } else if (!panels) {
            map[ready->v->id] = of_stored(b, ready, ready->param);
        }
    }
    for (int k = 0; k < c->fn->body->n; k++) {
        const Let *let = c->fn->body->lets[k];
        if (runs(c, let) && let->op == OP_contract) {
            run_contract(c, b, let, map);
        } else if (runs(c, let) && let->op == OP_branch) {
            run_branch(c, b, let, map);
        } else if (runs(c, let)) {
            build_again(b, let, map);
        }
    }
    return rebuild_close(c->fn, run, map);
}

Preparation *
prepare_cut(const Fn *fn, const bool *frozen, int64_t *fuel)
{
    Cutter c = {.fn = fn, .cx = fn->cx, .fuel = fuel};
    Preparation *made = cx_alloc(fn->cx, sizeof *made);
    c.source = by_value(&c, sizeof *c.source);
    c.cost = by_value(&c, sizeof *c.cost);
    c.read = by_value(&c, sizeof *c.read);
    c.again = by_value(&c, sizeof *c.again);
    c.memory = by_value(&c, sizeof *c.memory);
    c.decoded = by_value(&c, sizeof *c.decoded);
    c.fewest = by_value(&c, sizeof *c.fewest);
    c.narrow = by_value(&c, sizeof *c.narrow);
    c.taken = by_value(&c, sizeof *c.taken);
    c.columns = by_value(&c, sizeof *c.columns);
    c.width = by_value(&c, sizeof *c.width);
    find_params(&c, frozen);
    find_sources(&c);
    find_narrow(&c);
    keep_results(&c);
    find_border(&c);
    order_codes(&c);
    made->run = run_function(&c);
    made->values = cx_alloc(fn->cx, ((size_t)c.nready + 1) * sizeof *made->values);
    for (int k = 0; k < c.nready; k++) {
        made->values[made->nvalues++] = make_function(&c, &c.ready[k]);
    }
    return made;
}
