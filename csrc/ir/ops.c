/* The tables of ops.def and dtype.def as data. */
#include "ir.h"

#include <string.h>

#define F(c, a, i, t) \
    ((c) * OPF_COMMUTATIVE | (a) * OPF_ASSOCIATIVE | (i) * OPF_IDEMPOTENT | (t) * OPF_TOTAL)
#define N(c, a, i, t) (F(c, a, i, t) | OPF_NEAR)

/* Names in the columns of NODE. */
enum {
    ANY = -1,
    BODY = OPF_BODY, LOOP = OPF_LOOP, FLOW = OPF_FLOW, ACCESS = OPF_ACCESS, WRITES = OPF_WRITES,
    PLAIN = OPF_PLAIN, CHOICE = OPF_CHOICE,
    COST_OF_RED = 2,
};

const OpInfo op_info[OP_COUNT] = {
#define MAP(id, count, dtype, bits, cycles, text) \
    [OP_##id] = {.name = #id, .kind = KIND_MAP, .arity = count, .results = 1, \
                 .rule = RULE_##dtype, .flags = (bits) | OPF_PLAIN, .cost = cycles, .expr = #text, \
                 .attrs = "", .stages = "GKL", .reads = "e", .fuses = FUSES_ALL, \
                 .combine = OP_COUNT},
#define RED(id, with, identity, dtype) \
    [OP_##id] = {.name = #id, .kind = KIND_RED, .arity = 1, .results = 1, .rule = RULE_##dtype, \
                 .cost = COST_OF_RED, .attrs = "axes:axes", .stages = "GK", .reads = "e", \
                 .fuses = FUSES_REDUCES, .combine = OP_##with},
#define VIEW(id, schema, how) \
    [OP_##id] = {.name = #id, .kind = KIND_VIEW, .arity = 1, .results = 1, .rule = RULE_NONE, \
                 .attrs = schema, .stages = "GTK", .reads = how, .fuses = FUSES_ALL, \
                 .combine = OP_COUNT},
#define NODE(id, count, made, schema, where, how, with, cycles, bits) \
    [OP_##id] = {.name = #id, .kind = KIND_NODE, .arity = count, .results = made, \
                 .rule = RULE_NONE, .flags = bits, .cost = cycles, .attrs = schema, \
                 .stages = where, .reads = how, .fuses = FUSES_##with, .combine = OP_COUNT},
#include "ops.def"
};

#undef F
#undef N

const DtypeInfo dtype_info[DTYPE_COUNT] = {
#define DTYPE(id, storage, size, kind, in, number) \
    [DT_##id] = {.name = #id, .bytes = size, .class = CLASS_##kind, .compute = DT_##in, \
                 .torch = number},
#include "dtype.def"
};

#define DTYPE(id, storage, size, kind, in, number) \
    _Static_assert(sizeof(storage) == (size), "dtype.def: " #id " has another size");
#include "dtype.def"

static bool
named(const char *name, const char *text, size_t length)
{
    return name[0] == text[0] && strncmp(name, text, length) == 0 && name[length] == '\0';
}

Op
op_find(const char *name, size_t length)
{
    int op = 0;
    while (op < OP_COUNT && (length == 0 || !named(op_info[op].name, name, length))) {
        op++;
    }
    return (Op)op;
}

int
op_attrs(Op op)
{
    int n = 0;
    for (const char *p = op_info[op].attrs; *p; p++) {
        n += *p == ':';
    }
    return n;
}

char
op_reads(Op op, int arg)
{
    const char *reads = op_info[op].reads;
    int last = (int)strlen(reads) - 1;
    return reads[arg < last ? arg : last];
}

Dtype
dtype_find(const char *name, size_t length)
{
    int dtype = 0;
    while (dtype < DTYPE_COUNT
           && (length == 0 || !named(dtype_info[dtype].name, name, length))) {
        dtype++;
    }
    return (Dtype)dtype;
}

bool
dtype_is_float8(Dtype dtype)
{
    return dtype_info[dtype].class == CLASS_OTHER && dtype_info[dtype].compute == DT_i32;
}

bool
dtype_is_opaque(Dtype dtype)
{
    return dtype_info[dtype].class == CLASS_OTHER && !dtype_is_float8(dtype);
}

Dtype
dtype_part(Dtype dtype)
{
    return dtype == DT_c64 ? DT_f32 : dtype == DT_c128 ? DT_f64 : DTYPE_COUNT;
}

int
dtype_components(Dtype dtype)
{
    return dtype_part(dtype) == DTYPE_COUNT ? 1 : 2;
}

Dtype
dtype_component(Dtype dtype)
{
    return dtype_components(dtype) == 1 ? dtype : dtype_part(dtype);
}

Dtype
dtype_pair(Dtype dtype)
{
    return dtype == DT_f32 ? DT_c64 : dtype == DT_f64 ? DT_c128 : DTYPE_COUNT;
}
