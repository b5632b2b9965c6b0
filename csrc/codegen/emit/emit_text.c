/* Emission: lines, names, dtypes, literals and dims as C.
 *
 * A dim over size symbols alone is a value of n[]; each has one place there, under the size's own
 * name if it is a single symbol.  A dim with loop indices is an expression over these values.
 * Names of the IR stay as they are if neither C nor the emitter uses them for something else. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "emit.h"

/* ---- lines ---- */

bool
new_helper(Emit *e, const char *key)
{
    const char *interned = cx_intern(e->cx, key, strlen(key));
    uint32_t words[2] = {0};
    memcpy(words, &interned, sizeof words);
    bool *made = map_at(e->cx, e->made, words, 2, sizeof *made), was = *made;
    *made = true;
    return !was;
}

static void
put_line(Emit *e, const char *format, va_list args, const char *end)
{
    Text *out = e->out;
    size_t margin = out->length;
    for (int k = 0; k < e->indent; k++) {
        text_put(out, "    ", 4);
    }
    size_t line = out->length;
    text_vadd(out, format, args);
    if (out->text[line] == '#') {       /* a directive stands at the margin */
        memmove(out->text + margin, out->text + line, out->length - line);
        out->length -= line - margin;
    }
    text_put(out, end, strlen(end));
    text_put(out, "\n", 1);
}

void
put(Emit *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_line(e, format, args, "");
    va_end(args);
}

void
put_open(Emit *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_line(e, format, args, " {");
    va_end(args);
    e->indent++;
}

void
put_scope(Emit *e)
{
    put(e, "{");
    e->indent++;
}

void
put_close(Emit *e)
{
    e->indent--;
    put(e, "}");
}

/* ---- names ---- */

static bool
is_free(const char *name)
{
    static const char *const taken[] = {
        "auto",       "break",       "case",        "char",     "const",      "continue",
        "default",    "do",          "double",      "else",     "enum",       "extern",
        "float",      "for",         "goto",        "if",       "inline",     "int",
        "long",       "register",    "restrict",    "return",   "short",      "signed",
        "sizeof",     "static",      "struct",      "switch",   "typedef",    "union",
        "unsigned",   "void",        "volatile",    "while",    "asm",        "typeof",
        "linux",      "unix",        "p",           "n",        "k",          "t",
        "w",          "lo",          "hi",          "fault",    "scratch",    "first",
        "best",       "wins",        "nan",         "was",      "later",      "cache_line",
        "recurrence", "recurrences", "row",         "rows",     "opaque",     "term",
        "lead",       "LANES",       "INDEPENDENT", "PREFETCH", "VECTORS_OF", "how",
        "again",      "part",        "end",         "wrong",    "far_f32",    "far_f64",
        "lanes_f32",  "lanes_f64",
    };
    bool plain = isalpha((unsigned char)name[0]) && strncmp(name, "dlc_", 4) != 0 &&
                 strncmp(name, "DLC_", 4) != 0 && strncmp(name, "strip_", 6) != 0 &&
                 strncmp(name, "micro_", 6) != 0 && strncmp(name, "pack_", 5) != 0 &&
                 strncmp(name, "op_", 3) != 0 && strncmp(name, "dim_", 4) != 0 &&
                 strncmp(name, "tile", 4) != 0 && strncmp(name, "pairs_", 6) != 0 &&
                 strncmp(name, "run_", 4) != 0;
    bool dim = name[0] == 'n' && name[1] != '\0' &&
               name[1 + strspn(name + 1, "0123456789")] == '\0';
    plain &= !dim;              /* n0, n1, ..: what is computed of sizes */
    for (const char *c = name; *c; c++) {
        plain &= isalnum((unsigned char)*c) || *c == '_';
    }
    for (size_t k = 0; k < sizeof taken / sizeof *taken && plain; k++) {
        plain = name[0] != taken[k][0] || strcmp(name, taken[k]) != 0;
    }
    return plain;
}

/* Emitters make names of those of lets and indices: name_word, name_1_word.  Is it such a name? */
static bool
may_be_made(const Fn *fn, const char *name)
{
    bool made = false;
    for (const char *end = strchr(name, '_'); end && !made; end = strchr(end + 1, '_')) {
        bool word = strspn(end + 1, "0123456789_") < strlen(end + 1);
        made = word && fn_has_name(fn, name, (size_t)(end - name));
    }
    return made;
}

/* The name or, if C or the emitted text uses it otherwise, one made of it and the number. */
static const char *
identifier(const Emit *e, const char *name, int number)
{
    if (is_free(name) && !may_be_made(e->fn, name)) {
        return name;
    }
    char *text = cx_format(e->cx, "v_%s_%d", name, number);
    for (char *c = text; *c; c++) {
        *c = isalnum((unsigned char)*c) ? *c : '_';
    }
    return text;
}

const char *
name_c(Emit *e, const Value *v)
{
    const char **name = &e->names->values[v->id];
    *name = *name ? *name : identifier(e, v->name, v->id);
    return *name;
}

const char *
index_c(Emit *e, Dim index)
{
    const char **name = map_at(e->cx, &e->names->indices, &index, 1, sizeof *name);
    *name = *name ? *name : identifier(e, dim_name(e->cx, index), (int)index);
    return *name;
}

/* ---- dtypes and literals ---- */

const char *
type_c(Dtype dtype)
{
    return storage_c(dtype_info[dtype].compute);
}

const char *
storage_c(Dtype dtype)
{
    static const char *const names[] = {
#define DTYPE(name, storage, bytes, class, compute, torch) #storage,
#include "ir/dtype.def"
    };
    return names[dtype];
}

const char *
compute_name(Dtype dtype)
{
    return dtype_info[dtype_info[dtype].compute].name;
}

const char *
literal_c(Cx *cx, Dtype dtype, Literal literal)
{
    uint64_t bits = literal_bits(dtype, literal);
    Dtype compute = dtype_info[dtype].compute;
    Text text = {.cx = cx};
    if (compute == DT_f32 || compute == DT_f64) {
        double f;
        eval_map(OP_cast, compute, DT_f64, &bits, NULL, NULL, &f);
        const char *suffix = compute == DT_f32 ? "f" : "";
        if (f != f) {
            return cx_format(cx, "__builtin_nan%s(\"\")", suffix);
        }
        if (f - f != 0) {
            return cx_format(cx, "%s__builtin_inf%s()", f < 0 ? "-" : "", suffix);
        }
        /* a decimal that reads back to the double; a float is exact in it */
        text_float(&text, f);
        return cx_format(cx, f < 0 || (f == 0 && 1 / f < 0) ? "(%s%s)" : "%s%s", text.text, suffix);
    }
    int64_t i = compute == DT_i32 ? (int32_t)bits : (int64_t)bits;
    if (i == INT64_MIN || i == INT32_MIN) {
        return cx_format(cx, "(%lld%s - 1)", (long long)(i + 1), i == INT64_MIN ? "L" : "");
    }
    return cx_format(cx, i < 0 ? "(%lld%s)" : "%lld%s", (long long)i, compute == DT_i64 ? "L" : "");
}

const char *
rounding(const Let *let)
{
    static const char *const names[DTYPE_COUNT] = {
        [DT_u8] = "wrap_u8",    [DT_i8] = "wrap_i8",      [DT_i16] = "wrap_i16",
        [DT_f16] = "round_f16", [DT_bf16] = "round_bf16",
    };
    return map_rounds(let) ? names[let->res[0]->type->dtype] : NULL;
}

/* ---- dims ---- */

/* text: NULL if it has no loop indices */
typedef struct {
    Dim dim;
    const char *text;
    bool atom;
} Term;
typedef struct {
    Emit *e;
    Term *stack;
    int n;
} DimOut;

int
size_at(Emit *e, Dim size)
{
    int k = 0;
    while (k < e->nsizes && e->sizes[k].dim != size) {
        k++;
    }
    if (k == e->nsizes) {
        e->sizes = cx_grow(e->cx, e->sizes, k, sizeof *e->sizes);
        e->sizes[e->nsizes++] = (Size){.dim = size, .place = -1};
    }
    return k;
}

const char *
size_name(Emit *e, int k)
{
    Dim size = e->sizes[k].dim;
    return dim_is_name(e->cx, size) ? index_c(e, size) : cx_format(e->cx, "n%d", k);
}

static const char *
size_c(Emit *e, Dim d)
{
    int64_t value;
    if (dim_is_int(e->cx, d, &value)) {
        return cx_format(e->cx, value < 0 ? "(%lld)" : "%lld", (long long)value);
    }
    int k = size_at(e, d);
    e->sizes[k].declared = true;
    return size_name(e, k);
}

static void
dim_leaf(void *arg, char kind, int64_t value, Dim name)
{
    DimOut *o = arg;
    Cx *cx = o->e->cx;
    bool index = kind == 'n' && dim_extent(cx, name) != DIM_NONE;
    if (kind == 'n' && !index) { /* a condition may have made it a number */
        Range range = dim_range(cx, name);
        kind = range.lo == range.hi ? 'i' : 'n';
        value = range.lo;
    }
    o->stack = cx_grow(cx, o->stack, o->n, sizeof *o->stack);
    o->stack[o->n++] = index         ? (Term){name, index_c(o->e, name), true}
                       : kind == 'n' ? (Term){name, NULL, true}
                                     : (Term){dim_int(cx, value), NULL, true};
}

static const char *
term_c(Emit *e, const Term *t, bool bare)
{
    const char *text = t->text ? t->text : size_c(e, t->dim);
    return bare || t->atom ? text : cx_format(e->cx, "(%s)", text);
}

/* Division rounds down, as C's does of what is not negative.  Division by zero, which can stand in
 * an empty loop, gives 0.  That by a size is not inlined: compilers leave a division behind a
 * condition in the loop where it stands, and take a call of a function of its operands alone out of
 * the loops that change neither.  Numbers of 32 bits are divided twice as fast by many
 * processors. */
static void
helper_dim(Emit *e, const char *name, int which, bool by_size)
{
    static const char *const bodies[] = {
        "{\n    int64_t q = b ? a / b : 0;\n"
        "    return b && a % b && (a < 0) != (b < 0) ? q - 1 : q;\n}",
        "{\n    int64_t r = b ? a % b : a;\n"
        "    return b && r && (r < 0) != (b < 0) ? r + b : r;\n}",
        "{ return a > b ? a : b; }",
        "{ return a < b ? a : b; }",
        "{\n    union { int64_t bits; double f; } by = {b};\n"
        "    double product = (double)a * by.f;\n"
        "    int64_t q = (int64_t)product;\n    return q - ((double)q > product);\n}",
    };
    if (new_helper(e, name)) {
        const char *kind = "inline", *body = bodies[which];
        if (by_size) {
            kind = "__attribute__((const, noinline))";
            body = cx_format(e->cx,
                             "{\n    if (b && !((a | b) >> 32)) {\n"
                             "        return (uint32_t)a %c (uint32_t)b;\n    }\n%s",
                             which ? '%' : '/', strchr(body, '\n') + 1);
        }
        text_add(e->helpers, "\nstatic %s int64_t\n%s(int64_t a, int64_t b)\n%s\n", kind, name,
                 body);
    }
}

static void
dim_binary(void *arg, char kind)
{
    DimOut *o = arg;
    Cx *cx = o->e->cx;
    Term *b = &o->stack[--o->n], *a = b - 1;
    Dim dim = dim_apply(cx, kind, a->dim, b->dim);
    if (!a->text && !b->text) {
        *a = (Term){dim, NULL, true};
        return;
    }
    bool divides = kind == '/' || kind == '%', known = dim_is_int(cx, b->dim, NULL),
         plain = divides && known && dim_range(cx, a->dim).lo >= 0 && dim_range(cx, b->dim).lo > 0;
    if (kind == '*' && dim_is(cx, a->dim, 1)) {
        *a = *b;
    } else if (kind == '+' || kind == '*' || plain) {
        bool sum = kind == '+';
        *a = (Term){dim,
                    cx_format(cx, "%s %c %s", term_c(o->e, a, sum), kind, term_c(o->e, b, sum)),
                    false};
    } else {
        static const char *const names[] = {"dim_div", "dim_mod", "dim_max", "dim_min",
                                            "dim_scale"};
        int which = kind == '/' ? 0 : kind == '%' ? 1 : kind == 'M' ? 2 : kind == 'm' ? 3 : 4;
        bool by_size = divides && !known;
        const char *name = by_size ? cx_format(cx, "%s_size", names[which]) : names[which];
        helper_dim(o->e, name, which, by_size);
        *a = (Term){dim,
                    cx_format(cx, "%s(%s, %s)", name, term_c(o->e, a, true), term_c(o->e, b, true)),
                    true};
    }
}

static Term
dim_term_c(Emit *e, Dim d)
{
    DimOut o = {.e = e};
    static const DimWalk walk = {dim_leaf, dim_binary};
    dim_walk(e->cx, d, &walk, &o);
    return o.stack[0];
}

const char *
dim_c(Emit *e, Dim d)
{
    Term t = dim_term_c(e, d);
    return term_c(e, &t, false);
}

const char *
offset_c(Emit *e, Dim offset)
{
    Term t = dim_term_c(e, offset);
    return term_c(e, &t, true);
}

const Let *
update_map(Emit *e, const Let *update)
{
    const Type *t = type_scalar(e->cx, update->args[0]->type->dtype);
    Let *let = cx_alloc(e->cx, sizeof *let);
    Value **args = cx_alloc(e->cx, 2 * sizeof *args), *v = cx_alloc(e->cx, sizeof *v);
    *v = (Value){.type = t};
    args[0] = args[1] = v;
    *let = (Let){
        .op = op_info[let_op(update)].combine, .nargs = 2, .args = args, .nres = 1, .res = args};
    return let;
}

Dim
access_offset(const Emit *e, const Let *access)
{
    return facts_access(e->facts, access)->offset;
}
