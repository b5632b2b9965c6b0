/* The private part of a context, for the files of this folder only. */
#ifndef DLC_CX_H
#define DLC_CX_H

#include "ir.h"

/* ---- cx.c: hash tables ---- */

/* Open addressing, entries are pointers with their hash; nothing is ever removed. */
typedef struct { uint64_t hash; void *entry; } Slot;
typedef struct { Slot *slots; size_t room, count; } Table;

/* Returns the entry for which equal(entry, key) is true; NULL: there is none. */
void *table_find(const Table *table, uint64_t hash,
                 bool (*equal)(const void *entry, const void *key), const void *key);
void table_add(Cx *cx, Table *table, uint64_t hash, void *entry);
uint64_t hash_bytes(const void *bytes, size_t length);
uint64_t hash_mix(uint64_t a, uint64_t b);

/* ---- dim.c, dim_node.c: how a dim is stored ---- */

typedef uint32_t Mono;          /* an interned product of atoms; 0 is the empty one */
typedef uint32_t Atom;

enum { MONO_ONE = 0 };

typedef struct { int64_t c; Mono mono; } Term;          /* c is not 0 */
typedef struct {
    Dim id;
    unsigned failed;            /* the last attempt that failed to prove it not negative, */
    int nested;                 /* and Dims.nested in it */
    int n;
    Term terms[];               /* in canonical order */
} Poly;
typedef struct { Mono id; int degree; Atom atoms[]; } MonoNode;

typedef enum { ATOM_SIZE, ATOM_INDEX, ATOM_DIV, ATOM_MOD, ATOM_MAX, ATOM_MIN,
               ATOM_SCALE } AtomKind;

typedef struct {
    AtomKind kind;
    Atom id;
    const char *name;           /* SIZE, INDEX */
    Dim a, b;                   /* operands; INDEX: a is the extent; SCALE: b the bits of a float */
    Dim self;                   /* the dim that is this atom alone */
    Range range;                /* SIZE: declared; of the others known when epoch is the table's */
    int64_t divisor;            /* the same */
    unsigned epoch;
} AtomNode;

enum { MOST_EXIST = 12 };

#define NO_EPOCH UINT32_MAX     /* the number of no epoch */

typedef struct {
    Table polys, monos, atoms, results;
    Poly **poly;                /* by Dim */
    MonoNode **mono;            /* by Mono */
    AtomNode **atom;            /* by Atom */
    int npolys, nmonos, natoms;
    unsigned epoch;             /* another one when a range is declared: derived facts are stale */
    unsigned epochs;            /* the last one that was begun */
    struct Assumption **assumptions; /* assume.c: all that were ever begun */
    int nassumptions;
    const struct Assumption *assumed; /* the innermost one that is open, or NULL */
    int depth;                  /* of simplifications within simplifications */
    int work;                   /* simplifications that the question asked may still take */
    int raw;                    /* above 0: sums are left as they are */
    unsigned cuts;              /* how often depth, work or fuel cut one short */
    bool proving;               /* within a proof, which has */
    bool orders;                /* and tries atoms in other orders than that of their creation, */
    bool floors;                /* and quotients that are rounded down */
    int fuel;                   /* this many steps left, */
    unsigned attempt;           /* and this number, from 1 on */
    /* Dims that are not negative because the indices of the current question exist; nexist 0: none
     * is used.  Facts that are proved with them hold for this question alone. */
    Dim exist[MOST_EXIST];
    int nexist, nested;         /* nested: how many of them have been taken away so far */
} Dims;

_Noreturn void dim_too_large(Cx *cx);
Dim poly_intern(Cx *cx, int n, const Term *terms);      /* terms in order */
AtomNode *atom_new(Cx *cx, AtomNode as);
Dim atom_intern(Cx *cx, AtomNode as);
int mono_order(const Cx *cx, Mono a, Mono b);
const Poly *dim_poly(const Cx *cx, Dim d);
const MonoNode *mono_node(const Cx *cx, Mono mono);
const AtomNode *atom_node(const Cx *cx, Atom atom);
AtomNode *dim_atom(const Cx *cx, Dim d);                /* d as a lone atom, or NULL */
Mono mono_mul(Cx *cx, Mono a, Mono b);
enum { MAX_DEGREE = 24 };       /* of a product: more than the axes of any tensor */

bool mono_div(Cx *cx, Mono a, Mono b, Mono *out);       /* false when b does not divide a */
Mono mono_gcd(Cx *cx, Mono a, Mono b);
Dim dim_term(Cx *cx, int64_t c, Mono mono);
/* Computes a + c*b. False: a coefficient overflows. */
bool dim_try_add(Cx *cx, Dim a, Dim b, int64_t c, Dim *out);
/* d == a*atom + rest, rest without the atom; a may still have it. */
void dim_split(Cx *cx, Dim d, Dim atom, Dim *a, Dim *rest);
bool dim_try_mul(Cx *cx, Dim a, Dim b, Dim *out);

Dim dim_opaque(Cx *cx, AtomKind kind, Dim a, Dim b);    /* the atom itself, unsimplified */
Dim dim_scale_bits(Cx *cx, Dim a, Dim bits);            /* dim_scale by the float of these bits */

void dim_begin(Cx *cx);                                 /* a question from outside gets its work */
void dim_recover(Cx *cx);                               /* a failure may have cut a rule short */

int64_t int_div(int64_t a, int64_t b);                  /* rounds down; x // 0 is 0 */
int64_t int_mod(int64_t a, int64_t b);
int64_t int_gcd(int64_t a, int64_t b);                  /* never negative */
/* The multiples of the divisor in the range; the range itself where there are none. */
Range dim_multiples(Range range, int64_t divisor);

/* ---- dim_div.c ---- */

/* d without terms that cancel: x//d*d + x%d, (x//d)*d where d divides x, and the like. */
Dim dim_cancel(Cx *cx, Dim d);
/* a == q*d + r: q has the terms of a that the first term of d divides. If d is an integer > 0, q
 * also has the terms that it divides by declared divisors, and the integer. */
void dim_divide_whole(Cx *cx, Dim a, Dim d, Dim *q, Dim *r);

/* ---- refute.c ---- */

/* Do some sizes make d negative, where the indices of both exist, so that d >= 0 cannot be proved?
 * No says nothing. */
bool dim_refuted(Cx *cx, Dim d, Dim with);

/* ---- exist.c ---- */

Dim dim_nonempty(Cx *cx, Dim extent);                   /* x, where it is written as max(0, x) */
/* What is at least 1 where the extent is: x - y of x - min(x, y), the loop over what a first one
 * has left; x - d*(n - 1) of (x + d - 1)//d - n + 1, the loop over blocks after others. */
bool dim_says(Cx *cx, Dim extent, Dim *more);
/* Fills in Dims.exist by the indices of both; false: they say nothing. */
bool dim_exist(Cx *cx, Dim d, Dim with);
Dim dim_simplified(Cx *cx, Dim d);      /* made again, by what is declared and assumed now */
/* d without a multiple of exist[k]: what is left must not be negative.  *at counts the ways to do
 * it, from 0 on; false: there are no more. */
bool dim_less_existing(Cx *cx, Dim d, int k, int *at, Dim *out);

/* ---- assume.c ---- */

/* A condition that is assumed: fact >= 0.  Facts that were derived in it are kept for the next time
 * that it is assumed. */
typedef struct Assumption {
    const struct Assumption *outer;
    Dim fact, symbol;           /* symbol: whose range says all of it, else DIM_NONE */
    Range before, within;       /* of the symbol */
    unsigned from, epoch;       /* the epoch that it was begun in, its own */
} Assumption;

/* Forgets what was assumed since this one was the innermost one. */
void dim_forget_to(Cx *cx, const Assumption *one);

/* ---- range.c ---- */

/* The atom, with its range and divisor found anew if a size was declared since. */
const AtomNode *atom_facts(Cx *cx, Atom id);

/* ---- prove.c ---- */

bool dim_nonneg(Cx *cx, Dim d);
/* d >= 1, also by the extents of the indices in `with`: an index exists, so its extent is at least
 * 1. */
bool dim_positive(Cx *cx, Dim d, Dim with);

/* ---- the context ---- */

typedef struct Chunk Chunk;
typedef struct Cleanup Cleanup;
typedef struct Try Try;

struct Cx {
    Chunk *chunk;
    size_t chunk_bytes;         /* of all chunks */
    Cleanup *cleanups;
    Try *top;                   /* the innermost cx_try */
    Diag diag;
    Loc loc;
    char reserve[256];          /* for the message when there is no memory for one */
    Table names;
    Table types;
    Table contractions;
    Dims dims;
};

#endif
