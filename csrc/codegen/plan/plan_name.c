/* What profilers and traces call the kernels and calls of a plan: dlc::softmax+add
 * (model.py:41). */
#include <ctype.h>
#include <string.h>

#include "plan_build.h"

enum { MOST_PARTS = 4 };        /* operators that are named; then +.. */

typedef struct {
    Text text;
    const char *parts[MOST_PARTS];      /* interned */
    int n;
    const char *source;         /* of the first let that has one */
} Name;

/* An operator as its node is called, without the number behind it: softmax_1 is softmax. */
static void
add_part(Name *name, Loc loc)
{
    name->source = name->source ? name->source : loc.source;
    size_t length = loc.node ? strlen(loc.node) : 0, end = length;
    while (end && isdigit((unsigned char)loc.node[end - 1])) {
        end--;
    }
    length = end > 1 && end < length && loc.node[end - 1] == '_' ? end - 1 : length;
    if (!length || name->n > MOST_PARTS) {
        return;
    }
    const char *part = cx_intern(name->text.cx, loc.node, length);
    for (int k = 0; k < name->n; k++) {
        if (name->parts[k] == part) {
            return;
        }
    }
    if (name->n == MOST_PARTS) {
        text_add(&name->text, "+..");
        name->n++;
        return;
    }
    name->parts[name->n] = part;
    text_add(&name->text, name->n++ ? "+%s" : "%s", part);
}

/* "model.py:41: return x" is " (model.py:41)". */
static void
add_source(Name *name)
{
    const char *line = name->source ? strchr(name->source, ':') : NULL;
    if (line) {
        const char *end = strchr(line + 1, ':');
        int length = (int)(end ? (size_t)(end - name->source) : strlen(name->source));
        text_add(&name->text, " (%.*s)", length, name->source);
    }
}

const char *
plan_range_name(Builder *b, const Let *let)
{
    Name name = {.text = {.cx = b->cx}};
    text_add(&name.text, "dlc::");
    for (int k = 0; let->body && k < let->body->n; k++) {
        add_part(&name, let->body->lets[k]->loc);
    }
    if (!let->body || !name.n) {
        add_part(&name, let->loc);
    }
    if (!name.n) {
        text_add(&name.text, "%s",
                 let->op == OP_call ? let_str(let, "target") : op_info[let->op].name);
    }
    add_source(&name);
    return plan_text_keep(b, name.text.text);
}
