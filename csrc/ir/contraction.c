/* The letters of a contraction: "bmk,nk->bmn" has one for each axis of the operands and the
 * result.  Behind them may stand which terms are summed: "nyxpqc,ocpq->nyxo where 0<=1y+p-1<8". */
#include "rules.h"

#include <string.h>

int
letter_axis(const char *letters, int n, char letter)
{
    for (int k = 0; k < n; k++) {
        if (letters[k] == letter) {
            return k;
        }
    }
    return -1;
}

LetterClass
letter_class(const Contraction *c, char letter)
{
    unsigned a = letter_axis(c->a, c->na, letter) >= 0, b = letter_axis(c->b, c->nb, letter) >= 0;
    return a * LETTER_OF_A + b * LETTER_OF_B;
}

static bool
is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The letters at *text, each once; *text moves behind them. */
static const char *
read_letters(const char **text, const char **letters, int *n)
{
    *letters = *text;
    for (*n = 0; is_letter(**text); ++*n, ++*text) {
        if (letter_axis(*letters, *n, **text) >= 0) {
            return "a letter stands twice in an operand or in the result";
        }
        if (*n == MAX_RANK) {
            return "there are more letters than a tensor has axes";
        }
    }
    return NULL;
}

/* Every letter of an operand is the other's or the result's, every letter of the result an
 * operand's. */
static const char *
check_letters(Contraction *c)
{
    for (int k = 0; k < c->nout; k++) {
        if (letter_class(c, c->out[k]) == LETTER_OF_NONE) {
            return "a letter of the result is no operand's";
        }
    }
    for (int k = 0; k < c->na; k++) {
        bool other = letter_class(c, c->a[k]) == LETTER_OF_BOTH;
        bool kept = letter_axis(c->out, c->nout, c->a[k]) >= 0;
        if (!other && !kept) {
            return "a letter stands in one operand alone";
        }
        if (!kept) {
            c->sum[c->nsum++] = c->a[k];
        }
    }
    for (int k = 0; k < c->nb; k++) {
        if (letter_axis(c->a, c->na, c->b[k]) < 0 && letter_axis(c->out, c->nout, c->b[k]) < 0) {
            return "a letter stands in one operand alone";
        }
    }
    return NULL;
}

/* ---- which terms are summed ---- */

enum { MOST_WITHIN = INT32_MAX };

static const char within_begins[] = " where 0<=";

static bool
read_text(const char **text, const char *what)
{
    size_t n = strlen(what);
    bool same = strncmp(*text, what, n) == 0;
    *text += same ? n : 0;
    return same;
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

static const char *
read_within(const char *text, Within *w)
{
    bool good = read_text(&text, within_begins) && read_number(&text, &w->step) && w->step > 0 &&
                read_letter(&text, &w->at) && read_text(&text, "+") &&
                read_letter(&text, &w->place) && read_text(&text, "-") &&
                read_number(&text, &w->before) && read_text(&text, "<") &&
                read_number(&text, &w->size);
    return good && !*text ? NULL
                          : "which terms are summed is not said as in \" where 0<=1y+p-1<8\"";
}

static const char *
check_within(const Contraction *c)
{
    const Within *w = &c->within;
    bool kept = letter_axis(c->out, c->nout, w->at) >= 0 && letter_class(c, w->at) == LETTER_OF_A;
    return !w->place || (kept && c->nsum && c->sum[0] == w->place)
               ? NULL
               : "the letters behind `where` are not one of the first operand and the result, and "
                 "the first one that is summed";
}

const char *
within_text(Cx *cx, const Within *w)
{
    return w->place ? cx_format(cx, " where 0<=%lld%c+%c-%lld<%lld", (long long)w->step, w->at,
                                w->place, (long long)w->before, (long long)w->size)
                    : "";
}

/* The first place that is at least limit - at, at most `places`. */
static Dim
first_place(Cx *cx, Dim at, int64_t limit, Dim places)
{
    Dim zero = dim_int(cx, 0), left = dim_sub(cx, dim_int(cx, limit), at);
    left = dim_le(cx, zero, left) ? left : dim_max(cx, zero, left);
    return dim_le(cx, left, places) ? left : dim_min(cx, left, places);
}

void
within_places(Cx *cx, const Within *w, Dim at, Dim places, Dim *from, Dim *to)
{
    Dim first = dim_mul(cx, at, dim_int(cx, w->step));
    *from = first_place(cx, first, w->before, places);
    *to = first_place(cx, first, w->before + w->size, places);
}

int64_t
within_count(Cx *cx, const Within *w, Dim ats, Dim places)
{
    int64_t n, m, count = 0;
    if (!dim_is_int(cx, ats, &n) || !dim_is_int(cx, places, &m) || n > MOST_WITHIN) {
        return -1;
    }
    for (int64_t at = 0; at < n; at++) {
        int64_t from = w->before - at * w->step, to = from + w->size;
        from = from < 0 ? 0 : from;
        to = to < m ? to : m;
        count += to > from ? to - from : 0;
    }
    return count;
}

/* ---- reading ---- */

const char *
contraction_read(const char *over, Contraction *c)
{
    *c = (Contraction){.nsum = 0};
    const char *why = read_letters(&over, &c->a, &c->na);
    if (!why && *over++ != ',') {
        return "the letters are not those of two operands and a result: \"mk,kn->mn\"";
    }
    why = why ? why : read_letters(&over, &c->b, &c->nb);
    if (!why && strncmp(over, "->", 2) != 0) {
        return "the letters are not those of two operands and a result: \"mk,kn->mn\"";
    }
    over += why ? 0 : 2;
    why = why ? why : read_letters(&over, &c->out, &c->nout);
    if (!why && *over && strncmp(over, within_begins, sizeof within_begins - 1) != 0) {
        return "the letters are not those of two operands and a result: \"mk,kn->mn\"";
    }
    why = why || !*over ? why : read_within(over, &c->within);
    why = why ? why : check_letters(c);
    return why ? why : check_within(c);
}

Contraction
let_contraction(const Let *let)
{
    Contraction c;
    contraction_read(let_str(let, "over"), &c);
    return c;
}

Dim
letter_dim(const Contraction *c, const Type *a, const Type *b, char letter)
{
    int axis = letter_axis(c->a, c->na, letter);
    return axis >= 0 ? a->dims[axis] : b->dims[letter_axis(c->b, c->nb, letter)];
}

const Type *
type_contract(Cx *cx, const char *over, const Type *a, const Type *b, Dtype to, const char **why)
{
    Contraction c;
    Dim dims[MAX_RANK];
    DtypeClass class = dtype_info[a->dtype].class;
    *why = contraction_read(over, &c);
    if (*why) {
        return NULL;
    }
    *why = c.na != a->rank || c.nb != b->rank ? "an operand does not have a letter for each axis"
           : a->dtype != b->dtype             ? "the operands differ in dtype"
           : class != CLASS_INT && class != CLASS_FLOAT ? "the op wants integers or floating point"
                                                        : NULL;
    for (int k = 0; k < c.nb && !*why; k++) {
        if (letter_dim(&c, a, b, c.b[k]) != b->dims[k]) {
            *why = "the axes of a letter differ in size";
        }
    }
    for (int k = 0; k < c.nout && !*why; k++) {
        dims[k] = letter_dim(&c, a, b, c.out[k]);
    }
    const Within *w = &c.within;
    if (!*why && w->place &&
        within_count(cx, w, letter_dim(&c, a, b, w->at), letter_dim(&c, a, b, w->place)) < 0) {
        *why = "the letters behind `where` have axes of sizes that are not numbers";
    }
    Dtype dtype = to == dtype_info[a->dtype].compute ? to : a->dtype;
    return *why ? NULL : type_of(cx, dtype, c.nout, dims);
}

/* ---- panels ---- */

int64_t
panel_width(Dtype sum)
{
    return MICRO_ROW_BYTES / (int64_t)dtype_info[sum].bytes;
}

bool
is_of_panel(Cx *cx, const Let *access, Dim row, Dim column)
{
    const Type *type = access->args[0]->type;
    const Attr *at = let_attr(access, "at");
    int n = type->rank;
    Dim step, rest;
    return n >= 2 && at->n == n && at->dims[n - 1] == column &&
           dim_affine(cx, at->dims[n - 2], row, &step, &rest) && dim_is(cx, step, 1) &&
           !dim_uses(cx, rest, column) && dim_is(cx, type->dims[n - 1], panel_width(type->dtype));
}
