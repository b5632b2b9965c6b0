/* The smaller half of the parser: dims, types, binders, size declarations.  parse.c has the
 * grammar. */
#include "parse.h"

enum { DEPTH_MAX = 100 };

void
parse_deeper(Parser *p)
{
    if (++p->depth > DEPTH_MAX) {
        lex_fail(&p->lex, p->lex.token.at, "this is nested more than %d deep", DEPTH_MAX);
    }
}

bool
parse_another(Parser *p, int count, const char *close)
{
    if (lex_take(&p->lex, close)) {
        return false;
    }
    if (count) {
        lex_expect(&p->lex, ",");
    }
    return true;
}

const char *
parse_name(Parser *p, const char *what)
{
    if (lex_is(&p->lex, "inf") || lex_is(&p->lex, "nan")) {
        lex_fail_expected(&p->lex, what);
    }
    return lex_word(&p->lex, what);
}

/* Parses `a, f)` of scale(a, f). */
static Dim
parse_scale(Parser *p)
{
    Dim a = parse_dim(p);
    lex_expect(&p->lex, ",");
    double by = p->lex.token.f;
    if (p->lex.token.kind != TOKEN_FLOAT) {
        lex_fail_expected(&p->lex, "the float that scales a size");
    }
    lex_next(&p->lex);
    lex_expect(&p->lex, ")");
    return dim_scale(p->cx, a, by);
}

static Dim
parse_dim_name(Parser *p)
{
    bool max = lex_is(&p->lex, "max"), min = lex_is(&p->lex, "min");
    bool scale = lex_is(&p->lex, "scale");
    const char *name = parse_name(p, "a size");
    if (scale && lex_take(&p->lex, "(")) {
        return parse_scale(p);
    }
    if ((max || min) && lex_take(&p->lex, "(")) {
        Dim a = parse_dim(p);
        lex_expect(&p->lex, ",");
        Dim b = parse_dim(p);
        lex_expect(&p->lex, ")");
        return max ? dim_max(p->cx, a, b) : dim_min(p->cx, a, b);
    }
    for (int k = p->nindices - 1; k >= 0; k--) {
        if (p->indices[k].name == name) {
            return p->indices[k].dim;
        }
    }
    return dim_size(p->cx, name);
}

static Dim
parse_factor(Parser *p)
{
    Lexer start = p->lex;
    bool minus = lex_take(&p->lex, "-");
    Dim d;
    parse_deeper(p);
    if (p->lex.token.kind == TOKEN_INT) {
        p->lex = start;
        d = dim_int(p->cx, lex_int(&p->lex));
        minus = false;
    } else if (minus) {
        d = parse_factor(p);
    } else if (lex_take(&p->lex, "(")) {
        d = parse_dim(p);
        lex_expect(&p->lex, ")");
    } else {
        d = parse_dim_name(p);
    }
    p->depth--;
    return minus ? dim_sub(p->cx, dim_int(p->cx, 0), d) : d;
}

static Dim
parse_product(Parser *p)
{
    Dim d = parse_factor(p);
    for (int depth = p->depth;; parse_deeper(p)) {     /* a // b // c nests to the left */
        if (lex_take(&p->lex, "*")) {
            d = dim_mul(p->cx, d, parse_factor(p));
        } else if (lex_take(&p->lex, "//")) {
            d = dim_div(p->cx, d, parse_factor(p));
        } else if (lex_take(&p->lex, "%")) {
            d = dim_mod(p->cx, d, parse_factor(p));
        } else {
            p->depth = depth;
            return d;
        }
    }
}

Dim
parse_dim(Parser *p)
{
    Dim d = parse_product(p);
    for (;;) {
        if (lex_take(&p->lex, "+")) {
            d = dim_add(p->cx, d, parse_product(p));
        } else if (lex_take(&p->lex, "-")) {
            d = dim_sub(p->cx, d, parse_product(p));
        } else {
            return d;
        }
    }
}

const Dim *
parse_dims(Parser *p, int *n)
{
    Dim *dims = NULL;
    lex_expect(&p->lex, "[");
    for (*n = 0; parse_another(p, *n, "]"); ++*n) {
        dims = cx_grow(p->cx, dims, *n, sizeof *dims);
        dims[*n] = parse_dim(p);
    }
    return dims ? dims : cx_alloc(p->cx, sizeof *dims);
}

const int *
parse_axes(Parser *p, int *n)
{
    int *axes = NULL;
    lex_expect(&p->lex, "[");
    for (*n = 0; parse_another(p, *n, "]"); ++*n) {
        const char *at = p->lex.token.at;
        int64_t axis = lex_int(&p->lex);
        if (axis != (int)axis) {
            lex_fail(&p->lex, at, "this is not an axis");
        }
        axes = cx_grow(p->cx, axes, *n, sizeof *axes);
        axes[*n] = (int)axis;
    }
    return axes ? axes : cx_alloc(p->cx, sizeof *axes);
}

const Type *
parse_type(Parser *p)
{
    Token word = p->lex.token;
    const char *name = lex_word(&p->lex, "a type");
    Dtype dtype = dtype_find(name, word.length);
    if (dtype == DTYPE_COUNT) {
        Nearest near = nearest_to(&word);
        for (int k = 0; k < DTYPE_COUNT; k++) {
            nearest_offer(&near, dtype_info[k].name);
        }
        lex_fail(&p->lex, word.at, "'%s' is not a dtype%s", name, nearest_text(p->cx, &near));
    }
    int rank = 0;
    const char *at = p->lex.token.at;
    const Dim *dims = lex_is(&p->lex, "[") ? parse_dims(p, &rank) : NULL;
    if (rank > MAX_RANK) {
        lex_fail(&p->lex, at, "a type has %d axes at most", MAX_RANK);
    }
    return type_of(p->cx, dtype, rank, dims);
}

const Dim *
parse_strides(Parser *p, const Type *type)
{
    if (!lex_take(&p->lex, "strides")) {
        return NULL;
    }
    lex_expect(&p->lex, "=");
    int n;
    const char *at = p->lex.token.at;
    const Dim *strides = parse_dims(p, &n);
    if (n != type->rank) {
        lex_fail(&p->lex, at, "expected %d strides, one for each axis, found %d", type->rank, n);
    }
    return strides;
}

Binder
parse_binder(Parser *p)
{
    Binder b = {.at = p->lex.token.at, .name = parse_name(p, "a name")};
    lex_expect(&p->lex, ":");
    b.type = parse_type(p);
    b.strides = parse_strides(p, b.type);
    return b;
}

static int64_t
parse_end(Parser *p)
{
    Lexer start = p->lex;
    bool minus = lex_take(&p->lex, "-");
    if (lex_take(&p->lex, "inf")) {
        return minus ? -DIM_INF : DIM_INF;
    }
    p->lex = start;
    return lex_int(&p->lex);
}

static Size
parse_size(Parser *p)
{
    Size s = {.name = parse_name(p, "a size"), .range = {0, DIM_INF}, .divisor = 1};
    const char *at = p->lex.token.at;
    if (lex_take(&p->lex, "in")) {
        s.range.lo = parse_end(p);
        lex_expect(&p->lex, "..");
        s.range.hi = parse_end(p);
    }
    if (s.range.lo > s.range.hi) {
        lex_fail(&p->lex, at, "this range is empty");
    }
    if (lex_take(&p->lex, "%")) {
        at = p->lex.token.at;
        s.divisor = lex_int(&p->lex);
    }
    if (s.divisor < 1) {
        lex_fail(&p->lex, at, "a divisor is at least 1");
    }
    return s;
}

Size *
parse_sizes(Parser *p, int *n)
{
    Size *sizes = NULL;
    *n = 0;
    if (lex_take(&p->lex, "[")) {
        for (; parse_another(p, *n, "]"); ++*n) {
            sizes = cx_grow(p->cx, sizes, *n, sizeof *sizes);
            sizes[*n] = parse_size(p);
        }
    }
    return sizes;
}
