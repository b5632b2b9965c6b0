/* The layout of C: what the preprocessor has put in one line, in lines. */
#include <ctype.h>
#include <string.h>

#include "lay_out.h"

size_t
c_word(const char *c)
{
    size_t length = 0;
    while (isalnum((unsigned char)c[length]) || c[length] == '_') {
        length++;
    }
    return length;
}

const char *
c_skip_space(const char *c)
{
    while (isspace((unsigned char)*c)) {
        c++;
    }
    return c;
}

typedef struct {
    Text *out;
    size_t line; /* where the line begins */
    int indent, round, values;
    bool space, begins, control;
} Layout;

static void
new_line(Layout *l)
{
    text_put(l->out, "\n", 1);
    l->line = l->out->length;
    l->begins = true;
    l->space = false;
}

static void
put_word(Layout *l, const char *word, size_t length)
{
    static const char spaces[] = "                                                ";
    bool wraps = l->space && l->out->length - l->line + length > 94;
    if (wraps) {
        new_line(l);
    }
    if (l->begins) {
        text_put(l->out, spaces, (size_t)(4 * (l->indent + wraps)) % sizeof spaces);
    } else if (l->space) {
        text_put(l->out, " ", 1);
    }
    text_put(l->out, word, length);
    l->begins = l->space = false;
}

static bool
is_word(const char *c, const char *word)
{
    return c_word(c) == strlen(word) && memcmp(c, word, strlen(word)) == 0;
}

/* A brace: of a block, or of the values of a structure. */
static void
put_brace(Layout *l, const char *c)
{
    bool block = *c == '{' ? l->control && !l->values : !l->values;
    l->values += block ? 0 : *c == '{' ? 1 : -1;
    l->indent -= block && *c == '}';
    put_word(l, c, 1);
    l->indent += block && *c == '{';
    l->control |= block;
    if (block && !(*c == '}' && is_word(c_skip_space(c + 1), "else"))) {
        new_line(l);
    }
}

static void
put_character(Layout *l, const char *c)
{
    bool ends = *c == ';' && l->round == 0 && l->values == 0;
    l->round += (*c == '(') - (*c == ')');
    if (*c == '{' || *c == '}') {
        put_brace(l, c);
    } else {
        put_word(l, c, 1);
    }
    if (ends) {
        new_line(l);
    }
    l->control |= ends;
}

/* A macro that says how a compiler treats the loop behind it, in a line of its own? */
static bool
is_of_loop(const char *c)
{
    return !is_word(c, "else") && is_word(c_skip_space(c + c_word(c)), "for");
}

/* Is what begins here a statement of its own, so that braces are of values until it ends? */
static bool
is_plain_statement(const char *c)
{
    return !is_of_loop(c) && !is_word(c, "if") && !is_word(c, "for") && !is_word(c, "while") &&
           !is_word(c, "else");
}

void
text_lay_out_c(Text *out, const char *text, size_t n, bool function)
{
    Layout l = {.out = out, .control = true};
    new_line(&l);
    for (const char *c = text; c < text + n;) {
        size_t length = c_word(c);
        if (isspace((unsigned char)*c)) {
            l.space |= !l.begins;
        } else if (length) {
            l.control &= !(l.begins && (l.indent > 0 || !function) && is_plain_statement(c));
            bool line = l.begins && is_of_loop(c);
            put_word(&l, c, length);
            if (line) {
                new_line(&l);
            }
        } else {
            l.control |= l.begins && *c == '{';
            put_character(&l, c);
        }
        c += length ? length : 1;
    }
}
