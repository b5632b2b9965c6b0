/* Nests of loops in one line: what one call of a microkernel runs.
 *
 * What:     says which loops are printed in one line, and reads such lines.
 * Requires: nothing: what has another form is printed loop by loop.
 * Ensures:  a line that is printed and read again is the same loops, but for the names of the
 *           values in them, which the line does not have.
 * How:      loops marked `pack` or `micro` say one thing (verify/call_nest.c), so all that the line
 *           leaves out follows from it: a load that is not in the dtype of its user is cast, a sum
 *           is `fused`, and `+=` loads, adds and stores.
 * Why not:  an operation with three operands: each pass would have to know what it loads and
 *           stores, which the lets in the loops say already.
 * Example:  for i in M, l in 32, p in K: tile[i, l] = x[i, p] * panel[p, l] micro */
#include <string.h>

#include "ir/verify/product.h"
#include "parse.h"
#include "print.h"

/* ---- loops that are a line ---- */

static bool
same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Has a let in the loops a mark, or a place, that the line does not say? */
static bool
says_more(const void *outermost, const Let *let)
{
    const Let *line = outermost;
    Marks known = let == line            ? (Marks)let_int(let, "marks")
                  : let->op == OP_reduce ? MARK_fused
                                         : 0;
    return (Marks)let_int(let, "marks") != known || !same_text(let->loc.node, line->loc.node) ||
           !same_text(let->loc.source, line->loc.source);
}

bool
nest_is_line(const Let *outermost, CallNest *nest)
{
    return outermost->op == OP_for &&
           (let_has(outermost, MARK_pack) || let_has(outermost, MARK_micro)) &&
           call_nest(outermost, nest) && !let_any(outermost, says_more, outermost);
}

/* ---- reading a line ---- */

typedef struct {
    Value *v;
    Attr attrs[2]; /* of a load or store of it */
} Element;

static Element
parse_element(Parser *p)
{
    const char *at = p->lex.token.at;
    int n;
    Element e = {.v = parse_operand(p)};
    if (value_is_const(e.v) || !e.v->type) {
        lex_fail(&p->lex, at, "expected a tensor that a let or parameter before binds");
    }
    const Dim *dims = parse_dims(p, &n);
    e.attrs[0] = attr_dims(p->cx, "at", n, dims);
    e.attrs[1] = attr_marks(p->cx, 0);
    return e;
}

static Let *
add(Parser *p, Block *blk, Op op, int nargs, Value *const *args, int nattrs, const Attr *attrs)
{
    Let *let = let_new(p->fn, op, nargs, args, nattrs, attrs);
    block_append(p->cx, blk, let);
    return let;
}

static Value *
add_load(Parser *p, Block *blk, const Element *e)
{
    Let *let = add(p, blk, OP_load, 1, &e->v, 2, e->attrs);
    return parse_made(p, let, e->v->name, e->v->type->dtype);
}

/* A load, and a cast if its dtype is another one. */
static Value *
add_cast(Parser *p, Block *blk, const Element *e, Dtype dtype)
{
    Value *v = add_load(p, blk, e);
    return v->type->dtype == dtype
               ? v
               : parse_made(p, add(p, blk, OP_cast, 1, &v, 0, NULL), e->v->name, dtype);
}

static Value *
add_binary(Parser *p, Block *blk, Op op, Value *a, Value *b)
{
    Let *let = add(p, blk, op, 2, (Value *[]){a, b}, 0, NULL);
    return parse_made(p, let, op_info[op].name, b->type->dtype);
}

static Block *
open_body(Parser *p, Let *loop)
{
    loop->body = cx_alloc(p->cx, sizeof *loop->body);
    loop->body->owner = loop;
    return loop->body;
}

/* A loop of the line, behind the first one. */
typedef struct {
    const char *name;
    Dim index, extent;
} Inner;

static Let *
add_loop(Parser *p, Block *blk, Op op, const Inner *inner)
{
    Attr attrs[] = {
        attr_name(p->cx, "op", op_info[OP_sum].name, DIM_NONE),
        attr_name(p->cx, "index", inner->name, inner->index),
        attr_dim(p->cx, "extent", inner->extent),
        attr_marks(p->cx, op == OP_reduce ? MARK_fused : 0),
    };
    bool sum = op == OP_reduce;
    Let *let = add(p, blk, op, 0, NULL, 3 + sum, attrs + !sum);
    open_body(p, let);
    return let;
}

static void
add_sum(Parser *p, Block *blk, const Inner *inner, const Element *of)
{
    Value *factors[2], *v;
    Let *sum = add_loop(p, blk, OP_reduce, inner);
    for (int k = 0; k < 2; k++) {
        factors[k] = add_cast(p, sum->body, &of[k], dtype_info[of[k].v->type->dtype].compute);
    }
    v = add_binary(p, sum->body, OP_mul, factors[0], factors[1]);
    sum->body->rets = cx_copy(p->cx, &v, sizeof(Value *));
    sum->body->nrets = 1;
    parse_made(p, sum, op_info[OP_sum].name, v->type->dtype);
}

void
parse_nest(Parser *p, Let *outermost)
{
    Inner inner[CALL_LOOPS];
    Element to, of[2];
    int n = 0;
    for (; lex_take(&p->lex, ","); n++) {
        if (n == CALL_LOOPS - 1) {
            lex_fail(&p->lex, p->lex.token.at, "more than %d loops in one line", CALL_LOOPS);
        }
        inner[n].name = parse_name(p, "a loop index");
        lex_expect(&p->lex, "in");
        inner[n].extent = parse_dim(p);
        inner[n].index = dim_index(p->cx, inner[n].name, inner[n].extent);
        parse_index(p, inner[n].name, inner[n].index);
    }
    lex_expect(&p->lex, ":");
    to = parse_element(p);
    const char *at = p->lex.token.at;
    bool adds = lex_take(&p->lex, "+");
    lex_expect(&p->lex, "=");
    of[0] = parse_element(p);
    at = adds ? at : p->lex.token.at;
    bool product = lex_take(&p->lex, "*");
    if (adds && !product) {
        lex_fail(&p->lex, at, "+= adds a product, and here is none");
    }
    if (product && n == 0) {
        lex_fail(&p->lex, at,
                 "a product stands in two loops or more, of which the last is its sum");
    }
    of[1] = product ? parse_element(p) : to;
    Block *blk = open_body(p, outermost);
    for (int k = 0; k < n - product; k++) {
        blk = add_loop(p, blk, OP_for, &inner[k])->body;
    }
    Value *stored;
    if (product) {
        add_sum(p, blk, &inner[n - 1], of);
        Value *sum = blk->lets[0]->res[0];
        stored = adds ? add_binary(p, blk, OP_add, add_load(p, blk, &to), sum) : sum;
    } else {
        stored = add_cast(p, blk, &of[0], to.v->type->dtype);
    }
    add(p, blk, OP_store, 2, (Value *[]){to.v, stored}, 2, to.attrs);
}
