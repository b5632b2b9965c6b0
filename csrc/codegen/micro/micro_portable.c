/* The microkernels of f32 and f64 as text, for a unit of portable C that has its own.
 *
 * What:     finds the part of prelude_products.h that a word names, and puts a dtype in it.
 * Example:  dlc_micro_f64 -> the part dlc_micro_DTYPE with f64 and double. */
#include <string.h>

#include "codegen/loops/loops.h"
#include "codegen/phase.h"
#include "ir/text/lay_out.h"

/* prelude_products.h as one text: made by the build. */
extern const char dlc_products_text[];

static const char part_begins[] = "/* ---- ", of_dtype[] = "DTYPE";

/* What stands in a text for a dtype. */
static const struct {
    const char *name, *by[2];
} in_part[] = {{of_dtype, {"f32", "f64"}},
               {"TYPE", {"float", "double"}},
               {"vfmadd231X86", {"vfmadd231ps", "vfmadd231pd"}},
               {"ARM", {"4s", "2d"}}};

/* The word with the dtypes' names, and whether the two are the same up to `length`. */
static bool
same_word(const char *in_text, const char *word, size_t length, int dtype)
{
    const char *ends = strstr(in_text, of_dtype), *space = strchr(in_text, ' ');
    size_t stem = (size_t)((ends && ends < space ? ends : space) - in_text);
    const char *rest = ends && ends < space ? in_part[0].by[dtype] : "";
    return length == stem + strlen(rest) && memcmp(in_text, word, stem) == 0 &&
           memcmp(word + stem, rest, strlen(rest)) == 0;
}

/* The text of a part for a dtype. */
static const char *
part_text(Cx *cx, const char *from, const char *to, int dtype)
{
    Text part = {.cx = cx};
    for (const char *c = from; c < to;) {
        size_t length = c_word(c) ? c_word(c) : 1;
        const char *put = NULL, *behind = c + length - strlen(of_dtype);
        for (size_t k = 0; k < sizeof in_part / sizeof *in_part && !put; k++) {
            bool same = strlen(in_part[k].name) == length &&
                        memcmp(c, in_part[k].name, length) == 0;
            put = same ? in_part[k].by[dtype] : NULL;
        }
        if (!put && length > strlen(of_dtype) && memcmp(behind, of_dtype, strlen(of_dtype)) == 0) {
            text_put(&part, c, (size_t)(behind - c));
            put = in_part[0].by[dtype];
        }
        text_put(&part, put ? put : c, put ? strlen(put) : length);
        c += length;
    }
    return part.text;
}

/* The part of the name, or NULL. */
const char *
micro_portable(Cx *cx, const char *word, size_t length)
{
    for (const char *c = strstr(dlc_products_text, part_begins); c; c = strstr(c, part_begins)) {
        const char *name = c + strlen(part_begins), *text = strchr(name, '\n') + 1,
                   *end = strstr(text, part_begins);
        for (int dtype = 0; dtype < 2; dtype++) {
            if (same_word(name, word, length, dtype)) {
                return part_text(cx, text, end ? end : text + strlen(text), dtype);
            }
        }
        c = text;
    }
    return NULL;
}

/* Are all operands f32 or f64? */
static bool
has_functions(const Let *let)
{
    Dtype dtype = let->op == OP_load ? let->res[0]->type->dtype : DT_f32;
    bool has = dtype == DT_f32 || dtype == DT_f64;
    for (int k = 0; let->body && k < let->body->n; k++) {
        has &= has_functions(let->body->lets[k]);
    }
    return has;
}

bool
target_calls(const TargetInfo *target, const Let *loop)
{
    return loop_is_call(loop) && target->calls != CALLS_NONE &&
           (target->calls != CALLS_TEXT || has_functions(loop));
}
