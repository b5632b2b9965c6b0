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

/* The prototype of a strip, by the families of strips.h; of a non-temporal one it is that of the strip it is named for. */
static const char *
prototype(Cx *cx, const char *name)
{
    static const char nontemporal[] = "strip_nontemporal_";
    static const struct { const char *prefix, *returns, *parameters; } families[] = {
        {"strip_cast_", "void", "void *, const void *, int64_t"},
        {"strip_load_", "void", "void *, const void *, int64_t, int64_t"},
        {"strip_store_", "void", "void *, int64_t, const void *, int64_t"},
        {"strip_round_f16", "void", "void *, int64_t"},
        {"strip_round_bf16", "void", "void *, int64_t"},
        {"strip_wrap_", "void", "void *, int64_t"},
        {"strip_fill_", "void", "void *, const void *, int64_t"},
        {"strip_stream_end", "void", "void"},
        {"strip_stream", "void", "void *, const void *, int64_t"},
        {"strip_prefetch_rows", "void", "const void *, const int64_t *, int64_t, int64_t, int64_t"},
        {"strip_prefetch", "void", "const void *, int64_t"},
        {"strip_take_", "void",
         "void *, const void *, const int64_t *, int64_t, int64_t, int64_t, int64_t"},
        {"strip_put_", "void", "void *, int64_t, int64_t, const void *, int64_t, int64_t"},
        {"strip_iota_rows_", "void", "int64_t *, int64_t, int64_t, int64_t, int64_t, int64_t"},
        {"strip_iota_", "void", "int64_t *, int64_t, int64_t, int64_t"},
        {"strip_one_hot", "void", "void *, const int64_t *, int64_t, int64_t"},
        {"strip_half_", "void", "void *, const void *, const void *, int64_t, unsigned"},
        {"strip_index_rows_", "void", "void *, const int64_t *, int64_t, int64_t, int64_t"},
        {"strip_rows_", "void",
         "void *, const void *, int64_t, const void *, int64_t, int64_t, int64_t, unsigned"},
        {"strip_index_", "void", "void *, const int64_t *, int64_t, int64_t"},
        {"strip_scan_", "void",
         "void *, int64_t, int64_t, const void *, int64_t, int64_t, const void *, int64_t, int64_t, int"},
        {"strip_down_", "void",
         "void *, const void *, int64_t, const void *, int64_t, int64_t, int64_t, unsigned"},
        {"strip_gathered_", "void", "void *, const void *, const int64_t *, int64_t, int64_t, int64_t"},
        {"strip_along_", NULL, "const void *, const void *, int64_t, unsigned"},
        {"strip_check_index", "int", "const int64_t *, int64_t, int, int64_t *, int64_t"},
        {"strip_pair_", "void",
         "void *, const void *, const void *, const void *, int64_t, unsigned"},
        {"strip_clamp_", "void",
         "void *, const void *, const void *, const void *, int64_t, unsigned"},
        {"strip_square_", "void", "void *, const void *, const void *, int64_t, unsigned"},
        {"strip_then_neg_", "void", "void *, const void *, int64_t, unsigned"},
        {"strip_then_", "void", "void *, const void *, const void *, int64_t, unsigned"},
        {"strip_in_place_", "void",
         "void *, int64_t, const void *, int64_t, const void *, int64_t, const void *, int64_t, const void *, int64_t, "
         "int64_t, int64_t"},
        {"strip_read_", "void", "void *, const void *, int64_t"},
        {"strip_zip_2", "void", "void *, const void *, const void *, int64_t"},
        {"strip_zip_3", "void", "void *, const void *, const void *, const void *, int64_t"},
        {"strip_zip_4", "void", "void *, const void *, const void *, const void *, const void *, int64_t"},
        {"strip_unzip_2", "void", "void *, void *, const void *, int64_t"},
        {"strip_unzip_3", "void", "void *, void *, void *, const void *, int64_t"},
        {"strip_unzip_4", "void", "void *, void *, void *, void *, const void *, int64_t"},
        {"strip_twice_", "void",
         "void *, const void *, const void *, const void *, const void *, int64_t, unsigned"},
        {"strip_both_", "void",
         "void *, const void *, const void *, const void *, const void *, int64_t, unsigned"},
        {"strip_choose_", "void",
         "void *, const void *, const void *, const void *, const void *, int64_t, unsigned"},
        {"strip_fold_", "float", "const void *, const void *, int64_t, unsigned"},
        {"strip_transpose_", "void", "void *, const void *, int64_t, int64_t, int64_t"},
        {"strip_gather_", "void", "void *, const void *, const int64_t *, int64_t, int64_t"},
        {"strip_update_", "void", "void *, const int64_t *, int64_t, const void *, int64_t"},
        {"strip_run_", "void", "void *, const void *, void *, int64_t"},
        {"strip_reduce_arg", "int64_t", "const void *, int64_t, void *"},
    };
    if (strncmp(name, nontemporal, strlen(nontemporal)) == 0) {
        const char *of = cx_format(cx, "strip_%s", name + strlen(nontemporal)), *same = prototype(cx, of);
        return cx_format(cx, "void %s%s", name, same + strlen("void ") + strlen(of));
    }
    for (size_t k = 0; k < sizeof families / sizeof *families; k++) {
        if (strncmp(name, families[k].prefix, strlen(families[k].prefix)) == 0) {
            const char *returns = families[k].returns ? families[k].returns : returned(name);
            return cx_format(cx, "%s %s(%s);\n", returns, name, families[k].parameters);
        }
    }
    if (strncmp(name, "strip_reduce_", strlen("strip_reduce_")) == 0) {
        return cx_format(cx, "%s %s(const void *, int64_t);\n", returned(name), name);
    }
    int operands = strip_operands(name);
    return cx_format(cx, "void %s(void *, const void *%s%s, int64_t, unsigned);\n", name,
                     operands > 1 ? ", const void *" : "", operands > 2 ? ", const void *" : "");
}

const char *
tcc_strip(Tcc *t, const char *format, ...)
{
    char name[64];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const char *kept = cx_intern(t->e->cx, name, strlen(name));
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
    const char *name =
        cx_format(e->cx, "dlc_%s_%llx", compute_name(dtype), (unsigned long long)bits);
    if (new_helper(e, name)) {
        text_add(e->helpers, "static const uint%d_t %s = 0x%llx%s; /* %s */\n", 8 * bytes, name,
                 (unsigned long long)bits, bytes == 8 ? "ull" : "",
                     literal_c(e->cx, dtype, literal));
    }
    return cx_format(e->cx, "&%s", name);
}
