/* The letters of a contraction, one for each axis of the operands and the result, and its type. */
#include "ir/cx.h"
#include "ir/rules.h"

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

/* ---- which letters are a contraction ---- */

static bool
is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int
copy_letters(char *to, int n, const char *from)
{
    memcpy(to, from, (size_t)(n < MAX_RANK ? n : MAX_RANK));
    return n;
}

Contraction
contraction_letters(int na, const char *a, int nb, const char *b, int nout, const char *out)
{
    Contraction c = {.nsum = 0};
    c.na = copy_letters(c.a, na, a);
    c.nb = copy_letters(c.b, nb, b);
    c.nout = copy_letters(c.out, nout, out);
    return c;
}

static bool
is_wrong(ContractionError *wrong, const char *why, int part, int at)
{
    *wrong = (ContractionError){.why = why, .part = part, .at = at};
    return true;
}

/* Are the letters of an operand or of the result letters, each there once? */
static bool
is_wrong_list(const char *letters, int n, int part, ContractionError *wrong)
{
    if (n > MAX_RANK) {
        return is_wrong(wrong, "there are more letters than a tensor has axes", part, MAX_RANK);
    }
    for (int k = 0; k < n; k++) {
        if (!is_letter(letters[k])) {
            return is_wrong(wrong, "an axis has no letter", part, k);
        }
        if (letter_axis(letters, k, letters[k]) >= 0) {
            return is_wrong(wrong, "a letter stands twice in an operand or in the result", part, k);
        }
    }
    return false;
}

/* Every letter of an operand is the other's or the result's, every letter of the result an
 * operand's. */
static bool
is_wrong_letter(const Contraction *c, ContractionError *wrong)
{
    for (int k = 0; k < c->nout; k++) {
        if (letter_class(c, c->out[k]) == LETTER_OF_NONE) {
            return is_wrong(wrong, "a letter of the result is no operand's", IN_OUT, k);
        }
    }
    for (int k = 0; k < c->na + c->nb; k++) {
        bool second = k >= c->na;
        int at = second ? k - c->na : k;
        char letter = second ? c->b[at] : c->a[at];
        if (letter_class(c, letter) != LETTER_OF_BOTH && letter_axis(c->out, c->nout, letter) < 0) {
            return is_wrong(wrong, "a letter stands in one operand alone", second ? IN_B : IN_A,
                            at);
        }
    }
    return false;
}

/* The conditions come in the order of their summed letters, each of which has at most one. */
static bool
is_wrong_where(const Contraction *c, ContractionError *wrong)
{
    int last = 0;
    for (int k = c->where.first.place ? -1 : 0; k < c->where.nlater; k++) {
        const Within *w = k < 0 ? &c->where.first : &c->where.later[k];
        int place = letter_axis(c->sum, c->nsum, w->place);
        bool kept = letter_axis(c->out, c->nout, w->at) >= 0;
        if (!kept || letter_class(c, w->at) != LETTER_OF_A ||
            (k < 0 ? place != 0 : place <= last)) {
            return is_wrong(wrong,
                            "the letters behind `where` are not one of the first operand and the "
                            "result, and a summed one, in the order of those",
                            IN_WHERE, k + 1);
        }
        if (w->step < 1 || w->before < 0 || w->times < 0) {
            return is_wrong(wrong, "a condition behind `where` has a number below its least one",
                            IN_WHERE, k + 1);
        }
        last = place;
    }
    return false;
}

/* ---- interned contractions ---- */

static bool
same_within(const Within *a, const Within *b)
{
    return a->at == b->at && a->place == b->place && a->step == b->step && a->before == b->before &&
           a->times == b->times && a->size == b->size;
}

static bool
same_letters(const char *a, int na, const char *b, int nb)
{
    return na == nb && memcmp(a, b, (size_t)na) == 0;
}

static bool
same_contraction(const void *entry, const void *key)
{
    const Contraction *a = entry, *b = key;
    bool same = same_letters(a->a, a->na, b->a, b->na) && same_letters(a->b, a->nb, b->b, b->nb) &&
                same_letters(a->out, a->nout, b->out, b->nout) &&
                same_within(&a->where.first, &b->where.first) && a->where.nlater == b->where.nlater;
    for (int k = 0; same && k < a->where.nlater; k++) {
        same = same_within(&a->where.later[k], &b->where.later[k]);
    }
    return same;
}

static uint64_t
hash_contraction(const Contraction *c)
{
    return hash_mix(hash_mix(hash_bytes(c->a, (size_t)c->na), hash_bytes(c->b, (size_t)c->nb)),
                    hash_bytes(c->out, (size_t)c->nout));
}

static void
find_sums(Contraction *c)
{
    c->nsum = 0;
    for (int k = 0; k < c->na; k++) {
        if (letter_axis(c->out, c->nout, c->a[k]) < 0) {
            c->sum[c->nsum++] = c->a[k];
        }
    }
}

const Contraction *
contraction_intern(Cx *cx, const Contraction *letters, ContractionError *wrong)
{
    Contraction c = *letters;
    *wrong = (ContractionError){.why = NULL};
    if (is_wrong_list(c.a, c.na, IN_A, wrong) || is_wrong_list(c.b, c.nb, IN_B, wrong) ||
        is_wrong_list(c.out, c.nout, IN_OUT, wrong) || is_wrong_letter(&c, wrong)) {
        return NULL;
    }
    find_sums(&c);
    if (is_wrong_where(&c, wrong)) {
        return NULL;
    }
    uint64_t hash = hash_contraction(&c);
    Contraction *found = table_find(&cx->contractions, hash, same_contraction, &c);
    if (!found) {
        found = cx_copy(cx, &c, sizeof c);
        table_add(cx, &cx->contractions, hash, found);
    }
    return found;
}

const Contraction *
let_contraction(const Let *let)
{
    return let_attr(let, "over")->letters;
}

/* ---- which terms are summed ---- */

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
    if (!dim_is_int(cx, ats, &n) || !dim_is_int(cx, places, &m) || n > INT32_MAX) {
        return -1;
    }
    for (int64_t at = 0; at < n; at++) {
        count += within_at(w, n, at, m);
    }
    return count;
}

/* ---- types ---- */

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
type_contract(Cx *cx, const Contraction *c, const Type *a, const Type *b, Dtype to,
              const char **why)
{
    Dim dims[MAX_RANK];
    DtypeClass class = dtype_info[a->dtype].class;
    *why = c->na != a->rank || c->nb != b->rank ? "an operand does not have a letter for each axis"
           : a->dtype != b->dtype               ? "the operands differ in dtype"
           : class != CLASS_INT && class != CLASS_FLOAT ? "the op wants integers or floating point"
                                                        : NULL;
    for (int k = 0; k < c->nb && !*why; k++) {
        if (letter_dim(c, a, b, c->b[k]) != b->dims[k]) {
            *why = "the axes of a letter differ in size";
        }
    }
    for (int k = 0; k < c->nout && !*why; k++) {
        dims[k] = letter_dim(c, a, b, c->out[k]);
    }
    *why = *why ? *why : check_where(cx, c, a, b);
    Dtype dtype = to == dtype_info[a->dtype].compute ? to : a->dtype;
    return *why ? NULL : type_of(cx, dtype, c->nout, dims);
}

/* ---- panels ---- */

Dtype
panel_dtype(Dtype operand)
{
    return operand == DT_i8 || operand == DT_u8 ? operand : dtype_info[operand].compute;
}

int64_t
panel_width(Dtype dtype)
{
    return MICRO_ROW_BYTES / (int64_t)dtype_info[dtype_info[dtype].compute].bytes;
}

bool
has_panels(Cx *cx, const Value *v)
{
    const Type *type = v->type;
    int n = type->rank;
    int64_t width = panel_width(type->dtype);
    return n >= 2 && panel_dtype(type->dtype) == type->dtype &&
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

/* ---- sums of groups ---- */

/* Does the contraction sum one letter of operand j, in one chain, and has the other operand no
 * letters but that one's? */
static bool
adds_one_letter(Cx *cx, const Let *let, int j)
{
    const Contraction *c = let_contraction(let);
    const char *mine = j ? c->b : c->a, *others = j ? c->a : c->b;
    int n = j ? c->nb : c->na, nothers = j ? c->na : c->nb;
    bool good = c->nsum == 1 && c->nout == n - 1 && !c->where.first.place && !c->where.nlater;
    for (int k = 0; k < nothers && good; k++) {
        good = letter_axis(mine, n, others[k]) >= 0;
    }
    return good &&
           dim_range(cx, letter_dim(c, let->args[0]->type, let->args[1]->type, c->sum[0])).hi <=
               CONTRACTION_CHAIN;
}

const Let *
contraction_of_groups(Cx *cx, const Let *let, int j)
{
    const Value *v = let->op == OP_contract ? let->args[j] : NULL;
    const Let *cast = v && !value_is_const(v) && v->def && v->def->op == OP_cast ? v->def : NULL;
    const Value *of = cast && v->type->dtype == DT_f32 ? cast->args[0] : NULL;
    const Let *product = of && !value_is_const(of) && of->type->dtype == DT_i32 ? of->def : NULL;
    if (!product || product->op != OP_contract || !adds_one_letter(cx, let, j)) {
        return NULL;
    }
    const Contraction *c = let_contraction(let), *inner = let_contraction(product);
    int axis = letter_axis(j ? c->b : c->a, j ? c->nb : c->na, c->sum[0]);
    bool batch = letter_class(inner, inner->out[axis]) == LETTER_OF_BOTH;
    return batch && inner->nsum && !inner->where.first.place && !inner->where.nlater ? cast : NULL;
}
