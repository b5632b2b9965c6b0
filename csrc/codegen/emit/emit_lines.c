/* The user's line in a debugger's report about a kernel, when DLC_GDB is set.
 *
 * Every line of a phase is attributed to the first line of the user's program that it comes from: a
 * kernel is made of several such lines, and the compiler mixes them.  csrc/codegen/jit/cc_target.c
 * passes -g1 to the C compiler. */
#include <stdlib.h>
#include <string.h>

#include "emit.h"

/* #line 41 "model.py"; "" if the source names no place, or if its name has characters that are
 * special in a C string. */
static const char *
line_directive(Cx *cx, const char *source)
{
    const char *at = source ? strchr(source, ':') : NULL;
    int size = at ? (int)(at - source) : 0, line = at ? atoi(at + 1) : 0;
    if (line <= 0 || size == 0 || strcspn(source, "\"\\\n") < (size_t)size) {
        return "";
    }
    return cx_format(cx, "#line %d \"%.*s\"\n", line, size, source);
}

void
emit_lines(Cx *cx, const Let *loop, Text *text)
{
    bool wanted = text_is_yes(getenv("DLC_GDB"));
    const char *directive = wanted ? line_directive(cx, block_source(loop->body)) : "";
    if (!directive[0]) {
        return;
    }
    Text out = {.cx = cx};
    for (const char *p = text->text; p && *p;) {
        size_t size = strcspn(p, "\n");
        size += p[size] == '\n';
        text_add(&out, "%s", directive);
        text_put(&out, p, size);
        p += size;
    }
    *text = out;
}
