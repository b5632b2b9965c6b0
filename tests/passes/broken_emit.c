/* Bugs on purpose in what emitters expand, each by BROKEN=<target>_<mark> in the environment: see
 * test_broken_marks.py.
 *
 * A row says what a phase in which the mark stands has in its text, and what it has with the bug: a
 * wrong stride, a wrong step, a rest that is left out, a prefetch that faults.  A phase without the
 * mark stays as it is, so the program is right until the rewrite that sets the mark. */
#include "codegen/emit/emit.h"

#include "broken.h"

#include <string.h>

typedef struct {
    Target target;
    const char *name;
    Marks mark;
    const char *right, *wrong;
} Bug;

#define BUG(target, name, mark, right, wrong) \
    {TARGET_##target, #target "_" #name, MARK_##mark, right, wrong}
static const Bug bugs[] = {
    BUG(cc, distribute, distribute, "k < w; k++", "k + 1 < w; k++"),
    BUG(cc, stage, stage, " = i0_at + k;", " = i0_at + k / 2;"),
    BUG(cc, across, across, ", w);", ", w - 1);"),
    BUG(cc, fill, fill, "_has[k] = -(k < ", "_has[k] = -(k + 1 < "),
    BUG(cc, masked, masked, "_left ? ", "_left - 1 ? "),
    BUG(cc, hidden, hidden, " + opaque);", " + opaque - 1);"),
    BUG(cc, flat, flat, " + k] = ", " + k / 2] = "),
    BUG(cc, jam, joint, "; lo += 2)", "; lo += 3)"),
    BUG(cc, joint, joint, "_next_lane)", "_lane)"),
    BUG(cc, jam_recurrences, recurrences, "_at += 4)", "_at += 5)"),
    BUG(cc, jam_columns, jam, "_step += 4)", "_step += 5)"),
    BUG(cc, array, array, "_t[k] = ", "_t[k] = 2 * "),
    BUG(cc, registers, registers, "] = 0.0f;", "] = 1.0f;"),
    BUG(cc, strip_columns, strip, "; first += 64)", "; first += 65)"),
    BUG(cc, width, width, "_from += 128)", "_from += 129)"),
    BUG(cc, parts, parts, "_at + 1024 + k", "_at + 1023 + k"),
    BUG(cc, places, places, "_at + 16) + k", "_at + 17) + k"),
    BUG(cc, near, near, " : dlc_near_", " : 2 * dlc_near_"),
    BUG(cc, uniform, uniform, "_out ? 0 : ", "_out ? 0 : 0 * "),
    BUG(cc, scan, scan, "dlc_scan_rows_add_", "dlc_scan_rows_mul_"),
    BUG(cc, phase, phase, " <= ", " <= 1 + "),
    BUG(cc, widened, widened, " = DLC_WIDENED(", " = 2 * DLC_WIDENED("),
    BUG(cc, prefetch, prefetch, "PREFETCH(", "__builtin_trap(), PREFETCH("),
    BUG(cc, prefetch_rows, prefetch_rows, "PREFETCH(", "__builtin_trap(), PREFETCH("),
    BUG(cc, alone, alone, "i2 = 0; ", "i2 = 1; "),
    BUG(cc, strip, strip, "_at = i0_", "_at = 1 + i0_"),
    BUG(cc, nontemporal, nontemporal, "_row : ", "_row : 1 + "),
    BUG(cc, rolled, rolled, " < 8; ", " < 7; "),
    BUG(tcc, prefetch, prefetch, "strip_prefetch(", "*(volatile int *)0 = 0, strip_prefetch("),
    BUG(tcc, merged, merged, ", w, 0);", ", w - 1, 0);"),
    BUG(tcc, in_place, merged, "m + i0, w", "m + 0 * i0, w"),
    BUG(tcc, prefetch_call, prefetch_call, "strip_prefetch(",
        "*(volatile int *)0 = 0, strip_prefetch("),
    BUG(tcc, primitive, primitive, ", w, 0);", ", w - 1, 0);"),
    BUG(tcc, width, width, " += 256)", " += 257)"),
    BUG(tcc, grid, grid, " += rows)", " += rows + 1)"),
    BUG(tcc, scan, scan, "_to - i0_from, ", "_to - i0_from - 1, "),
    BUG(tcc, nontemporal, nontemporal, "= 1 && ", "= *(volatile int *)0 && "),
/* what both targets write alike */
#define BUG_OF_BOTH(name, mark, right, wrong) \
    BUG(cc, name, mark, right, wrong), BUG(tcc, name, mark, right, wrong)
    BUG_OF_BOTH(transpose, transpose, " * 144 + (", " * 143 + ("),
    BUG_OF_BOTH(tile, tile, "_from + 64;", "_from + 63;"),
    BUG_OF_BOTH(onehot, onehot, " >= 0 && ", " >= 1 && "),
    BUG_OF_BOTH(parallel, parallel, " < hi; i0", " + 1 < hi; i0"),
    BUG_OF_BOTH(micro, micro, ".columns = ", ".columns = -1 + "),
    BUG_OF_BOTH(prefetch_tile, prefetch_tile,
                ".prefetched = ", ".prefetched = *(volatile char *)0 + "),
    BUG_OF_BOTH(recurrences, recurrences, "_from + 8;", "_from + 7;"),
};

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
break_phase(Target target, const Let *loop, Text *text, size_t start)
{
    for (size_t k = 0; k < sizeof bugs / sizeof *bugs; k++) {
        const Bug *bug = &bugs[k];
        if (bug->target == target && is_asked(bug->name) && let_find_marked(loop, bug->mark)) {
            break_text(text, start, bug);
        }
    }
}

#define BROKEN(target) \
    WRAPPED(emit_##target##_function); \
    void __wrap_emit_##target##_function(Emit *e, const Let *loop, const Text *body, Text *unit) \
    { \
        size_t start = unit->length; \
        __real_emit_##target##_function(e, loop, body, unit); \
        break_phase(TARGET_##target, loop, unit, start); \
    }
BROKEN(cc)
BROKEN(tcc)

/* A choice of a phase stands in the text of no loop. */
WRAPPED(open_choice);
void
__wrap_open_choice(Emit *e, const Let *choice)
{
    size_t start = e->out->length;
    __real_open_choice(e, choice);
    for (size_t k = 0; k < sizeof bugs / sizeof *bugs; k++) {
        const Bug *bug = &bugs[k];
        if (bug->mark == MARK_phase && e->target == &target_info[bug->target] &&
            is_asked(bug->name) && choice->op == OP_if && let_has(choice, MARK_phase)) {
            break_text(e->out, start, bug);
        }
    }
}
