/* Einstein notation: its tree, and what the files of this folder share.  The grammar heads
 * notation_parse.c. */
#ifndef DLC_NOTATION_H
#define DLC_NOTATION_H

#include "ir/text/parse.h"

typedef enum { EXPR_NUMBER, EXPR_NAME, EXPR_READ, EXPR_CALL, EXPR_REDUCE, EXPR_SIZE } ExprKind;
typedef enum { EDGE_NONE, EDGE_ZERO, EDGE_CLAMP, EDGE_WRAP } Edge;

typedef struct Expr Expr;

struct Expr {
    ExprKind kind;
    const char *at;             /* its first byte, in the text */
    const char *name;           /* NAME, READ, SIZE */
    Literal literal;            /* NUMBER; SIZE: the axis, -1 for the size of an index */
    Op op;                      /* CALL, REDUCE */
    Dtype to;                   /* CALL of cast */
    Edge edge;                  /* READ */
    bool beside;                /* NAME, READ: another operand follows it in its line of text */
    int n;                      /* CALL: operands; READ: axes; REDUCE: the one body */
    Expr **args;
    int nnames;                 /* REDUCE */
    const char **names;
};

/* A range, as in `for name in 0..bound`. */
typedef struct {
    const char *name, *at;
    Expr *bound;
} Span;

typedef struct {
    const char *name, *at;
    int nleft, nspans;
    const char **left;
    Expr *body;
    Span *spans;
    bool read;                  /* by a later line: else it is a result */
} Line;

/* An index of one line, and its size. */
typedef struct {
    const char *name, *at;
    Dim dim;                    /* DIM_NONE: not known yet */
    bool span;                  /* its size is given: reads need not be of whole axes */
    bool reduced;
} Letter;

enum { MAX_LETTERS = 26 };

struct Notation {
    Cx *cx;
    Lexer lex;                  /* of messages */
    int nparams, nlines, nresults;
    const char **params;
    int *ranks;
    Line *lines;
};

/* A name that lines read: a parameter, or the result of an earlier line. */
typedef struct {
    const char *name;
    int rank;
    bool param;
    Dim dims[MAX_RANK];
    Value *v;
    bool scalar;                /* as promotion ranks it */
} Named;

/* What lines and parameters stand for while lets are made. */
typedef struct {
    const Notation *notation;
    Cx *cx;
    Build *b;                   /* NULL: sizes alone are looked for */
    Named *named;               /* parameters, then the lines so far */
    int nnamed;
    const Line *line;           /* under work */
    int nletters;
    Letter letters[MAX_LETTERS];
    bool fixed;                 /* sizes that differ are not made equal */
    bool again;                 /* two sizes have been made equal: look for all of them again */
} Scene;

/* An index of a read as sum of coefficients times letters, and a size. */
typedef struct {
    int n, letter[4];
    int64_t times[4];
    Dim offset;
} Affine;

_Noreturn void notation_fail(const Notation *n, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- notation_names.c ---- */

enum { MAX_DEPTH = 100 };       /* of expressions in expressions */

/* A text while it is parsed. */
typedef struct {
    Lexer lex;
    Cx *cx;
    int depth;
    Notation *out;
    const char **first;         /* by parameter: where it is first read */
    const Expr *last;           /* the last NAME or READ */
} Reader;

Op reduction_find(const Token *t);                     /* OP_COUNT: it is none */
const char *reductions_text(Cx *cx);                   /* "sum, prod, .." */
bool word_is_reserved(const Token *t);
/* Is the token the first one of its line of text? */
bool token_begins_line(const Lexer *lex);
/* Does an operand begin at the token, in the line of text that the token before is in? */
bool operand_is_beside(const Lexer *lex);
/* Of an index or a line: no word of the notation. */
const char *name_read(Reader *r, const char *what);
/* Reads names and ']' after a '['. */
const char **names_read(Reader *r, int *n, const char *example);
int param_find(const Notation *n, const char *name);   /* -1: there is none */
/* A name that no line has defined is a parameter; they stand in the order of the text. */
void name_use(Reader *r, const char *name, const char *at, int rank);

/* ---- notation_expr.c ---- */

Expr *expr_read(Reader *r);
Expr *sum_read(Reader *r);

/* ---- notation_instead.c: what to write instead ---- */

/* Of a name that is followed by '(' and is no function. */
_Noreturn void no_function(Reader *r, const Token *t);
/* Of an index that nothing binds: the bare name e, in a bracket of `read`. */
_Noreturn void no_index(Reader *r, const Line *line, const Expr *e, const Expr *read);
/* Fails if what was taken for a line, and is wrong as one, stands beside an operand. */
void check_beside(Reader *r, const Line *line);
/* Of a line whose '=' is missing at the token. */
_Noreturn void no_equals(Reader *r, const Line *line);
/* Of a function that is given another number of operands. */
_Noreturn void no_arity(Reader *r, const Token *t, int arity, int given);

/* ---- notation_sizes.c ---- */

Named *named_find(Scene *s, const char *name);
int letter_find(const Scene *s, const char *name);     /* -1: no index of the line */
/* Finds the letters of a line and their sizes. */
void sizes_of_line(Scene *s, const Line *line);
bool affine_read(Scene *s, const Expr *e, Affine *out);        /* false: not of that form */
Dim size_read(Scene *s, const Expr *e);                /* the value of size(..) */

/* ---- notation_read.c ---- */

/* A value over letters of the line, an axis each, ascending. */
typedef struct {
    Value *v;
    Dtype dtype;
    enum { OF_NUMBER, OF_SCALAR, OF_AXES } weight;      /* as promotion ranks operands */
    int n;
    int letters[MAX_RANK];
} Part;

Part part_read(Scene *s, const Expr *e);

/* ---- notation_build.c ---- */

Part part_of(Scene *s, const Expr *e);
/* Expands the value to more letters. */
Value *part_expand(Scene *s, Part t, int n, const int *letters);
Part part_cast(Scene *s, Part t, Dtype to);
/* Merges two ascending lists of letters into `out`; returns how many there are. */
int letters_join(int na, const int *a, int nb, const int *b, int *out);

/* ---- notation.c ---- */

/* The lines as a function of their own, for parameters of such dtypes, of sizes that are symbols,
 * or of such types.  Its results are those of the text. */
Build *notation_of_dtypes(const Notation *n, const Dtype *dtypes);
Build *notation_of_types(const Notation *n, Cx *cx, const Type *const *types);
/* Adds the lets of the lines to a function under construction. */
void notation_lines(const Notation *n, Build *b, Value *const *args, Value **results);

/* ---- tangent.c ---- */

/* By Value.id: do the results depend on it?  A derivative leaves lets that nothing needs. */
bool *values_in_use(const Fn *fn);
/* How nof values change when n others do by `given`; NULL: not at all.  As derive. */
void tangents(Build *b, int n, Value *const *by, Value *const *given, int nof, Value *const *of,
              Value **out);

/* ---- batch.c ---- */

/* The function for a batch of so many: which of its parameters have the axis, the first one, more.
 * All its results have it. */
Build *batch(const Fn *fn, const bool *which, Dim size);

#endif
