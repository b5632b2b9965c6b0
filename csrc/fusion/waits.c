/* Waits: what a kernel keeps alive until the last product that it needs has been made.
 *
 * A kernel runs when all that it reads is there. Joined with a later one, it waits for a product
 * that it does not need, and what it reads waits with it. Parts of a sum that are made by a product
 * each, t = t + part, would all be alive when the last one is there, if one kernel added them; one
 * after the other, a part is dead when the next one is made. What is read that late is in no cache
 * any more, so that the sum in one kernel saves little time.
 *
 * Products and calls count as what takes time between two kernels: Node.made is the last one that a
 * node needs. What a kernel reads waits if it was made before that one and nobody reads it later.
 */
#include "group.h"

void
waits_scan(Groups *g)
{
    for (int k = 0; k < g->n; k++) {
        Node *node = &g->nodes[k];
        node->made = node->call || node->let->op == OP_contract ? k : -1;
        for (int r = node->reads; r < node->reads + node->nreads && node->made < k; r++) {
            const Read *read = &g->reads[r];
            int made = read->from >= 0 && !read->order ? g->nodes[read->from].made : -1;
            node->made = made > node->made ? made : node->made;
        }
    }
}

/* Is the node's value there at product `made` whoever waits: for a reader outside of a and b, or
 * for the caller? */
static bool
is_read_later(Groups *g, int node, int a, int b, int made)
{
    bool later = g->nodes[node].stored;
    for (int r = g->nodes[node].users; r >= 0 && !later; r = g->reads[r].next) {
        int to = group_find(g, g->reads[r].to);
        later = to != a && to != b && !g->reads[r].order && g->nodes[to].made >= made;
    }
    return later;
}

/* Bytes that are read and that wait for product `made` only because of joining a and b; each value
 * counts once while the stamp stays the same.  Results of calls count half: added one after the
 * other they are read and stored once more, where a product adds while it stores its result. */
static int64_t
bytes_waiting(Groups *g, const Read *read, int a, int b, int made)
{
    int from = read->order ? -1 : read->from, in = from < 0 ? -1 : group_find(g, from);
    if (from < 0 || in == a || in == b || g->seen[from] == g->stamp) {
        return 0;
    }
    g->seen[from] = g->stamp;
    const Node *node = &g->nodes[from];
    bool waits = node->made >= 0 && node->made < made && !is_read_later(g, from, a, b, made);
    int64_t bytes = type_typical_bytes(g->cx, read->root->type);
    return !waits ? 0 : node->call ? bytes / 2 : bytes;
}

static int64_t
waiting(Groups *g, int group, int a, int b, int made)
{
    int64_t bytes = 0;
    for (int k = group; k >= 0; k = g->nodes[k].next) {
        for (int r = g->nodes[k].reads; r < g->nodes[k].reads + g->nodes[k].nreads; r++) {
            bytes += bytes_waiting(g, &g->reads[r], a, b, made);
        }
    }
    return bytes;
}

/* Bytes of the values that the group makes for others. */
static int64_t
made_for_others(Groups *g, int group)
{
    int64_t bytes = 0;
    for (int k = group; k >= 0; k = g->nodes[k].next) {
        bytes += node_leaves(g, k) ? g->nodes[k].bytes : 0;
    }
    return bytes;
}

bool
waits_long(Groups *g, int a, int b)
{
    int early = g->nodes[a].made < g->nodes[b].made ? a : b, late = early == a ? b : a;
    int made = g->nodes[late].made;
    if (g->nodes[early].made == made || g->nodes[early].made < 0) {
        return false;
    }
    g->stamp++;
    int64_t joined = waiting(g, early, early, late, made);
    return joined > COST_WAITS && joined - made_for_others(g, early) > COST_WAITS;
}

bool
waits_to_copy(Groups *g, int node, const Read *const *leaves, int n)
{
    int home = group_find(g, node), made = g->nodes[home].made;
    for (int r = g->nodes[node].users; r >= 0; r = g->reads[r].next) {
        int last = g->nodes[group_find(g, g->reads[r].to)].made;
        made = last > made ? last : made;
    }
    if (made == g->nodes[home].made) {
        return false;
    }
    int64_t bytes = 0;
    g->stamp++;
    for (int k = 0; k < n; k++) {
        bytes += bytes_waiting(g, leaves[k], home, home, made);
    }
    return bytes - g->nodes[node].bytes > COST_WAITS;
}
