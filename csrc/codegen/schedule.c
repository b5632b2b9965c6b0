/* Scheduling: which loops run in parallel and which over vectors.
 *
 * What:     marks the `for` loops of the loops stage; nothing else changes.
 * Requires: loops as lower.c leaves them: independent iterations, reductions with their order
 *           fixed.
 * Ensures:  In each path from a phase to its innermost loops at most one loop is `vector`, and none
 *           in a vector reduction's body; `parallel` loops are the outermost ones of their phase,
 *           each alone in the one around it but for scalars.
 * How:      A loop without loops inside is a vector loop.  So is one whose inner loops are all
 *           sequential (column reductions): it is run a tile of columns at a time, each inner loop
 *           over the tile.  A loop around vector reductions or around vector loops stays scalar, as
 *           does one of one iteration.  The outermost loop is parallel; while there may be fewer
 *           than MANY iterations and the next loop is alone inside, that one is too, and the launch
 *           counts their product.  A loop that is both is counted in tiles: DLC_TILE elements, or
 *           DLC_COLUMNS where it has loops inside.
 * Why not:  a search with timings: the order in memory was settled when the loops were made
 *           (lower_nest.c), and bits must not depend on what a timing says.
 * Example:  softmax: `for i in B parallel { reduce.. vector; reduce.. vector; for j in N vector }`.
 */
#include <string.h>

#include "loops.h"

enum { MANY = 64 };             /* parallel iterations enough for any machine */

bool
loop_has(const Let *let, const char *word)
{
    const char *mark = let_str(let, "mark");
    size_t n = strlen(word);
    for (const char *at = mark; (at = strstr(at, word)) != NULL; at += n) {
        if ((at == mark || at[-1] == ' ') && (at[n] == '\0' || at[n] == ' ')) {
            return true;
        }
    }
    return false;
}

static void
add_mark(Cx *cx, Let *let, const char *word)
{
    for (int k = 0; k < let->nattrs; k++) {
        Attr *a = &let->attrs[k];
        if (strcmp(a->key, "mark") == 0 && !loop_has(let, word)) {
            const char *text = a->s[0] ? cx_format(cx, "%s %s", word, a->s) : word;
            a->s = cx_intern(cx, text, strlen(text));
        }
    }
}

bool
loop_is(const Let *let)
{
    return let->op == OP_for || let->op == OP_reduce;
}

int
loop_count(const Block *blk)
{
    int n = 0;
    for (int k = 0; k < blk->n; k++) {
        n += loop_is(blk->lets[k]);
    }
    return n;
}

static bool
has_vector(const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (loop_is(let) && (loop_has(let, "vector") || has_vector(let->body))) {
            return true;
        }
    }
    return false;
}

/* The only loop in the body, a `for` among scalars without memory of their own, or NULL. */
static Let *
only_for(const Let *let)
{
    Let *found = NULL;
    for (int k = 0; k < let->body->n; k++) {
        Let *inner = let->body->lets[k];
        if (inner->op == OP_reduce || inner->op == OP_store || inner->op == OP_buffer ||
            (inner->op == OP_for && found)) {
            return NULL;
        }
        found = inner->op == OP_for ? inner : found;
    }
    return found;
}

static void
mark_vector(Cx *cx, Let *let)
{
    bool once = dim_is(cx, let_dim(let, "extent"), 1);
    if (loop_count(let->body) && (once || has_vector(let->body) || only_for(let))) {
        for (int k = 0; k < let->body->n; k++) {
            if (let->body->lets[k]->op == OP_for) {
                mark_vector(cx, let->body->lets[k]);
            }
        }
    } else {
        add_mark(cx, let, "vector");
    }
}

static void
mark_parallel(Cx *cx, Let *let)
{
    int64_t least = 1;
    for (; let; let = only_for(let)) {
        add_mark(cx, let, "parallel");
        int64_t n = dim_range(cx, let_dim(let, "extent")).lo;
        if (loop_has(let, "vector") || (n > 0 && __builtin_mul_overflow(least, n, &least)) ||
            least >= MANY) {
            break;
        }
    }
}

static void
mark_phase(void *arg, Let *let)
{
    if (let->op == OP_for && let->parent->owner && let->parent->owner->op == OP_kernel) {
        mark_vector(arg, let);
        mark_parallel(arg, let);
    }
}

Fn *
schedule_fn(const Fn *loops)
{
    Fn *fn = (Fn *)loops;
    fn_each_let(fn, mark_phase, fn->cx);
    return fn;
}
