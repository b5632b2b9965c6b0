/* Einstein notation: an expression to a tree.  The grammar heads notation_parse.c; the functions
 * stand from the atoms up. */
#include "notation.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    Op op;
} others[] = {{"max", OP_maximum}, {"min", OP_minimum}};

enum { OTHERS = sizeof others / sizeof *others };

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

static Expr *read_product(Reader *r);
static Expr *read_factor(Reader *r);

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
        expr_add(r, e, sum_read(r));
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
    name_use(r, name, at, e->n);
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
        (e->op == OP_cast && e->to == DTYPE_COUNT) || e->op == OP_bitcast) {
        if (reduction_find(t) != OP_COUNT) {
            lex_fail(&r->lex, t->at, "'%.*s' needs the indices that it reduces: %.*s[i] ..",
                     (int)t->length, t->at, (int)t->length, t->at);
        }
        no_function(r, t);
    }
    arity = op_info[e->op].arity;
    if (!lex_is(&r->lex, ")")) {
        do {
            expr_add(r, e, expr_read(r));
        } while (lex_take(&r->lex, ","));
    }
    if (e->n != arity) {
        no_arity(r, t, arity, e->n);
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
    } else if (lex_take(&r->lex, "inf")) {
        e->literal = (Literal){.f = INFINITY};
    } else if (lex_take(&r->lex, "nan")) {
        e->literal = (Literal){.f = NAN};
    } else {
        e->literal = (Literal){.is_int = true, .i = lex_int(&r->lex)};
    }
    return e;
}

static Expr *
read_atom(Reader *r)
{
    Token t = r->lex.token;
    if (t.kind == TOKEN_INT || t.kind == TOKEN_FLOAT || lex_is(&r->lex, "inf") ||
        lex_is(&r->lex, "nan")) {
        return read_number(r);
    }
    if (lex_take(&r->lex, "(")) {
        Expr *e = expr_read(r);
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
    if (word_is_reserved(&t)) {
        r->lex.token = t;
        lex_fail_expected(&r->lex, "a number, a name or '('");
    }
    Expr *e;
    if (lex_take(&r->lex, "[")) {
        e = read_read(r, name, t.at);
    } else {
        e = expr_new(r, EXPR_NAME, t.at);       /* an index or a scalar: the line will tell */
        e->name = name;
    }
    e->beside = operand_is_beside(&r->lex);
    r->last = e;
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
    e->names = names_read(r, &e->nnames, cx_format(r->cx, "%.*s[i]", (int)t.length, t.at));
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

/* A sign and its operation; each level of precedence has a list of them. */
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

Expr *
sum_read(Reader *r)
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
        e = sum_read(r);
        at = r->lex.token.at;
        const Sign *sign = sign_take(r, signs);
        e = sign ? call_of(r, sign->op, at, e, sum_read(r)) : e;
    }
    r->depth--;
    return e;
}

Expr *
expr_read(Reader *r)
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
