/* The letters of a contraction: "bmk,nk->bmn" has one for each axis of the operands and the
 * result.  Behind them may stand which terms are summed: "nyxpqc,ocpq->nyxo where 0<=1y+p-1<8"; and
 * where the height is that of the result, whatever it is, 0<=1y+p-1<1|y|+0. */
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

static const char where_begins[] = " where ", where_goes_on[] = " and ";

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

/* The conditions come in the order of their summed letters, each of which has at most one. */
static const char *
read_where(const char *text, Contraction *c)
{
    Where *w = &c->where;
    int last = -1;
    for (bool more = *text; more; more = read_text(&text, where_goes_on)) {
        Within one;
        if ((last < 0 && !read_text(&text, where_begins)) || !read_within(&text, &one)) {
            return "which terms are summed is not said as in \" where 0<=1y+p-1<8\"";
        }
        int place = letter_axis(c->sum, c->nsum, one.place);
        bool kept = letter_axis(c->out, c->nout, one.at) >= 0;
        if (!kept || letter_class(c, one.at) != LETTER_OF_A || place <= last ||
            (place > 0 && w->nlater == MOST_LATER)) {
            return "the letters behind `where` are not one of the first operand and the result, "
                   "and a summed one, in the order of those";
        }
        if (place == 0) {
            w->first = one;
        } else {
            w->later[w->nlater++] = one;
        }
        last = place;
    }
    return *text ? "which terms are summed is not said as in \" where 0<=1y+p-1<8\"" : NULL;
}

static const char *
text_within(Cx *cx, const char *before, const Within *w)
{
    const char *size = cx_format(cx, "%lld", (long long)w->size);
    if (w->times) {
        size = cx_format(cx, "%lld|%c|%+lld", (long long)w->times, w->at, (long long)w->size);
    }
    return cx_format(cx, "%s%s0<=%lld%c+%c-%lld<%s", before, *before ? where_goes_on : where_begins,
                     (long long)w->step, w->at, w->place, (long long)w->before, size);
}

const char *
where_text(Cx *cx, const Where *w)
{
    const char *text = w->first.place ? text_within(cx, "", &w->first) : "";
    for (int k = 0; k < w->nlater; k++) {
        text = text_within(cx, text, &w->later[k]);
    }
    return text;
}

bool
where_is_at(const Where *w, char letter)
{
    bool at = w->first.place && w->first.at == letter;
    for (int k = 0; k < w->nlater; k++) {
        at |= w->later[k].at == letter;
    }
    return at;
}

Dim
within_size(Cx *cx, const Within *w, Dim ats)
{
    return dim_add(cx, dim_mul(cx, dim_int(cx, w->times), ats), dim_int(cx, w->size));
}

/* The first place that is at least limit - at, at most `places`. */
static Dim
first_place(Cx *cx, Dim at, Dim limit, Dim places)
{
    Dim zero = dim_int(cx, 0), left = dim_sub(cx, limit, at);
    left = dim_le(cx, zero, left) ? left : dim_max(cx, zero, left);
    return dim_le(cx, left, places) ? left : dim_min(cx, left, places);
}

void
within_places(Cx *cx, const Within *w, Dim ats, Dim at, Dim places, Dim *from, Dim *to)
{
    Dim first = dim_mul(cx, at, dim_int(cx, w->step)), before = dim_int(cx, w->before);
    *from = first_place(cx, first, before, places);
    *to = first_place(cx, first, dim_add(cx, before, within_size(cx, w, ats)), places);
}

/* The first index has the fewest places in front, the last one the fewest behind. */
bool
within_each(Cx *cx, const Within *w, Dim ats, Dim places)
{
    Dim before = dim_int(cx, w->before), size = within_size(cx, w, ats);
    Dim last = dim_mul(cx, dim_sub(cx, ats, dim_int(cx, 1)), dim_int(cx, w->step));
    return dim_lt(cx, dim_int(cx, 0), size) && dim_lt(cx, before, places) &&
           dim_lt(cx, last, dim_add(cx, before, size));
}

/* The number of window places that are summed at index `at`, of n indices. */
static int64_t
within_at(const Within *w, int64_t n, int64_t at, int64_t places)
{
    int64_t from = w->before - at * w->step, to = from + w->times * n + w->size;
    from = from < 0 ? 0 : from;
    to = to < places ? to : places;
    return to > from ? to - from : 0;
}

int64_t
within_count(Cx *cx, const Within *w, Dim ats, Dim places)
{
    int64_t n, m, count = 0;
    if (!dim_is_int(cx, ats, &n) || !dim_is_int(cx, places, &m) || n > MOST_WITHIN) {
        return -1;
    }
    for (int64_t at = 0; at < n; at++) {
        count += within_at(w, n, at, m);
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
    if (!why && *over && strncmp(over, where_begins, sizeof where_begins - 1) != 0) {
        return "the letters are not those of two operands and a result: \"mk,kn->mn\"";
    }
    why = why ? why : check_letters(c);
    return why ? why : read_where(over, c);
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

/* Behind a later place there are whole chains, and each sum has one at least. */
static const char *
check_where(Cx *cx, const Contraction *c, const Type *a, const Type *b)
{
    const Where *w = &c->where;
    for (int k = w->first.place ? -1 : 0; k < w->nlater; k++) {
        const Within *one = k < 0 ? &w->first : &w->later[k];
        Dim behind = dim_int(cx, 1), places = letter_dim(c, a, b, one->place);
        int64_t terms;
        if (!dim_is_int(cx, places, NULL)) {
            return "the summed letters behind `where` have axes of sizes that are not numbers";
        }
        for (int j = letter_axis(c->sum, c->nsum, one->place) + 1; j < c->nsum; j++) {
            behind = dim_mul(cx, behind, letter_dim(c, a, b, c->sum[j]));
        }
        if (k >= 0 && (!dim_is_int(cx, behind, &terms) || terms % CONTRACTION_CHAIN != 0)) {
            return "behind a later letter of those summed that `where` leaves out are no whole "
                   "chains";
        }
        if (w->nlater && !within_each(cx, one, letter_dim(c, a, b, one->at), places)) {
            return "`where` leaves out all terms of a sum, or nothing shows that it does not";
        }
    }
    return NULL;
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
    *why = *why ? *why : check_where(cx, &c, a, b);
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
has_panels(Cx *cx, const Value *v)
{
    const Type *type = v->type;
    int n = type->rank;
    int64_t width = panel_width(type->dtype);
    return n >= 2 && dtype_info[type->dtype].compute == type->dtype &&
           dim_is(cx, type->dims[n - 1], width) &&
           (!v->strides ||
            (dim_is(cx, v->strides[n - 1], 1) && dim_is(cx, v->strides[n - 2], width)));
}

bool
is_of_panel(Cx *cx, const Let *access, Dim row, Dim column)
{
    const Attr *at = let_attr(access, "at");
    int n = at->n;
    Dim step, rest;
    bool one = dim_is(cx, dim_extent(cx, row), 1); /* then its index may be left out */
    return has_panels(cx, access->args[0]) && n == access->args[0]->type->rank &&
           at->dims[n - 1] == column && dim_affine(cx, at->dims[n - 2], row, &step, &rest) &&
           (dim_is(cx, step, 1) || (one && dim_is(cx, step, 0))) && !dim_uses(cx, rest, column);
}
