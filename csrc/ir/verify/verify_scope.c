/* The verifier's rules V01 to V03: what names are bound to, and where. */
#include "verify.h"

typedef struct {
    const char *name;
    bool index;
} Bound;

static bool
same_name(const void *entry, const void *key)
{
    return ((const Bound *)entry)->name == key;
}

static void
bind_name(Verifier *v, const char *name, bool index)
{
    uint64_t hash = hash_mix((uintptr_t)name, 0);
    if (!text_is_word(name)) {
        verify_broken(v, 1, "'%s' is not a name", name);
    }
    Bound *bound = table_find(&v->names, hash, same_name, name);
    if (bound && !(index && bound->index)) {
        verify_broken(v, 1, "the name '%s' is bound already", name);
    }
    if (!bound) {
        bound = cx_alloc(v->cx, sizeof *bound);
        *bound = (Bound){name, index};
        table_add(v->cx, &v->names, hash, bound);
    }
}

static bool
size_in_scope(const Verifier *v, Dim size)
{
    int k = v->nsizes - 1;
    while (k >= 0 && v->sizes[k] != size) {
        k--;
    }
    return k >= 0;
}

static void
push_size(Verifier *v, Dim size)
{
    v->sizes = cx_grow(v->cx, v->sizes, v->nsizes, sizeof *v->sizes);
    v->sizes[v->nsizes++] = size;
}

void
verify_size(Verifier *v, Dim size)
{
    bind_name(v, dim_name(v->cx, size), false);
    push_size(v, size);
}

void
verify_index(Verifier *v, Dim index)
{
    const char *name = dim_name(v->cx, index);
    for (int k = 0; k < v->nsizes; k++) {
        if (dim_name(v->cx, v->sizes[k]) == name) {
            verify_broken(v, 1, "the name '%s' is bound already, around this loop", name);
        }
    }
    bind_name(v, name, true);
    push_size(v, index);
}

static void
check_name(void *arg, Dim name)
{
    Verifier *v = arg;
    if (!size_in_scope(v, name)) {
        verify_broken(v, 3, "the size '%s' is not declared here", dim_name(v->cx, name));
    }
}

void
verify_dims(Verifier *v, int n, const Dim *dims)
{
    for (int k = 0; k < n; k++) {
        dim_names(v->cx, dims[k], check_name, v);
    }
}

void
verify_bind(Verifier *v, const Value *value)
{
    bind_name(v, value->name, false);
    verify_dims(v, value->type->rank, value->type->dims);
    verify_dims(v, value->strides ? value->type->rank : 0, value->strides);
    v->scope[value->id] = value;
}

void
verify_uses(Verifier *v, int n, Value *const *values)
{
    for (int k = 0; k < n; k++) {
        if (!value_is_const(values[k]) && v->scope[values[k]->id] != values[k]) {
            verify_broken(v, 2, "'%s' is not bound here: it is bound later, or in another body",
                          values[k]->name);
        }
    }
}
