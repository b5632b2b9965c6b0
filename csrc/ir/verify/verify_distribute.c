/* The rule of loop distribution, V37; verify.c has the list. */
#include "verify.h"

static int64_t
stage_of(const Let *map)
{
    return let_has(map, MARK_stage) ? let_mark_value(map, MARK_stage) : 1;
}

static bool
in_recurrences(const Let *loop)
{
    return let_has(loop->parent->owner, MARK_recurrences);
}

/* Does the operation combine what the iteration before left in a buffer outside, its first operand,
 * and leave its own result there? */
static bool
continues(const Let *map)
{
    const Block *body = map->parent;
    const Let *load = map->nargs == 2 ? map->args[0]->def : NULL;
    bool found = false;
    if (load && load->op == OP_load && load->parent == body) {
        const Let *buffer = load->args[0]->def;
        for (int k = 0; k < body->n && buffer && buffer->op == OP_buffer; k++) {
            const Let *store = body->lets[k];
            found |= store->op == OP_store && store->args[0] == load->args[0] &&
                     store->args[1] == map->res[0];
        }
    }
    return found;
}

/* Is it in a stage where its operands are known? */
static bool
is_late_enough(const Let *map, bool recurrences)
{
    bool carried = recurrences && continues(map);
    bool good = !recurrences || (stage_of(map) % 2 == 0) == carried;
    for (int k = 0; k < map->nargs; k++) {
        const Let *from = map->args[k]->def;
        if (from && from->parent == map->parent && let_is_map(from)) {
            good &= stage_of(from) + carried <= stage_of(map);
        }
    }
    return good;
}

void
verify_distribute(Verifier *v, const Let *loop)
{
    enum { MOST = 1024 };
    const Let *around = loop->parent->owner;
    bool recurrences = in_recurrences(loop), several = false;
    bool good = recurrences || (let_has(loop, MARK_vector) && !let_has(loop, MARK_streams) &&
                                !let_has(around, MARK_tile));
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        good &= let_is_plain(let) || let_is_map(let) || let->op == OP_store;
        good &= !let_has(let, MARK_prefetch);
        if (let_is_map(let)) {
            good &= is_late_enough(let, recurrences);
            several |= stage_of(let) > 1;
        }
    }
    if (!good || !several || let_mark_value(loop, MARK_distribute) > MOST) {
        verify_broken(v, 37,
                      "distribute marks a loop that does not run as several, or operations are in "
                      "stages before their operands");
    }
}

void
verify_stage(Verifier *v, const Let *let)
{
    if (let_has(let, MARK_stage) && !let_has(let->parent->owner, MARK_distribute)) {
        verify_broken(v, 37, "stage marks an operation of a loop that is not marked distribute");
    }
}
