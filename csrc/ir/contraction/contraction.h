/* The letters of a contraction, which terms of its sums are summed, and panels of its operands.  In
 * ir.h; see contraction.c and contraction_text.c. */
#ifndef DLC_CONTRACTION_H
#define DLC_CONTRACTION_H

enum {
    CONTRACTION_CHAIN = 256, /* terms that are summed one after the other, see ops.def */
    /* of a row of a panel, or of a tile of sums; see codegen/micro/micro.h */
    MICRO_ROW_BYTES = 128,
    MICRO_MOST_ROWS = 14, /* of a tile of sums */
    MOST_LATER = 2, /* places of a `where` behind the first summed letter */
};

/* A condition on the terms of a sum: 0 <= step * at + place - before < times * |at| + size, where
 * `at` is a letter of the first operand and the result, |at| its extent, and `place` a summed
 * letter; 0: all terms. */
typedef struct {
    char at, place;
    int64_t step, before, times, size;
} Within;

/* Which terms are summed: those within all of these. */
typedef struct {
    Within first; /* its place is the first summed letter */
    int nlater;
    Within later[MOST_LATER]; /* of later ones, in their order: whole chains are left out */
} Where;

/* What `over` says: a letter for each axis of the operands and of the result.  Interned: equal ones
 * are the same pointer. */
typedef struct Contraction {
    char a[MAX_RANK], b[MAX_RANK], out[MAX_RANK];
    int na, nb, nout;
    Where where;
    int nsum;
    char sum[MAX_RANK]; /* the summed letters, in the order of a */
} Contraction;

/* Why letters are no contraction, and where the first mistake is. */
typedef struct {
    const char *why; /* NULL: there is none */
    enum { IN_A, IN_B, IN_OUT, IN_WHERE } part;
    int at; /* the axis; of `where`: 0 for `first`, k + 1 for later[k] */
} ContractionError;

/* The letters without a condition, not interned.  Numbers above MAX_RANK are kept as they are, for
 * contraction_intern to refuse. */
Contraction contraction_letters(int na, const char *a, int nb, const char *b, int nout,
                                const char *out);
/* The interned contraction with these letters and conditions; `sum` is found.  NULL: they are none,
 * and *wrong says why. */
const Contraction *contraction_intern(Cx *cx, const Contraction *letters, ContractionError *wrong);
/* Text and back: "nyxpqc,ocpq->nyxo where 0<=1y+p-1<8".  Reading fails by NULL, the reason in *why,
 * and *at is the first byte at fault. */
const Contraction *contraction_read(Cx *cx, const char *text, const char **why, const char **at);
void contraction_text(const Contraction *c, Text *out);
const Contraction *let_contraction(const Let *let); /* of a contract */
bool where_is_at(const Where *w, char letter); /* does the letter select summed terms? */
/* For `ats` indices: the size in the condition; the first of the places whose terms are summed at
 * index `at`, and their end; is each index known to have such a place? */
Dim within_size(Cx *cx, const Within *w, Dim ats);
void within_places(Cx *cx, const Within *w, Dim ats, Dim at, Dim places, Dim *from, Dim *to);
bool within_each(Cx *cx, const Within *w, Dim ats, Dim places);
/* All places that are summed at any of them; -1: a size is not known. */
int64_t within_count(Cx *cx, const Within *w, Dim ats, Dim places);
int letter_axis(const char *letters, int n, char letter); /* -1: it is not there */

/* The operands that have a letter.  A letter of the result that both have is a batch letter. */
typedef enum { LETTER_OF_NONE, LETTER_OF_A, LETTER_OF_B, LETTER_OF_BOTH } LetterClass;

LetterClass letter_class(const Contraction *c, char letter);
/* What panels hold of an operand of this dtype: numbers in the dtype of the sums, or an operand's
 * bytes as they are; and the columns of a panel, which are the same for both. */
Dtype panel_dtype(Dtype operand);
int64_t panel_width(Dtype dtype);
/* Is the value stored as panels, [.., rows, columns of a panel]? The shape alone does not show it:
 * the rows of a matrix with so many columns may have any distance. */
bool has_panels(Cx *cx, const Value *v);
/* Is the index of the load or store that of an element of panels, [.., row + terms without row and
 * column, column], whose last axis is a panel's row? */
bool is_of_panel(Cx *cx, const Let *access, Dim row, Dim column);
/* The cast to floats that operand j of the contraction is, if that is of a product of integers in
 * batches, whose sums this contraction adds, each times a number that all of them have, in one
 * chain; or NULL. */
const Let *contraction_of_groups(Cx *cx, const Let *let, int j);
/* The size of a letter's axis. */
Dim letter_dim(const Contraction *c, const Type *a, const Type *b, char letter);

#endif
