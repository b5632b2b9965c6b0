/* The key of a kernel: what it computes, without the names it has in one graph.
 *
 * Values and size symbols count from 0 in the order in which the kernel's text meets them, types in
 * the same way; where a let comes from is left out.  So the equal layers of a model have one key,
 * in one graph and in the next.  The key also covers the sources that decide machine code
 * (digest.py): what the kernel would become. */
#include <string.h>

#include "kernel.h"

struct KernelCoder {
    Cx *cx;
    Text out;
    int *number;                /* by Value.id: base + its number, less than base: not met yet */
    int base, nvalues;
    const Type **types;
    int ntypes;
    Dim *sizes;
    int nsizes;
    Value **operands;
    int noperands;
};

KernelCoder *
kernel_coder(const Fn *fn)
{
    KernelCoder *c = cx_alloc(fn->cx, sizeof *c);
    c->cx = fn->cx;
    c->out = (Text){.cx = fn->cx};
    c->number = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *c->number);
    c->base = 1;
    return c;
}

/* Small numbers, of both signs, are one byte. */
static void
put_int(KernelCoder *c, int64_t value)
{
    uint64_t rest = ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
    char bytes[10];
    size_t n = 0;
    for (; rest >= 128; rest >>= 7) {
        bytes[n++] = (char)(rest | 128);
    }
    bytes[n++] = (char)rest;
    text_put(&c->out, bytes, n);
}

static void
put_string(KernelCoder *c, const char *s)
{
    put_int(c, (int64_t)strlen(s));
    text_put(&c->out, s, strlen(s));
}

static void
put_letters(KernelCoder *c, const Contraction *letters)
{
    Text text = {.cx = c->cx};
    contraction_text(letters, &text);
    put_string(c, text.text);
}

static void
dim_leaf(void *arg, char kind, int64_t value, Dim name)
{
    KernelCoder *c = arg;
    int k = 0;
    text_put(&c->out, &kind, 1);
    if (kind == 'n') {
        while (k < c->nsizes && c->sizes[k] != name) {
            k++;
        }
        if (k == c->nsizes) {
            c->sizes = cx_grow(c->cx, c->sizes, k, sizeof *c->sizes);
            c->sizes[c->nsizes++] = name;
        }
    }
    put_int(c, kind == 'n' ? k : value);
}

static void
dim_binary(void *arg, char kind)
{
    KernelCoder *c = arg;
    text_put(&c->out, &kind, 1);
}

static void
put_dims(KernelCoder *c, int n, const Dim *dims)
{
    static const DimWalk walk = {dim_leaf, dim_binary};
    put_int(c, dims ? n : -1);
    for (int k = 0; dims && k < n; k++) {
        dim_walk(c->cx, dims[k], &walk, c);
        text_put(&c->out, ".", 1);
    }
}

static void
put_type(KernelCoder *c, const Type *t)
{
    int k = 0;
    while (k < c->ntypes && c->types[k] != t) {
        k++;
    }
    put_int(c, k);
    if (k == c->ntypes) {
        c->types = cx_grow(c->cx, c->types, k, sizeof *c->types);
        c->types[c->ntypes++] = t;
        put_int(c, t->dtype);
        put_dims(c, t->rank, t->dims);
    }
}

/* Numbers a value; its type and layout are part of the text. */
static void
put_binder(KernelCoder *c, const Value *v)
{
    c->number[v->id] = c->base + c->nvalues++;
    put_type(c, v->type);
    put_dims(c, v->type->rank, v->strides);
}

enum { USE_INT, USE_FLOAT, USE_OPERAND, USE_VALUE };

static void
put_use(KernelCoder *c, Value *v)
{
    if (value_is_const(v)) {
        int64_t bits;
        memcpy(&bits, &v->literal.f, sizeof bits);
        put_int(c, v->literal.is_int ? USE_INT : USE_FLOAT);
        put_int(c, v->literal.is_int ? v->literal.i : bits);
    } else if (c->number[v->id] < c->base) {    /* bound outside: an operand, met here first */
        put_int(c, USE_OPERAND);
        c->operands = cx_grow(c->cx, c->operands, c->noperands, sizeof(Value *));
        c->operands[c->noperands++] = v;
        put_binder(c, v);
    } else {
        put_int(c, USE_VALUE + c->number[v->id] - c->base);
    }
}

static void
put_attr(KernelCoder *c, const Attr *a)
{
    put_int(c, a->kind);
    switch (a->kind) {
    case ATTR_INT:
        put_int(c, a->i);
        break;
    case ATTR_MARKS:
        put_int(c, a->i);
        for (int k = 0; k < MARK_COUNT; k++) {
            put_int(c, attr_mark_value(a, k));
        }
        break;
    case ATTR_DIM:
        put_dims(c, 1, &a->d);
        break;
    case ATTR_DIMS:
        put_dims(c, a->n, a->dims);
        break;
    case ATTR_AXES:
        put_int(c, a->n);
        for (int k = 0; k < a->n; k++) {
            put_int(c, a->axes[k]);
        }
        break;
    case ATTR_STR:
    case ATTR_NAME:
        put_string(c, a->s);
        break;
    case ATTR_LETTERS:
        put_letters(c, a->letters);
        break;
    case ATTR_NONE:
        break;
    }
}

static void put_block(KernelCoder *c, const Block *blk);
static void put_in_place(KernelCoder *c, const Value *over);

/* The body of a loop: a function, whose values have ids of their own. */
static void
put_fn(KernelCoder *c, const Fn *fn)
{
    int *outer = c->number;
    c->number = cx_alloc(c->cx, (size_t)fn->nvalues * sizeof *c->number);
    put_int(c, fn->nparams);
    for (int k = 0; k < fn->nparams; k++) {
        put_binder(c, fn->params[k]);
    }
    put_block(c, fn->body);
    c->number = outer;
}

static void
put_block(KernelCoder *c, const Block *blk)
{
    put_int(c, blk->n);
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        put_int(c, let->op);
        put_int(c, let->nargs);
        for (int j = 0; j < let->nargs; j++) {
            put_use(c, let->args[j]);
        }
        put_int(c, let->nattrs);
        for (int j = 0; j < let->nattrs; j++) {
            put_attr(c, &let->attrs[j]);
        }
        if (let->body) { /* a kernel in the body of a loop */
            put_block(c, let->body);
        }
        for (int j = 0; j < let->nbodies; j++) {
            put_fn(c, let->bodies[j]);
        }
        put_int(c, let->nres);
        for (int j = 0; j < let->nres; j++) {
            put_binder(c, let->res[j]);
            if (let->body) {
                put_in_place(c, let->res[j]->over);
            }
        }
    }
    put_int(c, blk->nrets);
    for (int k = 0; k < blk->nrets; k++) {
        put_use(c, blk->rets[k]);
    }
}

/* A parameter that the kernel does not read makes no other kernel. */
static void
put_in_place(KernelCoder *c, const Value *over)
{
    put_int(c, over && c->number[over->id] >= c->base ? c->number[over->id] - c->base : -1);
}

static void
put_sizes(KernelCoder *c)
{
    for (int k = 0; k < c->nsizes; k++) {
        Range range = dim_range(c->cx, c->sizes[k]);
        put_int(c, range.lo);
        put_int(c, range.hi);
        put_int(c, dim_divisor(c->cx, c->sizes[k]));
    }
}

int
let_in_place(const Let *kernel)
{
    int n = 0;
    for (int k = 0; k < kernel->nres; k++) {
        n += kernel->res[k]->over != NULL;
    }
    return n;
}

void
kernel_key(KernelCoder *c, const Let *kernel, KernelKey *out)
{
    c->out.length = 0;
    c->base += c->nvalues;
    c->nvalues = c->ntypes = c->nsizes = c->noperands = 0;
    c->sizes = NULL;            /* the last kernel's are its own */
    c->operands = NULL;
    put_string(c, dlc_sources);
    put_block(c, kernel->body);
    put_int(c, kernel->nres);
    for (int k = 0; k < kernel->nres; k++) {
        put_binder(c, kernel->res[k]);
        put_in_place(c, kernel->res[k]->over);
    }
    put_sizes(c);
    Sha256 s;
    sha256_begin(&s);
    sha256_add(&s, c->out.text, c->out.length);
    key_end(&s, &out->key);
    out->sizes = c->sizes;
    out->nsizes = c->nsizes;
    out->operands = c->operands;
    out->noperands = c->noperands;
    out->in_place = let_in_place(kernel);
}
