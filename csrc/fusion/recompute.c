/* Recompute: between kernels, a cheap value is computed again by its readers instead of stored and
 * loaded.
 *
 * For each value that leaves its kernel, latest first, the slice that makes it from what is in
 * memory anyway is weighed: its arithmetic for every reading kernel, and the operands that those
 * do not read yet, against the store and the loads it saves.  A slice holds no reduction and at
 * most COST_SLICE nodes, so the whole is linear in reads.  What a slice reads stays in memory.
 * Readers then depend on what the producer read, never on more, so the order of groups stays
 * right.
 *
 * The columns of a product that are computed of codes (of values with fewer bytes: a weight of
 * few bits) are not stored either: before groups are joined, recompute_columns has each product
 * compute them itself.  Lowering makes them panel by panel, in a cache.  So memory has no copy of
 * the weight as floats, which a product of few rows would take most of its time to write and read.
 *
 * Example: t = cast x (bf16 to f32), read by two kernels that do not join: both load x.
 */
#include "group.h"

#include <math.h>

typedef struct {
    int node[COST_SLICE], n;
    const Read *leaf[2 * COST_SLICE];     /* the values that it reads from memory */
    int nleaves;
    int cost;                   /* of an element */
} Slice;

static bool
slice_has(const Slice *s, int node)
{
    for (int k = 0; k < s->n; k++) {
        if (s->node[k] == node) {
            return true;
        }
    }
    return false;
}

/* Adds the node and the values that it needs and that are not in memory; false if one of them must
 * not be copied. */
static bool
slice_add(Groups *g, Slice *s, int k)
{
    const Node *node = &g->nodes[k];
    if (slice_has(s, k)) {
        return true;
    }
    Fuses fuses = op_info[node->let->op].fuses;
    if (s->n == COST_SLICE || (fuses != FUSES_ALL && fuses != FUSES_FREE) || node->times > 1) {
        return false;
    }
    s->node[s->n++] = k;
    s->cost += cost_let(node->let);
    for (int r = node->reads; r < node->reads + node->nreads; r++) {
        const Read *read = &g->reads[r];
        if (read->order) {
            return false;       /* a kernel that computes it again would have to come as late */
        }
        if (read->from >= 0 && !(g->nodes[read->from].kept && !read->copied)) {
            if (!slice_add(g, s, read->from)) {
                return false;
            }
        } else if (s->nleaves == 2 * COST_SLICE) {
            return false;
        } else {
            s->leaf[s->nleaves++] = read;
        }
    }
    return true;
}

static bool
group_reads(Groups *g, int group, const Value *root)
{
    for (int k = group; k >= 0; k = g->nodes[k].next) {
        for (int r = g->nodes[k].reads; r < g->nodes[k].reads + g->nodes[k].nreads; r++) {
            if (g->reads[r].root == root && !g->reads[r].copied) {
                return true;
            }
        }
    }
    return false;
}

static double
leaf_traffic(Groups *g, const Slice *s, int k)
{
    return cost_traffic((double)type_typical_bytes(g->cx, s->leaf[k]->root->type));
}

/* Does the kernel of p exist for p alone? Then nothing else in it is kept. */
static bool
is_alone(Groups *g, int p)
{
    for (int k = group_find(g, p); k >= 0; k = g->nodes[k].next) {
        if (k != p && g->nodes[k].kept) {
            return false;
        }
    }
    return true;
}

/* Compares the savings and the costs of the reading kernels, with the store and, if it is dropped,
 * the kernel; false if one of them must read memory. */
static bool
weigh(Groups *g, int p, const Slice *s, double *balance)
{
    const Node *node = &g->nodes[p];
    int home = group_find(g, p), last = -1;
    bool alone = is_alone(g, p);
    *balance = cost_traffic((double)node->bytes) + (alone ? COST_LAUNCH : 0);
    for (int k = 0; alone && k < s->nleaves; k++) {
        *balance += leaf_traffic(g, s, k);
    }
    for (int r = node->users; r >= 0; r = g->reads[r].next) {
        const Read *read = &g->reads[r];
        int reader = group_find(g, read->to);
        if (reader == home) {
            continue;
        }
        if (read->memory) {
            return false;
        }
        *balance -= s->cost * (double)read->numel * g->nodes[read->to].times;
        if (reader != last) {
            *balance += cost_traffic((double)node->bytes);
            for (int k = 0; k < s->nleaves; k++) {
                if (!group_reads(g, reader, s->leaf[k]->root)) {
                    *balance -= leaf_traffic(g, s, k);
                }
            }
        }
        last = reader;
    }
    return true;
}

static void
copy_slice(Groups *g, int p, const Slice *s, bool *pinned)
{
    int home = group_find(g, p);
    for (int r = g->nodes[p].users; r >= 0; r = g->reads[r].next) {
        g->reads[r].copied = group_find(g, g->reads[r].to) != home;
    }
    for (int k = 0; k < s->nleaves; k++) {
        if (s->leaf[k]->from >= 0) {
            pinned[s->leaf[k]->from] = true;
        }
    }
    g->nodes[p].kept = false;
}

void
recompute(Groups *g)
{
    bool *pinned = cx_alloc(g->cx, ((size_t)g->n + 1) * sizeof *pinned);
    for (int k = 0; k < g->n; k++) {
        g->nodes[k].kept = g->nodes[k].call || node_leaves(g, k);
    }
    for (int k = g->n - 1; k >= 0; k--) {
        const Node *node = &g->nodes[k];
        Slice s = {0};
        double balance;
        if (node->kept && !node->stored && !pinned[k] && slice_add(g, &s, k) &&
            weigh(g, k, &s, &balance) && balance > 0 && !waits_to_copy(g, k, s.leaf, s.nleaves) &&
            fuel_spend(g->cx)) {
            copy_slice(g, k, &s, pinned);
        }
    }
}

/* ---- columns that are computed of codes ---- */

/* The bytes that are read of v if `most` are read of a view of it. */
static double
bytes_of(Cx *cx, const Value *v, double most)
{
    double bytes = (double)type_typical_bytes(cx, v->type);
    return bytes < most ? bytes : most;
}

static bool
has_value(int n, const Value *const *values, const Value *v)
{
    bool has = false;
    for (int k = 0; k < n && !has; k++) {
        has = values[k] == v;
    }
    return has;
}

/* Is it computed element by element, or a view that an index follows? */
static bool
is_elementwise(Cx *cx, const Let *let)
{
    OpKind kind = op_info[let->op].kind;
    return let->nres == 1 && (kind == KIND_MAP || let->op == OP_gather ||
                              op_info[let->op].fuses == FUSES_FREE || let_interleaves(cx, let));
}

static void
take_code(Codes *c, const Value *v, double most)
{
    if (value_is_const(v) || has_value(c->ncodes, c->codes, v)) {
        return;
    }
    c->good &= c->ncodes < COST_DECODED;
    c->bytes += bytes_of(c->cx, v, most);
    c->codes[c->good ? c->ncodes++ : 0] = v;
}

static void
codes_walk(Codes *c, const Value *v, double most)
{
    if (value_is_const(v) || has_value(c->n, c->inner, v) || !c->good) {
        return;
    }
    const Let *def = v->def;
    bool view = def && value_is_view(v) && op_reads(def->op, 0) != 'm';
    double share = (double)dims_typical(c->cx, v->type->rank, v->type->dims) / (double)c->numel;
    bool small = def && share * COST_SMALL <= 1 && cost_let(def) > COST_FREE;
    bool stops = c->stops && c->stops[v->id];
    if (!def || stops || (!view && (small || !is_elementwise(c->cx, def)))) {
        take_code(c, v, most);
        return;
    }
    if (c->n == COST_DECODED) {
        c->good = false;
        return;
    }
    c->inner[c->n++] = v;
    c->computes |= op_info[def->op].kind == KIND_MAP;
    c->cost += view ? 0 : share * cost_let(def);
    if (def->op == OP_gather) { /* from a table in memory */
        take_code(c, def->args[0], INFINITY);
        codes_walk(c, def->args[1], INFINITY);
        return;
    }
    for (int k = 0; k < def->nargs; k++) {
        codes_walk(c, def->args[k], view ? bytes_of(c->cx, v, most) : INFINITY);
    }
}

/* False: v is not computed of codes that have at least a quarter fewer bytes.  Those of a panel
 * that holds bytes may have as many: they are copied to it anyway. */
static bool
find_codes(Cx *cx, const Value *v, const bool *stops, Codes *codes)
{
    const Type *t = v->type;
    *codes = (Codes){
        .cx = cx, .numel = dims_typical(cx, t->rank, t->dims), .good = true, .stops = stops};
    if (codes->numel > 0) {
        codes_walk(codes, v, INFINITY);
    }
    double own = (double)type_typical_bytes(cx, t);
    bool bytes = t->dtype != dtype_info[t->dtype].compute && panel_dtype(t->dtype) == t->dtype;
    return codes->good && codes->computes &&
           (bytes ? codes->bytes <= own : 4 * codes->bytes <= 3 * own);
}

bool
value_is_of_codes(Cx *cx, const Value *v)
{
    Codes codes;
    return !value_is_const(v) && find_codes(cx, v, NULL, &codes);
}

/* Is the last letter of the result the only one that operand j alone has, and is one letter summed?
 * Letters of one element do not count.  There is no batch but of integers, whose sums belong to
 * groups: the products of attention are better joined by blocks of rows.  Returns why not, or NULL.
 * rows: elements of the result for each column, of one batch. */
static const char *
columns_none(Cx *cx, const Let *let, int j, double *rows)
{
    const Contraction *c = let_contraction(let);
    const Type *a = let->args[0]->type, *b = let->args[1]->type;
    int columns = 0, sums = 0, last = -1;
    bool batched = false;
    int64_t n = 0;
    *rows = 1;
    for (int k = 0; k < c->nout; k++) {
        Dim extent = let->res[0]->type->dims[k];
        LetterClass class = letter_class(c, c->out[k]);
        bool own = class == (j ? LETTER_OF_B : LETTER_OF_A);
        if (dim_is(cx, extent, 1)) {
            continue;
        }
        bool batch = class == LETTER_OF_BOTH;
        columns += own;
        batched |= batch && dtype_info[let->res[0]->type->dtype].class == CLASS_FLOAT;
        last = class;
        n = own ? dim_typical(cx, extent) : n;
        *rows *= own || batch ? 1 : (double)dim_typical(cx, extent);
    }
    for (int k = 0; k < c->nsum; k++) {
        sums += !dim_is(cx, letter_dim(c, a, b, c->sum[k]), 1);
    }
    return batched                                               ? "products of a batch read it"
           : c->where.first.place || c->where.nlater || sums > 1 ? "a convolution reads it"
           : sums != 1                                           ? "a product of one term reads it"
           : columns == 0 || (columns == 1 && n < COST_COLUMNS)
               ? "its product has fewer than 16 columns"
           : columns > 1 || last != (j ? LETTER_OF_B : LETTER_OF_A)
               ? "it has the rows of its product"
               : NULL;
}

const char *
columns_refused(Cx *cx, const Let *let, int j)
{
    double rows;
    return columns_none(cx, let, j, &rows);
}

bool
columns_of_codes(Cx *cx, const Let *let, int j, const bool *stops, Codes *codes)
{
    double rows;
    if (let->op != OP_contract || value_is_const(let->args[j]) || columns_none(cx, let, j, &rows)) {
        return false;
    }
    bool found = find_codes(cx, let->args[j], stops, codes);
    return found && (rows <= COST_DECODED_ROWS || codes->cost <= COST_DECODED_COST);
}

/* What v is a view of, if no node makes the view a tensor. */
static const Value *
viewed(const Groups *g, const Value *v)
{
    while (!value_is_const(v) && value_is_view(v) && g->node_of[v->id] < 0) {
        v = v->def->args[0];
    }
    return v;
}

/* Returns the node's read of operand j; NULL: there is none. */
static Read *
read_of(Groups *g, const Node *node, int j)
{
    const Value *v = viewed(g, node->let->args[j]);
    for (int r = node->reads; r < node->reads + node->nreads && !value_is_const(v); r++) {
        if (g->reads[r].from >= 0 && g->reads[r].root == v) {
            return &g->reads[r];
        }
    }
    return NULL;
}

/* Do only contractions read what is computed here, as their columns, and not so many that it is
 * better packed once (panels.c)? */
static bool
are_columns_alone(Groups *g, const Read *read)
{
    const Node *from = &g->nodes[read->from];
    Codes codes;
    bool alone = !from->stored;
    int users = 0;
    for (int r = from->users; r >= 0 && alone; r = g->reads[r].next) {
        const Let *user = g->nodes[g->reads[r].to].let;
        int found = 0;
        for (int j = 0; user->op == OP_contract && j < 2; j++) {
            const Read *of = read_of(g, &g->nodes[g->reads[r].to], j);
            found += of && of->root == read->root ? columns_of_codes(g->cx, user, j, NULL, &codes)
                                                  : 0;
        }
        alone = found == 1 && ++users < COST_PACKED;
    }
    return alone;
}

static int
node_of_value(const Groups *g, const Value *v)
{
    return !value_is_const(v) && v->def ? g->node_of[v->id] : -1;
}

/* The contraction computes what is inside of the codes; these are in memory. */
static void
copy_columns(Groups *g, Read *read, const Codes *codes)
{
    read->copied = true;
    for (int k = 0; k < codes->n; k++) {
        int node = node_of_value(g, codes->inner[k]);
        for (int r = node < 0 ? -1 : g->nodes[node].users; r >= 0; r = g->reads[r].next) {
            const Value *by = g->nodes[g->reads[r].to].value;
            g->reads[r].copied |= has_value(codes->n, codes->inner, by);
        }
    }
    for (int k = 0; k < codes->ncodes; k++) {
        int node = node_of_value(g, viewed(g, codes->codes[k]));
        if (node >= 0) {
            g->nodes[node].stored = true;
        }
    }
}

void
recompute_columns(Groups *g)
{
    for (int k = 0; k < g->n; k++) {
        const Node *node = &g->nodes[k];
        for (int j = 0; node->let->op == OP_contract && j < 2; j++) {
            Codes codes;
            Read *read = read_of(g, node, j);
            if (read && columns_of_codes(g->cx, node->let, j, NULL, &codes) &&
                are_columns_alone(g, read) && fuel_spend(g->cx)) {
                copy_columns(g, read, &codes);
            }
        }
    }
}
