/* Terms: what reductions reduce that vector primitives read from memory themselves.
 *
 * How:      the body's lets are matched against a few forms: x, x*x, x*y, (x - y)*(x - y), where x
 *           is loaded (and cast, where it is narrow) and y is loaded too or known outside.
 * Example:  { let a = load x[j, i]; let d = sub a, m; let q = mul d, d; ret q }: square_sub of a
 *           and m
 */
#include <stdio.h>
#include <string.h>

#include "term.h"

bool
term_has_strip(const char *family, Op red, const char *form, Dtype dtype)
{
    static const char *const names[] = {
#define FORMS(kind, name) #name,
#include "codegen/strips/strips.def"
    };
    enum { LONGEST = 64 };
    char name[LONGEST];
    snprintf(name, sizeof name, "%s_%s_%s_%s", family, op_info[red].name, form,
             dtype_info[dtype].name);
    bool found = false;
    for (size_t k = 0; k < sizeof names / sizeof *names && !found; k++) {
        found = strcmp(names[k], name) == 0;
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
