/* Strips and constants by name, declared in the unit at their first use; see emit_tcc.c. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "emit_tcc.h"

static int
strip_operands(const char *name)
{
    const char *op = name + strlen("strip_");
    for (int k = 0; k < OP_COUNT; k++) {
        size_t n = strlen(op_info[k].name);
        if (op_info[k].kind == KIND_MAP && strncmp(op, op_info[k].name, n) == 0 && op[n] == '_' &&
            dtype_find(op + n + 1, strlen(op + n + 1)) != DTYPE_COUNT) {
            return op_info[k].arity;
        }
    }
    return 0;
}

/* What a strip that returns an element of its dtype does return. */
static const char *
returned(const char *name)
{
    const char *dtype = strrchr(name, '_') + 1;
    return type_c(dtype_find(dtype, strlen(dtype)));
}

typedef struct {
    const char *name, *returns, *parameters;
} Family;

/* The family of strips.def whose name is the longest that the strip's begins with, or NULL: a
 * MAP. */
static const Family *
family_of(const char *strip)
{
    static const Family families[] = {
#define STRIPS(family, returns, parameters, what) {#family, returns, parameters},
#include "codegen/strips/strips.def"
    };
    const Family *best = NULL;
    size_t longest = 0;
    for (size_t k = 0; k < sizeof families / sizeof *families; k++) {
        size_t n = strlen(families[k].name);
        if (n > longest && strncmp(strip, families[k].name, n) == 0 &&
            (strip[n] == '_' || !strip[n])) {
            best = &families[k];
            longest = n;
        }
    }
    return best;
}

/* The prototype of a strip; of a non-temporal one it is that of the strip it is named for. */
static const char *
prototype(Cx *cx, const char *name)
{
    static const char nontemporal[] = "strip_nontemporal_";
    if (strncmp(name, nontemporal, strlen(nontemporal)) == 0) {
        const char *of = cx_format(cx, "strip_%s", name + strlen(nontemporal)),
                   *same = prototype(cx, of);
        return cx_format(cx, "void %s%s", name, same + strlen("void ") + strlen(of));
    }
    const Family *family = family_of(name + strlen("strip_"));
    if (family) {
        const char *returns = family->returns ? family->returns : returned(name);
        return cx_format(cx, "%s %s(%s);\n", returns, name, family->parameters);
    }
    int operands = strip_operands(name);
    return cx_format(cx, "void %s(void *out, const void *a%s%s, int64_t n, unsigned scalars);\n",
                     name, operands > 1 ? ", const void *b" : "",
                     operands > 2 ? ", const void *c" : "");
}

const char *
tcc_strip(Tcc *t, const char *format, ...)
{
    Text name = {.cx = t->e->cx};
    va_list args;
    va_start(args, format);
    text_vadd(&name, format, args);
    va_end(args);
    const char *kept = cx_intern(t->e->cx, name.text, name.length);
    if (new_helper(t->e, kept)) {
        text_add(t->e->helpers, "%s", prototype(t->e->cx, kept));
    }
    return kept;
}

const char *
tcc_literal(Tcc *t, Dtype dtype, Literal literal)
{
    Emit *e = t->e;
    uint64_t bits = literal_bits(dtype, literal);
    int bytes = dtype_info[dtype_info[dtype].compute].bytes;
    const char *name = cx_format(e->cx, "dlc_%s_%llx", compute_name(dtype),
                                 (unsigned long long)bits);
    if (new_helper(e, name)) {
        text_add(e->helpers, "static const uint%d_t %s = 0x%llx%s; /* %s */\n", 8 * bytes, name,
                 (unsigned long long)bits, bytes == 8 ? "ull" : "",
                 literal_c(e->cx, dtype, literal));
    }
    return cx_format(e->cx, "&%s", name);
}
