/* Bugs on purpose in lowering: see broken.c, whose headers have another Need. */
#include "broken.h"

#include "codegen/lower/lower_product.h"

WRAPPED(store_is_idle);
bool
__wrap_store_is_idle(const Let *store)
{
    bool in_place = store->op == OP_store && store->args[0]->over;
    return __real_store_is_idle(store) || (in_place && is_asked("idle"));
}

WRAPPED(product_pack);
bool
__wrap_product_pack(Product *p)
{
    bool before = p->b.panels, packed = __real_product_pack(p);
    if (is_asked("pack") && p->b.panels && !before) {
        p->b.at[p->b.from->type->rank - 3] = dim_int(p->lo->cx, 0);
    }
    return packed;
}

WRAPPED(group_blocks);
bool
__wrap_group_blocks(Lower *lo, Group *g, const Shape *s, const Probe *probe)
{
    bool cut = __real_group_blocks(lo, g, s, probe);
    if (cut && is_asked("blocks")) {
        change_op(lo->out.path[0]->blk, OP_exp, OP_exp2);
    }
    return cut;
}
