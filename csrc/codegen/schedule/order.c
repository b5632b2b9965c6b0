/* The order of kernels and calls: large results that nobody waits for are made in the end.
 *
 * What:     a let whose results only the caller reads, larger than all that it reads, comes after
 *           all others: until then what it reads is in memory, and the results are not.
 * Requires: the kernels stage, and that the call frees parameters, which the text marks `given`: a
 *           backward frees what the forward saved.
 * Ensures:  each let comes after what it reads; those that have an effect, bind sizes or share
 *           memory keep their places, and so do those that read what a later let stores over.  A
 *           function that writes to parameters keeps its order.
 * How:      what a let keeps is counted by root: a value that is there until the end all the same,
 *           as a result, a parameter that is not freed, or for a let that was moved, is free.
 *           O(reads), four times.
 * Why not   in the middle, where the peak is over: what the forward saved shrinks to the end of the
 *           backward, so the end is the best place, and the results are there in the end anyway.
 *           In the order that takes least at once: who is last differs by what one let reads.
 * Example:  the gradient of a layer's weight [4096, 1024] is made of [49, 4096] and [49, 1024].
 *           The last layers, which have the largest weights, come first in a backward, when all
 *           that the first layers saved is there. */

#include <string.h>

#include "codegen/machine.h"
#include "codegen/rewrites.h"
#include "ir/costs.h"

enum {
    ROUNDS = 2,                 /* the second finds lets that only late ones read */
};

typedef struct {
    Fn *fn;
    bool *read;                 /* by Value.id, a root: by a let that is no view */
    bool *lasts;                /* ...: it is in memory until the end */
    bool *late;                 /* ...: of a let that is moved */
    bool *taken;                /* ...: a later value takes its memory */
    const Value **reads;        /* see find_reads */
    int nreads, stamp, *stamps; /* by Value.id */
} Order;

static bool
is_view(const Let *let)
{
    return op_info[let->op].kind == KIND_VIEW;
}

/* Notes the root of v as read by the current let, once for each stamp. */
static void
add_read(Order *s, const Value *v)
{
    const Value *root = value_is_const(v) ? NULL : value_root(v);
    if (root && s->stamps[root->id] != s->stamp) {
        s->stamps[root->id] = s->stamp;
        s->reads[s->nreads++] = root;
    }
}

static void
add_reads(Order *s, const Let *let)
{
    const Block *body = let->body;
    for (int k = 0; k < let->nargs; k++) {
        add_read(s, let->args[k]);
    }
    for (int k = 0; body && k < body->n; k++) {
        add_reads(s, body->lets[k]);
        for (int j = 0; j < body->lets[k]->nres; j++) {
            s->stamps[body->lets[k]->res[j]->id] = s->stamp; /* it is made inside */
        }
    }
    for (int k = 0; body && k < body->nrets; k++) {
        add_read(s, body->rets[k]);
    }
}

static void
find_reads(Order *s, const Let *let)
{
    s->stamp++;
    s->nreads = 0;
    add_reads(s, let);
}

/* May the let come later, as far as others are concerned? */
static bool
is_free(Order *s, const Let *let)
{
    bool free = let->op == OP_kernel || (let->op == OP_call && !let_has_effect(let) &&
                                         !let->nsizes && !let_int(let, "shares"));
    for (int k = 0; k < let->nres && free; k++) {
        free = !s->read[let->res[k]->id] && !s->late[let->res[k]->id];
    }
    find_reads(s, let);
    for (int k = 0; k < s->nreads && free; k++) {
        free = !s->taken[s->reads[k]->id];
    }
    return free;
}

/* Bytes that are in memory until the end if the let is. */
static int64_t
held_bytes(Order *s, const Let *let)
{
    int64_t bytes = 0;
    find_reads(s, let);
    for (int k = 0; k < s->nreads; k++) {
        bytes += s->lasts[s->reads[k]->id] ? 0 : type_typical_bytes(s->fn->cx, s->reads[k]->type);
    }
    return bytes;
}

static int64_t
made_bytes(const Order *s, const Let *let)
{
    int64_t bytes = 0;
    for (int k = 0; k < let->nres; k++) {
        bytes += type_typical_bytes(s->fn->cx, let->res[k]->type);
    }
    return bytes;
}

static void
move(Order *s, const Let *let)
{
    for (int k = 0; k < let->nres; k++) {
        s->late[let->res[k]->id] = true;
    }
    find_reads(s, let);
    for (int k = 0; k < s->nreads; k++) {
        s->lasts[s->reads[k]->id] = true;
    }
}

/* False: the function writes to a parameter, whose readers may not come later. */
static bool
scan(Order *s)
{
    const Fn *fn = s->fn;
    bool pure = true;
    for (int k = 0; k < fn->nparams; k++) {
        s->lasts[fn->params[k]->id] = !fn->params[k]->given;
    }
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        find_reads(s, let);
        for (int j = 0; j < s->nreads && !is_view(let); j++) {
            s->read[s->reads[j]->id] = true;
        }
        for (int j = 0; j < let->nres; j++) {
            const Value *over = let->res[j]->over;
            pure = pure && (!over || over->def);
            if (over) {
                s->taken[over->id] = true;
            }
        }
    }
    for (int k = 0; k < fn->body->nrets; k++) {
        const Value *root = value_is_const(fn->body->rets[k]) ? NULL
                                                              : value_root(fn->body->rets[k]);
        if (root) {
            s->lasts[root->id] = true;
        }
    }
    return pure;
}

static bool
is_late(const Order *s, const Let *let)
{
    bool late = false;
    for (int k = 0; k < let->nres && !late; k++) {
        const Value *root = value_root(let->res[k]);
        late = root && s->late[root->id];
    }
    return late;
}

/* Moves the late lets after the others, the largest first: the library makes its copy of a large
 * result while few are alive.  The views of their results follow, because late lets read no other
 * views. */
static Fn *
with_late(const Order *s)
{
    Cx *cx = s->fn->cx;
    Fn *fn = cx_copy(cx, s->fn, sizeof *fn);
    fn->body = cx_copy(cx, fn->body, sizeof *fn->body);
    Let **old = fn->body->lets, **lets = lets_new(cx, fn->body->n);
    int n = 0, begin;
    for (int k = 0; k < fn->body->n; k++) {
        if (!is_late(s, old[k])) {
            lets[n++] = old[k];
        }
    }
    begin = n;
    for (int k = 0; k < fn->body->n; k++) {
        if (is_late(s, old[k]) && !is_view(old[k])) {
            int at = n++;
            for (; at > begin && made_bytes(s, lets[at - 1]) < made_bytes(s, old[k]); at--) {
                lets[at] = lets[at - 1];
            }
            lets[at] = old[k];
        }
    }
    for (int k = 0; k < fn->body->n; k++) {
        if (is_late(s, old[k]) && is_view(old[k])) {
            lets[n++] = old[k];
        }
    }
    for (int k = 0; k < n; k++) {
        lets[k]->parent = fn->body;
    }
    fn->body->lets = lets;
    return fn;
}

static bool
gives_any(const Fn *fn)
{
    bool any = false;
    for (int k = 0; k < fn->nparams; k++) {
        any |= fn->params[k]->given;
    }
    return any;
}

Fn *
rewrite_order(Fn *fn)
{
    Cx *cx = fn->cx;
    size_t n = (size_t)fn->nvalues + 1;
    if (!gives_any(fn)) {
        return fn;
    }
    Order s = {
        .fn = fn,
        .read = cx_alloc(cx, n * sizeof *s.read),
        .lasts = cx_alloc(cx, n * sizeof *s.lasts),
        .late = cx_alloc(cx, n * sizeof *s.late),
        .taken = cx_alloc(cx, n * sizeof *s.taken),
        .reads = cx_alloc(cx, n * sizeof *s.reads),
        .stamps = cx_alloc(cx, n * sizeof *s.stamps),
    };
    bool pure = scan(&s), any = false;
    for (int k = 0; k < ROUNDS * fn->body->n && pure; k++) {
        const Let *let = fn->body->lets[k % fn->body->n];
        int64_t made = is_free(&s, let) ? made_bytes(&s, let) : 0;
        if (made >= DLC_LATE && made > held_bytes(&s, let) && fuel_spend(cx)) {
            move(&s, let);
            any = true;
        }
    }
    return any ? with_late(&s) : fn;
}
