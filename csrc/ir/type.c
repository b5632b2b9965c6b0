/* Types are interned: the same element type and the same dims are the same pointer. */
#include "cx.h"

#include <string.h>

typedef struct {
    Dtype dtype;
    int rank;
    const Dim *dims;
} TypeKey;

static bool
same_type(const void *entry, const void *key)
{
    const Type *t = entry;
    const TypeKey *want = key;
    return t->dtype == want->dtype && t->rank == want->rank &&
           (t->rank == 0 || memcmp(t->dims, want->dims, (size_t)t->rank * sizeof(Dim)) == 0);
}

const Type *
type_of(Cx *cx, Dtype dtype, int rank, const Dim *dims)
{
    if (rank > MAX_RANK) {
        fail(cx, DIAG_RANK, rank, MAX_RANK);
    }
    TypeKey key = {dtype, rank, dims};
    uint64_t hash = hash_mix(hash_bytes(dims, (size_t)rank * sizeof(Dim)), (uint64_t)dtype);
    Type *t = table_find(&cx->types, hash, same_type, &key);
    if (!t) {
        t = cx_alloc(cx, sizeof *t + (size_t)rank * sizeof(Dim));
        t->dtype = dtype;
        t->rank = rank;
        if (rank) {
            memcpy(t->dims, dims, (size_t)rank * sizeof(Dim));
        }
        table_add(cx, &cx->types, hash, t);
    }
    return t;
}

const Type *
type_scalar(Cx *cx, Dtype dtype)
{
    return type_of(cx, dtype, 0, NULL);
}

const Type *
type_with(Cx *cx, const Type *t, Dtype dtype)
{
    return t->dtype == dtype ? t : type_of(cx, dtype, t->rank, t->dims);
}

bool
type_same_shape(const Type *a, const Type *b)
{
    return a == b ||
           (a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof(Dim)) == 0);
}

int
type_wide_axes(Cx *cx, const Type *t)
{
    int n = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        n += !dim_is(cx, t->dims[ax], 1);
    }
    return n;
}

Dim
type_numel(Cx *cx, const Type *t)
{
    Dim n = dim_int(cx, 1);
    for (int ax = 0; ax < t->rank; ax++) {
        n = dim_mul(cx, n, t->dims[ax]);
    }
    return n;
}

bool
type_is_empty(Cx *cx, const Type *t)
{
    bool empty = false;
    for (int ax = 0; ax < t->rank; ax++) {
        empty |= dim_is(cx, t->dims[ax], 0);
    }
    return empty;
}

void
type_dense(Cx *cx, const Type *t, Dim *strides)
{
    Dim stride = dim_int(cx, 1);
    for (int ax = t->rank - 1; ax >= 0; ax--) {
        strides[ax] = stride;
        stride = ax ? dim_mul(cx, stride, t->dims[ax]) : stride;
    }
}

void
type_text(const Cx *cx, const Type *t, Text *out)
{
    text_add(out, "%s", dtype_info[t->dtype].name);
    for (int ax = 0; ax < t->rank; ax++) {
        text_add(out, ax ? ", " : "[");
        dim_text(cx, t->dims[ax], out);
    }
    text_add(out, t->rank ? "]" : "");
}
