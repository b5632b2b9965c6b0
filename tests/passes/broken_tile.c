/* Bugs on purpose in the tiles of products. */
#include "broken.h"

#include "codegen/tile/tile.h"

WRAPPED(tiles_pack);
void
__wrap_tiles_pack(const Tiles *t, Dim first, Dim n)
{
    __real_tiles_pack(t, is_asked("tiles") ? dim_int(t->p->out->cx, 0) : first, n);
}
