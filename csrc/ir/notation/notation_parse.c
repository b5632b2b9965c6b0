/* Einstein notation: text to a tree.
 *
 * Grammar, written as that of csrc/ir/text/parse.c.  Blanks and line ends separate tokens and mean
 * nothing else.
 *
 *   program   line {line}
 *   line      name ['[' list(index) ']'] '=' any {'for' index 'in' '0' '..' sum}
 *   any       both {'or' both}
 *   both      negation {'and' negation}
 *   negation  'not' negation | comparison
 *   comparison sum [('==' | '!=' | '<' | '<=' | '>' | '>=') sum]
 *   sum       product {('+' | '-') product}
 *   product   factor {('*' | '/' | '//' | '%') factor}
 *   factor    '-' factor | reduction '[' list(index) ']' product | atom ['**' factor]
 *   atom      number | '(' any ')' | name | name '[' list(sum) ']' ['zero' | 'clamp' | 'wrap']
 *           | function '(' list(any) ')' | 'size' '(' index ')' | 'size' '(' name ',' integer ')'
 *   reduction 'sum' | 'prod' | 'max' | 'min' | 'argmax' | 'argmin' | 'any' | 'all'
 *
 * A function is a MAP row of ops.def, or an element type, which casts.  What a reduction reduces
 * reaches as far as its product does. */
#include "notation.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    Lexer lex;
    Cx *cx;
    int depth;
    Notation *out;
    const char **first;         /* by parameter: where it is first read */
} Reader;

enum { MAX_DEPTH = 100 };

static const struct {
    const char *name;
    Op op;
} reductions[] = {
    {"sum", OP_sum},       {"prod", OP_prod},     {"max", OP_amax}, {"min", OP_amin},
    {"argmax", OP_argmax}, {"argmin", OP_argmin}, {"any", OP_any},  {"all", OP_all},
};
static const struct {
    const char *name;
    Op op;
} others[] = {{"max", OP_maximum}, {"min", OP_minimum}};
static const char *const words[] = {"for",  "in",    "and",  "or",  "not", "size",
                                    "zero", "clamp", "wrap", "inf", "nan"};

enum {
    REDUCTIONS = sizeof reductions / sizeof *reductions,
    OTHERS = sizeof others / sizeof *others,
    WORDS = sizeof words / sizeof *words,
};

void
notation_fail(const Notation *n, const char *at, const char *format, ...)
{
    char message[300];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    lex_fail(&n->lex, at, "%s", message);
}

static Expr *
expr_new(Reader *r, ExprKind kind, const char *at)
{
    Expr *e = cx_alloc(r->cx, sizeof *e);
    *e = (Expr){.kind = kind, .at = at, .op = OP_COUNT};
    return e;
}

static void
expr_add(Reader *r, Expr *e, Expr *arg)
{
    e->args = cx_grow(r->cx, e->args, e->n, sizeof *e->args);
    e->args[e->n++] = arg;
}

static Expr *
call_of(Reader *r, Op op, const char *at, Expr *a, Expr *b)
{
    Expr *e = expr_new(r, EXPR_CALL, at);
    e->op = op;
    expr_add(r, e, a);
    if (b) {
        expr_add(r, e, b);
    }
    return e;
}

static void
deeper(Reader *r)
{
    if (++r->depth > MAX_DEPTH) {
        lex_fail(&r->lex, r->lex.token.at,
                 "this is nested too deeply: give a part of it a line of its own");
    }
}

static Op
reduction_find(const Token *t)
{
    for (int k = 0; k < REDUCTIONS; k++) {
        if (strlen(reductions[k].name) == t->length &&
            memcmp(reductions[k].name, t->at, t->length) == 0) {
            return reductions[k].op;
        }
    }
    return OP_COUNT;
}

static bool
is_reserved(const Token *t)
{
    for (int k = 0; k < WORDS; k++) {
        if (strlen(words[k]) == t->length && memcmp(words[k], t->at, t->length) == 0) {
            return true;
        }
    }
    return reduction_find(t) != OP_COUNT;
}

static const char *
new_name(Reader *r, const char *what)
{
    if (r->lex.token.kind == TOKEN_WORD && is_reserved(&r->lex.token)) {
        lex_fail(&r->lex, r->lex.token.at,
                 "'%.*s' is a word of the notation: %s needs another name",
                 (int)r->lex.token.length, r->lex.token.at, what);
    }
    return lex_word(&r->lex, what);
}

/* After '[': names and ']'. */
static const char **
index_names(Reader *r, int *n, const char *example)
{
    const char **names = NULL;
    *n = 0;
    if (lex_take(&r->lex, "]")) {
        return names;
    }
    do {
        const char *at = r->lex.token.at;
        if (r->lex.token.kind == TOKEN_INT) {
            lex_fail(&r->lex, at, "expected the name of an index, as in %s", example);
        }
        const char *name = new_name(r, "an index");
        for (int k = 0; k < *n; k++) {
            if (names[k] == name) {
                lex_fail(&r->lex, at, "index '%s' stands here twice: use another name", name);
            }
        }
        names = cx_grow(r->cx, names, *n, sizeof *names);
        names[(*n)++] = name;
    } while (lex_take(&r->lex, ","));
    if (!lex_is(&r->lex, "]")) {
        lex_fail_expected(
            &r->lex,
            cx_format(r->cx, "',' or ']' (indices are bare names here, as in %s)", example));
    }
    lex_next(&r->lex);
    return names;
}

static Expr *read_any(Reader *r);
static Expr *read_sum(Reader *r);
static Expr *read_product(Reader *r);
static Expr *read_factor(Reader *r);

/* ---- names ---- */

static int
param_find(const Notation *n, const char *name)
{
    for (int k = 0; k < n->nparams; k++) {
        if (n->params[k] == name) {
            return k;
        }
    }
    return -1;
}

/* A name that no line has defined is a parameter; they stand in the order of the text. */
static void
use_name(Reader *r, const char *name, const char *at, int rank)
{
    Notation *n = r->out;
    for (int k = 0; k < n->nlines; k++) {
        if (n->lines[k].name == name) {
            n->lines[k].read = true;
            if (n->lines[k].nleft != rank) {
                lex_fail(&r->lex, at, "'%s' has %d indices in its line, %d here", name,
                         n->lines[k].nleft, rank);
            }
            return;
        }
    }
    int k = param_find(n, name);
    if (k >= 0) {
        r->first[k] = at < r->first[k] ? at : r->first[k];
        if (n->ranks[k] != rank) {
            lex_fail(&r->lex, at, "'%s' had %d indices before, %d here", name, n->ranks[k], rank);
        }
        return;
    }
    n->params = cx_grow(r->cx, n->params, n->nparams, sizeof *n->params);
    n->ranks = cx_grow(r->cx, n->ranks, n->nparams, sizeof *n->ranks);
    r->first = cx_grow(r->cx, r->first, n->nparams, sizeof *r->first);
    for (k = n->nparams++; k > 0 && r->first[k - 1] > at; k--) {
        n->params[k] = n->params[k - 1];
        n->ranks[k] = n->ranks[k - 1];
        r->first[k] = r->first[k - 1];
    }
    n->params[k] = name;
    n->ranks[k] = rank;
    r->first[k] = at;
}

static Expr *
read_read(Reader *r, const char *name, const char *at)
{
    static const struct {
        const char *word;
        Edge edge;
    } edges[] = {
        {"zero", EDGE_ZERO},
        {"clamp", EDGE_CLAMP},
        {"wrap", EDGE_WRAP},
    };
    Expr *e = expr_new(r, EXPR_READ, at);
    e->name = name;
    do {
        expr_add(r, e, read_sum(r));
    } while (lex_take(&r->lex, ","));
    if (!lex_is(&r->lex, "]")) {
        lex_fail_expected(&r->lex, cx_format(r->cx, "',' or ']' after an index of '%s'", name));
    }
    lex_next(&r->lex);
    if (e->n > MAX_RANK / 2) {
        lex_fail(&r->lex, at, "'%s' has %d indices: there may be %d", name, e->n, MAX_RANK / 2);
    }
    for (int k = 0; k < 3; k++) {
        if (lex_take(&r->lex, edges[k].word)) {
            e->edge = edges[k].edge;
        }
    }
    use_name(r, name, at, e->n);
    return e;
}

static Expr *
read_size(Reader *r, const char *at)
{
    Expr *e = expr_new(r, EXPR_SIZE, at);
    e->literal = (Literal){.is_int = true, .i = -1};
    lex_expect(&r->lex, "(");
    e->name = lex_word(&r->lex, "an index, or an argument and the number of its axis");
    if (lex_take(&r->lex, ",")) {
        e->literal.i = lex_int(&r->lex);
    }
    lex_expect(&r->lex, ")");
    return e;
}

static _Noreturn void
no_function(Reader *r, const Token *t)
{
    Nearest near = nearest_to(t);
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_info[op].kind == KIND_MAP) {
            nearest_offer(&near, op_info[op].name);
        }
    }
    lex_fail(&r->lex, t->at, "there is no function '%.*s'%s", (int)t->length, t->at,
             nearest_text(r->cx, &near));
}

static Expr *
read_call(Reader *r, const Token *t)
{
    Expr *e = expr_new(r, EXPR_CALL, t->at);
    int arity = 1;
    e->to = dtype_find(t->at, t->length);
    e->op = e->to != DTYPE_COUNT ? OP_cast : op_find(t->at, t->length);
    for (int k = 0; k < OTHERS; k++) {
        if (strlen(others[k].name) == t->length && memcmp(others[k].name, t->at, t->length) == 0) {
            e->op = others[k].op;
        }
    }
    if (e->op == OP_COUNT || op_info[e->op].kind != KIND_MAP ||
        (e->op == OP_cast && e->to == DTYPE_COUNT)) {
        if (reduction_find(t) != OP_COUNT) {
            lex_fail(&r->lex, t->at, "'%.*s' needs the indices that it reduces: %.*s[i] ..",
                     (int)t->length, t->at, (int)t->length, t->at);
        }
        no_function(r, t);
    }
    arity = op_info[e->op].arity;
    if (!lex_is(&r->lex, ")")) {
        do {
            expr_add(r, e, read_any(r));
        } while (lex_take(&r->lex, ","));
    }
    if (e->n != arity) {
        lex_fail(&r->lex, t->at, "'%.*s' takes %d operand%s, not %d", (int)t->length, t->at, arity,
                 arity == 1 ? "" : "s", e->n);
    }
    lex_expect(&r->lex, ")");
    return e;
}

/* ---- expressions ---- */

static Expr *
read_number(Reader *r)
{
    Expr *e = expr_new(r, EXPR_NUMBER, r->lex.token.at);
    if (r->lex.token.kind == TOKEN_FLOAT) {
        e->literal = (Literal){.f = r->lex.token.f};
        lex_next(&r->lex);
    } else {
        e->literal = (Literal){.is_int = true, .i = lex_int(&r->lex)};
    }
    return e;
}

static Expr *
read_atom(Reader *r)
{
    Token t = r->lex.token;
    if (t.kind == TOKEN_INT || t.kind == TOKEN_FLOAT) {
        return read_number(r);
    }
    if (lex_take(&r->lex, "(")) {
        Expr *e = read_any(r);
        lex_expect(&r->lex, ")");
        return e;
    }
    if (t.kind != TOKEN_WORD) {
        lex_fail_expected(&r->lex, "a number, a name or '('");
    }
    lex_next(&r->lex);
    const char *name = cx_intern(r->cx, t.at, t.length);
    if (strcmp(name, "size") == 0) {
        return read_size(r, t.at);
    }
    if (lex_take(&r->lex, "(")) {
        return read_call(r, &t);
    }
    if (is_reserved(&t)) {
        r->lex.token = t;
        lex_fail_expected(&r->lex, "a number, a name or '('");
    }
    if (lex_take(&r->lex, "[")) {
        return read_read(r, name, t.at);
    }
    Expr *e = expr_new(r, EXPR_NAME, t.at);     /* an index or a scalar: the line will tell */
    e->name = name;
    return e;
}

static Expr *
read_reduction(Reader *r, Op op)
{
    Token t = r->lex.token;
    Expr *e = expr_new(r, EXPR_REDUCE, t.at);
    e->op = op;
    lex_next(&r->lex);
    if (lex_take(&r->lex, "(")) {
        return read_call(r, &t);        /* max(a, b) */
    }
    if (!lex_take(&r->lex, "[")) {
        lex_fail(&r->lex, t.at, "'%.*s' needs the indices that it reduces: %.*s[i] ..",
                 (int)t.length, t.at, (int)t.length, t.at);
    }
    e->names = index_names(r, &e->nnames, cx_format(r->cx, "%.*s[i]", (int)t.length, t.at));
    if (e->nnames == 0 || (e->nnames > 1 && op_info[op].rule == RULE_INDEX)) {
        lex_fail(&r->lex, t.at, "'%.*s' takes %s", (int)t.length, t.at,
                 e->nnames ? "one index" : "an index: write its name between the brackets");
    }
    expr_add(r, e, read_product(r));
    return e;
}

static Expr *
read_factor(Reader *r)
{
    const char *at = r->lex.token.at;
    deeper(r);
    Expr *e;
    Op op = r->lex.token.kind == TOKEN_WORD ? reduction_find(&r->lex.token) : OP_COUNT;
    if (lex_take(&r->lex, "-")) {
        e = call_of(r, OP_neg, at, read_factor(r), NULL);
    } else {
        e = op != OP_COUNT ? read_reduction(r, op) : read_atom(r);
        at = r->lex.token.at;
        if (lex_take(&r->lex, "**")) {
            e = call_of(r, OP_pow, at, e, read_factor(r));
        }
    }
    r->depth--;
    return e;
}

/* One row for each sign of a level. */
typedef struct {
    const char *sign;
    Op op;
} Sign;

static const Sign *
sign_take(Reader *r, const Sign *signs)
{
    for (; signs->sign; signs++) {
        if (lex_take(&r->lex, signs->sign)) {
            return signs;
        }
    }
    return NULL;
}

/* Operands with signs of one level between them, from the left. */
static Expr *
read_level(Reader *r, const Sign *signs, Expr *(*read)(Reader *r))
{
    Expr *e = read(r);
    for (;;) {
        const char *at = r->lex.token.at;
        const Sign *sign = sign_take(r, signs);
        if (!sign) {
            return e;
        }
        e = call_of(r, sign->op, at, e, read(r));
    }
}

static Expr *
read_product(Reader *r)
{
    static const Sign signs[] = {
        {"*", OP_mul}, {"/", OP_div}, {"//", OP_div_floor}, {"%", OP_remainder}, {NULL}};
    return read_level(r, signs, read_factor);
}

static Expr *
read_sum(Reader *r)
{
    static const Sign signs[] = {{"+", OP_add}, {"-", OP_sub}, {NULL}};
    return read_level(r, signs, read_product);
}

static Expr *
read_negation(Reader *r)
{
    static const Sign signs[] = {{"==", OP_eq}, {"!=", OP_ne}, {"<=", OP_le}, {"<", OP_lt},
                                 {">=", OP_ge}, {">", OP_gt},  {NULL}};
    const char *at = r->lex.token.at;
    deeper(r);
    Expr *e;
    if (lex_take(&r->lex, "not")) {
        e = call_of(r, OP_not, at, read_negation(r), NULL);
    } else {
        e = read_sum(r);
        at = r->lex.token.at;
        const Sign *sign = sign_take(r, signs);
        e = sign ? call_of(r, sign->op, at, e, read_sum(r)) : e;
    }
    r->depth--;
    return e;
}

static Expr *
read_any(Reader *r)
{
    Expr *any = NULL;
    const char *or = NULL;
    do {
        Expr *both = read_negation(r);
        for (const char *at = r->lex.token.at; lex_take(&r->lex, "and"); at = r->lex.token.at) {
            both = call_of(r, OP_bit_and, at, both, read_negation(r));
        }
        any = any ? call_of(r, OP_bit_or, or, any, both) : both;
        or = r->lex.token.at;
    } while (lex_take(&r->lex, "or"));
    return any;
}

/* ---- lines ---- */

static bool
is_index(const Line *line, const Expr *const *outer, int nouter, const char *name)
{
    for (int k = 0; k < line->nleft; k++) {
        if (line->left[k] == name) {
            return true;
        }
    }
    for (int j = 0; j < nouter; j++) {
        for (int k = 0; k < outer[j]->nnames; k++) {
            if (outer[j]->names[k] == name) {
                return true;
            }
        }
    }
    return false;
}

/* Bare names are indices of the line or scalars; anything in a bracket that is none has no
 * place. */
static void
check_names(Reader *r, const Line *line, const Expr *e, const Expr **outer, int nouter, bool inside)
{
    if (e->kind == EXPR_REDUCE) {
        for (int k = 0; k < e->nnames; k++) {
            if (is_index(line, outer, nouter, e->names[k])) {
                lex_fail(&r->lex, e->at,
                         "index '%s' is %s already: use another name, or parentheses to end the "
                         "reduction before",
                         e->names[k], nouter ? "reduced here" : "on the left");
            }
        }
        if (nouter == MAX_DEPTH) {
            lex_fail(&r->lex, e->at,
                     "this is nested too deeply: give a part of it a line of its own");
        }
        outer[nouter++] = e;
        inside = false;
    }
    if (e->kind == EXPR_NAME && !is_index(line, outer, nouter, e->name)) {
        if (inside) {
            lex_fail(&r->lex, e->at,
                     "index '%s' is neither on the left nor reduced: write %s[.., %s] or sum[%s]",
                     e->name, line->name, e->name, e->name);
        }
        use_name(r, e->name, e->at, 0);
    }
    for (int k = 0; k < e->n; k++) {
        check_names(r, line, e->args[k], outer, nouter, inside || e->kind == EXPR_READ);
    }
}

static void
read_span(Reader *r, Line *line)
{
    line->spans = cx_grow(r->cx, line->spans, line->nspans, sizeof *line->spans);
    Span *span = &line->spans[line->nspans++];
    span->at = r->lex.token.at;
    span->name = new_name(r, "an index");
    lex_expect(&r->lex, "in");
    const char *at = r->lex.token.at;
    if (r->lex.token.kind != TOKEN_INT || lex_int(&r->lex) != 0) {
        lex_fail(
            &r->lex, at,
            "a range begins with 0, as in 0..10: an index counts from 0, the offset goes to the "
            "read");
    }
    lex_expect(&r->lex, "..");
    span->bound = read_sum(r);
}

static void
read_line(Reader *r)
{
    Notation *n = r->out;
    Line line = {.at = r->lex.token.at};
    line.name = new_name(r, "a result");
    if (param_find(n, line.name) >= 0) {
        lex_fail(&r->lex, line.at, "'%s' is an argument: a line before this one reads it",
                 line.name);
    }
    for (int k = 0; k < n->nlines; k++) {
        if (n->lines[k].name == line.name) {
            lex_fail(&r->lex, line.at, "'%s' has a line already: use another name", line.name);
        }
    }
    if (lex_take(&r->lex, "[")) {
        line.left = index_names(r, &line.nleft, cx_format(r->cx, "%s[i, j] = ..", line.name));
    }
    if (line.nleft > MAX_RANK / 2) {
        lex_fail(&r->lex, line.at, "'%s' has %d indices: there may be %d", line.name, line.nleft,
                 MAX_RANK / 2);
    }
    if (!lex_is(&r->lex, "=") && n->nlines > 0 && !line.left) {
        lex_fail(&r->lex, line.at,
                 "'%s' begins no line, as in '%s[i] = ..', and is no edge: zero, clamp and wrap "
                 "are",
                 line.name, line.name);
    }
    if (!lex_take(&r->lex, "=")) {
        lex_fail_expected(&r->lex, "'=', as in C[m,n] = sum[k] A[m,k] * B[k,n]");
    }
    line.body = read_any(r);
    while (lex_take(&r->lex, "for")) {
        read_span(r, &line);
    }
    const Expr *outer[MAX_DEPTH + 1];
    check_names(r, &line, line.body, outer, 0, false);
    if (param_find(n, line.name) >= 0) {
        lex_fail(&r->lex, line.at, "'%s' reads itself: a line reads arguments and earlier lines",
                 line.name);
    }
    n->lines = cx_grow(r->cx, n->lines, n->nlines, sizeof *n->lines);
    n->lines[n->nlines++] = line;
}

Notation *
notation_parse(Cx *cx, const char *text, const char *file)
{
    Notation *n = cx_alloc(cx, sizeof *n);
    Reader r = {.cx = cx, .out = n};
    n->cx = cx;
    lex_open_notation(&r.lex, cx, cx_intern(cx, text, strlen(text)), file);
    n->lex = r.lex;
    do {
        read_line(&r);
    } while (r.lex.token.kind == TOKEN_WORD && !is_reserved(&r.lex.token));
    if (r.lex.token.kind != TOKEN_END) {
        lex_fail_expected(&r.lex, "an operator, or a line 'name[..] = ..'");
    }
    for (int k = 0; k < n->nlines; k++) {
        n->nresults += !n->lines[k].read;
    }
    if (n->nparams == 0) {
        notation_fail(n, n->lines[0].at, "the text reads no argument");
    }
    return n;
}
