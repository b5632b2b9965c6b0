/* Tokens of the text, and messages that point into it. */
#include "parse.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The locale must not matter: no <ctype.h>. */
static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static bool
is_letter(char c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}
static bool
is_word(char c)
{
    return is_letter(c) || is_digit(c) || c == '_';
}

/* ---- messages ---- */

enum { SHOWN = 100 };           /* bytes of a source line shown in a message */

/* The line around `at`, cut to SHOWN bytes, with a caret below. */
static void
show_line(const Lexer *lex, const char *at, Text *out)
{
    const char *from = at, *to = at;
    while (from > lex->text && from[-1] != '\n' && at - from < SHOWN * 3 / 4) {
        from--;
    }
    while (*to && *to != '\n' && to - from < SHOWN) {
        to++;
    }
    text_add(out, "\n  ");
    for (const char *c = from; c < to; c++) {
        text_put(out, (unsigned char)*c < ' ' || *c == 127 ? " " : c, 1);
    }
    text_add(out, "\n  ");
    for (const char *c = from; c < at; c++) {
        /* The bytes of one character of UTF-8 after its first take no room. */
        text_put(out, " ", ((unsigned char)*c & 0xc0) != 0x80);
    }
    text_add(out, "^");
}

void
lex_fail(const Lexer *lex, const char *at, const char *format, ...)
{
    int line = 1, column = 1;
    for (const char *c = lex->text; c < at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    Text out = {.cx = lex->cx};
    show_line(lex, at, &out);
    fail(lex->cx, DIAG_PARSE, lex->file, line, column, message, out.text);
}

void
lex_fail_expected(const Lexer *lex, const char *what)
{
    const Token *t = &lex->token;
    if (t->kind == TOKEN_END) {
        lex_fail(lex, t->at, "expected %s, found the end of the text", what);
    }
    lex_fail(lex, t->at, "expected %s, found '%.*s'", what, t->length < 40 ? (int)t->length : 40,
             t->at);
}

/* ---- misspelt words ---- */

enum { WORD_MAX = 31 };         /* of longer words nobody makes suggestions */

/* Levenshtein's distance; both words have at most WORD_MAX letters. */
static int
edit_distance(const char *a, int na, const char *b, int nb)
{
    int row[WORD_MAX + 1];
    for (int j = 0; j <= nb; j++) {
        row[j] = j;
    }
    for (int i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[nb];
}

Nearest
nearest_to(const Token *word)
{
    int limit = word->length <= 4 ? 2 : 3;      /* this many wrong letters are too many */
    return (Nearest){.word = word->at, .length = word->length, .distance = limit};
}

void
nearest_offer(Nearest *near, const char *candidate)
{
    size_t length = strlen(candidate);
    if (length == 0 || length > WORD_MAX || near->length > WORD_MAX || near->length < 2) {
        return;
    }
    int distance = edit_distance(near->word, (int)near->length, candidate, (int)length);
    if (distance < near->distance) {
        near->distance = distance;
        near->best = candidate;
    }
}

const char *
nearest_text(Cx *cx, const Nearest *near)
{
    return near->best ? cx_format(cx, "; did you mean '%s'?", near->best) : "";
}

/* ---- tokens ---- */

/* strtod reads the decimal point of the process' locale; the text always has '.'. */
static double
read_double(const Lexer *lex, const char *at, size_t length)
{
    char *copy = cx_copy(lex->cx, at, length + 1);
    copy[length] = '\0';
    char *point = strchr(copy, '.');
    if (point) {
        *point = localeconv()->decimal_point[0];
    }
    return strtod(copy, NULL);
}

/* digits [. digits] [e [sign] digits]; "8..9" is an integer, then a sign. */
static const char *
scan_number(Lexer *lex, Token *t)
{
    const char *c = t->at;
    bool fits = true;
    for (; is_digit(*c); c++) {
        unsigned digit = (unsigned)(*c - '0');
        fits = fits && t->magnitude <= (UINT64_MAX - digit) / 10;
        t->magnitude = t->magnitude * 10 + digit;
    }
    t->kind = TOKEN_INT;
    if (*c == '.' && is_digit(c[1])) {
        t->kind = TOKEN_FLOAT;
        for (c++; is_digit(*c); c++) {
        }
    }
    const char *digits = c + 1 + (c[0] && (c[1] == '+' || c[1] == '-'));
    if (*c == 'e' && is_digit(*digits)) {
        t->kind = TOKEN_FLOAT;
        for (c = digits; is_digit(*c); c++) {
        }
    }
    if (is_word(*c)) {
        lex_fail(lex, c, "expected a blank or a sign after a number");
    }
    if (t->kind == TOKEN_FLOAT) {
        t->f = read_double(lex, t->at, (size_t)(c - t->at));
    } else if (!fits) {
        lex_fail(lex, t->at, "this integer does not fit 64 bits");
    }
    return c;
}

static int
hex_digit(char c)
{
    return is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* The character for an escape (c is after the backslash); *end is after the escape. */
static char
unescape(const Lexer *lex, const char *c, const char **end)
{
    static const char names[] = "\"\\nt", values[] = "\"\\\n\t";
    const char *name = *c ? strchr(names, *c) : NULL;
    if (name) {
        *end = c + 1;
        return values[name - names];
    }
    int high = *c == 'x' ? hex_digit(c[1]) : -1, low = high >= 0 ? hex_digit(c[2]) : -1;
    if (low < 0 || (high == 0 && low == 0)) {
        lex_fail(lex, c - 1, "expected one of the escapes \\\" \\\\ \\n \\t \\xHH (not \\x00)");
    }
    *end = c + 3;
    return (char)(high * 16 + low);
}

static const char *
scan_string(Lexer *lex, Token *t)
{
    Text out = {.cx = lex->cx};
    const char *c = t->at + 1;
    while (*c != '"') {
        if (*c == '\0' || *c == '\n') {
            lex_fail(lex, t->at, "this string does not end in its line");
        }
        if (*c == '\\') {
            char value = unescape(lex, c + 1, &c);
            text_put(&out, &value, 1);
        } else {
            text_put(&out, c++, 1);
        }
    }
    t->kind = TOKEN_STRING;
    t->string = cx_intern(lex->cx, out.length ? out.text : "", out.length);
    return c + 1;
}

/* What to write in einstein notation instead of a character that it has not. */
static const char *
instead_of(char c)
{
    static const struct {
        const char *characters, *text;
    } rows[] = {
        {"^", ": ** is the power"},
        {"&|", ": and, or are the operators of truth values"},
        {"!~", ": not is the negation"},
        {"@", ": a product is sum[k] A[m,k] * B[k,n]"},
        {".", ": a function stands alone, exp(a), without a module and not as a method"},
        {"?", ": where(c, a, b) chooses"},
        {":", ": an axis is read by an index, and for i in 0..n at the end of a line is its range"},
        {";", ": each line stands in a line of its own"},
        {"{}", ": indices stand in brackets, a[i]"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (strchr(rows[k].characters, c)) {
            return rows[k].text;
        }
    }
    return c & 0x80 ? ": names have letters of ASCII, digits and _" : "";
}

static const char *
scan_sign(const Lexer *lex, Token *t)
{
    static const char two[][3] = {"->", "..", "//", "<=", "**", ">=", "==", "!="};
    for (int k = lex->notation ? 1 : 0; k < (lex->notation ? 8 : 4); k++) {
        if (strncmp(t->at, two[k], 2) == 0) {
            return t->at + 2;
        }
    }
    if (!strchr(lex->notation ? "()[],=+-*/%<>" : "()[]{},:=@+-*%", *t->at)) {
        lex_fail(lex, t->at, "this character stands nowhere in the language%s",
                 lex->notation ? instead_of(*t->at) : "");
    }
    return t->at + 1;
}

/* The first byte that is neither blank nor in a comment. */
static const char *
skip_blanks(const char *c)
{
    while (*c == ' ' || *c == '\n' || *c == '\t' || *c == '\r' || *c == '#') {
        if (*c == '#') {
            c += strcspn(c, "\n");
        } else {
            c++;
        }
    }
    return c;
}

void
lex_next(Lexer *lex)
{
    const char *c = skip_blanks(lex->next);
    lex->token = (Token){.at = c};
    Token *t = &lex->token;
    if (*c == '\0') {
        t->kind = TOKEN_END;
    } else if (is_digit(*c)) {
        c = scan_number(lex, t);
    } else if (*c == '"') {
        c = scan_string(lex, t);
    } else if (is_word(*c)) {
        t->kind = TOKEN_WORD;
        for (; is_word(*c); c++) {
        }
    } else {
        t->kind = TOKEN_SIGN;
        c = scan_sign(lex, t);
    }
    t->length = (size_t)(c - t->at);
    lex->next = c;
}

void
lex_open(Lexer *lex, Cx *cx, const char *text, const char *file)
{
    *lex = (Lexer){.cx = cx, .text = text, .file = file, .next = text};
    lex_next(lex);
}

void
lex_open_notation(Lexer *lex, Cx *cx, const char *text, const char *file)
{
    *lex = (Lexer){.cx = cx, .text = text, .file = file, .next = text, .notation = true};
    lex_next(lex);
}

/* ---- what the parser asks ---- */

bool
lex_is(const Lexer *lex, const char *sign_or_word)
{
    const Token *t = &lex->token;
    return (t->kind == TOKEN_SIGN || t->kind == TOKEN_WORD) && strlen(sign_or_word) == t->length &&
           memcmp(t->at, sign_or_word, t->length) == 0;
}

bool
lex_is_attr(const Lexer *lex)
{
    return lex->token.kind == TOKEN_WORD && *skip_blanks(lex->next) == '=';
}

bool
lex_take(Lexer *lex, const char *sign_or_word)
{
    bool is = lex_is(lex, sign_or_word);
    if (is) {
        lex_next(lex);
    }
    return is;
}

void
lex_expect(Lexer *lex, const char *sign_or_word)
{
    if (!lex_take(lex, sign_or_word)) {
        lex_fail_expected(lex, cx_format(lex->cx, "'%s'", sign_or_word));
    }
}

const char *
lex_word(Lexer *lex, const char *what)
{
    if (lex->token.kind != TOKEN_WORD) {
        lex_fail_expected(lex, what);
    }
    const char *word = cx_intern(lex->cx, lex->token.at, lex->token.length);
    lex_next(lex);
    return word;
}

const char *
lex_string(Lexer *lex)
{
    if (lex->token.kind != TOKEN_STRING) {
        lex_fail_expected(lex, "a string");
    }
    const char *string = lex->token.string;
    lex_next(lex);
    return string;
}

int64_t
lex_int(Lexer *lex)
{
    bool minus = lex_take(lex, "-");
    uint64_t magnitude = lex->token.magnitude;
    if (lex->token.kind != TOKEN_INT) {
        lex_fail_expected(lex, "an integer");
    }
    if (magnitude > (uint64_t)INT64_MAX + minus) {
        lex_fail(lex, lex->token.at, "this integer does not fit 64 bits");
    }
    lex_next(lex);
    return minus ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
}
