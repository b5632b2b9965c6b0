/* Einstein notation: what to write instead of what other libraries and languages have. */
#include "notation.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const char *name, *instead;
} Instead;

static const Instead functions[] = {
#define FUNCTION(name, instead) {#name, instead},
#include "instead.def"
};

static const Instead reductions[] = {
#define REDUCTION(name, instead) {#name, instead},
#include "instead.def"
};

enum {
    FUNCTIONS = sizeof functions / sizeof *functions,
    REDUCTIONS = sizeof reductions / sizeof *reductions,
};

static const char *
instead_find(const Instead *rows, int n, const char *name, size_t length)
{
    for (int k = 0; k < n; k++) {
        if (strlen(rows[k].name) == length && memcmp(rows[k].name, name, length) == 0) {
            return rows[k].instead;
        }
    }
    return NULL;
}

void
no_function(Reader *r, const Token *t)
{
    int length = (int)t->length;
    const char *instead = instead_find(functions, FUNCTIONS, t->at, t->length);
    if (instead) {
        lex_fail(&r->lex, t->at, "there is no function '%.*s': write %s", length, t->at, instead);
    }
    if (instead_find(reductions, REDUCTIONS, t->at, t->length)) {
        lex_fail(&r->lex, t->at,
                 "there is no function '%.*s': a reduction names its indices, as sum[k] a[k] does, "
                 "and the reductions are %s",
                 length, t->at, reductions_text(r->cx));
    }
    Nearest near = nearest_to(t);
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_info[op].kind == KIND_MAP) {
            nearest_offer(&near, op_info[op].name);
        }
    }
    lex_fail(&r->lex, t->at, "there is no function '%.*s'%s", length, t->at,
             near.best ? nearest_text(r->cx, &near)
                       : ": an array is read in brackets, a[i]; docs/ir.md lists the functions");
}

/* Reports a name that stands where a reduction does, but is none. */
static _Noreturn void
no_reduction(Reader *r, const Expr *read, const char *index)
{
    const char *instead = instead_find(reductions, REDUCTIONS, read->name, strlen(read->name));
    if (instead) {
        char text[240];
        snprintf(text, sizeof text, instead, index, index, index);
        lex_fail(&r->lex, read->at, "there is no reduction '%s': write %s; the reductions are %s",
                 read->name, text, reductions_text(r->cx));
    }
    lex_fail(&r->lex, read->at, "there is no reduction '%s': the reductions are %s", read->name,
             reductions_text(r->cx));
}

void
no_index(Reader *r, const Line *line, const Expr *e, const Expr *read)
{
    if (read->beside || instead_find(reductions, REDUCTIONS, read->name, strlen(read->name))) {
        no_reduction(r, read, e->name);
    }
    lex_fail(&r->lex, e->at,
             "index '%s' is neither on the left nor reduced: write %s[.., %s] or sum[%s]", e->name,
             line->name, e->name, e->name);
}

/* The operand before the token is a word that stands for a function or a reduction: fails. */
static void
check_last(Reader *r)
{
    const Expr *last = r->last;
    if (!last || !last->beside) {
        return;
    }
    Token t = {.at = last->at, .length = strlen(last->name)};
    if (last->kind == EXPR_READ && instead_find(reductions, REDUCTIONS, t.at, t.length)) {
        const Expr *index = last->args[0];
        no_reduction(r, last, index->kind == EXPR_NAME ? index->name : "k");
    }
    if (last->kind == EXPR_NAME) {
        Op op = op_find(t.at, t.length);
        if (op != OP_COUNT && op_info[op].kind == KIND_MAP) {
            lex_fail(&r->lex, t.at, "a function has parentheses: write %s(..)", last->name);
        }
        if (instead_find(functions, FUNCTIONS, t.at, t.length)) {
            no_function(r, &t);
        }
    }
}

void
check_beside(Reader *r, const Line *line)
{
    Lexer before = r->lex;
    before.token.at = line->at;
    if (token_begins_line(&before)) {
        return;
    }
    check_last(r);
    if (line->left || r->lex.token.kind != TOKEN_END) { /* else it is an unknown word for an edge */
        lex_fail(&r->lex, line->at, "there is no operator before '%s', and no new line",
                 line->name);
    }
}

void
no_equals(Reader *r, const Line *line)
{
    const Token *t = &r->lex.token;
    if (strcmp(line->name, "if") == 0 || strcmp(line->name, "else") == 0) {
        lex_fail(&r->lex, line->at, "'%s' is no word of the notation: where(c, a, b) chooses",
                 line->name);
    }
    check_beside(r, line);
    if (r->out->nlines > 0 && !line->left) {
        lex_fail(&r->lex, line->at,
                 "'%s' begins no line, as in '%s[i] = ..', and is no edge: zero, clamp and wrap "
                 "are",
                 line->name, line->name);
    }
    if (lex_is(&r->lex, "(")) {
        lex_fail(&r->lex, t->at, "indices stand in brackets: write %s[i] = ..", line->name);
    }
    if (lex_is(&r->lex, "==")) {
        lex_fail(&r->lex, t->at, "a line has one '=', as in C[m,n] = sum[k] A[m,k] * B[k,n]");
    }
    if (t->kind == TOKEN_SIGN && t->at[t->length] == '=') {
        lex_fail(&r->lex, t->at,
                 "a line makes a new array and changes none: give the old one as an argument, "
                 "%s[i] = old[i] %.*s ..",
                 line->name, (int)t->length, t->at);
    }
    lex_fail_expected(&r->lex, "'=', as in C[m,n] = sum[k] A[m,k] * B[k,n]");
}

void
no_arity(Reader *r, const Token *t, int arity, int given)
{
    const char *more = "", *word = cx_intern(r->cx, t->at, t->length);
    if (reduction_find(t) != OP_COUNT) { /* max and min */
        more = given < arity ? cx_format(r->cx, "; over an index it is %s[k] ..", word)
                             : cx_format(r->cx, ": write %s(%s(a, b), c)", word, word);
    }
    lex_fail(&r->lex, t->at, "'%s' takes %d operand%s, not %d%s", word, arity,
             arity == 1 ? "" : "s", given, more);
}
