/* Pads: what a product makes is stored in its padded copy at once.
 *
 * What:     joins a pad with the group of a contraction that makes what is padded.
 * Requires: groups as fuse.c and rows.c have joined them.
 * Ensures:  the kernel's result is the padded value: lowering cuts its loops into the border, which
 *           it fills, and the inside, where the product's tiles are stored.
 * How:      one walk over the pads.  Nothing else may want the value, nor any other of the kernel:
 *           the value is then in no memory of its own, which saves a store and a load of it.
 * Why not   as any producer that is computed where its reader wants it: a contraction is none.
 * Example:  contract (as_strided (pad (relu (contract x, w)))), v: of two convolutions the first
 *           stores into the padded image, of which the second reads windows. */
#include "group.h"

/* Does the reader use everything that the group makes, and nothing else use it? */
static bool
leaves_only_for(Groups *g, int group, const Read *of)
{
    bool good = true;
    for (int k = group; k >= 0 && good; k = g->nodes[k].next) {
        good = !g->nodes[k].stored;
        for (int r = g->nodes[k].users; r >= 0 && good; r = g->reads[r].next) {
            const Read *read = &g->reads[r];
            good = read == of || (group_find(g, read->to) == group && !read->order);
        }
    }
    return good;
}

/* Is the pad's operand the value that the read finds, up to a permutation of axes? */
static bool
is_whole(Groups *g, const Let *pad, const Read *read)
{
    const Value *v = pad->args[0];
    signed char to[MAX_RANK];
    while (v != read->root && (v->def->op == OP_permute || v->def->op == OP_reshape) &&
           view_axes(g->cx, v->def, to)) {
        v = v->def->args[0];
    }
    return v == read->root && !read->memory;
}

static void
join_pad(Groups *g, int pad)
{
    const Node *node = &g->nodes[pad];
    const Read *read = &g->reads[node->reads];
    int p = node->nreads == 1 && read->from >= 0 ? group_find(g, read->from) : -1,
        c = group_find(g, pad);
    if (p < 0 || p == c || g->nodes[c].members > 1 || !g->nodes[p].contracts ||
        g->nodes[p].red >= 0 || g->nodes[p].pieces || g->nodes[read->from].hidden ||
        !is_whole(g, node->let, read) || !leaves_only_for(g, p, read) || !fuel_spend(g->cx)) {
        return;
    }
    int domain = g->nodes[p].domain;
    if (group_join(g, p, c)) {
        g->nodes[group_find(g, c)].domain = domain;
    }
}

void
pads_join(Groups *g)
{
    for (int k = 0; k < g->n; k++) {
        if (g->nodes[k].let->op == OP_pad) {
            join_pad(g, k);
        }
    }
}
