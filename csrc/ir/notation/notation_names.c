/* Einstein notation: its words, and the names of indices, lines and parameters. */
#include "notation.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    Op op;
} reductions[] = {
    {"sum", OP_sum},       {"prod", OP_prod},     {"max", OP_amax}, {"min", OP_amin},
    {"argmax", OP_argmax}, {"argmin", OP_argmin}, {"any", OP_any},  {"all", OP_all},
};
static const char *const words[] = {"for",  "in",    "and",  "or",  "not", "size",
                                    "zero", "clamp", "wrap", "inf", "nan"};


enum {
    REDUCTIONS = sizeof reductions / sizeof *reductions,
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

Op
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

const char *
reductions_text(Cx *cx)
{
    const char *text = reductions[0].name;
    for (int k = 1; k < REDUCTIONS; k++) {
        text = cx_format(cx, "%s, %s", text, reductions[k].name);
    }
    return text;
}

bool
token_begins_line(const Lexer *lex)
{
    const char *at = lex->token.at;
    while (at > lex->text && (at[-1] == ' ' || at[-1] == '\t' || at[-1] == '\r')) {
        at--;
    }
    return at == lex->text || at[-1] == '\n';
}

bool
operand_is_beside(const Lexer *lex)
{
    const Token *t = &lex->token;
    bool word = t->kind == TOKEN_WORD && (!word_is_reserved(t) || reduction_find(t) != OP_COUNT);
    return (word || t->kind == TOKEN_INT || t->kind == TOKEN_FLOAT || lex_is(lex, "(")) &&
           !token_begins_line(lex);
}

bool
word_is_reserved(const Token *t)
{
    for (int k = 0; k < WORDS; k++) {
        if (strlen(words[k]) == t->length && memcmp(words[k], t->at, t->length) == 0) {
            return true;
        }
    }
    return reduction_find(t) != OP_COUNT;
}

const char *
name_read(Reader *r, const char *what)
{
    if (r->lex.token.kind == TOKEN_WORD && word_is_reserved(&r->lex.token)) {
        lex_fail(&r->lex, r->lex.token.at,
                 "'%.*s' is a word of the notation: %s needs another name",
                 (int)r->lex.token.length, r->lex.token.at, what);
    }
    return lex_word(&r->lex, what);
}

const char **
names_read(Reader *r, int *n, const char *example)
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
        const char *name = name_read(r, "an index");
        for (int k = 0; k < *n; k++) {
            if (names[k] == name) {
                lex_fail(&r->lex, at, "index '%s' stands here twice: use another name", name);
            }
        }
        names = cx_grow(r->cx, names, *n, sizeof *names);
        names[(*n)++] = name;
    } while (lex_take(&r->lex, ","));
    if (lex_is(&r->lex, "in")) {
        lex_fail(&r->lex, r->lex.token.at, "a range stands at the end of the line: for %s in 0..n",
                 names[*n - 1]);
    }
    if (!lex_is(&r->lex, "]")) {
        lex_fail_expected(
            &r->lex,
            cx_format(r->cx, "',' or ']' (indices are bare names here, as in %s)", example));
    }
    lex_next(&r->lex);
    return names;
}

int
param_find(const Notation *n, const char *name)
{
    for (int k = 0; k < n->nparams; k++) {
        if (n->params[k] == name) {
            return k;
        }
    }
    return -1;
}

void
name_use(Reader *r, const char *name, const char *at, int rank)
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
