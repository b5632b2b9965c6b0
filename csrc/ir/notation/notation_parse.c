/* Einstein notation: text to a tree; expressions are in notation_expr.c.
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
 * A number may be 'inf' or 'nan'.  A function is a MAP row of ops.def, or an element type, which
 * casts.  What a reduction reduces reaches as far as its product does. */
#include "notation.h"

#include <string.h>

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
check_names(Reader *r, const Line *line, const Expr *e, const Expr **outer, int nouter,
            const Expr *inside)
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
        inside = NULL;
    }
    if (e->kind == EXPR_NAME && !is_index(line, outer, nouter, e->name)) {
        if (inside) {
            no_index(r, line, e, inside);
        }
        name_use(r, e->name, e->at, 0);
    }
    for (int k = 0; k < e->n; k++) {
        check_names(r, line, e->args[k], outer, nouter, e->kind == EXPR_READ ? e : inside);
    }
}

static void
read_span(Reader *r, Line *line)
{
    line->spans = cx_grow(r->cx, line->spans, line->nspans, sizeof *line->spans);
    Span *span = &line->spans[line->nspans++];
    span->at = r->lex.token.at;
    span->name = name_read(r, "an index");
    lex_expect(&r->lex, "in");
    const char *at = r->lex.token.at;
    if (r->lex.token.kind != TOKEN_INT || lex_int(&r->lex) != 0) {
        lex_fail(
            &r->lex, at,
            "a range begins with 0, as in 0..10: an index counts from 0, the offset goes to the "
            "read");
    }
    lex_expect(&r->lex, "..");
    span->bound = sum_read(r);
}

static void
read_line(Reader *r)
{
    Notation *n = r->out;
    Line line = {.at = r->lex.token.at};
    line.name = name_read(r, "a result");
    if (param_find(n, line.name) >= 0) {
        check_beside(r, &line);
        lex_fail(&r->lex, line.at, "'%s' is an argument: a line before this one reads it",
                 line.name);
    }
    for (int k = 0; k < n->nlines; k++) {
        if (n->lines[k].name == line.name) {
            lex_fail(&r->lex, line.at, "'%s' has a line already: use another name", line.name);
        }
    }
    if (lex_take(&r->lex, "[")) {
        line.left = names_read(r, &line.nleft, cx_format(r->cx, "%s[i, j] = ..", line.name));
    }
    if (line.nleft > MAX_RANK / 2) {
        lex_fail(&r->lex, line.at, "'%s' has %d indices: there may be %d", line.name, line.nleft,
                 MAX_RANK / 2);
    }
    if (!lex_take(&r->lex, "=")) {
        no_equals(r, &line);
    }
    line.body = expr_read(r);
    while (lex_take(&r->lex, "for")) {
        read_span(r, &line);
    }
    const Expr *outer[MAX_DEPTH + 1];
    check_names(r, &line, line.body, outer, 0, NULL);
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
    } while (r.lex.token.kind == TOKEN_WORD && !word_is_reserved(&r.lex.token));
    if (lex_is(&r.lex, "=")) {
        lex_fail(&r.lex, r.lex.token.at, "a line has one '=', and == compares");
    }
    if (r.lex.token.kind != TOKEN_END) {
        lex_fail_expected(&r.lex, "an operator, or a line 'name[..] = ..'");
    }
    for (int k = 0; k < n->nlines; k++) {
        n->nresults += !n->lines[k].read;
    }
    if (n->nparams == 0) {
        notation_fail(n, n->lines[0].at,
                      "the text reads no argument: it needs an array, such as x[i], or a scalar");
    }
    return n;
}
