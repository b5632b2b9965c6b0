/* Terms: what reductions reduce that vector primitives read from memory themselves.
 *
 * How:      the body's lets are matched against a few forms: x, x*x, x*y, (x - y)*(x - y), where x
 *           is loaded (and cast, where it is narrow) and y is loaded too or known outside.
 * Example:  { let a = load x[j, i]; let d = sub a, m; let q = mul d, d; ret q }: square_sub of a
 *           and m
 */
#include <string.h>

#include "term.h"

/* What follows a word and its underscore in a name; NULL: the name begins with another word. */
static const char *
behind(const char *name, const char *word)
{
    size_t n = strlen(word);
    return name && strncmp(name, word, n) == 0 && name[n] == '_' ? name + n + 1 : NULL;
}

bool
term_has_strip(const char *family, Op red, const char *form, Dtype dtype)
{
    static const char *const names[] = {
#define FORMS(kind, name) #name,
#include "codegen/strips/strips.def"
    };
    bool found = false;
    for (size_t k = 0; k < sizeof names / sizeof *names && !found; k++) {
        const char *of = names[k][0] == family[0] ? behind(names[k], family) : NULL;
        const char *rest = of ? behind(behind(of, op_info[red].name), form) : NULL;
        found = rest && strcmp(rest, dtype_info[dtype].name) == 0;
    }
    return found;
}

const Let *
term_load(const Block *body, const Value *v, Dtype compute, int *lets)
{
    const Let *let = let_in(body, v);
    bool cast = let && let->op == OP_cast;
    if (cast && let->res[0]->type->dtype == compute && is_narrow(map_dtype(let)) &&
        dtype_info[map_dtype(let)].compute == compute) {
        let = let_in(body, let->args[0]);
    } else if (cast || !let || let->res[0]->type->dtype != compute) {
        return NULL;
    }
    *lets += 1 + cast;
    return let && let->op == OP_load ? let : NULL;
}

/* Two operands, of which the first has to be loaded and the second may be. */
static bool
take_two(const Block *body, const Value *x, const Value *y, Dtype compute, Term *term)
{
    int lets = 0, more = 0;
    term->x = term_load(body, x, compute, &lets);
    if (!term->x) {
        return false;
    }
    const Let *other = let_in(body, y) ? term_load(body, y, compute, &more) : NULL;
    if (let_in(body, y) && (!other || is_narrow(other->res[0]->type->dtype))) {
        return false;
    }
    term->y = other ? other->res[0] : y;
    term->lets += lets + more;
    return true;
}

static bool
take_either(const Block *body, const Let *let, Dtype compute, Term *term)
{
    return take_two(body, let->args[0], let->args[1], compute, term) ||
           take_two(body, let->args[1], let->args[0], compute, term);
}

/* The product that is summed. */
static bool
take_product(const Block *body, const Let *mul, Dtype compute, Term *term)
{
    term->lets = 1;
    if (mul->args[0] != mul->args[1]) {
        term->form = "mul";
        return take_either(body, mul, compute, term);
    }
    const Let *sub = let_in(body, mul->args[0]);
    if (sub && sub->op == OP_sub && map_dtype(sub) == compute) {
        term->form = "square_sub";
        term->lets++;
        return take_either(body, sub, compute, term);
    }
    term->form = "square";
    term->x = term_load(body, mul->args[0], compute, &term->lets);
    return term->x != NULL;
}

bool
term_find(const Let *reduce, Dtype dtype, Term *term)
{
    const Block *body = reduce->body;
    Dtype compute = dtype_info[dtype].compute;
    const Let *last = let_in(body, body->rets[0]);
    *term = (Term){.form = "load"};
    if (!last || dtype != compute) {
        return false;
    }
    bool found = last->op == OP_mul && map_dtype(last) == compute
                     ? take_product(body, last, compute, term)
                     : (term->x = term_load(body, last->res[0], compute, &term->lets)) != NULL;
    return found && term->lets == body->n;
}

bool
term_goes_down(const Let *reduce)
{
    Term term;
    return term_find(reduce, reduce->res[0]->type->dtype, &term) &&
           term_has_strip("down", let_op(reduce), term.form, term.x->res[0]->type->dtype);
}

/* ---- rows in a tile ---- */

/* Is the index bound to what is in memory? */
static bool
is_index_in_memory(const void *arg, Dim name)
{
    const Tile *tile = arg;
    return tile->bound && tile->bound(tile->arg, name) != INDEX_SAME;
}

bool
term_has_rows(const Facts *facts, const Tile *tile, const Let *load, Dim along)
{
    Cx *cx = facts->cx;
    const AccessFacts *access = facts_access(facts, load);
    const Step *step = facts_step(facts, load, tile->index), *row = facts_step(facts, load, along);
    return !dim_any_name(cx, access->offset, is_index_in_memory, tile) && !access->is_private &&
           step && row && (dim_is(cx, step->step, 1) || dim_is(cx, step->step, 0));
}

/* Are the rows of the first operand in the tile, and those of the second if it is loaded? */
static bool
has_operands(const Facts *facts, const Tile *tile, const Let *reduce, const Term *term)
{
    Dim along = loop_index(reduce);
    const Let *other = term->y ? let_in(reduce->body, term->y) : NULL;
    return term_has_rows(facts, tile, term->x, along) &&
           facts_contiguous(facts, term->x, tile->index) &&
           (!other || term_has_rows(facts, tile, other, along));
}

bool
term_goes_down_in(const Facts *facts, const Tile *tile, const Let *reduce, Dtype dtype, Term *term)
{
    return tile->index != DIM_NONE && term_find(reduce, dtype, term) &&
           term_has_strip("down", let_op(reduce), term->form, term->x->res[0]->type->dtype) &&
           has_operands(facts, tile, reduce, term);
}

bool
term_goes_along(const Facts *facts, const Tile *tile, const Let *reduce, Dtype dtype, Term *term)
{
    return term_find(reduce, dtype, term) &&
           term_has_strip("along", let_op(reduce), term->form, term->x->res[0]->type->dtype) &&
           has_operands(facts, tile, reduce, term) && !(term->y && let_in(reduce->body, term->y));
}

/* ---- rows that are gathered ---- */

/* May the let be computed for all steps at once, a tile of them?  Its operands are such lets, or
 * known outside and one for all. */
static bool
is_of_steps(const Facts *facts, const Tile *tile, const Block *body, const Let *let)
{
    if (let->op == OP_load) {
        const AccessFacts *access = facts_access(facts, let);
        return !dim_varies(tile, access->offset) && !access->is_private;
    }
    if (let->op == OP_size) {
        return !dim_varies(tile, let_dim(let, "dim"));
    }
    bool same = true;
    for (int k = 0; k < let->nargs; k++) {
        const Value *v = let->args[k];
        same &= value_is_const(v) || let_in(body, v) || !tile->differs(tile->arg, v);
    }
    bool map = op_info[let->op].kind == KIND_MAP && !map_rounds(let);
    return same && (map || let->op == OP_bind);
}

const Let *
term_gathered(const Facts *facts, const Tile *tile, const Let *reduce, Dtype dtype)
{
    const Block *body = reduce->body;
    int lets = 0, binds = 0;
    for (int k = 0; k < body->n; k++) {
        binds += body->lets[k]->op == OP_bind;
    }
    const Let *row = binds ? term_load(body, body->rets[0], dtype, &lets) : NULL;
    if (!row || let_has(reduce, MARK_pairs) || body->lets[body->n - lets] != row ||
        !term_has_strip("down", let_op(reduce), "load", row->res[0]->type->dtype)) {
        return NULL;
    }
    const AccessFacts *access = facts_access(facts, row);
    Dim step, rest;
    if (access->is_private || dim_any_name(facts->cx, access->offset, is_index_in_memory, tile) ||
        !dim_goes_by(tile, access->offset, tile->index, &step, &rest) ||
        !dim_is(facts->cx, step, 1) || dim_uses(facts->cx, rest, tile->index)) {
        return NULL;
    }
    bool of_steps = true;
    for (int k = 0; k < body->n - lets && of_steps; k++) {
        of_steps = is_of_steps(facts, tile, body, body->lets[k]);
    }
    return of_steps ? row : NULL;
}

const Let *
term_next_indices(const Facts *facts, const Let *reduce, const Let *row)
{
    const Block *body = reduce->body;
    const Let *index = body->n > 2 && body->lets[2] == row && body->lets[1]->op == OP_bind
                           ? body->lets[0]
                           : NULL;
    if (!index || index->op != OP_load || index->args[0]->strides ||
        index->res[0]->type->dtype != DT_i64 || facts_access(facts, index)->is_private ||
        !facts_contiguous(facts, index, loop_index(reduce))) {
        return NULL;
    }
    const Let *found = NULL;
    for (const Let *loop = let_around(reduce); loop_is(loop); loop = let_around(loop)) {
        const Step *next = facts_step(facts, index, loop_index(loop));
        found = next && next->step == loop_extent(reduce) ? index : found;
    }
    return found;
}
