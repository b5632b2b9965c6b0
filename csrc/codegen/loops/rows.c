/* Which rows of memory a loop reads.
 *
 * How:      two loads of one tensor that begin a few elements from each other read one row: it is
 *           on the same lines of the caches.
 */
#include "rows.h"
#include "loops.h"

/* Does an earlier load of the block read the same row? */
static bool
is_read_before(const Facts *facts, const Let *load)
{
    Cx *cx = facts->cx;
    Dim offset = facts_access(facts, load)->offset;
    bool read = false;
    for (int k = 0; load->parent->lets[k] != load && !read; k++) {
        const Let *other = load->parent->lets[k];
        if (other->op == OP_load && other->args[0] == load->args[0]) {
            int64_t distance = DLC_ROW_DISTANCE;
            dim_is_int(cx, dim_sub(cx, facts_access(facts, other)->offset, offset), &distance);
            read = distance > -DLC_ROW_DISTANCE && distance < DLC_ROW_DISTANCE;
        }
    }
    return read;
}

int
rows_read(const Facts *facts, const Let *loop)
{
    int rows = 0;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        rows += let->op == OP_load && !facts_access(facts, let)->is_private &&
                !buffer_is_small(facts->cx, let->args[0]) && !is_read_before(facts, let);
    }
    return rows;
}

bool
rows_are_foreseen(const Facts *facts, const Let *loop)
{
    return rows_read(facts, loop) <= DLC_FOLLOWED;
}
