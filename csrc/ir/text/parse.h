/* The common header of the parser: tokens (lex.c), sizes and types (parse_type.c), operands. */
#ifndef DLC_PARSE_H
#define DLC_PARSE_H

#include "ir/cx.h"

/* ---- lex.c ---- */

typedef enum { TOKEN_END, TOKEN_WORD, TOKEN_INT, TOKEN_FLOAT, TOKEN_STRING, TOKEN_SIGN } TokenKind;

typedef struct {
    TokenKind kind;
    const char *at;             /* the first byte, in the text */
    size_t length;
    uint64_t magnitude;         /* INT */
    double f;                   /* FLOAT */
    const char *string;         /* STRING: with its escapes replaced, interned */
} Token;

typedef struct {
    Cx *cx;
    const char *text, *file;
    const char *next;           /* the first byte after the token */
    Token token;                /* the one to be looked at */
    bool notation;              /* the signs are those of einstein notation */
} Lexer;

void lex_open(Lexer *lex, Cx *cx, const char *text, const char *file);
void lex_open_notation(Lexer *lex, Cx *cx, const char *text, const char *file);
void lex_next(Lexer *lex);
bool lex_is(const Lexer *lex, const char *sign_or_word);
bool lex_is_attr(const Lexer *lex);                     /* a word, and = after it */
bool lex_take(Lexer *lex, const char *sign_or_word);    /* and goes on if it is */
void lex_expect(Lexer *lex, const char *sign_or_word);
const char *lex_word(Lexer *lex, const char *what);     /* interned; `what` is for the message */
const char *lex_string(Lexer *lex);
/* With a sign where there is one; fails when it does not fit 64 bits. */
int64_t lex_int(Lexer *lex);

/* "file:line:column: message", the line, and a caret under `at`. */
_Noreturn void lex_fail(const Lexer *lex, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails with "expected <what>, found ..." at the token. */
_Noreturn void lex_fail_expected(const Lexer *lex, const char *what);

/* The candidate most like a misspelt word; best stays NULL when none is near. */
typedef struct {
    const char *word, *best;
    size_t length;
    int distance;
} Nearest;

Nearest nearest_to(const Token *word);
void nearest_offer(Nearest *near, const char *candidate);
/* "; did you mean 'best'?" or "" */
const char *nearest_text(Cx *cx, const Nearest *near);

/* ---- parse_type.c: names, dims, types, sizes ---- */

typedef struct {
    const char *name;
    Dim dim;
} Index;
typedef struct {
    const char *name, *at;
    const Type *type;
    const Dim *strides;
    const Value *over;
} Binder;
typedef struct {
    const char *name;
    Range range;
    int64_t divisor;
} Size;

typedef struct {
    Lexer lex;
    Cx *cx;
    Fn *fn;
    Block *block;               /* the one being read */
    Table names;
    Index *indices;             /* the loop indices in scope, the innermost last */
    int nindices, depth;
    Value **made;               /* those that the text has no names for, which have a stem */
    int nmade;
    int nnumbers;               /* the first ones are sizes that are numbers, in bodies too */
} Parser;

/* One level more of blocks or of dims within dims: fails when they are too many for the stack. */
void parse_deeper(Parser *p);
/* In a list that ends with `close`: true when one more element follows. */
bool parse_another(Parser *p, int count, const char *close);
const char *parse_name(Parser *p, const char *what);    /* interned; `what` is for the message */
Dim parse_dim(Parser *p);
const Dim *parse_dims(Parser *p, int *n);
const int *parse_axes(Parser *p, int *n);
const Type *parse_type(Parser *p);
const Dim *parse_strides(Parser *p, const Type *type);  /* NULL when there are none */
Binder parse_binder(Parser *p);
Size *parse_sizes(Parser *p, int *n);

/* ---- parse_operand.c: values ---- */

Value *parse_bind(Parser *p, const Binder *b, Let *let, int result);    /* a new value */
void parse_bind_to(Parser *p, const Binder *b, Value *v);               /* the name is v */
Value *parse_operand(Parser *p);
Value **parse_operands(Parser *p, int *n);              /* at least one, and more after commas */
/* The result of a let that the text does not name; its name begins with the stem. */
Value *parse_made(Parser *p, Let *let, const char *stem, Dtype dtype);
/* At the end: fails at the first use of a name that no let or parameter binds, and names the values
 * that the text does not. */
void parse_check_names(Parser *p);

/* ---- nest.c: nests of loops in one line ---- */

/* Behind the first loop's extent: the further loops, and what is stored in them.  The indices stay
 * in scope. */
void parse_nest(Parser *p, Let *outermost);
void parse_index(Parser *p, const char *name, Dim index); /* is in scope from now on */

#endif
