/* The shape of a compiled kernel: its phases, their buffers, dims and cost, in terms of the
 * kernel's own operands and size symbols.  It travels with the machine code, so that a plan that
 * finds the code needs no lowering. */
#include <stdlib.h>
#include <string.h>

#include "codegen/loops/loops.h"
#include "kernel.h"

enum { MAX_DEPTH = 64 };

/* ---- writing ---- */

typedef struct {
    Text out;
    const KernelKey *key;
} Writer;

static void
dim_leaf(void *arg, char kind, int64_t value, Dim name)
{
    Writer *w = arg;
    if (kind == 'i') {
        text_add(&w->out, "%lld ", (long long)value);
        return;
    }
    int k = 0;
    while (k < w->key->nsizes && w->key->sizes[k] != name) {
        k++;
    }
    if (k == w->key->nsizes) {
        fail(w->out.cx, DIAG_KERNEL_SIZE, dim_name(w->out.cx, name));
    }
    text_add(&w->out, "n%d ", k);
}

static void
dim_binary(void *arg, char kind)
{
    Writer *w = arg;
    text_add(&w->out, "%c ", kind);
}

static void
put_dim(Writer *w, Dim d)
{
    static const DimWalk walk = {dim_leaf, dim_binary};
    dim_walk(w->out.cx, d, &walk, w);
    text_add(&w->out, ". ");
}

/* Lowering keeps names, which are interned. */
static bool
put_ref(Writer *w, char kind, Value *const *values, int n, const Value *v)
{
    for (int k = 0; k < n; k++) {
        if (values[k]->name == v->name) {
            text_add(&w->out, "%c%d ", kind, k);
            return true;
        }
    }
    return false;
}

/* The buffers that a kernel of the loops stage makes for itself. */
static int
find_buffers(Cx *cx, const Block *root, int n, Value ***out)
{
    for (int k = 0; k < root->n; k++) {
        const Let *let = root->lets[k];
        if (let->op == OP_buffer) {
            *out = cx_grow(cx, *out, n, sizeof **out);
            (*out)[n++] = let->res[0];
        } else if (let_is_choice(let)) {
            n = find_buffers(cx, let->body, n, out);
        }
    }
    return n;
}

static void
put_phase(Writer *w, const Let *kernel, Value *const *made, int nmade, const Phase *phase)
{
    text_add(&w->out, "%d ", phase->nbuffers);
    for (int k = 0; k < phase->nbuffers; k++) {
        const Value *v = phase->buffers[k];
        if (!put_ref(w, 'p', w->key->operands, w->key->noperands, v) &&
            !put_ref(w, 'r', kernel->res, kernel->nres, v) && !put_ref(w, 'b', made, nmade, v)) {
            fail(w->out.cx, DIAG_KERNEL_BUFFER, v->name);
        }
    }
    text_add(&w->out, "%d ", phase->ndims);
    for (int k = 0; k < phase->ndims; k++) {
        put_dim(w, phase->dims[k]);
    }
    put_dim(w, phase->extent);
    put_dim(w, phase->work);
    put_dim(w, phase->scratch);
    text_add(&w->out, "%d ", phase->in_order);
}

const char *
shape_write(Cx *cx, const KernelKey *key, const Let *kernel, const Unit *unit)
{
    Writer w = {{.cx = cx}, key};
    Value **made = NULL;
    int n = find_buffers(cx, kernel->body, 0, &made), phases = 0;
    for (int k = 0; k < unit->nphases; k++) {
        phases += unit->phases[k].kernel == kernel;
    }
    text_add(&w.out, "%d %d ", phases, n);
    for (int k = 0; k < n; k++) {
        const Type *t = made[k]->type;
        text_add(&w.out, "%d %d ", (int)t->dtype, t->rank);
        for (int ax = 0; ax < t->rank; ax++) {
            bool none = ax == 0 && block_around(made[k]->def->parent); /* where not chosen */
            Dim share = none ? let_chosen(cx, made[k]->def) : dim_int(cx, 1);
            put_dim(&w, dim_mul(cx, share, t->dims[ax]));
        }
    }
    for (int k = 0; k < unit->nphases; k++) {
        if (unit->phases[k].kernel == kernel) {
            put_phase(&w, kernel, made, n, &unit->phases[k]);
        }
    }
    return w.out.text;
}

/* ---- reading ---- */

static _Noreturn void
refuse(ShapeReader *r)
{
    fail(r->cx, DIAG_KERNEL_SHAPE);
}

static void
skip_blanks(ShapeReader *r)
{
    r->at += strspn(r->at, " ");
}

int64_t
shape_int(ShapeReader *r)
{
    char *end;
    skip_blanks(r);
    int64_t value = strtoll(r->at, &end, 10);
    if (end == r->at) {
        refuse(r);
    }
    r->at = end;
    return value;
}

static Dim
leaf(ShapeReader *r)
{
    if (*r->at != 'n') {
        return dim_int(r->cx, shape_int(r));
    }
    r->at++;
    int64_t k = shape_int(r);
    if (k < 0 || k >= r->nsizes) {
        refuse(r);
    }
    return r->sizes[k];
}

Dim
shape_dim(ShapeReader *r)
{
    Dim stack[MAX_DEPTH];
    int n = 0;
    for (skip_blanks(r); *r->at != '.'; skip_blanks(r)) {
        bool operand = (*r->at >= '0' && *r->at <= '9') || *r->at == 'n' ||
                       (*r->at == '-' && r->at[1] >= '0' && r->at[1] <= '9');
        if (operand ? n == MAX_DEPTH : n < 2) {
            refuse(r);
        }
        if (operand) {
            stack[n++] = leaf(r);
        } else {
            if (!*r->at || !strchr("+*/%Mms", *r->at)) {
                refuse(r);
            }
            n--;
            stack[n - 1] = dim_apply(r->cx, *r->at++, stack[n - 1], stack[n]);
        }
    }
    if (n != 1) {
        refuse(r);
    }
    r->at++;
    return stack[0];
}

const Type *
shape_type(ShapeReader *r)
{
    int64_t dtype = shape_int(r), rank = shape_int(r);
    Dim dims[MAX_RANK];
    if (dtype < 0 || dtype >= DTYPE_COUNT || rank < 0 || rank > MAX_RANK) {
        refuse(r);
    }
    for (int ax = 0; ax < rank; ax++) {
        dims[ax] = shape_dim(r);
    }
    return type_of(r->cx, (Dtype)dtype, (int)rank, dims);
}

int
shape_ref(ShapeReader *r, char *kind)
{
    skip_blanks(r);
    *kind = *r->at;
    if (*kind) {
        r->at++;
    }
    return (int)shape_int(r);
}

int
shape_phases(const char *shape)
{
    char *end;
    long n = strtol(shape, &end, 10);
    return end != shape && *end == ' ' && n >= 0 && n < 1000000 ? (int)n : -1;
}
