/* Random products: contractions, attention and convolutions over operands of every layout.
 *
 * What is drawn is what decides which routine multiplies: sizes around each panel and tile, heads
 * that are merged into one axis, and where the elements of each operand are in memory (relay.c).
 * The program is made as text. */
#include "gen.h"

#include "ir/eval/eval.h"

#include <string.h>

enum { MAX_AXES = 8, MOST_TERMS = 1 << 19, MOST_DECODED = 1 << 16 };

typedef struct {
    char letter;
    int64_t size;               /* 0: none, or a symbol, whose name is the letter in upper case */
    const char *text;
} Axis;

typedef struct {
    Cx *cx;
    uint64_t *random;
    const char *dtype;
    Text params, lets, sizes;
    int nlets;
} Gen;

/* 0 .. n - 1, often as they are. */
static void
some_order(Gen *g, int n, int *order)
{
    shuffle(g->random, n, order);
    for (int k = 0, same = chance(g->random, 50); k < n && same; k++) {
        order[k] = k;
    }
}

static Axis
axis_of(Gen *g, char letter, int64_t size)
{
    return (Axis){letter, size, cx_format(g->cx, "%lld", (long long)size)};
}

/* A size that is a panel's (32 floats, 16 doubles), or crosses one or a tile (14 rows), or any. */
static int64_t
some_size(Gen *g)
{
    static const int64_t near[] = {1,  2,  3,  5,  7,  8,  13, 14, 15, 16, 17, 24, 27,
                                   28, 29, 31, 32, 33, 40, 48, 63, 64, 65, 70};
    static const int64_t panels[] = {32, 16, 32, 64};
    return chance(g->random, 30)   ? panels[below(g->random, 4)]
           : chance(g->random, 80) ? near[below(g->random, (int)(sizeof near / sizeof *near))]
                           : 1 + below(g->random, 70);
}

static Axis
some_axis(Gen *g, char letter, bool symbols)
{
    if (!symbols || chance(g->random, 60)) {
        return axis_of(g, letter, some_size(g));
    }
    static const int from[] = {0, 1, 2, 10, 25, 58}; /* sizes up to 20 more are drawn */
    Axis axis = {.letter = letter, .text = cx_format(g->cx, "%c", letter - 'a' + 'A')};
    int least = from[below(g->random, 6)];
    text_add(&g->sizes, "%s%s in %d..%d", g->sizes.length ? ", " : "", axis.text, least,
             least + 60);
    return axis;
}

/* ---- types ---- */

static void
put_type(Text *out, const char *dtype, int n, const Axis *axes)
{
    text_add(out, "%s[", dtype);
    for (int k = 0; k < n; k++) {
        text_add(out, "%s%s", k ? ", " : "", axes[k].text);
    }
    text_add(out, "]");
}

/* ---- operands ---- */

static const char *
new_param(Gen *g, const char *dtype, int n, const Axis *axes)
{
    const char *name = cx_format(g->cx, "x%d", g->nlets++);
    text_add(&g->params, "%s%s: ", g->params.length ? ", " : "", name);
    put_type(&g->params, dtype, n, axes);
    return name;
}

/* let name: type = text; the name. */
static const char *
new_let_of(Gen *g, const char *dtype, int n, const Axis *axes, const char *text)
{
    const char *name = cx_format(g->cx, "v%d", g->nlets++);
    text_add(&g->lets, "  let %s: ", name);
    put_type(&g->lets, dtype, n, axes);
    text_add(&g->lets, " = %s\n", text);
    return name;
}

static const char *
new_let(Gen *g, int n, const Axis *axes, const char *text)
{
    return new_let_of(g, g->dtype, n, axes, text);
}

static const char *
axes_text(Gen *g, int n, const int *axes)
{
    Text out = {.cx = g->cx};
    text_add(&out, "[");
    for (int k = 0; k < n; k++) {
        text_add(&out, "%s%d", k ? ", " : "", axes[k]);
    }
    text_add(&out, "]");
    return out.text;
}

/* A parameter with these axes of which one is made of two, of heads and of what each has. */
static const char *
merged_param(Gen *g, int n, const Axis *axes, int at)
{
    static const int64_t widths[] = {32, 16, 8, 64};
    int64_t width = 1;
    for (int k = 0; k < 4 && width == 1; k++) {
        width = axes[at].size && axes[at].size % widths[k] == 0 ? widths[k] : 1;
    }
    Axis split[MAX_AXES + 1], parts[MAX_AXES + 1];
    for (int k = 0; k < n; k++) {
        split[k + (k > at)] = axes[k];
    }
    if (axes[at].size) {
        split[at] = axis_of(g, axes[at].letter, axes[at].size / width);
        split[at + 1] = axis_of(g, axes[at].letter, width);
    }
    else {
        split[at + 1] = axis_of(g, axes[at].letter, 1);
    }
    int order[MAX_AXES + 1], perm[MAX_AXES + 1];
    some_order(g, n + 1, order);
    for (int k = 0; k <= n; k++) {
        parts[k] = split[order[k]];
        perm[order[k]] = k;
    }
    const char *name = new_param(g, g->dtype, n + 1, parts);
    name = new_let(g, n + 1, split,
                   cx_format(g->cx, "permute %s perm=%s", name, axes_text(g, n + 1, perm)));
    return new_let(g, n, axes, cx_format(g->cx, "reshape %s", name));
}

/* A part of a parameter that is longer along an axis. */
static const char *
sliced_param(Gen *g, int n, const Axis *axes, int at)
{
    Axis whole[MAX_AXES];
    int64_t step = 1 + chance(g->random, 30), start = below(g->random, 3);
    int64_t last = start + (axes[at].size - 1) * step + 1;
    memcpy(whole, axes, (size_t)n * sizeof *axes);
    whole[at] = axis_of(g, axes[at].letter, chance(g->random, 30) ? last : (last + 31) / 32 * 32);
    const char *name = new_param(g, g->dtype, n, whole);
    return new_let(g, n, axes,
                   cx_format(g->cx, "slice %s axis=%d start=%d step=%d", name, at, (int)start,
                             (int)step));
}

static bool
is_float(const Gen *g)
{
    return strchr("fb", g->dtype[0]) != NULL;
}

/* A parameter whose last axis is dense in memory, with room behind each of the others now and then,
 * or any other one. */
static const char *
dense_param(Gen *g, const char *dtype, int n, const Axis *axes)
{
    int64_t strides[MAX_AXES + 1], step = 1;
    bool known = chance(g->random, 60);
    for (int k = n - 1; k >= 0; k--) {
        strides[k] = step;
        step = step * axes[k].size + (chance(g->random, 40) ? 1 + below(g->random, 40) : 0);
        known = known && axes[k].size;
    }
    const char *name = new_param(g, dtype, n, axes);
    for (int k = 0; known && k < n; k++) {
        text_add(&g->params, "%s%lld%s", k ? ", " : " strides=[", (long long)strides[k],
                 k == n - 1 ? "]" : "");
    }
    return name;
}

/* Bytes that hold two codes each, which are adjacent along an axis of even size: joined, or shifted
 * by what the index says. */
static const char *
nibbles(Gen *g, int n, const Axis *axes, int at)
{
    Axis half[MAX_AXES + 1], each[MAX_AXES + 1], both[MAX_AXES + 1];
    Text to = {.cx = g->cx};
    memcpy(half, axes, (size_t)n * sizeof *axes);
    half[at] = axis_of(g, axes[at].letter, axes[at].size / 2);
    for (int k = 0; k <= n; k++) {
        each[k] = both[k] = k <= at ? half[k] : k == at + 1 ? axis_of(g, 'z', 1) : axes[k - 1];
        if (k != at + 1) {
            text_add(&to, "%s%d", k ? ", " : "", k);
        }
    }
    both[at + 1] = axis_of(g, 'z', 2);
    const char *bytes = dense_param(g, "u8", n, half), *parts[2], *name;
    if (chance(g->random, 70)) {
        name = new_let_of(g, "u8", n + 1, both,
                          cx_format(g->cx, "expand %s to=[%s]", bytes, to.text));
        const char *by = new_let_of(g, "u8", n + 1, both, cx_format(g->cx, "iota axis=%d", at + 1));
        by = new_let_of(g, "u8", n + 1, both, cx_format(g->cx, "mul %s, 4", by));
        name = new_let_of(g, "u8", n + 1, both, cx_format(g->cx, "shr %s, %s", name, by));
        name = new_let_of(g, "u8", n + 1, both, cx_format(g->cx, "bit_and %s, 15", name));
        return new_let_of(g, "u8", n, axes, cx_format(g->cx, "reshape %s", name));
    }
    parts[0] = new_let_of(g, "u8", n, half, cx_format(g->cx, "bit_and %s, 15", bytes));
    parts[1] = new_let_of(g, "u8", n, half, cx_format(g->cx, "shr %s, 4", bytes));
    for (int k = 0; k < 2; k++) {
        parts[k] = new_let_of(g, "u8", n + 1, each, cx_format(g->cx, "reshape %s", parts[k]));
    }
    const char *joined = cx_format(g->cx, "cat %s, %s axis=%d", parts[0], parts[1], at + 1);
    name = new_let_of(g, "u8", n + 1, both, joined);
    return new_let_of(g, "u8", n, axes, cx_format(g->cx, "reshape %s", name));
}

/* A parameter of this element type, alone, or as a view of another one. */
static const char *
source(Gen *g, const char *dtype, int n, const Axis *axes)
{
    const char *before = g->dtype;
    int at = n ? below(g->random, n) : 0, kind = below(g->random, 100);
    g->dtype = dtype;
    const char *name = n && n < MAX_AXES - 1 && kind < 25 ? merged_param(g, n, axes, at)
                       : n && axes[at].size && kind < 45  ? sliced_param(g, n, axes, at)
                                                          : new_param(g, dtype, n, axes);
    g->dtype = before;
    return name;
}

/* What a weight of few bits stands for: codes less a zero point, times a scale, or neither. */
static const char *
coded(Gen *g, int n, const Axis *axes)
{
    static const char *const dtypes[] = {"i8", "i8", "u8", "bf16", "f16"};
    int at = below(g->random, n);
    bool halves = n < MAX_AXES - 1 && axes[at].size && axes[at].size % 2 == 0;
    const char *name = halves && chance(g->random, 50)
                           ? nibbles(g, n, axes, at)
                           : new_param(g, dtypes[below(g->random, 5)], n, axes);
    name = new_let(g, n, axes, cx_format(g->cx, "cast %s", name));
    for (int k = 0; k < 2; k++) {
        int along = below(g->random, n);
        if (chance(g->random, 60)) {
            const char *by = new_param(g, g->dtype, 1, &axes[along]);
            by = new_let(g, n, axes, cx_format(g->cx, "expand %s to=[%d]", by, along));
            name = new_let(g, n, axes, cx_format(g->cx, "%s %s, %s", k ? "mul" : "sub", name, by));
        }
    }
    return name;
}

/* A parameter, or what is computed of one. */
static const char *
operand(Gen *g, int n, const Axis *axes)
{
    static const char *const functions[] = {"neg", "abs", "tanh"};
    bool wide = g->dtype[0] == 'f' && g->dtype[1] != '1';
    if (n && n < MAX_AXES - 1 && wide && chance(g->random, 15)) {
        return coded(g, n, axes);
    }
    const char *name = source(g, g->dtype, n, axes);
    const char *function = functions[below(g->random, is_float(g) ? 3 : 2)];
    return chance(g->random, 20)
               ? new_let(g, n, axes, cx_format(g->cx, "%s %s", function, name))
               : name;
}

static void
put_letters(Text *out, int n, const Axis *axes)
{
    for (int k = 0; k < n; k++) {
        text_add(out, "%c", axes[k].letter);
    }
}

static const char *
contract(Gen *g, const char *a, int na, const Axis *of_a, const char *b, int nb, const Axis *of_b,
         int nout, const Axis *out)
{
    Text over = {.cx = g->cx};
    put_letters(&over, na, of_a);
    text_add(&over, ",");
    put_letters(&over, nb, of_b);
    text_add(&over, "->");
    put_letters(&over, nout, out);
    return new_let(g, nout, out, cx_format(g->cx, "contract %s, %s over=\"%s\"", a, b, over.text));
}

static int
reorder(Gen *g, int n, Axis *axes)
{
    Axis before[MAX_AXES];
    int order[MAX_AXES];
    memcpy(before, axes, sizeof before);
    some_order(g, n, order);
    for (int k = 0; k < n; k++) {
        axes[k] = before[order[k]];
    }
    return n;
}

/* What is computed of a result: a function, a residual of any layout, a sum of its last axis. */
static const char *
epilogue(Gen *g, const char *name, int n, const Axis *axes)
{
    if (chance(g->random, 25)) {
        name = new_let(g, n, axes, cx_format(g->cx, "add %s, %s", name, operand(g, n, axes)));
    }
    return chance(g->random, 25) ? new_let(g, n, axes, cx_format(g->cx, "abs %s", name)) : name;
}

/* ---- programs ---- */

/* Axes of a and b, drawn by how many letters of a kind there are. */
static const char *
gen_contraction(Gen *g, int *nout, Axis *out)
{
    static const struct { const char *letters; bool a, b, out; int first, more; } kinds[] = {
        {"bc", true, true, true, 35, 20}, {"mp", true, false, true, 95, 20},
        {"nq", false, true, true, 95, 20}, {"kl", true, true, false, 97, 20},
    };
    Axis a[MAX_AXES], b[MAX_AXES];
    int na = 0, nb = 0, n = 0;
    bool symbols = chance(g->random, 30);
    int64_t terms = 1;
    for (int kind = 0; kind < 4; kind++) {
        for (int k = 0; k < 2 && chance(g->random, k ? kinds[kind].more : kinds[kind].first); k++) {
            Axis axis = some_axis(g, kinds[kind].letters[k], symbols);
            if (kind == 0 || k == 1) {      /* few of a batch, few groups */
                axis = chance(g->random, 60) || !axis.size
                           ? axis_of(g, axis.letter, 1 + below(g->random, 4))
                           : axis;
            }
            if (terms * (axis.size ? axis.size : 20) > MOST_TERMS) {
                axis = axis_of(g, axis.letter, 1 + below(g->random, 3));
            }
            terms *= axis.size ? axis.size : 20;
            if (kinds[kind].a) {
                a[na++] = axis;
            }
            if (kinds[kind].b) {
                b[nb++] = axis;
            }
            if (kinds[kind].out) {
                out[n++] = axis;
            }
        }
    }
    reorder(g, na, a);
    reorder(g, nb, b);
    *nout = reorder(g, n, out);
    const char *left = operand(g, na, a), *right = operand(g, nb, b);
    return epilogue(g, contract(g, left, na, a, right, nb, b, n, out), n, out);
}

/* ---- products with a weight of few bits ---- */

/* As many terms as the axes have, of more. */
static const char *
first_terms(Gen *g, const char *dtype, const char *name, int n, const Axis *axes, int terms)
{
    return new_let_of(g, dtype, n, axes,
                      cx_format(g->cx, "slice %s axis=%d start=0 step=1", name, terms));
}

/* The codes of a weight [.., k, n], or in another order, which the axis `terms` is: panels of
 * columns, pairs of them in a byte, or a view. */
static const char *
codes(Gen *g, int n, const Axis *axes, int terms, const char **dtype)
{
    static const char *const dtypes[] = {"i8", "i8", "u8", "bf16", "f16"};
    int64_t width = chance(g->random, 70) ? 32 : 16, size = axes[n - 1].size;
    bool panels = terms == n - 2 && size && size % width == 0 && chance(g->random, 50);
    bool pairs = axes[terms].size && chance(g->random, 35), odd = pairs && axes[terms].size % 2;
    Axis of[MAX_AXES + 1], moved[MAX_AXES + 1];
    int perm[MAX_AXES + 1];
    *dtype = pairs ? "u8" : dtypes[below(g->random, 5)];
    memcpy(of, axes, (size_t)n * sizeof *axes);
    if (odd) { /* the last byte has one term */
        of[terms] = axis_of(g, axes[terms].letter, axes[terms].size + 1);
        return first_terms(g, "u8", nibbles(g, n, of, terms), n, axes, terms);
    }
    if (panels) {
        of[n - 2] = axis_of(g, axes[n - 1].letter, size / width);
        of[n - 1] = axes[n - 2];
        of[n] = axis_of(g, axes[n - 1].letter, width);
    }
    int all = n + panels;
    const char *name = pairs ? nibbles(g, all, of, terms + panels)
                       : chance(g->random, 60) ? dense_param(g, *dtype, all, of)
                                               : source(g, *dtype, all, of);
    if (!panels) {
        return name;
    }
    for (int k = 0; k < all; k++) {
        perm[k] = k == n - 2 ? n - 1 : k == n - 1 ? n - 2 : k;
        moved[k] = of[perm[k]];
    }
    name = new_let_of(g, *dtype, all, moved,
                      cx_format(g->cx, "permute %s perm=%s", name, axes_text(g, all, perm)));
    return new_let_of(g, *dtype, n, axes, cx_format(g->cx, "reshape %s", name));
}

/* The numbers that they stand for: themselves, or those of a table. */
static const char *
numbers(Gen *g, const char *name, const char *dtype, int n, const Axis *axes)
{
    if (strcmp(dtype, "u8") == 0 && chance(g->random, 15)) {
        const Axis all = axis_of(g, 't', 256);
        const char *table = source(g, g->dtype, 1, &all);
        name = new_let_of(g, "i64", n, axes, cx_format(g->cx, "cast %s", name));
        return new_let(g, n, axes, cx_format(g->cx, "gather %s, %s axis=0 wrap=0", table, name));
    }
    return strcmp(dtype, g->dtype) == 0 ? name
                                        : new_let(g, n, axes, cx_format(g->cx, "cast %s", name));
}

/* What a code becomes: less a zero point, times a scale, each of a column, of a group of its terms,
 * or of all; float codes have scales alone. */
static const char *
scaled(Gen *g, const char *name, int n, const Axis *axes, int terms, bool zero)
{
    static const char *const small[] = {"i8", "u8", "bf16"};
    Axis of[MAX_AXES + 1], some[MAX_AXES + 1];
    int64_t size = axes[terms].size, in_group = 1 << (1 + below(g->random, 5));
    bool groups = size && chance(g->random, 50), whole = size % in_group == 0;
    int all = n + groups, kept = 0;
    Text to = {.cx = g->cx};
    for (int k = 0; k < all; k++) {
        of[k] = axes[k - (groups && k > terms)];
    }
    if (groups) {
        of[terms] = axis_of(g, axes[terms].letter, (size + in_group - 1) / in_group);
        of[terms + 1] = axis_of(g, axes[terms].letter, in_group);
    }
    if (groups && whole) {
        name = new_let(g, all, of, cx_format(g->cx, "reshape %s", name));
    }
    bool of_column = chance(g->random, 85);
    for (int k = 0; k < all; k++) {
        bool is_term = k == terms + groups;
        if (!is_term && of_column) {
            text_add(&to, "%s%d", kept ? ", " : "", k);
            some[kept++] = of[k];
        }
    }
    const char *dtype = chance(g->random, 60) ? g->dtype : small[below(g->random, zero ? 3 : 2)];
    const char *by = source(g, dtype, kept, some);
    by = strcmp(dtype, g->dtype) == 0 ? by
                                      : new_let(g, kept, some, cx_format(g->cx, "cast %s", by));
    by = new_let(g, all, of, cx_format(g->cx, "expand %s to=[%s]", by, kept ? to.text : ""));
    if (groups && !whole) { /* the last group has fewer terms */
        memcpy(of, axes, (size_t)n * sizeof *axes);
        of[terms] = axis_of(g, axes[terms].letter, (size + in_group - 1) / in_group * in_group);
        by = new_let(g, n, of, cx_format(g->cx, "reshape %s", by));
        by = first_terms(g, g->dtype, by, n, axes, terms);
        groups = false;
        all = n;
        of[terms] = axes[terms];
    }
    name = new_let(g, all, of, cx_format(g->cx, "%s %s, %s", zero ? "sub" : "mul", name, by));
    return groups ? new_let(g, n, axes, cx_format(g->cx, "reshape %s", name)) : name;
}

/* A size of a sum: one, a part or some of the 256 terms that are added in order. */
static int64_t
some_terms(Gen *g)
{
    static const int64_t near[] = {255, 256, 257, 258, 260, 512, 513, 516};
    return chance(g->random, 40) ? near[below(g->random, 8)] : 2 * below(g->random, 60);
}

static int64_t
some_columns(Gen *g)
{
    static const int64_t near[] = {15, 16, 17, 24, 31, 32, 32, 33, 48, 63, 64, 64, 65, 80, 96, 128};
    return near[below(g->random, 16)];
}

/* Few rows, or how many is not known, times a weight of few bits, perhaps one for each batch. */
static const char *
gen_decoded(Gen *g, int *nout, Axis *out)
{
    bool symbols = chance(g->random, 30), batch = chance(g->random, 15);
    Axis b = axis_of(g, 'b', 1 + (chance(g->random, 40) ? below(g->random, 3) : 0)),
         m = chance(g->random, 75) && !symbols ? axis_of(g, 'm', below(g->random, 7))
                                               : some_axis(g, 'm', symbols),
         n = chance(g->random, 80) ? axis_of(g, 'n', some_columns(g))
                                   : some_axis(g, 'n', symbols),
         k = chance(g->random, 85) ? axis_of(g, 'k', some_terms(g)) : some_axis(g, 'k', symbols);
    int64_t rows = (batch ? b.size : 1) * (m.size ? m.size : 20), columns = n.size ? n.size : 40;
    if (rows * columns * (k.size ? k.size : 40) > MOST_DECODED) {
        k = axis_of(g, 'k', 2 * below(g->random, 20));
    }
    Axis x[MAX_AXES], w[MAX_AXES];
    int na = 0, nw = 0, nmn = 0;
    if (batch) {
        x[na++] = w[nw++] = out[nmn++] = b;
    }
    x[na++] = out[nmn++] = m;
    x[na++] = w[nw++] = k;
    w[nw++] = out[nmn++] = n;
    reorder(g, na, x);
    if (chance(g->random, 15)) {            /* columns that are apart */
        reorder(g, nw, w);
    }
    *nout = nmn;
    if (chance(g->random, 10)) {
        reorder(g, nmn, out);
    }
    int terms = 0;
    while (w[terms].letter != 'k') {
        terms++;
    }
    const char *dtype, *given = operand(g, na, x), *weight = codes(g, nw, w, terms, &dtype);
    bool codes_are_float = strchr(dtype, 'f') != NULL;
    weight = numbers(g, weight, dtype, nw, w);
    for (int zero = 1; zero >= 0; zero--) {
        if (chance(g->random, zero ? codes_are_float ? 10 : 45 : 75)) {
            weight = scaled(g, weight, nw, w, terms, zero);
        }
    }
    return epilogue(g, contract(g, given, na, x, weight, nw, w, nmn, out), nmn, out);
}

/* Softmax of q k along k's places, times v: each of them in any order of its axes. */
static const char *
gen_attention(Gen *g, int *nout, Axis *out)
{
    bool symbols = chance(g->random, 30);
    Axis b = axis_of(g, 'b', 1 + below(g->random, 2)), h = axis_of(g, 'h', 1 + below(g->random, 3)),
         l = some_axis(g, 'l', symbols), s = axis_of(g, 's', some_size(g)),
         d = axis_of(g, 'd', some_size(g)),
         e = chance(g->random, 70) ? d : axis_of(g, 'e', some_size(g));
    e.letter = 'e';
    Axis q[] = {b, h, l, d, d, d, d, d}, k[] = {b, h, s, d, d, d, d, d},
         v[] = {b, h, s, e, e, e, e, e}, rows[] = {b, h, l, s};
    const Axis result[] = {b, h, l, e};
    reorder(g, 4, q);
    reorder(g, 4, k);
    reorder(g, 4, v);
    const char *x = operand(g, 4, q), *y = operand(g, 4, k), *z = operand(g, 4, v);
    const char *scores = contract(g, x, 4, q, y, 4, k, 4, rows);
    const char *most = new_let(g, 3, rows, cx_format(g->cx, "amax %s axes=[3]", scores));
    most = new_let(g, 4, rows, cx_format(g->cx, "expand %s to=[0, 1, 2]", most));
    most = new_let(g, 4, rows, cx_format(g->cx, "sub %s, %s", scores, most));
    const char *parts = new_let(g, 4, rows, cx_format(g->cx, "exp %s", most));
    const char *sum = new_let(g, 3, rows, cx_format(g->cx, "sum %s axes=[3]", parts));
    sum = new_let(g, 4, rows, cx_format(g->cx, "expand %s to=[0, 1, 2]", sum));
    parts = new_let(g, 4, rows, cx_format(g->cx, "div %s, %s", parts, sum));
    memcpy(out, result, sizeof result);
    *nout = reorder(g, 4, out);
    return epilogue(g, contract(g, parts, 4, rows, z, 4, v, 4, out), 4, out);
}

/* A product over the windows of an image, which may have its channels first in memory. */
static const char *
gen_convolution(Gen *g, int *nout, Axis *out)
{
    static const int64_t channels[] = {1, 3, 8, 16, 17, 32, 33};
    int64_t step = 1 + below(g->random, 2);
    int64_t high = 1 + below(g->random, 3), wide = 1 + below(g->random, 3);
    int64_t rows = high + step * below(g->random, 9), columns = wide + step * below(g->random, 17);
    int64_t c = channels[below(g->random, 7)];
    Axis b = axis_of(g, 'b', 1 + below(g->random, 2)),
         n = axis_of(g, 'n', channels[below(g->random, 7)]),
         i = axis_of(g, 'i', c), x = axis_of(g, 'x', high), y = axis_of(g, 'y', wide),
         p = axis_of(g, 'p', (rows - high) / step + 1),
         q = axis_of(g, 'q', (columns - wide) / step + 1);
    Axis image[] = {b, axis_of(g, 'r', rows), axis_of(g, 's', columns), i},
         windows[] = {b, p, q, x, y, i}, weight[] = {n, i, x, y, y, y, y, y};
    const Axis result[] = {b, n, p, q};
    reorder(g, 4, weight);
    const char *given = operand(g, 4, image), *w = operand(g, 4, weight);
    const char *view = new_let(
        g, 6, windows,
        cx_format(g->cx, "as_strided %s offset=0 strides=[%lld, %lld, %lld, %lld, %lld, 1]", given,
                  (long long)(rows * columns * c), (long long)(step * columns * c),
                  (long long)(step * c), (long long)(columns * c), (long long)c));
    memcpy(out, result, sizeof result);
    *nout = reorder(g, 4, out);
    return epilogue(g, contract(g, view, 6, windows, w, 4, weight, 4, out), 4, out);
}

/* decoded: few rows times a weight of few bits, and nothing else. */
static Fn *
draw_product(Cx *cx, uint64_t seed, bool decoded)
{
    static const char *const dtypes[] = {"f32", "f32", "f32", "f32", "f32", "f64", "f64",
                                         "bf16", "f16", "i32", "i64", "i8"};
    uint64_t random = sample_seed(seed);
    Gen g = {.cx = cx, .random = &random, .params = {.cx = cx}, .lets = {.cx = cx},
             .sizes = {.cx = cx}};
    g.dtype = dtypes[below(g.random, (int)(sizeof dtypes / sizeof *dtypes))];
    Text text = {.cx = cx};
    Axis out[MAX_AXES];
    int n, kind = below(g.random, 100);
    const char *result = kind < 25 || decoded         ? gen_decoded(&g, &n, out)
                         : kind < 65                  ? gen_contraction(&g, &n, out)
                         : kind < 80 && is_float(&g) ? gen_attention(&g, &n, out)
                                                      : gen_convolution(&g, &n, out);
    text_add(&text, "dlc 1 graph\n\nfn product");
    if (g.sizes.length) {
        text_add(&text, "[%s]", g.sizes.text);
    }
    text_add(&text, "(%s) -> (", g.params.text);
    put_type(&text, g.dtype, n, out);
    text_add(&text, ") {\n%s  ret %s\n}\n", g.lets.text, result);
    Fn *fn = parse_fn(cx, text.text, "product");
    relay(fn, g.random);
    verify_fn(fn);
    return fn;
}

Fn *
gen_product(Cx *cx, uint64_t seed)
{
    return draw_product(cx, seed, false);
}

Fn *
gen_decoded_product(Cx *cx, uint64_t seed)
{
    return draw_product(cx, seed, true);
}
