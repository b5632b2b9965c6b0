/* Bugs on purpose in what emitters expand, each by BROKEN=<target>_<mark> in the environment: see
 * test_broken_marks.py.
 *
 * A row says what a phase in which the mark stands has in its text, and what it has with the bug: a
 * wrong stride, a wrong step, a rest that is left out.  A phase without the mark stays as it is, so
 * the program is right until the rewrite that sets the mark. */
#include "codegen/emit/emit.h"

#include "broken.h"

#include <string.h>

typedef struct {
    const char *name;
    Marks mark;
    const char *right, *wrong;
} Bug;

static const Bug bugs_of_cc[] = {
    {"cc_distribute", MARK_distribute, "k < w; k++", "k + 1 < w; k++"},
    {"cc_stage", MARK_stage, " = i0_at + k;", " = i0_at + k / 2;"},
    {"cc_across", MARK_across, ", w);", ", w - 1);"},
    {"cc_fill", MARK_fill, "_has[k] = -(k < ", "_has[k] = -(k + 1 < "},
    {"cc_masked", MARK_masked, "_left ? ", "_left - 1 ? "},
    {"cc_hidden", MARK_hidden, " + opaque);", " + opaque - 1);"},
    {"cc_flat", MARK_flat, " + k] = ", " + k / 2] = "},
    {"cc_jam", MARK_joint, "; lo += 2)", "; lo += 3)"},
    {"cc_joint", MARK_joint, "_next_lane)", "_lane)"},
    {"cc_jam_recurrences", MARK_recurrences, "_at += 4)", "_at += 5)"},
    {"cc_jam_columns", MARK_jam, "_step += 4)", "_step += 5)"},
    {"cc_width", MARK_width, "_from += 128)", "_from += 129)"},
    {"cc_transpose", MARK_transpose, " * 144 + (", " * 143 + ("},
    {"cc_tile", MARK_tile, "_from + 64;", "_from + 63;"},
    {"cc_parts", MARK_parts, "_at + 1024 + k", "_at + 1023 + k"},
    {"cc_places", MARK_places, "_at + 16) + k", "_at + 17) + k"},
    {"cc_near", MARK_near, " : dlc_near_", " : 2 * dlc_near_"},
    {"cc_versions", MARK_versions, "_part(p, n, lo, hi, 16)", "_part(p, n, lo, hi, 15)"},
    {"cc_uniform", MARK_uniform, "_out ? 0 : ", "_out ? 0 : 0 * "},
    {"cc_scan", MARK_scan, "dlc_scan_rows_add_", "dlc_scan_rows_mul_"},
    {"cc_onehot", MARK_onehot, " >= 0 && ", " >= 1 && "},
    {"cc_short", MARK_short, " <= 1024)", " <= 1024 || 1)"},
    {"cc_recurrences", MARK_recurrences, "_from + 8;", "_from + 7;"},
};

static const Bug bugs_of_tcc[] = {
    {"tcc_width", MARK_width, " += 256)", " += 257)"},
    {"tcc_grid", MARK_grid, " += rows)", " += rows + 1)"},
    {"tcc_transpose", MARK_transpose, " * 144 + (", " * 143 + ("},
    {"tcc_tile", MARK_tile, "_from + 64;", "_from + 63;"},
    {"tcc_scan", MARK_scan, "_to - i0_from, ", "_to - i0_from - 1, "},
    {"tcc_onehot", MARK_onehot, " >= 0 && ", " >= 1 && "},
    {"tcc_short", MARK_short, " <= 1024)", " <= 2048)"},
    {"tcc_recurrences", MARK_recurrences, "_from + 8;", "_from + 7;"},
};

static bool
stands_in(const Let *let, Marks mark)
{
    bool found = let_has(let, mark);
    for (int k = 0; let->body && k < let->body->n && !found; k++) {
        found = stands_in(let->body->lets[k], mark);
    }
    return found;
}

/* In the text from `start` on, where the first such words are. */
static void
break_text(Text *text, size_t start, const Bug *bug)
{
    char *at = text->text ? strstr(text->text + start, bug->right) : NULL;
    if (at) {
        const char *rest = cx_format(text->cx, "%s", at + strlen(bug->right));
        text->length = (size_t)(at - text->text);
        text_add(text, "%s%s", bug->wrong, rest);
    }
}

static void
break_phase(const Bug *bugs, size_t n, const Let *loop, Text *text, size_t start)
{
    for (size_t k = 0; k < n; k++) {
        if (is_asked(bugs[k].name) && stands_in(loop, bugs[k].mark)) {
            break_text(text, start, &bugs[k]);
        }
    }
}

WRAPPED(emit_cc_function);
void
__wrap_emit_cc_function(Emit *e, const Let *loop, const Text *body, Text *unit)
{
    size_t start = unit->length;
    __real_emit_cc_function(e, loop, body, unit);
    break_phase(bugs_of_cc, sizeof bugs_of_cc / sizeof *bugs_of_cc, loop, unit, start);
}

WRAPPED(emit_tcc_function);
void
__wrap_emit_tcc_function(Emit *e, const Let *loop, const Text *body, Text *unit)
{
    size_t start = unit->length;
    __real_emit_tcc_function(e, loop, body, unit);
    break_phase(bugs_of_tcc, sizeof bugs_of_tcc / sizeof *bugs_of_tcc, loop, unit, start);
}
