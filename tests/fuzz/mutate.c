/* Texts with random damage that are often programs still: a token for another one of its kind. */
#include "mutate.h"

#include <ctype.h>
#include <string.h>

typedef struct { const char *at; int size; } Token;

enum { MOST_TOKENS = 20000 };

static bool
is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Numbers, words, letters in quotes, lines: what kind of token begins here? */
static char
kind_of(const Token *t)
{
    return isdigit((unsigned char)t->at[0]) ? '0' : is_word(t->at[0]) ? 'a' : t->at[0];
}

/* Of the text behind its first line.  A letter in quotes is a token. */
static int
tokens(const char *text, Token *out)
{
    int n = 0;
    bool quoted = false;
    const char *at = strchr(text, '\n');
    for (at = at ? at : text; *at && n < MOST_TOKENS; at += out[n++].size) {
        int size = 1;
        quoted ^= *at == '"';
        while (!quoted && is_word(at[0]) && is_word(at[size])) {
            size++;
        }
        out[n] = (Token){at, size};
    }
    return n;
}

/* What stands in the token's place: one of the text of its kind, or a number. */
static Token
other(const Token *all, int n, const Token *t, uint64_t *state)
{
    static const char *const numbers[] = {
        "0", "1", "2", "3", "7", "8", "63", "64", "255", "257", "9223372036854775807"};
    if (kind_of(t) == '0' && sample_below(state, 2) == 0) {
        const char *number = numbers[sample_below(state, sizeof numbers / sizeof *numbers)];
        return (Token){number, (int)strlen(number)};
    }
    for (int tries = 0; tries < 200; tries++) {
        const Token *with = &all[sample_below(state, n)];
        if (kind_of(with) == kind_of(t)) {
            return *with;
        }
    }
    return *t;
}

static char *
change_token(Cx *cx, const char *text, uint64_t *state)
{
    Token *all = cx_alloc(cx, MOST_TOKENS * sizeof *all), *t;
    int n = tokens(text, all), tries = 0;
    do {
        t = &all[sample_below(state, n)];
    } while (!is_word(t->at[0]) && ++tries < 100);
    Token with = other(all, n, t, state);
    return cx_format(cx, "%.*s%.*s%s", (int)(t->at - text), text, with.size, with.at,
                     t->at + t->size);
}

/* A line twice, or not at all. */
static char *
change_line(Cx *cx, const char *text, uint64_t *state)
{
    const char *at = text + sample_below(state, (int64_t)strlen(text));
    while (at > text && at[-1] != '\n') {
        at--;
    }
    const char *end = strchr(at, '\n');
    end = end ? end + 1 : at + strlen(at);
    bool twice = sample_below(state, 2);
    return cx_format(cx, "%.*s%s", (int)((twice ? end : at) - text), text, twice ? at : end);
}

char *
mutate(Cx *cx, const char *text, uint64_t *state)
{
    char *changed = cx_format(cx, "%s", text);
    for (int64_t left = 1 + sample_below(state, 3); left > 0; left--) {
        changed = (sample_below(state, 10) ? change_token : change_line)(cx, changed, state);
    }
    return changed;
}
