/* The letters of a contraction: "bmk,nk->bmn" has one for each axis of the operands and the
 * result. */
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
    if (!why && *over) {
        return "the letters are not those of two operands and a result: \"mk,kn->mn\"";
    }
    return why ? why : check_letters(c);
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
