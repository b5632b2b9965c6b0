/* The weights of a program: arrays in its text, or in a safetensors file that m_bind looks at.
 *
 * What:     Weights whose elements are known and that are small stand in the text.  Others are
 *           found in a file in memory by their names, types and shapes.  If their elements are
 *           known, the file is that of the export by its SHA-256, or M_HASH says that it is not.
 * Ensures:  what m_bind gives are addresses in the file: nothing is copied.  After M_HASH all of
 *           them are there, so that a caller who has trained the weights anew may go on.
 * Format:   SHA-256 over the weights in the order of the parameters, of each "name F32 [3, 2]\n",
 *           with the name as JSON has it, then its bytes.
 */
#include <string.h>

#include "export_text.h"
#include "sha256.h"

/* sha256.h as one text: made by the build. */
extern const char dlc_sha256_text[];

/* The bytes of weights that stand in the text.  More makes compilers slow. */
enum { MOST_IN_TEXT = 100000 };

bool
is_weight(const Export *x, int param)
{
    return x->options->weights && x->options->weights[param];
}

bool
has_weights(const Export *x)
{
    bool any = false;
    for (int k = 0; k < x->main->plan->nparams; k++) {
        any |= is_weight(x, k);
    }
    return any;
}

bool
weight_is_known(const Export *x, int param)
{
    return is_weight(x, param) && x->options->data;
}

/* As safetensors calls the dtype; a complex number is two numbers; NULL: it has none such. */
static const char *
stored_name(Dtype dtype)
{
    static const char *const names[DTYPE_COUNT] = {
        [DT_bool] = "BOOL", [DT_u8] = "U8",   [DT_i8] = "I8",   [DT_i16] = "I16",
        [DT_i32] = "I32",   [DT_i64] = "I64", [DT_f16] = "F16", [DT_bf16] = "BF16",
        [DT_f32] = "F32",   [DT_f64] = "F64",
    };
    return names[dtype_component(dtype)];
}

/* What a weight is in a file. */
typedef struct {
    const char *name, *dtype, *shape; /* name: as a string in C; shape: 3, 2 */
    int rank, size; /* size: bytes of an element */
    int64_t elements, bytes;
} Stored;

/* false: there is no such array. */
static bool
stored(Export *x, int param, Stored *out)
{
    ExportPlan *p = x->main;
    const Slot *s = &p->plan->slots[param];
    Dtype part = dtype_component(s->dtype);
    const char *name = x->options->stored ? x->options->stored[param] : NULL;
    Text shape = {.cx = x->cx}, quoted = {.cx = x->cx};
    *out = (Stored){
        .dtype = stored_name(s->dtype), .rank = s->rank, .size = dtype_info[part].bytes};
    text_add(&shape, "%s", "");
    out->elements = 1;
    for (int ax = 0; ax < s->rank; ax++) {
        int64_t n;
        if (!size_number(size_c(x, p, s->sizes[ax]), &n) ||
            __builtin_mul_overflow(out->elements, n, &out->elements)) {
            return false;
        }
        text_add(&shape, "%s%lld", ax ? ", " : "", (long long)n);
    }
    if (dtype_components(s->dtype) == 2) {
        text_add(&shape, "%s2", s->rank ? ", " : "");
        out->rank++;
    }
    text_add(&quoted, "%s", "");
    for (const char *c = name ? name : p->fn->params[param]->name; *c; c++) {
        text_add(&quoted, *c == '\\' || *c == '"' || *c == '?' ? "\\%c" : "%c", *c);
    }
    out->name = quoted.text;
    out->shape = shape.text;
    return out->dtype && !param_is_written(x, param) && !p->fn->params[param]->strides &&
           !__builtin_mul_overflow(out->elements, dtype_components(s->dtype), &out->elements) &&
           !__builtin_mul_overflow(out->elements, out->size, &out->bytes);
}

void
check_weights(Export *x)
{
    int64_t bytes = 0;
    for (int k = 0; k < x->main->plan->nparams; k++) {
        Stored of;
        if (!is_weight(x, k)) {
            continue;
        }
        if (!stored(x, k, &of) || __builtin_add_overflow(bytes, of.bytes, &bytes)) {
            fail_as(
                x->cx, DIAG_EXPORT_SIZES,
                "%s cannot be a weight: one has a shape of numbers, no strides of its own and a "
                "type that safetensors has, and the program does not write to it",
                x->main->fn->params[k]->name);
        }
        if (x->options->bytes && x->options->bytes[k] != of.bytes) {
            fail_as(x->cx, DIAG_EXPORT_SIZES,
                    "the weight %s has %lld bytes, and the program takes %lld",
                    x->main->fn->params[k]->name, (long long)x->options->bytes[k],
                    (long long)of.bytes);
        }
    }
    x->weight_bytes = bytes;
    x->in_text = x->options->data && (bytes <= MOST_IN_TEXT || is_alone(x));
    x->in_file = has_weights(x) && !x->in_text;
}

/* ---- in the text ---- */

const char *
weight_c(const Export *x, int param)
{
    return x->in_text ? cx_format(x->cx, "&dlc_weight%d", param)
                      : cx_format(x->cx, "weights->%s", x->params[param]);
}

/* As bits, which have no spelling that depends on a compiler; the union gives them their type. */
static void
put_array(Export *x, int param, Text *out)
{
    Stored of;
    stored(x, param, &of);
    const uint8_t *at = x->options->data[param];
    int64_t room = of.elements ? of.elements : 1;
    Dtype dtype = x->main->plan->slots[param].dtype;
    bool typed = is_for(x, EXPORT_HLS);
    const char *type = element_c(dtype);
    text_add(out, "\n/* %s */\nstatic const ", x->params[param]);
    if (typed) {
        text_add(out, "%s dlc_weight%d[%lld] = {", type, param, (long long)room);
    } else {
        text_add(out, "union {\n    uint%d_t bits[%lld];\n    %s of[%lld];\n} dlc_weight%d = {{",
                 8 * of.size, (long long)room, type, (long long)room, param);
    }
    for (int64_t k = 0; k < of.elements; k++, at += of.size) {
        uint64_t bits = 0;
        memcpy(&bits, at, (size_t)of.size);
        text_add(out, k % 8 ? "" : "\n   ");
        if (typed) {
            put_hls_element(x, dtype, bits, out);
        } else {
            text_add(out, " 0x%llx,", (unsigned long long)bits);
        }
    }
    text_add(out, "%s}%s;\n", of.elements ? "\n" : "0", typed ? "" : "}");
}

void
put_weights(Export *x, Text *out)
{
    for (int k = 0; k < x->main->plan->nparams && x->in_text; k++) {
        if (is_weight(x, k)) {
            put_array(x, k, out);
        }
    }
}

/* ---- in a file ---- */

/* The structure of the weights, which may be filled by hand, too. */
void
put_weights_header(Export *x, Text *out)
{
    const char *name = x->options->name;
    const Plan *plan = x->main->plan;
    if (!x->in_file) {
        return;
    }
    text_add(out, "typedef struct {\n");
    for (int k = 0; k < plan->nparams; k++) {
        if (is_weight(x, k)) {
            text_add(out, "    const %s *%s;\n", element_c(plan->slots[k].dtype), x->params[k]);
        }
    }
    text_add(
        out,
        "} %s_weights;\n\n"
        "/* Finds the weights in a safetensors file in memory, which has to stay there: it copies\n"
        " * nothing.  The file is checked for their names, types, shapes and places%s. */\n"
        "%s_status %s_bind(%s_weights *weights, const void *file, size_t bytes);\n\n",
        name,
        x->options->data ? ", and for their\n"
                           " * SHA-256: after the status of others all are found, and may be used"
                         : "",
        name, name, name);
}

static void
put_hash(Export *x, const char *big, Text *out)
{
    dlc_sha256 sha;
    dlc_sha256_begin(&sha);
    text_add(out, "#ifndef DLC_UNHASHED\n    dlc_sha256 sha;\n    dlc_sha256_begin(&sha);\n");
    for (int k = 0; k < x->main->plan->nparams; k++) {
        Stored of;
        if (!is_weight(x, k)) {
            continue;
        }
        stored(x, k, &of);
        const char *text = cx_format(x->cx, "%s %s [%s]\n", x->options->stored[k], of.dtype,
                                     of.shape);
        dlc_sha256_add(&sha, text, strlen(text));
        dlc_sha256_add(&sha, x->options->data[k], (size_t)of.bytes);
        text_add(out,
                 "    dlc_sha256_add(&sha, \"%s %s [%s]\\n\", %zu);\n"
                 "    dlc_sha256_add(&sha, weights->%s, %lld);\n",
                 of.name, of.dtype, of.shape, strlen(text), x->params[k], (long long)of.bytes);
    }
    dlc_sha256_is(&sha, (const uint32_t[8]){0});
    text_add(out, "    static const uint32_t wanted[] = {");
    for (int k = 0; k < 8; k++) {
        text_add(out, "0x%08x%s", sha.state[k], k == 3 ? ",\n        " : k < 7 ? ", " : "};\n");
    }
    text_add(out,
             "    if (!dlc_sha256_is(&sha, wanted)) {\n        return %s_HASH;\n    }\n#endif\n",
             big);
}

void
put_bind(Export *x, Text *out)
{
    const char *name = x->options->name, *big = upper_c(x->cx, name);
    ExportPlan *p = x->main;
    if (!x->in_file) {
        return;
    }
    if (x->options->data) {
        const char *text = strstr(dlc_sha256_text, "typedef struct");
        text_add(out, "\n#ifndef DLC_UNHASHED\n/* SHA-256: FIPS 180-4 */\n%s#endif\n", text);
    }
    text_add(out, "\n%s_status\n%s_bind(%s_weights *weights, const void *file, size_t bytes)\n{\n",
             name, name, name);
    text_add(out, "    if (!dlc_first_lowest()) {\n        return %s_ENDIAN;\n    }\n", big);
    for (int k = 0; k < p->plan->nparams; k++) {
        Stored of;
        if (is_weight(x, k)) {
            stored(x, k, &of);
            text_add(out,
                     "    weights->%s = dlc_tensor(file, bytes, &(dlc_wanted){\"%s\", \"%s\", %d, "
                     "%d,\n        (const int64_t[]){%s}});\n    if (!weights->%s) {\n"
                     "        return %s_WEIGHTS;\n    }\n",
                     x->params[k], of.name, of.dtype, of.size, of.rank, of.rank ? of.shape : "0",
                     x->params[k], big);
        }
    }
    if (x->options->data) {
        put_hash(x, big, out);
    }
    text_add(out, "    return %s_OK;\n}\n", big);
}
