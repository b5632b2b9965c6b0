/* Products of several tensors by letters: einsum, and the three operands of a bilinear layer.
 * Two operands at a time from the left, summed over the letters that neither the others nor the
 * result have. */
#include "aten_product.h"

#include <string.h>

enum { MAX_TERMS = 16 };

/* The product of all, with the axes of the result in the order of `out`. */
static Value *
products(Aten *n, int count, Term *terms, const char *out)
{
    for (int k = 1; k < count; k++) {
        char keep[MAX_TERMS * MAX_RANK + MAX_RANK + 1];
        size_t length = strlen(out);
        memcpy(keep, out, length + 1);
        for (int j = k + 1; j < count; j++) {
            for (int ax = 0; ax < terms[j].n; ax++) {
                if (!strchr(keep, terms[j].letters[ax])) {
                    keep[length++] = terms[j].letters[ax];
                    keep[length] = '\0';
                }
            }
        }
        if (!term_multiply(n, &terms[0], &terms[k], keep, n->type->dtype)) {
            return NULL;
        }
    }
    return term_ordered(n, &terms[0], out, (int)strlen(out));
}

/* ---- einsum ---- */

static bool
is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The letters of one operand, up to a comma, an arrow or the end. `...` becomes digits, one for
 * each axis without a letter: .., 1, 0. False: a letter occurs twice, or the number of axes is
 * wrong. */
static bool
read_term(const char **text, Term *t)
{
    int rank = t->v->type->rank, before = 0, named = 0;
    bool dots = false;
    char letters[2 * MAX_RANK];
    for (; **text && **text != ',' && **text != '-'; ++*text) {
        if (**text == '.' && !dots && strncmp(*text, "...", 3) == 0) {
            dots = true;
            before = named;
            *text += 2;
        } else if (is_letter(**text) && named < MAX_RANK &&
                   letter_axis(letters, named, **text) < 0) {
            letters[named++] = **text;
        } else if (**text != ' ') {
            return false;
        }
    }
    int rest = rank - named;
    if (rest < 0 || (rest > 0 && !dots)) {
        return false;
    }
    for (int ax = 0; ax < rank; ax++) {
        t->letters[ax] = ax < before || !dots ? letters[ax]
                         : ax < before + rest ? (char)('0' + rest - 1 - (ax - before))
                                              : letters[ax - rest];
    }
    t->n = rank;
    return true;
}

/* The letters of an omitted result: those that occur once, in order, after the axes of `...`. */
static void
implied_result(int count, const Term *terms, char *out)
{
    int most = 0, n = 0;
    int times[128] = {0};
    for (int k = 0; k < count; k++) {
        for (int ax = 0; ax < terms[k].n; ax++) {
            unsigned char c = (unsigned char)terms[k].letters[ax];
            times[c]++;
            most = !is_letter((char)c) && c - '0' + 1 > most ? c - '0' + 1 : most;
        }
    }
    for (int k = most - 1; k >= 0; k--) {
        out[n++] = (char)('0' + k);
    }
    for (int c = 'A'; c <= 'z'; c++) {
        if (is_letter((char)c) && times[c] == 1) {
            out[n++] = (char)c;
        }
    }
    out[n] = '\0';
}

static bool
written_result(const char *text, int count, const Term *terms, char *out)
{
    int most = 0, n = 0;
    for (int k = 0; k < count; k++) {
        for (int ax = 0; ax < terms[k].n; ax++) {
            int number = is_letter(terms[k].letters[ax]) ? 0 : terms[k].letters[ax] - '0' + 1;
            most = number > most ? number : most;
        }
    }
    for (; *text; text++) {
        if (strncmp(text, "...", 3) == 0) {
            for (int k = most - 1; k >= 0 && n < MAX_RANK; k--) {
                out[n++] = (char)('0' + k);
            }
            text += 2;
        } else if (is_letter(*text) && n < MAX_RANK && letter_axis(out, n, *text) < 0) {
            out[n++] = *text;
        } else if (*text != ' ') {
            return false;
        }
    }
    out[n] = '\0';
    return true;
}

/* Digits are no letters of a contraction: those that nobody uses take their places. */
static bool
only_letters(int count, Term *terms, char *out)
{
    static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    bool used[128] = {false};
    char names[128] = {0};
    for (int k = 0; k < count; k++) {
        for (int ax = 0; ax < terms[k].n; ax++) {
            used[(unsigned char)terms[k].letters[ax]] = true;
        }
    }
    const char *next = all;
    for (int c = 0; c < 128; c++) {
        names[c] = (char)c;
        if (used[c] && !is_letter((char)c)) {
            while (*next && used[(unsigned char)*next]) {
                next++;
            }
            if (!*next) {
                return false;
            }
            names[c] = *next++;
        }
    }
    for (int k = 0; k < count; k++) {
        for (int ax = 0; ax < terms[k].n; ax++) {
            terms[k].letters[ax] = names[(unsigned char)terms[k].letters[ax]];
        }
    }
    for (; *out; out++) {
        *out = names[(unsigned char)*out];
    }
    return true;
}

/* (equation, operands), these in a list or one by one */
Value *
aten_einsum(Aten *n)
{
    const Arg *equation = arg_at(n, 0), *list = arg_at(n, 1);
    list = list->kind == ARG_LIST && list->n == 1 && list->items[0].kind == ARG_LIST
               ? &list->items[0]
               : list;
    if (equation->kind != ARG_TEXT || list->kind != ARG_LIST || list->n < 2 ||
        list->n > MAX_TERMS) {
        return NULL;
    }
    Term terms[MAX_TERMS];
    const char *text = equation->text;
    for (int k = 0; k < list->n; k++) {
        const Arg *a = &list->items[k];
        if (a->kind != ARG_TENSOR || a->v->type->dtype != n->type->dtype ||
            n->type->dtype == DT_bool) {
            return NULL;
        }
        terms[k] = (Term){.v = a->v};
        if (!read_term(&text, &terms[k]) || *text != (k + 1 < list->n ? ',' : *text)) {
            return NULL;
        }
        text += *text == ',';
    }
    char out[128];
    if (*text == '\0') {
        implied_result(list->n, terms, out);
    } else if (strncmp(text, "->", 2) != 0 || !written_result(text + 2, list->n, terms, out)) {
        return NULL;
    }
    return only_letters(list->n, terms, out) ? products(n, list->n, terms, out) : NULL;
}

/* ---- three products ---- */

/* Letters for the axes of the product that the list does not name; -1: it is no list of such
 * axes. */
static int
letters_without(const Arg *list, int rank, char *letters)
{
    bool named[MAX_RANK] = {false};
    int n = 0;
    if (list->kind != ARG_LIST || rank > MAX_RANK) {
        return -1;
    }
    for (int k = 0; k < list->n; k++) {
        if (list->items[k].kind != ARG_INT || list->items[k].i < 0 || list->items[k].i >= rank) {
            return -1;
        }
        named[list->items[k].i] = true;
    }
    for (int k = 0; k < rank; k++) {
        if (!named[k]) {
            letters[n++] = (char)('a' + k);
        }
    }
    return n;
}

/* (x, y, z, and for each the axes of the product that it lacks, the axes that are summed) */
Value *
aten_trilinear(Aten *n)
{
    Term terms[3];
    char out[MAX_RANK + 1] = "";
    if (product_dtype(n, 0, 2) == DTYPE_COUNT) {
        return NULL;
    }
    int rank = arg_tensor(n, 0)->type->rank + arg_at(n, 3)->n;
    for (int k = 0; k < 3; k++) {
        terms[k] = (Term){.v = arg_tensor(n, k)};
        terms[k].n = letters_without(arg_at(n, 3 + k), rank, terms[k].letters);
        if (terms[k].n != terms[k].v->type->rank) {
            return NULL;
        }
    }
    return letters_without(arg_at(n, 6), rank, out) < 0 ? NULL : products(n, 3, terms, out);
}
