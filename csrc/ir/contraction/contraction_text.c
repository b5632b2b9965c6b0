/* Contractions as text.  "bmk,nk->bmn" has a letter for each axis of the operands and the result.
 * Behind them may stand which terms are summed: "nyxpqc,ocpq->nyxo where 0<=1y+p-1<8"; and where
 * the height is that of the result, whatever it is, 0<=1y+p-1<1|y|+0. */
#include "ir/ir.h"

#include <string.h>

enum { MOST_WITHIN = INT32_MAX };

static const char where_begins[] = " where ", where_goes_on[] = " and ";

static const char not_letters[] =
    "the letters are not those of two operands and a result: \"mk,kn->mn\"";
static const char not_where[] = "which terms are summed is not said as in \" where 0<=1y+p-1<8\"";

/* ---- reading ---- */

static bool
read_text(const char **text, const char *what)
{
    size_t n = strlen(what);
    bool same = strncmp(*text, what, n) == 0;
    *text += same ? n : 0;
    return same;
}

static bool
is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* How many letters there are at *text, which moves behind them. */
static int
read_letters(const char **text)
{
    const char *from = *text;
    while (is_letter(**text)) {
        ++*text;
    }
    return (int)(*text - from);
}

static bool
read_number(const char **text, int64_t *to)
{
    const char *from = *text;
    for (*to = 0; **text >= '0' && **text <= '9' && *to < MOST_WITHIN; ++*text) {
        *to = 10 * *to + (**text - '0');
    }
    return *text > from && *to < MOST_WITHIN;
}

static bool
read_letter(const char **text, char *letter)
{
    *letter = **text;
    *text += is_letter(*letter);
    return is_letter(*letter);
}

/* A number, or a number of times the extent of the letter `at`, and a number: "2|y|-1". */
static bool
read_size(const char **text, Within *w)
{
    char letter;
    w->times = 0;
    if (!read_number(text, &w->size)) {
        return false;
    }
    if (!read_text(text, "|")) {
        return true;
    }
    w->times = w->size;
    bool known = w->times > 0 && read_letter(text, &letter) && letter == w->at &&
                 read_text(text, "|"),
         less = known && read_text(text, "-");
    known = known && (less || read_text(text, "+")) && read_number(text, &w->size);
    w->size = less ? -w->size : w->size;
    return known;
}

static bool
read_within(const char **text, Within *w)
{
    return read_text(text, "0<=") && read_number(text, &w->step) && w->step > 0 &&
           read_letter(text, &w->at) && read_text(text, "+") && read_letter(text, &w->place) &&
           read_text(text, "-") && read_number(text, &w->before) && read_text(text, "<") &&
           read_size(text, w);
}

static bool
is_first_summed(const Contraction *c, char letter)
{
    int k = 0;
    while (k < c->na && letter_axis(c->out, c->nout, c->a[k]) >= 0) {
        k++;
    }
    return k < c->na && c->a[k] == letter;
}

/* Reads the conditions at *text; from[k] is where each begins, numbered as ContractionError.at. */
static bool
read_where(const char **text, Contraction *c, const char **from)
{
    Where *w = &c->where;
    bool more = read_text(text, where_begins);
    for (bool first = true; more; first = false, more = read_text(text, where_goes_on)) {
        Within one = {.times = 0};
        const char *begin = *text;
        if (!read_within(text, &one)) {
            return false;
        }
        if (first && is_first_summed(c, one.place)) {
            from[0] = begin;
            w->first = one;
        } else if (w->nlater < MOST_LATER) {
            from[1 + w->nlater] = begin;
            w->later[w->nlater++] = one;
        } else {
            *text = begin;
            return false;
        }
    }
    return !**text;
}

const Contraction *
contraction_read(Cx *cx, const char *text, const char **why, const char **at)
{
    const char *from[3], *conditions[1 + MOST_LATER] = {text}, *next = text;
    static const char *const ends[] = {",", "->", ""};
    ContractionError wrong;
    int n[3];
    *why = NULL;
    for (int part = 0; part < 3 && !*why; part++) {
        from[part] = next;
        n[part] = read_letters(&next);
        *why = read_text(&next, ends[part]) ? NULL : not_letters;
    }
    if (!*why && *next && strncmp(next, where_begins, sizeof where_begins - 1) != 0) {
        *why = not_letters;
    }
    *at = next;
    if (*why) {
        return NULL;
    }
    Contraction letters = contraction_letters(n[0], from[0], n[1], from[1], n[2], from[2]);
    bool tall = n[0] > MAX_RANK || n[1] > MAX_RANK || n[2] > MAX_RANK;
    if (!tall && !read_where(&next, &letters, conditions)) {
        *why = not_where;
        *at = next;
        return NULL;
    }
    const Contraction *c = contraction_intern(cx, &letters, &wrong);
    *why = wrong.why;
    if (!c) {
        *at = wrong.part == IN_WHERE ? conditions[wrong.at] : from[wrong.part] + wrong.at;
    }
    return c;
}

/* ---- printing ---- */

static void
put_within(const char *before, const Within *w, Text *out)
{
    text_add(out, "%s0<=%lld%c+%c-%lld<", before, (long long)w->step, w->at, w->place,
             (long long)w->before);
    if (w->times) {
        text_add(out, "%lld|%c|%+lld", (long long)w->times, w->at, (long long)w->size);
    } else {
        text_add(out, "%lld", (long long)w->size);
    }
}

void
contraction_text(const Contraction *c, Text *out)
{
    const Where *w = &c->where;
    text_add(out, "%.*s,%.*s->%.*s", c->na, c->a, c->nb, c->b, c->nout, c->out);
    if (w->first.place) {
        put_within(where_begins, &w->first, out);
    }
    for (int k = 0; k < w->nlater; k++) {
        put_within(k || w->first.place ? where_goes_on : where_begins, &w->later[k], out);
    }
}
