/* The rule of marks that make other loops of loops, V55; verify.c has the list. */
#include "dependence.h"
#include "verify.h"

enum { MOST_AROUND = 32 };

static Marks
marks_but(const Let *loop, Marks may)
{
    return (Marks)let_int(loop, "marks") & ~may;
}

/* The loop that is all of the loop's body, and could change places with it as far as their text
 * says; NULL: there is none. */
static const Let *
loop_alone_in(Verifier *v, const Let *loop)
{
    const Let *inner = loop->body->n == 1 ? loop->body->lets[0] : NULL;
    bool good = inner && inner->op == OP_for && !marks_but(inner, MARK_split) &&
                !dim_uses(v->cx, let_dim(inner, "extent"), let_attr(loop, "index")->d);
    return good ? inner : NULL;
}

static void
check_reorder(Verifier *v, const Let *loop)
{
    if (!loop_alone_in(v, loop)) {
        verify_broken(v, 55,
                      "reorder marks a loop whose body is not one loop alone, without marks and as "
                      "long in each iteration");
    }
    Dependences all = dependences_of(v->cx, loop);
    const Dependence *against = dependence_against_interchange(&all);
    if (against) {
        Text text = {.cx = v->cx};
        dependence_text(v->cx, against, &text);
        verify_broken(v, 55, "reorder marks loops whose order two accesses need: %s", text.text);
    }
}

void
verify_nest(Verifier *v, const Let *loop)
{
    bool splits = let_has(loop, MARK_split), reorders = let_has(loop, MARK_reorder);
    if (!splits && !reorders) {
        return;
    }
    int around = 0;
    for (const Let *outer = let_around(loop); loop_is(outer); outer = let_around(outer)) {
        around++;
    }
    if (marks_but(loop, MARK_split | MARK_reorder) || around > MOST_AROUND) {
        verify_broken(v, 55, "%s marks a loop that has other marks, or too many loops around it",
                      splits ? "split" : "reorder");
    }
    if (reorders) {
        check_reorder(v, loop);
    }
}
