/* Recompute: between kernels, a cheap value is computed again by its readers instead of stored and
 * loaded.
 *
 * For each value that leaves its kernel, latest first, the slice that makes it from what is in
 * memory anyway is weighed: its arithmetic for every reading kernel, and the operands that those
 * do not read yet, against the store and the loads it saves.  A slice holds no reduction and at
 * most COST_SLICE nodes, so the whole is linear in reads.  What a slice reads stays in memory.
 * Readers then depend on what the producer read, never on more, so the order of groups stays
 * right.
 *
 * Example: t = cast x (bf16 to f32), read by two kernels that do not join: both load x.
 */
#include "group.h"


typedef struct {
    int node[COST_SLICE], n;
    const Read *leaf[2 * COST_SLICE];     /* the values that it reads from memory */
    int nleaves;
    int cost;                   /* of an element */
} Slice;

static bool
slice_has(const Slice *s, int node)
{
    for (int k = 0; k < s->n; k++) {
        if (s->node[k] == node) {
            return true;
        }
    }
    return false;
}

/* Adds the node and the values that it needs and that are not in memory; false if one of them must
 * not be copied. */
static bool
slice_add(Groups *g, Slice *s, int k)
{
    const Node *node = &g->nodes[k];
    if (slice_has(s, k)) {
        return true;
    }
    Fuses fuses = op_info[node->let->op].fuses;
    if (s->n == COST_SLICE || (fuses != FUSES_ALL && fuses != FUSES_FREE) || node->times > 1) {
        return false;
    }
    s->node[s->n++] = k;
    s->cost += cost_let(node->let);
    for (int r = node->reads; r < node->reads + node->nreads; r++) {
        const Read *read = &g->reads[r];
        if (read->order) {
            return false;       /* a kernel that computes it again would have to come as late */
        }
        if (read->from >= 0 && !(g->nodes[read->from].kept && !read->copied)) {
            if (!slice_add(g, s, read->from)) {
                return false;
            }
        } else if (s->nleaves == 2 * COST_SLICE) {
            return false;
        } else {
            s->leaf[s->nleaves++] = read;
        }
    }
    return true;
}

static bool
group_reads(Groups *g, int group, const Value *root)
{
    for (int k = group; k >= 0; k = g->nodes[k].next) {
        for (int r = g->nodes[k].reads; r < g->nodes[k].reads + g->nodes[k].nreads; r++) {
            if (g->reads[r].root == root && !g->reads[r].copied) {
                return true;
            }
        }
    }
    return false;
}

static double
leaf_traffic(Groups *g, const Slice *s, int k)
{
    return cost_traffic((double)type_typical_bytes(g->cx, s->leaf[k]->root->type));
}

/* Is p all that its kernel is for? */
static bool
is_alone(Groups *g, int p)
{
    for (int k = group_find(g, p); k >= 0; k = g->nodes[k].next) {
        if (k != p && g->nodes[k].kept) {
            return false;
        }
    }
    return true;
}

/* Compares the savings and the costs of the reading kernels, with the store and, if it is dropped,
 * the kernel; false if one of them must read memory. */
static bool
weigh(Groups *g, int p, const Slice *s, double *balance)
{
    const Node *node = &g->nodes[p];
    int home = group_find(g, p), last = -1;
    bool alone = is_alone(g, p);
    *balance = cost_traffic((double)node->bytes) + (alone ? COST_LAUNCH : 0);
    for (int k = 0; alone && k < s->nleaves; k++) {
        *balance += leaf_traffic(g, s, k);
    }
    for (int r = node->users; r >= 0; r = g->reads[r].next) {
        const Read *read = &g->reads[r];
        int reader = group_find(g, read->to);
        if (reader == home) {
            continue;
        }
        if (read->memory) {
            return false;
        }
        *balance -= s->cost * (double)read->numel * g->nodes[read->to].times;
        if (reader != last) {
            *balance += cost_traffic((double)node->bytes);
            for (int k = 0; k < s->nleaves; k++) {
                if (!group_reads(g, reader, s->leaf[k]->root)) {
                    *balance -= leaf_traffic(g, s, k);
                }
            }
        }
        last = reader;
    }
    return true;
}

static void
copy_slice(Groups *g, int p, const Slice *s, bool *pinned)
{
    int home = group_find(g, p);
    for (int r = g->nodes[p].users; r >= 0; r = g->reads[r].next) {
        g->reads[r].copied = group_find(g, g->reads[r].to) != home;
    }
    for (int k = 0; k < s->nleaves; k++) {
        if (s->leaf[k]->from >= 0) {
            pinned[s->leaf[k]->from] = true;
        }
    }
    g->nodes[p].kept = false;
}

void
recompute(Groups *g)
{
    bool *pinned = cx_alloc(g->cx, ((size_t)g->n + 1) * sizeof *pinned);
    for (int k = 0; k < g->n; k++) {
        g->nodes[k].kept = g->nodes[k].call || node_leaves(g, k);
    }
    for (int k = g->n - 1; k >= 0; k--) {
        const Node *node = &g->nodes[k];
        Slice s = {0};
        double balance;
        if (node->kept && !node->stored && !pinned[k] && slice_add(g, &s, k) &&
            weigh(g, k, &s, &balance) && balance > 0 && !waits_to_copy(g, k, s.leaf, s.nleaves) &&
            fuel_spend(g->cx)) {
            copy_slice(g, k, &s, pinned);
        }
    }
}
