/* Tables in attributes: TfIdfVectorizer and the domain ai.onnx.ml. */
#include "onnx.h"

#include <math.h>
#include <string.h>

enum { MOST_ROWS = 1024 }; /* of a table, which is written out number by number */
enum { MOST_SKIPS = 64 };

void
onnx_binarizer(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Value *is = onnx_map(o, OP_gt, x, onnx_number(o, onnx_float(o, "threshold", 0)));
    o->out[0] = build_cast(o->b, is, x->type->dtype);
}

/* Columns; a list is a row. */
void
onnx_array_features(Onnx *o)
{
    Value *x = onnx_in(o, 0), *at = onnx_in(o, 1);
    Dim count = type_numel(o->cx, at->type),
        row[] = {dim_int(o->cx, 1), type_numel(o->cx, x->type)};
    x = x->type->rank == 1 ? build_reshape(o->b, x, 2, row) : x;
    if (x->type->rank == 0) {
        onnx_refuse(o, "its operand has no axes");
    }
    at = build_cast(o->b, build_reshape(o->b, at, 1, &count), DT_i64);
    o->out[0] = build_gather(o->b, x, at, x->type->rank - 1, INDEX_FROM_START);
}

/* ---- tables ---- */

/* An attribute's numbers; refuses a node without them, and another count than n, where n >= 0. */
static const OnnxAttr *
numbers_of(Onnx *o, const char *name, int n)
{
    const OnnxAttr *a = onnx_attr(o, name);
    bool there = a && (a->kind == ONNX_INTS || a->kind == ONNX_FLOATS);
    if (!there || (n >= 0 && a->n != n) || a->n > MOST_ROWS) {
        onnx_refuse(o,
                    !there ? "it has no attribute %s of numbers"
                    : a->n > MOST_ROWS
                        ? "its attribute %s has more than %d numbers"
                        : "its attribute %s has %d numbers, unlike another attribute",
                    name,
                    a && a->n > MOST_ROWS ? MOST_ROWS
                    : a                   ? a->n
                                          : 0);
    }
    return a;
}

static double
number_at(const OnnxAttr *a, int k)
{
    return a->kind == ONNX_INTS ? (double)a->ints[k] : a->floats[k];
}

/* A tensor [n] of these numbers. */
static Value *
table(Onnx *o, Dtype dtype, int n, const double *numbers)
{
    Dim one = dim_int(o->cx, 1);
    const Type *t = type_of(o->cx, dtype, 1, &one);
    Value **parts = cx_alloc(o->cx, (size_t)n * sizeof *parts);
    bool whole = dtype == DT_i64;
    for (int k = 0; k < n; k++) {
        Literal l = whole ? (Literal){.is_int = true, .i = (int64_t)numbers[k]}
                          : (Literal){.f = numbers[k]};
        parts[k] = build_const(o->b, t, l);
    }
    return build_cat(o->b, n, parts, 0);
}

/* The same of whole numbers, of which a double has not all. */
static Value *
whole_table(Onnx *o, int n, const int64_t *numbers)
{
    Dim one = dim_int(o->cx, 1);
    const Type *t = type_of(o->cx, DT_i64, 1, &one);
    Value **parts = cx_alloc(o->cx, (size_t)n * sizeof *parts);
    for (int k = 0; k < n; k++) {
        parts[k] = build_const(o->b, t, (Literal){.is_int = true, .i = numbers[k]});
    }
    return build_cat(o->b, n, parts, 0);
}

/* By an index: the numbers of a table at these places. */
static Value *
looked_up(Onnx *o, Value *numbers, Value *at)
{
    return build_gather(o->b, numbers, at, 0, INDEX_FROM_START);
}

static Value *
counted(Onnx *o, Value *is, Dtype dtype, int axis)
{
    return build_red(o->b, OP_sum, build_cast(o->b, is, dtype), 1, &axis);
}

/* ---- TfIdfVectorizer ---- */

/* How often each of the n-grams (pool: [grams][n]) is in each row of x, i64 [rows, length], with
 * `step` from one of its elements to the next one: f32 [grams, rows]. */
static Value *
occurrences(Onnx *o, Value *x, int64_t length, const int64_t *pool, int grams, int n, int64_t step)
{
    Dim dims[] = {dim_int(o->cx, grams), x->type->dims[0], dim_int(o->cx, length - (n - 1) * step)};
    int64_t *column = cx_alloc(o->cx, (size_t)grams * sizeof *column);
    Value *is = NULL;
    for (int j = 0; j < n; j++) {
        for (int g = 0; g < grams; g++) {
            column[g] = pool[g * n + j];
        }
        Value *part = build_slice(o->b, x, 1, dim_int(o->cx, j * step), dim_int(o->cx, 1), dims[2]);
        Value *wanted = build_expand(o->b, whole_table(o, grams, column), 3, dims, (int[]){0});
        part = build_map(o->b, OP_eq, build_expand(o->b, part, 3, dims, (int[]){1, 2}), wanted,
                         NULL);
        is = is ? build_map(o->b, OP_bit_and, is, part, NULL) : part;
    }
    return counted(o, is, DT_f32, 2);
}

/* The n-grams of a length, over all skips; NULL: no row is long enough, or they are not counted. */
static Value *
of_length(Onnx *o, Value *x, int64_t length, const int64_t *pool, int grams, int n)
{
    int64_t skips = n == 1 ? 0 : onnx_int(o, "max_skip_count", 0);
    Value *sum = NULL;
    if (n < onnx_int(o, "min_gram_length", 1) || n > onnx_int(o, "max_gram_length", 1)) {
        return NULL;
    }
    for (int64_t step = 1; step <= skips + 1 && (n - 1) * step < length; step++) {
        if (step > MOST_SKIPS) {
            onnx_refuse(o, "it skips more than %d elements", MOST_SKIPS);
        }
        Value *found = occurrences(o, x, length, pool, grams, n, step);
        sum = sum ? onnx_add(o, sum, found) : found;
    }
    return sum;
}

void
onnx_tf_idf(Onnx *o)
{
    const OnnxAttr *counts = numbers_of(o, "ngram_counts", -1),
                   *places = numbers_of(o, "ngram_indexes", -1),
                   *pool = numbers_of(o, "pool_int64s", -1), *weights = onnx_attr(o, "weights");
    Value *x = build_cast(o->b, onnx_in(o, 0), DT_i64);
    int rank = x->type->rank, first = 0;
    int64_t length, last = -1;
    Dim all[] = {dim_int(o->cx, 1), type_numel(o->cx, x->type)};
    if (rank < 1 || rank > 2 || !dim_is_int(o->cx, x->type->dims[rank - 1], &length)) {
        onnx_refuse(o, "its operand is no row, or rows, of a known length");
    }
    if (counts->kind != ONNX_INTS || places->kind != ONNX_INTS || pool->kind != ONNX_INTS) {
        onnx_refuse(o, "its n-grams are no whole numbers");
    }
    for (int k = 0; k < places->n; k++) {
        last = places->ints[k] > last ? places->ints[k] : last;
        if (places->ints[k] < 0 || places->ints[k] >= MOST_ROWS) {
            onnx_refuse(o, "an index of its n-grams is not from 0 to %d", MOST_ROWS - 1);
        }
    }
    x = rank == 1 ? build_reshape(o->b, x, 2, all) : x;
    Dim shape[] = {dim_int(o->cx, last + 1), x->type->dims[0]};
    Value *y = build_const(o->b, type_of(o->cx, DT_f32, 2, shape), (Literal){.f = 0});
    for (int n = 1; n <= counts->n; n++) {
        int64_t from = counts->ints[n - 1], to = n < counts->n ? counts->ints[n] : pool->n;
        int grams = (int)((to - from) / n);
        if (from < 0 || to < from || to > pool->n || grams > places->n - first) {
            onnx_refuse(o, "its ngram_counts, ngram_indexes and n-grams do not fit together");
        }
        Value *found = grams ? of_length(o, x, length, pool->ints + from, grams, n) : NULL;
        if (found) {
            double *at = cx_alloc(o->cx, (size_t)grams * sizeof *at);
            for (int g = 0; g < grams; g++) {
                at[g] = (double)places->ints[first + g];
            }
            Value *index = table(o, DT_i64, grams, at);
            index = build_expand(o->b, index, 2, found->type->dims, (int[]){0});
            y = build_scatter(o->b, OP_sum, y, index, found, 0, INDEX_FROM_START);
        }
        first += grams;
    }
    bool idf = onnx_is_text(o, "mode", "IDF", ""), both = onnx_is_text(o, "mode", "TFIDF", "");
    if (!idf && !both && !onnx_is_text(o, "mode", "TF", "")) {
        onnx_refuse(o, "its mode '%s' is none of TF, IDF, TFIDF", onnx_text(o, "mode", ""));
    }
    if (idf) {
        y = build_cast(o->b, onnx_map(o, OP_gt, y, onnx_number(o, 0)), DT_f32);
    }
    if ((idf || both) && weights) {
        const OnnxAttr *w = numbers_of(o, "weights", (int)last + 1);
        double *by = cx_alloc(o->cx, (size_t)w->n * sizeof *by);
        for (int k = 0; k < w->n; k++) {
            by[k] = number_at(w, k);
        }
        y = onnx_mul(o, y, build_expand(o->b, table(o, DT_f32, w->n, by), 2, shape, (int[]){0}));
    }
    y = build_permute(o->b, y, (int[]){1, 0});
    o->out[0] = rank == 1 ? build_reshape(o->b, y, 1, shape) : y;
}

/* ---- TreeEnsemble ---- */

enum { MODE_LEQ, MODE_LT, MODE_GTE, MODE_GT, MODE_EQ, MODE_NEQ, MODE_MEMBER, MODES };
enum { MIN_OF_TREES = 2, MAX_OF_TREES = 3 };

/* Nodes, and behind them the leaves, each its own successor. */
typedef struct {
    int n, nodes;
    double *feature, *split, *mode, *missing, *yes, *no, *weight, *target;
    double *members; /* [most_members][n]: NaN where a node has fewer */
    int most_members;
    bool has[MODES], any_missing;
} Trees;

static double *
column(Onnx *o, int n, double filled)
{
    double *made = cx_alloc(o->cx, (size_t)(n + 1) * sizeof *made);
    for (int k = 0; k < n; k++) {
        made[k] = filled;
    }
    return made;
}

/* Where the branch of node k goes. */
static double
successor(Onnx *o, const Trees *t, const OnnxAttr *to, const OnnxAttr *leaf, int k)
{
    bool is_leaf = number_at(leaf, k) != 0;
    double at = number_at(to, k);
    if (!(at >= 0 && at < (is_leaf ? t->n - t->nodes : t->nodes))) {
        onnx_refuse(o, "its node %d has a branch to no node and no leaf", k);
    }
    return is_leaf ? at + t->nodes : at;
}

/* The numbers that nodes of this mode have in the order of the nodes, each list with a NaN at its
 * end. */
static void
read_members(Onnx *o, Trees *t)
{
    const OnnxAttr *all = numbers_of(o, "membership_values", -1);
    int at = 0;
    t->members = column(o, all->n * t->n, NAN);
    for (int k = 0; k < t->nodes; k++) {
        for (int j = 0; t->mode[k] == MODE_MEMBER; j++, at++) {
            if (at == all->n) {
                onnx_refuse(o, "its membership_values are fewer than its nodes need");
            }
            if (isnan(number_at(all, at))) {
                at++;
                break;
            }
            t->members[j * t->n + k] = number_at(all, at);
            t->most_members = j + 1 > t->most_members ? j + 1 : t->most_members;
        }
    }
}

static Trees
read_trees(Onnx *o, int64_t features, int64_t targets)
{
    const OnnxAttr *modes = numbers_of(o, "nodes_modes", -1),
                   *leaf_targets = numbers_of(o, "leaf_targetids", -1);
    int nodes = modes->n, leaves = leaf_targets->n, n = nodes + leaves;
    const OnnxAttr *feature = numbers_of(o, "nodes_featureids", nodes),
                   *split = numbers_of(o, "nodes_splits", nodes),
                   *yes = numbers_of(o, "nodes_truenodeids", nodes),
                   *no = numbers_of(o, "nodes_falsenodeids", nodes),
                   *yes_leaf = numbers_of(o, "nodes_trueleafs", nodes),
                   *no_leaf = numbers_of(o, "nodes_falseleafs", nodes),
                   *weight = numbers_of(o, "leaf_weights", leaves),
                   *missing = onnx_attr(o, "nodes_missing_value_tracks_true");
    missing = missing ? numbers_of(o, "nodes_missing_value_tracks_true", nodes) : NULL;
    Trees t = {n,
               nodes,
               column(o, n, 0),
               column(o, n, 0),
               column(o, n, 0),
               column(o, n, 0),
               column(o, n, 0),
               column(o, n, 0),
               column(o, n, 0),
               column(o, n, 0),
               NULL,
               0,
               {false},
               false};
    for (int k = 0; k < nodes; k++) {
        t.feature[k] = number_at(feature, k);
        t.split[k] = number_at(split, k);
        t.mode[k] = number_at(modes, k);
        t.missing[k] = missing && number_at(missing, k) != 0;
        if (!(t.feature[k] >= 0 && t.feature[k] < (double)features) ||
            !(t.mode[k] >= 0 && t.mode[k] < MODES)) {
            onnx_refuse(o, "its node %d has a feature or a mode that is none", k);
        }
        t.yes[k] = successor(o, &t, yes, yes_leaf, k);
        t.no[k] = successor(o, &t, no, no_leaf, k);
        t.has[(int)t.mode[k]] = true;
        t.any_missing |= t.missing[k] != 0;
    }
    for (int k = nodes; k < n; k++) {
        t.yes[k] = t.no[k] = k;
        t.weight[k] = number_at(weight, k - nodes);
        t.target[k] = number_at(leaf_targets, k - nodes);
        if (!(t.target[k] >= 0 && t.target[k] < (double)targets)) {
            onnx_refuse(o, "its leaf %d is of target %g of %lld", k - nodes, t.target[k],
                        (long long)targets);
        }
    }
    if (t.has[MODE_MEMBER]) {
        read_members(o, &t);
    }
    return t;
}

/* Branches from the roots to the leaf that is furthest from them; refuses a cycle. */
static int
depth_of(Onnx *o, const Trees *t, const OnnxAttr *roots)
{
    bool *here = cx_alloc(o->cx, (size_t)t->n), *next = cx_alloc(o->cx, (size_t)t->n);
    int depth = 0;
    memset(here, 0, (size_t)t->n);
    for (int k = 0; k < roots->n; k++) {
        if (!(number_at(roots, k) >= 0 && number_at(roots, k) < t->nodes)) {
            onnx_refuse(o, "its root %d is no node", k);
        }
        here[(int)number_at(roots, k)] = true;
    }
    while (memchr(here, true, (size_t)t->nodes)) {
        if (++depth > t->nodes) {
            onnx_refuse(o, "its nodes are in a cycle");
        }
        memset(next, 0, (size_t)t->n);
        for (int k = 0; k < t->nodes; k++) {
            if (here[k]) {
                next[(int)t->yes[k]] = next[(int)t->no[k]] = true;
            }
        }
        memcpy(here, next, (size_t)t->n);
    }
    return depth;
}

/* The same as tensors. */
typedef struct {
    Value *feature, *split, *mode, *missing, *yes, *no;
    Value **members;
} Tables;

static Tables
tables_of(Onnx *o, const Trees *t, Dtype dtype)
{
    Tables made = {
        .feature = table(o, DT_i64, t->n, t->feature),
        .split = table(o, dtype, t->n, t->split),
        .mode = table(o, DT_i64, t->n, t->mode),
        .missing = table(o, DT_i64, t->n, t->missing),
        .yes = table(o, DT_i64, t->n, t->yes),
        .no = table(o, DT_i64, t->n, t->no),
        .members = cx_alloc(o->cx, (size_t)(t->most_members + 1) * sizeof *made.members),
    };
    for (int j = 0; j < t->most_members; j++) {
        made.members[j] = table(o, dtype, t->n, t->members + j * t->n);
    }
    return made;
}

/* Is v one of the members of the node at `at`?  No node has any: it is not. */
static Value *
is_member(Onnx *o, const Trees *t, const Tables *tables, Value *v, Value *at)
{
    Value *is = onnx_map(o, OP_lt, at, build_int(o->b, 0));
    for (int j = 0; j < t->most_members; j++) {
        Value *same = build_map(o->b, OP_eq, v, looked_up(o, tables->members[j], at), NULL);
        is = build_map(o->b, OP_bit_or, is, same, NULL);
    }
    return is;
}

/* Does the node at `at` send v to its first branch? */
static Value *
is_yes(Onnx *o, const Trees *t, const Tables *tables, Value *v, Value *at)
{
    static const Op ops[] = {OP_le, OP_lt, OP_ge, OP_gt, OP_eq, OP_ne};
    Value *split = looked_up(o, tables->split, at), *modes = looked_up(o, tables->mode, at),
          *is = NULL;
    for (int mode = 0; mode < MODES; mode++) {
        if (!t->has[mode]) {
            continue;
        }
        Value *of = mode == MODE_MEMBER ? is_member(o, t, tables, v, at)
                                        : build_map(o->b, ops[mode], v, split, NULL);
        Value *such = onnx_map(o, OP_eq, modes, build_int(o->b, mode));
        is = is ? onnx_map3(o, OP_where, such, of, is) : of;
    }
    if (t->any_missing) {
        Value *tracks = onnx_map(o, OP_ne, looked_up(o, tables->missing, at), build_int(o->b, 0));
        Value *none = build_map(o->b, OP_isnan, v, NULL, NULL);
        none = build_map(o->b, OP_bit_and, tracks, none, NULL);
        is = build_map(o->b, OP_bit_or, is, none, NULL);
    }
    return is;
}

/* All trees go one branch down at a time, for all rows. */
void
onnx_tree_ensemble(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    int64_t features, targets = onnx_int(o, "n_targets", 0),
                      how = onnx_int(o, "aggregate_function", 1);
    if (x->type->rank != 2 || !dim_is_int(o->cx, x->type->dims[1], &features)) {
        onnx_refuse(o, "its operand is not rows of a known number of features");
    }
    if (targets < 1 || targets > MOST_ROWS || how < 0 || how > MAX_OF_TREES) {
        onnx_refuse(o, "it has not 1 to %d targets, or its aggregate_function is unknown",
                    MOST_ROWS);
    }
    if (onnx_int(o, "post_transform", 0) != 0) {
        onnx_refuse(o, "its post_transform is not 0, which is that dlc has");
    }
    const OnnxAttr *roots = numbers_of(o, "tree_roots", -1);
    Trees t = read_trees(o, features, targets);
    int depth = depth_of(o, &t, roots), trees = roots->n;
    double *begin = column(o, trees, 0);
    Dtype dtype = x->type->dtype;
    Dim dims[] = {x->type->dims[0], dim_int(o->cx, trees), dim_int(o->cx, targets)};
    for (int k = 0; k < trees; k++) {
        begin[k] = number_at(roots, k);
    }
    Value *at = build_expand(o->b, table(o, DT_i64, trees, begin), 2, dims, (int[]){1});
    Tables tables = tables_of(o, &t, dtype);
    for (int step = 0; step < depth; step++) {
        Value *feature = looked_up(o, tables.feature, at);
        Value *v = onnx_aten(o, "aten.gather.default", type_of(o->cx, dtype, 2, dims),
                             ARGS(arg_v(x), arg_i(1), arg_v(feature)));
        at = build_map(o->b, OP_where, is_yes(o, &t, &tables, v, at), looked_up(o, tables.yes, at),
                       looked_up(o, tables.no, at));
    }
    const Type *all = type_of(o->cx, DT_i64, 3, dims);
    Value *weight = looked_up(o, table(o, dtype, t.n, t.weight), at);
    Value *target = looked_up(o, table(o, DT_i64, t.n, t.target), at);
    Value *is = build_map(o->b, OP_eq, build_expand(o->b, target, 3, dims, (int[]){0, 1}),
                          build_iota(o->b, all, 2), NULL);
    bool least = how == MIN_OF_TREES, extreme = least || how == MAX_OF_TREES;
    Literal none = extreme ? (Literal){.f = dtype == DT_f64   ? 1.7976931348623157e308
                                            : dtype == DT_f16 ? 65504
                                                              : 3.4028234663852886e38}
                           : (Literal){.f = 0};
    none.f = how == MAX_OF_TREES ? -none.f : none.f;
    Value *of = build_map(o->b, OP_where, is, build_expand(o->b, weight, 3, dims, (int[]){0, 1}),
                          build_const(o->b, type_of(o->cx, dtype, 3, dims), none));
    of = build_red(o->b, !extreme ? OP_sum : least ? OP_amin : OP_amax, of, 1, (int[]){1});
    o->out[0] = how == 0 ? onnx_map(o, OP_div, of, onnx_number(o, trees)) : of;
}
