/* Tests of the language's core: context, dims, types, builder.  Prints what fails; 0 when
 * nothing does. */
#include "../../csrc/ir/ir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define CHECK(condition) \
    ((condition) ? (void)0 \
                 : (void)(failures++, fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, \
                                              #condition)))

static void
check_text(Cx *cx, int line, Dim d, const char *want)
{
    Text text = {.cx = cx};
    dim_text(cx, d, &text);
    if (strcmp(text.text, want) != 0) {
        failures++;
        fprintf(stderr, "%s:%d: %s, not %s\n", __FILE__, line, text.text, want);
    }
}

#define CHECK_DIM(d, want) check_text(cx, __LINE__, d, want)

/* ---- context ---- */

static char order[8];

static void
note(void *arg)
{
    strncat(order, arg, 1);
}

static void
fails_inside(Cx *cx, void *arg)
{
    cx_set_loc(cx, (Loc){"add_1", "model.py:3: x + y"});
    fail(cx, DIAG_NO_DERIVATIVE, (const char *)arg);
}

static void
tries_inside(Cx *cx, void *arg)
{
    CHECK(!cx_try(cx, fails_inside, arg));
    CHECK(cx_diag(cx)->code == DIAG_NO_DERIVATIVE && cx_diag(cx)->kind == DIAGKIND_CANNOT);
    CHECK(cx_loc(cx).node == NULL);
    int *array = NULL;
    for (int k = 0; k < 1000; k++) {
        array = cx_grow(cx, array, k, sizeof *array);
        array[k] = k;
    }
    for (int k = 0; k < 1000; k++) {
        CHECK(array[k] == k);
    }
    CHECK(cx_intern(cx, "abc", 2) == cx_intern(cx, "ab", 2));
    CHECK(cx_intern(cx, "abc", 3) != cx_intern(cx, "ab", 2));
    Text text = {.cx = cx};
    for (int k = 0; k < 200; k++) {
        text_add(&text, "%d,", k);
    }
    CHECK(text.length == strlen(text.text) && strstr(text.text, ",199,"));
    fail(cx, DIAG_MEMORY, (size_t)12);
}

static void
test_context(void)
{
    Cx *cx = cx_new();
    cx_cleanup(cx, note, "a");
    cx_cleanup(cx, note, "b");
    CHECK(!cx_try(cx, tries_inside, "too large"));
    CHECK(strcmp(cx_diag(cx)->message, "out of memory while compiling (12 bytes wanted)") == 0);
    CHECK(!cx_try(cx, fails_inside, "too large"));
    CHECK(strcmp(cx_diag(cx)->message,
                 "'too large' has no derivative here\n  at add_1, model.py:3: x + y") == 0);
    cx_free(cx);
    CHECK(strcmp(order, "ba") == 0);
}

/* ---- dims: what the rules give ---- */

static void
known_dims(Cx *cx, void *arg)
{
    (void)arg;
    Dim B = dim_size(cx, "B"), N = dim_size(cx, "N"), M = dim_size(cx, "M"), K = dim_size(cx, "K");
    dim_declare(cx, K, (Range){2, DIM_INF}, 8);
    dim_declare(cx, M, (Range){1, DIM_INF}, 1);
    Dim BN = dim_mul(cx, B, N), MN = dim_mul(cx, M, N), one = dim_int(cx, 1), four = dim_int(cx, 4);
    Dim i = dim_index(cx, "i", B), j = dim_index(cx, "j", N);
    Dim y = dim_index(cx, "y", dim_int(cx, 12));
    Dim x = dim_index(cx, "x", dim_mul(cx, B, MN)), flat = dim_add(cx, dim_mul(cx, i, N), j);
    CHECK_DIM(dim_sub(cx, dim_add(cx, dim_mul(cx, B, N), dim_mul(cx, dim_int(cx, 2), M)), one),
              "B*N + 2*M - 1");
    CHECK_DIM(dim_sub(cx, one, N), "1 - N");
    CHECK_DIM(dim_sub(cx, dim_int(cx, 0), N), "-1*N");
    CHECK(dim_mul(cx, dim_sub(cx, N, one), dim_add(cx, N, one))
          == dim_sub(cx, dim_mul(cx, N, N), one));
    CHECK(dim_div(cx, flat, N) == i && dim_mod(cx, flat, N) == j);
    CHECK(dim_is(cx, dim_div(cx, flat, BN), 0) && dim_mod(cx, flat, BN) == flat);
    CHECK_DIM(dim_mod(cx, dim_div(cx, x, M), N), "(x // M) % N");
    Dim high = dim_div(cx, x, MN), mid = dim_mod(cx, dim_div(cx, x, M), N), low = dim_mod(cx, x, M);
    Dim back = dim_add(cx, dim_mul(cx, dim_add(cx, dim_mul(cx, high, N), mid), M), low);
    CHECK(back == x);
    CHECK(dim_mul(cx, back, K) == dim_mul(cx, x, K));
    CHECK_DIM(dim_add(cx, dim_mul(cx, mid, M), low), "x % (M*N)");
    CHECK(dim_sub(cx, dim_mod(cx, x, MN), dim_mul(cx, mid, M)) == low);
    CHECK(dim_mod(cx, dim_mod(cx, x, MN), M) == low);
    CHECK(dim_div(cx, dim_mod(cx, x, MN), M) == mid);
    CHECK_DIM(dim_div(cx, dim_div(cx, x, four), dim_int(cx, 3)), "x // 12");
    Dim apart = dim_add(cx, dim_div(cx, x, four), dim_mul(cx, N, M));
    CHECK_DIM(dim_div(cx, apart, dim_int(cx, 3)), "(4*M*N + x) // 12");
    CHECK(dim_mul(cx, dim_div(cx, K, four), four) == K && dim_is(cx, dim_mod(cx, K, four), 0));
    CHECK_DIM(dim_div(cx, dim_add(cx, K, dim_int(cx, 3)), four), "K // 4");
    CHECK_DIM(dim_mul(cx, dim_div(cx, K, dim_int(cx, 8)), dim_int(cx, 6)), "3*(K // 4)");
    CHECK_DIM(dim_mul(cx, dim_div(cx, K, dim_int(cx, 16)), dim_int(cx, 2)), "2*(K // 16)");
    CHECK(dim_add(cx, dim_div(cx, dim_sub(cx, N, one), four), one)
          == dim_div(cx, dim_add(cx, N, dim_int(cx, 3)), four));
    CHECK_DIM(dim_sub(cx, N, dim_mul(cx, dim_div(cx, N, four), four)), "N % 4");
    CHECK(dim_div(cx, M, M) == one && dim_div(cx, N, N) != one);        /* N may be 0 */
    CHECK(dim_max(cx, dim_int(cx, 0), N) == N && dim_min(cx, dim_int(cx, INT64_MAX), N) == N);
    CHECK_DIM(dim_max(cx, dim_sub(cx, N, four), dim_int(cx, 0)), "max(0, N - 4)");
    CHECK(dim_max(cx, dim_max(cx, M, N), M) == dim_max(cx, M, N));
    CHECK(dim_div(cx, dim_add(cx, dim_mul(cx, i, dim_int(cx, 24)), y), dim_int(cx, 48))
          == dim_div(cx, i, dim_int(cx, 2)));
    CHECK(dim_is(cx, dim_div(cx, dim_int(cx, 7), dim_int(cx, 0)), 0));
    CHECK(dim_is(cx, dim_mod(cx, dim_int(cx, -7), dim_int(cx, 3)), 2));
    CHECK(dim_is(cx, dim_mod(cx, dim_int(cx, 7), dim_int(cx, -3)), -2));
    CHECK(dim_is(cx, dim_div(cx, dim_int(cx, 7), dim_int(cx, -3)), -3));
    CHECK(dim_lt(cx, flat, BN) && dim_lt(cx, dim_mul(cx, flat, M), dim_mul(cx, B, MN)));
    CHECK(!dim_lt(cx, dim_int(cx, 0), N) && dim_lt(cx, dim_int(cx, 0), M));
    CHECK(dim_divisor(cx, dim_mul(cx, dim_mul(cx, K, N), dim_int(cx, 3))) == 24);
    CHECK(dim_divisor(cx, dim_int(cx, 0)) == 0 && dim_divides(cx, 8, K) && !dim_divides(cx, 3, K));
    Dim c, rest;
    CHECK(dim_affine(cx, flat, i, &c, &rest) && c == N && rest == j);
    CHECK(!dim_affine(cx, high, x, &c, &rest));
    CHECK(dim_replace(cx, high, x, dim_add(cx, dim_mul(cx, i, MN), j)) == i
          || dim_uses(cx, dim_replace(cx, high, x, dim_add(cx, dim_mul(cx, i, MN), j)), i));
}

/* Windows: the number of places N - M + 1 has no sign of its own, and has one where an index says
 * that there are some. */
static void
window_dims(Cx *cx, void *arg)
{
    (void)arg;
    Dim N = dim_size(cx, "N"), M = dim_size(cx, "M"), B = dim_size(cx, "B"), one = dim_int(cx, 1);
    Dim zero = dim_int(cx, 0), chain = dim_int(cx, 256);
    Dim places = dim_add(cx, dim_sub(cx, N, M), one), all = dim_mul(cx, B, places);
    Dim p = dim_index(cx, "p", all);
    CHECK(!dim_le(cx, zero, places));
    CHECK(dim_add(cx, dim_mul(cx, dim_div(cx, p, places), places), dim_mod(cx, p, places)) == p);

    /* the terms of a long sum: a first chain, others of whole length, and what they leave */
    Dim up = dim_add(cx, all, dim_int(cx, 255));
    Dim chains = dim_sub(cx, dim_div(cx, up, chain), dim_int(cx, 2));
    Dim c = dim_index(cx, "c", dim_max(cx, zero, chains)), k = dim_index(cx, "k", chain);
    p = dim_add(cx, dim_mul(cx, dim_add(cx, c, one), chain), k);
    CHECK(dim_add(cx, dim_mul(cx, dim_div(cx, p, places), places), dim_mod(cx, p, places)) == p);
    Dim first = dim_min(cx, all, dim_mul(cx, chain, dim_add(cx, dim_max(cx, zero, chains), one)));
    p = dim_add(cx, first, dim_index(cx, "k", dim_sub(cx, all, first)));
    CHECK(dim_add(cx, dim_mul(cx, dim_div(cx, p, places), places), dim_mod(cx, p, places)) == p);

    /* windows of a batch: N + M - 1 places for each */
    Dim row = dim_sub(cx, dim_add(cx, N, M), one);
    Dim at = dim_add(cx, dim_mul(cx, dim_index(cx, "b", B), row),
                     dim_add(cx, dim_index(cx, "n", N), dim_index(cx, "m", M)));
    CHECK(dim_le(cx, zero, at) && dim_lt(cx, at, dim_mul(cx, B, row)));
    CHECK(!dim_lt(cx, at, dim_sub(cx, dim_mul(cx, B, row), one)));
}

/* Tiles of a loop: the last one is cut, and every element is inside. */
static void
tile_dims(Cx *cx, void *arg)
{
    (void)arg;
    Dim N = dim_size(cx, "N"), tile = dim_int(cx, 1024);
    Dim count = dim_div(cx, dim_add(cx, N, dim_int(cx, 1023)), tile);
    Dim t = dim_index(cx, "t", count), start = dim_mul(cx, t, tile);
    Dim length = dim_min(cx, tile, dim_sub(cx, N, start)), k = dim_index(cx, "k", length);
    CHECK(dim_lt(cx, start, N));
    CHECK(dim_lt(cx, dim_add(cx, start, k), N));
    CHECK(dim_lt(cx, dim_int(cx, 0), length));
    CHECK(dim_le(cx, length, tile));
    CHECK(!dim_lt(cx, dim_add(cx, start, dim_int(cx, 1)), N));

    /* blocks of 8 strips of 32 columns, of which there are N or some more or fewer */
    for (int more = -3; more <= 3; more++) {
        Dim columns = dim_add(cx, N, dim_int(cx, more)), wide = dim_int(cx, 32);
        Dim up = dim_int(cx, 31), block = dim_int(cx, 256);
        Dim strips = dim_div(cx, dim_add(cx, columns, up), wide);
        t = dim_index(cx, "t", dim_div(cx, dim_add(cx, columns, dim_int(cx, 255)), block));
        length = dim_min(cx, dim_sub(cx, columns, dim_mul(cx, t, block)), block);
        k = dim_index(cx, "k", dim_div(cx, dim_add(cx, length, up), wide));
        Dim strip = dim_add(cx, dim_mul(cx, t, dim_int(cx, 8)), k);
        CHECK(dim_lt(cx, strip, strips));
        CHECK(!dim_lt(cx, dim_add(cx, strip, dim_int(cx, 1)), strips));
    }
}

/* Multiples of a quotient by numbers that its divisor does not divide, and by its divisor. */
static void
quotient_bounds(Cx *cx, void *arg)
{
    (void)arg;
    Dim N = dim_size(cx, "N"), two = dim_int(cx, 2), three = dim_int(cx, 3), four = dim_int(cx, 4);
    Dim third = dim_div(cx, N, three), up = dim_div(cx, dim_add(cx, N, two), three);
    CHECK(dim_le(cx, dim_mul(cx, two, third), N));
    CHECK(dim_le(cx, N, dim_mul(cx, four, up)));
    CHECK(!dim_le(cx, N, dim_mul(cx, two, up)) && !dim_le(cx, dim_mul(cx, four, third), N));
    Dim above = dim_add(cx, N, dim_int(cx, 5)), below = dim_add(cx, N, dim_int(cx, 3));
    CHECK(dim_le(cx, below, dim_mul(cx, three, dim_div(cx, above, three))));
    CHECK(!dim_le(cx, dim_add(cx, N, four), dim_mul(cx, three, dim_div(cx, above, three))));
    CHECK(dim_le(cx, dim_mul(cx, three, dim_div(cx, above, three)), above));

    Dim C = dim_size(cx, "C"), CC = dim_mul(cx, C, C);
    dim_declare(cx, C, (Range){1, DIM_INF}, 1);
    Dim whole = dim_mul(cx, CC, dim_div(cx, dim_add(cx, N, dim_add(cx, C, two)), C));
    CHECK(dim_le(cx, dim_mul(cx, C, dim_add(cx, N, three)), whole));
    CHECK(!dim_le(cx, dim_mul(cx, C, dim_add(cx, N, four)), whole));
}

/* Channels of a part of a cat, windows of images with odd sizes, and padding in images with their
 * channels innermost. */
static void
part_dims(Cx *cx, void *arg)
{
    (void)arg;
    Dim B = dim_size(cx, "B"), N = dim_size(cx, "N"), M = dim_size(cx, "M"), C = dim_size(cx, "C");
    Dim two = dim_int(cx, 2), three = dim_int(cx, 3), one = dim_int(cx, 1);
    dim_declare(cx, B, (Range){1, DIM_INF}, 1);
    dim_declare(cx, N, (Range){1, DIM_INF}, 1);
    dim_declare(cx, C, (Range){1, DIM_INF}, 1);
    Dim channel = dim_index(cx, "channel", dim_mul(cx, three, B));
    Dim image = dim_div(cx, channel, three), eleven = dim_int(cx, 11);
    Dim in_cat = dim_add(cx, dim_mul(cx, eleven, image), dim_mod(cx, channel, three));
    CHECK_DIM(in_cat, "channel + 8*(channel // 3)");
    CHECK(dim_lt(cx, in_cat, dim_mul(cx, eleven, B)));
    CHECK(!dim_lt(cx, in_cat, dim_sub(cx, dim_mul(cx, eleven, B), dim_int(cx, 9))));

    Dim width = dim_add(cx, dim_mul(cx, two, N), one), rows = dim_add(cx, dim_mul(cx, two, M), one);
    Dim i = dim_index(cx, "i", M), j = dim_index(cx, "j", width), all = dim_mul(cx, width, rows);
    Dim place = dim_add(cx, dim_mul(cx, i, width), j);
    CHECK(dim_div(cx, place, width) == i && dim_mod(cx, place, all) == place);
    Dim far = dim_index(cx, "far", dim_int(cx, 1000));
    place = dim_add(cx, dim_mul(cx, far, width), j);
    CHECK(dim_mod(cx, place, all) == dim_add(cx, dim_mul(cx, dim_mod(cx, far, rows), width), j));
    CHECK(dim_div(cx, place, all) == dim_div(cx, far, rows));

    Dim tile = dim_index(cx, "tile", M), start = dim_mul(cx, tile, dim_int(cx, 32));
    Dim in_tile = dim_index(cx, "in_tile", dim_min(cx, dim_sub(cx, N, start), dim_int(cx, 32)));
    Dim pair = dim_add(cx, dim_mul(cx, tile, dim_int(cx, 16)), dim_div(cx, in_tile, two));
    CHECK(dim_lt(cx, pair, dim_div(cx, dim_add(cx, N, one), two)));
    CHECK(!dim_lt(cx, pair, dim_div(cx, N, two)));

    /* windows of 2 places in steps of 2, by blocks of 20 tiles of 14 */
    Dim half = dim_div(cx, dim_add(cx, N, one), two), quarter = dim_div(cx, half, two);
    Dim block = dim_index(
        cx, "block", dim_div(cx, dim_add(cx, N, dim_int(cx, 1117)), dim_int(cx, 1120)));
    Dim tiles = dim_div(cx, dim_add(cx, N, dim_int(cx, 53)), dim_int(cx, 56));
    Dim twenty = dim_int(cx, 20), fourteen = dim_int(cx, 14);
    tile = dim_index(cx, "tile",
                     dim_min(cx, dim_sub(cx, tiles, dim_mul(cx, twenty, block)), twenty));
    start = dim_mul(cx, fourteen, dim_add(cx, dim_mul(cx, twenty, block), tile));
    in_tile = dim_index(cx, "in_tile", dim_min(cx, dim_sub(cx, quarter, start), fourteen));
    Dim step = dim_index(cx, "step", dim_int(cx, 128));
    Dim in_window = dim_mod(cx, dim_div(cx, step, dim_int(cx, 32)), two);
    place = dim_add(cx, dim_mul(cx, two, dim_add(cx, start, in_tile)), in_window);
    CHECK(dim_lt(cx, place, half));
    CHECK(!dim_lt(cx, dim_add(cx, place, one), half));

    Dim even = dim_mul(cx, two, dim_div(cx, dim_add(cx, N, one), two));
    CHECK(dim_le(cx, dim_mul(cx, N, C), dim_mul(cx, even, C)));
    CHECK(!dim_le(cx, dim_mul(cx, even, C), dim_mul(cx, N, C)));
}

/* The indices that an element of a block has along the axes of a tensor, none of which the block's
 * size goes into, add up to its place in memory again. */
static void
block_dims(Cx *cx, void *arg)
{
    (void)arg;
    static const int shapes[][4] = {
        {8, 64, 30, 30}, {8, 8, 28, 28}, {7, 3, 5, 1500}, {4, 1, 2000, 3}, {50, 6, 7, 10}};
    for (int k = 0; k < (int)(sizeof shapes / sizeof *shapes); k++) {
        const int *n = shapes[k], all = n[0] * n[1] * n[2] * n[3];
        Dim block = dim_index(cx, "block", dim_int(cx, (all + 1023) / 1024));
        Dim start = dim_mul(cx, block, dim_int(cx, 1024));
        Dim i = dim_index(cx, "i",
                          dim_min(cx, dim_int(cx, 1024), dim_sub(cx, dim_int(cx, all), start)));
        Dim place = dim_add(cx, start, i), sum = dim_int(cx, 0);
        Dim flat = dim_index(cx, "f", dim_int(cx, all)), rest = flat;
        for (int ax = 3, stride = 1; ax >= 0; stride *= n[ax--]) {
            Dim at = ax ? dim_mod(cx, rest, dim_int(cx, n[ax])) : rest;
            sum = dim_add(cx, sum,
                          dim_mul(cx, dim_replace(cx, at, flat, place), dim_int(cx, stride)));
            rest = dim_div(cx, rest, dim_int(cx, n[ax]));
        }
        CHECK(sum == place);
    }
}

/* The text does not depend on the order in which things were made. */
static void
named_order(Cx *cx, void *arg)
{
    const char **names = arg;
    Dim first = dim_size(cx, names[0]), second = dim_size(cx, names[1]);
    Dim a = dim_size(cx, "a"), b = dim_size(cx, "b");
    CHECK(first != second);
    CHECK_DIM(dim_add(cx, dim_div(cx, b, a), dim_add(cx, dim_mul(cx, b, a), dim_mod(cx, a, b))),
              "a*b + b // a + a % b");
    CHECK_DIM(dim_max(cx, dim_sub(cx, b, dim_int(cx, 3)), a), "max(a, b - 3)");
    CHECK_DIM(dim_add(cx, dim_size(cx, "s10"), dim_size(cx, "s9")), "s9 + s10");
}

/* ---- dims: random expressions against brute force ---- */

enum { NAMES = 6, NODES = 12, SAMPLES = 150 };

/* kind: i n + - * / % M m, and s, of which value is the factor's bits */
typedef struct { int kind, a, b; int64_t value; } Node;

static Dim name_dim[NAMES];
static int64_t name_value[NAMES];
static uint64_t seed;
static bool unbounded[2];       /* B and K have no upper bound */

static unsigned
pick(unsigned n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

static int64_t
floor_div(int64_t a, int64_t b)
{
    return b == 0 ? 0 : (int64_t)floor((double)a / (double)b);
}

static int64_t
eval_node(const Node *nodes, int k)
{
    const Node *n = &nodes[k];
    if (n->kind == 'i' || n->kind == 'n') {
        return n->kind == 'i' ? n->value : name_value[n->value];
    }
    int64_t a = eval_node(nodes, n->a), b = eval_node(nodes, n->b);
    double factor;
    memcpy(&factor, &n->value, sizeof factor);
    switch (n->kind) {
    case 's':
        return (int64_t)floor((double)a * factor);
    case '+':
        return a + b;
    case '-':
        return a - b;
    case '*':
        return a * b;
    case '/':
        return floor_div(a, b);
    case '%':
        return b == 0 ? 0 : a - b * floor_div(a, b);
    case 'M':
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

static Dim
node_dim(Cx *cx, const Node *node, const Dim *dims)
{
    Dim a = dims[node->a], b = dims[node->b];
    double factor;
    memcpy(&factor, &node->value, sizeof factor);
    return node->kind == 's' ? dim_scale(cx, a, factor) : node->kind == '-' ? dim_sub(cx, a, b)
           : dim_apply(cx, (char)node->kind, a, b);
}

static int64_t
value_of(void *arg, Dim name)
{
    (void)arg;
    for (int k = 0; k < NAMES; k++) {
        if (name_dim[k] == name) {
            return name_value[k];
        }
    }
    failures++;
    return 0;
}

/* The stack machine of dim_walk must agree with dim_eval. */
typedef struct { int64_t stack[64]; int n; } Machine;

static void
push_leaf(void *arg, char kind, int64_t value, Dim name)
{
    Machine *m = arg;
    m->stack[m->n++] = kind == 'i' ? value : value_of(NULL, name);
}

static void
apply_binary(void *arg, char kind)
{
    Machine *m = arg;
    Node nodes[3] = {{'i', 0, 0, m->stack[m->n - 2]}, {'i', 0, 0, m->stack[m->n - 1]},
                     {kind, 0, 1, kind == 's' ? m->stack[m->n - 1] : 0}};
    m->stack[--m->n - 1] = eval_node(nodes, 2);
}

static bool
mentions(const Node *nodes, int n, int name)
{
    bool found = false;
    for (int k = 0; k < n; k++) {
        found |= nodes[k].kind == 'n' && nodes[k].value == name;
    }
    return found;
}

/* Sizes A 0..4, B 1..3, K 0..6 even; indices i < A*B, j < B, k < K.  False: an index that is
 * mentioned does not exist. */
static bool
random_values(const Node *nodes, int n)
{
    int64_t a = pick(5), b = 1 + pick(3), k = 2 * pick(4);
    if ((a == 0 && mentions(nodes, n, 3)) || (k == 0 && mentions(nodes, n, 5))) {
        return false;
    }
    int64_t values[NAMES] = {a, b, k, a ? pick((unsigned)(a * b)) : 0, pick((unsigned)b),
                             k ? pick((unsigned)k) : 0};
    memcpy(name_value, values, sizeof values);
    return true;
}

static int
random_nodes(Cx *cx, Node *nodes, Dim *dims)
{
    int n = 3 + (int)pick(NODES - 3);
    for (int k = 0; k < n; k++) {
        if (k < 2 || pick(3) == 0) {
            bool number = pick(3) == 0;
            int64_t value = number ? (int64_t)pick(9) - 2 : pick(NAMES);
            nodes[k] = (Node){number ? 'i' : 'n', 0, 0, value};
            dims[k] = number ? dim_int(cx, nodes[k].value) : name_dim[nodes[k].value];
        } else {
            static const double factors[] = {0, 0.29, 0.5, 1, 1.7, 3};
            nodes[k] = (Node){"+-*/%+*/%Mms"[pick(12)], (int)pick((unsigned)k), k - 1, 0};
            memcpy(&nodes[k].value, &factors[pick(6)], sizeof nodes[k].value);
            dims[k] = node_dim(cx, &nodes[k], dims);
        }
    }
    return n;
}

static bool
sound(Cx *cx, Dim d, int64_t want)
{
    static const DimWalk walk = {push_leaf, apply_binary};
    Machine m = {.n = 0};
    int64_t g = dim_divisor(cx, d);
    Range r = dim_range(cx, d);
    dim_walk(cx, d, &walk, &m);
    return dim_eval(cx, d, value_of, NULL) == want && m.n == 1 && m.stack[0] == want && r.lo <= want
           && want <= r.hi && (g ? want % g == 0 : want == 0);
}

/* Is the value in the range that follows from what one size symbol is? */
static bool
sound_within(Cx *cx, Dim d, int64_t want)
{
    int k = (int)pick(3);
    Range r = dim_range_within(cx, d, name_dim[k], (Range){name_value[k], name_value[k]});
    return r.lo <= want && want <= r.hi;
}

static void
report(Cx *cx, const char *what, const Node *nodes, int n, Dim a, Dim b)
{
    Text text = {.cx = cx};
    dim_text(cx, a, &text);
    text_add(&text, "   with   ");
    dim_text(cx, b, &text);
    fprintf(stderr, "%s: %s\n  of", what, text.text);
    for (int k = 0; k < n; k++) {
        bool leaf = nodes[k].kind == 'i' || nodes[k].kind == 'n';
        fprintf(stderr, leaf ? " %d=%c%d" : " %d=%c(%d,%d)", k, nodes[k].kind,
                leaf ? (int)nodes[k].value : nodes[k].a, nodes[k].b);
    }
    fprintf(stderr, "\n  at");
    for (int k = 0; k < NAMES; k++) {
        fprintf(stderr, " %s=%d", dim_name(cx, name_dim[k]), (int)name_value[k]);
    }
    fprintf(stderr, "\n");
    failures++;
}

/* A dim of size symbols alone is read back from its text as itself. */
static void
read_back(Cx *cx, Dim d, const Node *nodes, int n)
{
    for (int k = 3; k < NAMES; k++) {
        if (dim_uses(cx, d, name_dim[k])) {
            return;
        }
    }
    Text text = {.cx = cx};
    text_add(&text, "dlc 1 graph\n\nfn f[A in 0..4, B in 1..");
    text_add(&text, unbounded[0] ? "inf, K in 0.." : "3, K in 0..");
    text_add(&text, unbounded[1] ? "inf %% 2](x: f32[" : "6 %% 2](x: f32[");
    dim_text(cx, d, &text);
    text_add(&text, "]) -> (f32[");
    dim_text(cx, d, &text);
    text_add(&text, "]) {\n  ret x\n}\n");
    Dim again = parse_fn(cx, text.text, "test")->params[0]->type->dims[0];
    if (again != d) {
        report(cx, "read back as another dim", nodes, n, d, again);
    }
}

static void
random_dims(Cx *cx, void *arg)
{
    (void)arg;
    Node nodes[NODES];
    Dim dims[NODES];
    int n = random_nodes(cx, nodes, dims);
    Dim last = dims[n - 1], other = dims[pick((unsigned)n)];
    int at = 0;
    while (dims[at] != other) {
        at++;
    }
    read_back(cx, last, nodes, n);
    bool lt = dim_lt(cx, other, last), le = dim_le(cx, other, last);
    Dim j = name_dim[4], turned = dim_sub(cx, dim_sub(cx, name_dim[1], dim_int(cx, 1)), j);
    Dim moved = dim_replace(cx, last, j, turned);
    for (int s = 0; s < SAMPLES && failures < 20; s++) {
        if (!random_values(nodes, n)) {
            continue;
        }
        int64_t x = eval_node(nodes, at), y = eval_node(nodes, n - 1);
        if (x > 1000000000 || x < -1000000000 || y > 1000000000 || y < -1000000000) {
            continue;           /* beyond what doubles divide exactly */
        }
        if (!sound(cx, last, y) || !sound(cx, other, x) || !sound_within(cx, last, y)) {
            report(cx, "wrong value, range or divisor", nodes, n, last, other);
            return;
        }
        if ((lt && x >= y) || (le && x > y)) {
            report(cx, "wrong proof", nodes, n, other, last);
            return;
        }
        name_value[4] = name_value[1] - 1 - name_value[4];
        if (dim_eval(cx, moved, value_of, NULL) != y) {
            report(cx, "wrong replacement", nodes, n, moved, last);
            return;
        }
    }
}

static void
declare_names(Cx *cx, void *arg)
{
    (void)arg;
    Dim a = dim_size(cx, "A"), b = dim_size(cx, "B"), k = dim_size(cx, "K");
    dim_declare(cx, a, (Range){0, 4}, 1);
    unbounded[0] = pick(2);
    unbounded[1] = pick(2);
    dim_declare(cx, b, (Range){1, unbounded[0] ? DIM_INF : 3}, 1);
    dim_declare(cx, k, (Range){0, unbounded[1] ? DIM_INF : 6}, 2);
    Dim names[NAMES] = {a, b, k, dim_index(cx, "i", dim_mul(cx, a, b)), dim_index(cx, "j", b),
                        dim_index(cx, "k", k)};
    memcpy(name_dim, names, sizeof names);
}

static void
test_dims(int rounds)
{
    static const char *orders[2][2] = {{"a", "b"}, {"b", "a"}};
    for (int k = 0; k < 2; k++) {
        Cx *cx = cx_new();
        CHECK(cx_try(cx, named_order, orders[k]));
        cx_free(cx);
    }
    Cx *cx = cx_new();
    CHECK(cx_try(cx, known_dims, NULL));
    CHECK(cx_try(cx, tile_dims, NULL));
    CHECK(cx_try(cx, window_dims, NULL));
    CHECK(cx_try(cx, quotient_bounds, NULL));
    CHECK(cx_try(cx, part_dims, NULL));
    CHECK(cx_try(cx, block_dims, NULL));
    cx_free(cx);
    for (int block = 0; block < rounds && failures < 20; block++) {
        cx = cx_new();
        CHECK(cx_try(cx, declare_names, NULL));
        for (int k = 0; k < 100; k++) {
            CHECK(cx_try(cx, random_dims, NULL));
        }
        cx_free(cx);
    }
}

/* ---- builder ---- */

static Value *
param(Build *b, const char *name, Dtype dtype, int rank, const Dim *dims)
{
    return fn_param(build_fn(b), name, type_of(build_cx(b), dtype, rank, dims), NULL);
}

static bool
is_constant(const Value *v, double f)
{
    const Value *c = v->def && v->def->op == OP_const ? v->def->args[0] : NULL;
    return c && (c->literal.is_int ? (double)c->literal.i : c->literal.f) == f;
}

#define MAP2(op, a, b2) build_map(b, OP_##op, a, b2, NULL)
#define MAP1(op, a) build_map(b, OP_##op, a, NULL, NULL)

static void
exact_algebra(Cx *cx, void *arg)
{
    (void)arg;
    Build *b = build_new(fn_new(cx, "f", STAGE_GRAPH));
    Dim n[1] = {dim_size(cx, "N")};
    Value *x = param(b, "x", DT_f32, 1, n), *y = param(b, "y", DT_f32, 1, n);
    Value *p = param(b, "p", DT_i32, 1, n), *q = param(b, "q", DT_bool, 1, n);
    CHECK(MAP2(mul, x, build_int(b, 1)) == x && MAP2(add, x, build_float(b, -0.0)) == x);
    CHECK(MAP2(add, x, build_float(b, 0.0)) != x && MAP2(sub, x, build_float(b, 0.0)) == x);
    CHECK(MAP2(sub, x, build_float(b, -0.0)) != x);
    CHECK(MAP2(mul, x, build_float(b, 0.0))->def->op == OP_mul);
    CHECK(MAP2(sub, x, x)->def->op == OP_sub && is_constant(MAP2(sub, p, p), 0));
    CHECK(is_constant(MAP2(mul, p, build_int(b, 0)), 0) && MAP2(add, p, build_int(b, 0)) == p);
    CHECK(MAP2(add, x, y) == MAP2(add, y, x) && MAP2(sub, x, y) != MAP2(sub, y, x));
    CHECK(MAP2(maximum, x, y) != MAP2(maximum, y, x) && MAP2(maximum, x, x) == x);
    CHECK(MAP1(neg, MAP1(neg, x)) == x && MAP1(not, MAP1(not, q)) == q);
    CHECK(MAP2(add, x, MAP1(neg, y)) == MAP2(sub, x, y));
    CHECK(MAP2(div, x, build_float(b, 8))->def->op == OP_mul);
    CHECK(MAP2(div, x, build_float(b, 3))->def->op == OP_div);
    CHECK(MAP1(floor, MAP1(ceil, x)) == MAP1(ceil, x));
    CHECK(is_constant(MAP2(lt, x, x), 0) && MAP2(eq, x, x)->def->op == OP_eq);
    CHECK(is_constant(MAP2(eq, p, p), 1));
    CHECK(build_map(b, OP_where, q, x, x) == x);
    CHECK(build_map(b, OP_where, MAP1(not, q), x, y) == build_map(b, OP_where, q, y, x));
    CHECK(MAP2(bit_and, q, build_int(b, 1)) == q && is_constant(MAP2(bit_xor, p, p), 0));
    Value *wide = build_cast(b, x, DT_f64), *narrow = build_cast(b, x, DT_f16);
    CHECK(build_cast(b, wide, DT_f32) == x && build_cast(b, x, DT_f32) == x);
    CHECK(build_cast(b, narrow, DT_f32) != x);
    Value *i8 = build_cast(b, p, DT_i8), *f32 = build_cast(b, p, DT_f32);
    CHECK(build_cast(b, build_cast(b, p, DT_i16), DT_i8) == i8);
    CHECK(build_cast(b, f32, DT_i32) != p && build_cast(b, build_cast(b, p, DT_f64), DT_i32) == p);
    Value *two = build_const(b, x->type, (Literal){.f = 2});
    Value *three = MAP2(add, two, build_int(b, 1));
    CHECK(is_constant(three, 3) && is_constant(MAP1(sqrt, MAP2(mul, two, two)), 2));
    CHECK(value_is_const(MAP2(add, x, two)->def->args[1]));
    Value *zero = build_const(b, p->type, (Literal){.is_int = true});
    CHECK(MAP2(div_floor, zero, zero)->def->op == OP_div_floor);
    CHECK(build_map(b, OP_where, q, two, three)->def->op == OP_where);
    CHECK(build_map(b, OP_where, q, two, build_float(b, 2)) == two);
}

static void
views(Cx *cx, void *arg)
{
    (void)arg;
    Build *b = build_new(fn_new(cx, "f", STAGE_GRAPH));
    Dim B = dim_size(cx, "B"), N = dim_size(cx, "N"), one = dim_int(cx, 1), zero = dim_int(cx, 0);
    Dim bn[] = {B, N}, nb[] = {N, B}, all[] = {dim_mul(cx, B, N)};
    Dim wide[] = {B, dim_int(cx, 3), N};
    Value *x = param(b, "x", DT_f32, 2, bn), *row = param(b, "r", DT_f32, 2, (Dim[]){one, N});
    Value *flat = build_reshape(b, x, 1, all);
    CHECK(build_reshape(b, flat, 2, bn) == x && build_reshape(b, x, 2, bn) == x);
    CHECK(build_reshape(b, build_reshape(b, flat, 2, nb), 1, all) == flat);
    Value *turned = build_permute(b, x, (int[]){1, 0});
    CHECK(turned->type == type_of(cx, DT_f32, 2, nb));
    CHECK(build_permute(b, turned, (int[]){1, 0}) == x);
    Value *cut = build_slice(b, x, 1, dim_int(cx, 2), dim_int(cx, 3), dim_int(cx, 5));
    Value *again = build_slice(b, cut, 1, one, dim_int(cx, 2), dim_int(cx, 2));
    CHECK(dim_is(cx, let_dim(again->def, "start"), 5));
    CHECK(dim_is(cx, let_dim(again->def, "step"), 6));
    CHECK(again->def->args[0] == x && build_slice(b, x, 1, zero, one, N) == x);
    CHECK(build_flip(b, build_flip(b, x, 2, (int[]){1, 0}), 1, (int[]){0})
          == build_flip(b, x, 1, (int[]){1}));
    Value *spread = build_broadcast(b, row, 2, bn), *more = build_broadcast(b, row, 3, wide);
    CHECK(spread->def->op == OP_expand && spread->def->args[0]->def->op == OP_reshape);
    CHECK(more->type->rank == 3 && build_broadcast(b, x, 2, bn) == x);
    CHECK(build_expand(b, spread, 3, wide, (int[]){0, 2}) == more);
    CHECK(build_as_strided(b, x, 1, all, &one, zero) == flat);
    CHECK(build_red(b, OP_amax, row, 1, (int[]){0})->def->op == OP_reshape);
    CHECK(build_red(b, OP_sum, row, 1, (int[]){0})->def->op == OP_sum);
    CHECK(build_red(b, OP_sum, x, 2, (int[]){1, 0}) == build_red(b, OP_sum, x, 2, (int[]){0, 1}));
    Value *two = build_const(b, x->type, (Literal){.f = 2});
    CHECK(is_constant(build_permute(b, two, (int[]){1, 0}), 2));
    CHECK(build_cat(b, 1, &x, 0) == x);
    Value *joined = build_cat(b, 2, (Value *[]){x, x}, 0);
    CHECK(joined->type->dims[0] == dim_mul(cx, dim_int(cx, 2), B));
    CHECK(is_constant(build_size(b, dim_int(cx, 7)), 7) && build_size(b, N) == build_size(b, N));
    CHECK(build_fn(b)->nvalues > 10);
}

static void
bodies(Cx *cx, void *arg)
{
    (void)arg;
    Fn *fn = fn_new(cx, "f", STAGE_LOOPS);
    Build *b = build_new(fn);
    Dim n = dim_size(cx, "N"), i = dim_index(cx, "i", n);
    fn_size(fn, n);
    Value *x = param(b, "x", DT_f32, 1, &n);
    Let *kernel = build_let(b, OP_kernel, 0, NULL, NULL, NULL, 1, &x->type, NULL);
    build_open_body(b, kernel);
    Attr loop[] = {attr_name(cx, "index", "i", i), attr_dim(cx, "extent", n),
                   attr_marks(cx, 0)};
    Block *inner = build_open(b);
    Value *e = build_load(b, x, &i), *y = kernel->res[0];
    CHECK(build_load(b, x, &i) == e);
    Attr at[] = {attr_dims(cx, "at", 1, &i), attr_marks(cx, 0)};
    build_let(b, OP_store, 2, (Value *[]){y, MAP1(exp, e)}, at, NULL, 0, NULL, NULL);
    CHECK(build_load(b, y, &i) != build_load(b, y, &i));
    build_close(b, 0, NULL);
    build_let(b, OP_for, 0, NULL, loop, inner, 0, NULL, NULL);
    build_close(b, 0, NULL);
    fn_results(fn, 1, &y, NULL);
    CHECK(inner->owner->op == OP_for && inner->owner->parent == kernel->body);

    Fn *to = fn_new(cx, "f", STAGE_LOOPS);
    Build *c = build_new(to);
    Value **map = cx_alloc(cx, (size_t)fn->nvalues * sizeof *map);
    fn_size(to, n);
    map[x->id] = param(c, "x", DT_f32, 1, &n);
    build_again(c, kernel, map);
    fn_results(to, 1, &map[y->id], NULL);
    Text before = {.cx = cx}, after = {.cx = cx};
    print_fn(fn, &before);
    print_fn(to, &after);
    CHECK(strcmp(before.text, after.text) == 0);
    CHECK(map[y->id] != y && strcmp(map[y->id]->name, y->name) == 0);
}

static int visits;

static void
count_let(void *arg, Let *let)
{
    visits += let->body == arg;
}

/* Many lets: every one is found again, none is made twice. */
static void
many_lets(Cx *cx, void *arg)
{
    (void)arg;
    Build *b = build_new(fn_new(cx, "f", STAGE_GRAPH));
    Dim n = dim_size(cx, "N");
    Value *x = param(b, "x", DT_f32, 1, &n), *v = NULL;
    for (int round = 0; round < 2; round++) {
        v = x;
        for (int k = 0; k < 5000; k++) {
            v = build_map(b, k % 3 ? OP_add : OP_mul, v, build_float(b, k + 2), NULL);
        }
    }
    CHECK(build_fn(b)->body->n == 5000 && v->id == 5001);
    visits = 0;
    fn_each_let(build_fn(b), count_let, NULL);
    CHECK(visits == 5000);
}

static void
names(Cx *cx, void *arg)
{
    (void)arg;
    Fn *fn = fn_new(cx, "f", STAGE_GRAPH);
    CHECK(fn_take_name(fn, "t1") && !fn_take_name(fn, "t1"));
    CHECK(strcmp(fn_fresh_name(fn, "t"), "t0") == 0 && strcmp(fn_fresh_name(fn, "t1"), "t2") == 0);
    CHECK(op_find("bit_and", 7) == OP_bit_and && op_find("bit_an", 6) == OP_COUNT);
    CHECK(dtype_find("bf16", 4) == DT_bf16);
    CHECK(op_find("", 0) == OP_COUNT);
}

/* ---- what the builder refuses ---- */

typedef struct { DiagCode code; const char *text; void (*build)(Build *b, Value *x); } Refusal;

static void
refuse_shapes(Build *b, Value *x)
{
    Dim m = dim_size(build_cx(b), "M");
    MAP2(add, x, param(b, "y", DT_f32, 1, &m));
}

static void
refuse_dtypes(Build *b, Value *x)
{
    MAP2(add, x, build_cast(b, x, DT_f64));
}

static void
refuse_bool(Build *b, Value *x)
{
    MAP1(not, x);
}

static void
refuse_reshape(Build *b, Value *x)
{
    build_reshape(b, x, 1, (Dim[]){dim_size(build_cx(b), "M")});
}

static void
refuse_broadcast(Build *b, Value *x)
{
    build_broadcast(b, x, 1, (Dim[]){dim_size(build_cx(b), "M")});
}

static void
refuse_axis(Build *b, Value *x)
{
    build_red(b, OP_sum, x, 2, (int[]){0, 0});
}

static void
refuse_fraction(Build *b, Value *x)
{
    MAP2(add, build_cast(b, x, DT_i32), build_float(b, 0.5));
}

static const Refusal refusals[] = {
    {DIAG_BUILD, "add: the operands differ in shape", refuse_shapes},
    {DIAG_BUILD, "add: the operands differ in dtype", refuse_dtypes},
    {DIAG_BUILD, "not: the op wants bool", refuse_bool},
    {DIAG_RESHAPE,
     "cannot reshape f32[N] to f32[M]: the number of elements is not known to stay the same",
     refuse_reshape},
    {DIAG_BROADCAST, "cannot broadcast f32[N]: axis 0 is not known to be M or 1", refuse_broadcast},
    {DIAG_BUILD, "sum: axes must ascend and be axes of the operand", refuse_axis},
    {DIAG_BUILD, "add: a constant does not fit the dtype", refuse_fraction},
};

static void
refuse(Cx *cx, void *arg)
{
    const Refusal *r = arg;
    Build *b = build_new(fn_new(cx, "f", STAGE_GRAPH));
    Dim n = dim_size(cx, "N");
    r->build(b, param(b, "x", DT_f32, 1, &n));
}

static void
test_builder(void)
{
    static void (*const tests[])(Cx *, void *) = {exact_algebra, views, bodies, many_lets, names};
    for (size_t k = 0; k < sizeof tests / sizeof *tests; k++) {
        Cx *cx = cx_new();
        CHECK(cx_try(cx, tests[k], NULL));
        if (cx_diag(cx)->code != DIAG_NONE) {
            fprintf(stderr, "test %zu: %s\n", k, cx_diag(cx)->message);
        }
        cx_free(cx);
    }
    for (size_t k = 0; k < sizeof refusals / sizeof *refusals; k++) {
        Cx *cx = cx_new();
        CHECK(!cx_try(cx, refuse, (void *)&refusals[k]));
        CHECK(cx_diag(cx)->code == refusals[k].code);
        if (strcmp(cx_diag(cx)->message, refusals[k].text) != 0) {
            fprintf(stderr, "refusal %zu: %s\n", k, cx_diag(cx)->message);
            failures++;
        }
        cx_free(cx);
    }
}

/* ---- rebuilding ---- */

static Fn *
rebuilt(Fn *fn)
{
    Fn *to = fn_new(fn->cx, fn->name, fn->stage);
    Build *b = build_new(to);
    Value **map = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *map);
    for (int k = 0; k < fn->nsizes; k++) {
        fn_size(to, fn->sizes[k]);
    }
    for (int k = 0; k < fn->nparams; k++) {
        const Value *v = fn->params[k];
        map[v->id] = fn_param_like(to, v);
    }
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        build_again(b, let, map);
        if (fn->stage != STAGE_GRAPH && op_info[let->op].kind == KIND_VIEW) {
            map[let->res[0]->id]->strides = let->res[0]->strides; /* a pass states them itself */
        }
    }
    int n = fn->body->nrets;
    Value **rets = cx_copy(fn->cx, fn->body->rets, (size_t)n * sizeof *rets);
    for (int k = 0; k < n; k++) {
        rets[k] = map[rets[k]->id] ? map[rets[k]->id] : rets[k];
    }
    fn_results(to, n, rets, fn->results);
    return to;
}

/* The lets of a copy have bodies of their own, in the bodies too. */
static void
own_bodies(const Fn *fn, const Fn *copy)
{
    for (int k = 0; k < fn->body->n; k++) {
        const Let *a = fn->body->lets[k], *b = copy->body->lets[k];
        for (int j = 0; j < a->nbodies; j++) {
            CHECK(a->bodies != b->bodies && a->bodies[j] != b->bodies[j]);
            own_bodies(a->bodies[j], b->bodies[j]);
        }
    }
}

/* A program rebuilt through the builder is well-formed, and rebuilding that changes nothing.  So is
 * a copy. */
static void
rebuild_file(Cx *cx, void *arg)
{
    Text text = {.cx = cx}, once = {.cx = cx}, twice = {.cx = cx}, cloned = {.cx = cx};
    char block[4096];
    FILE *file = fopen(arg, "r");
    size_t n;
    CHECK(file);
    while (file && (n = fread(block, 1, sizeof block, file)) > 0) {
        text_put(&text, block, n);
    }
    if (file) {
        fclose(file);
    }
    Fn *first = rebuilt(parse_fn(cx, text.text, arg)), *second = rebuilt(first);
    verify_fn(first);
    print_fn(first, &once);
    print_fn(second, &twice);
    CHECK(strcmp(once.text, twice.text) == 0);
    Fn *copy = fn_clone(first);
    verify_fn(copy);
    print_fn(copy, &cloned);
    CHECK(strcmp(once.text, cloned.text) == 0);
    own_bodies(first, copy);
}

static void
test_rebuild(int n, char **files)
{
    for (int k = 0; k < n; k++) {
        Cx *cx = cx_new();
        if (!cx_try(cx, rebuild_file, files[k])) {
            failures++;
            fprintf(stderr, "%s: %s\n", files[k], cx_diag(cx)->message);
        }
        cx_free(cx);
    }
}

/* Arguments: blocks of random dims, seed, programs to rebuild. */
int
main(int argc, char **argv)
{
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    test_context();
    test_builder();
    test_dims(argc > 1 ? atoi(argv[1]) : 40);
    test_rebuild(argc > 3 ? argc - 3 : 0, argv + 3);
    return failures != 0;
}
