/* Emission of portable C: what a unit uses of the prelude.
 *
 * What:     functions, types and tables of prelude_c.h, of the math header and of the order of
 *           reductions, as the preprocessor has made them plain C: those that a text names, and
 *           those that these name.
 * Ensures:  each stands once, before what uses it.
 * How:      dlc_portable_text is cut into declarations, of which each has one name.  A word of a
 *           text that is such a name asks for it.  Comments are no words.
 * Example:  k = dlc_exp_f32(x);  ->  fmaf, dlc_bits_f32, .., dlc_exp_f32.
 */
#include <ctype.h>
#include <string.h>

#include "emit_c.h"
#include "ir/text/lay_out.h"

/* The prelude as one text: made by the build. */
extern const char dlc_portable_text[];

typedef struct {
    const char *text, *name;
    size_t length, name_length;
    bool function;
} Item;

typedef struct {
    Item *items;
    int nitems;
} Prelude;

/* Sees a character outside of all braces: where it begins what follows the name. */
static void
see_outside(Item *item, const char *c, bool *named)
{
    if (c_word(c) && !*named) {
        item->name = c;
        item->name_length = c_word(c);
    } else if (strchr("([=", *c)) {
        item->function |= *c == '(' && !*named;
        *named = true;
    }
}

/* The declaration at c, up to its semicolon or to the brace that ends a function. */
static Item
read_item(const char *c)
{
    Item item = {.text = c};
    int depth = 0, round = 0;
    bool named = false, ended = false;
    while (*c && !ended) {
        if (depth == 0 && round == 0) {
            see_outside(&item, c, &named);
        }
        depth += (*c == '{') - (*c == '}');
        round += (*c == '(') - (*c == ')');
        ended = depth == 0 && round == 0 && (*c == ';' || (*c == '}' && item.function));
        c += c_word(c) ? c_word(c) : 1;
    }
    item.length = (size_t)(c - item.text);
    return item;
}

void
c_read_prelude(Emit *e)
{
    uint32_t key = 0; /* helpers have keys of two words */
    Prelude *prelude = map_at(e->cx, e->made, &key, 1, sizeof *prelude);
    bool read = prelude->nitems > 0; /* by another phase of the unit */
    e->own = prelude;
    for (const char *c = c_skip_space(dlc_portable_text); *c && !read;) {
        Item item = read_item(c);
        prelude->items = cx_grow(e->cx, prelude->items, prelude->nitems, sizeof *prelude->items);
        prelude->items[prelude->nitems++] = item;
        c = c_skip_space(c + item.length);
    }
}

/* The first declaration of the name, or NULL. */
static const Item *
find_item(const Emit *e, const char *name, size_t length)
{
    const Prelude *prelude = e->own;
    for (int k = 0; k < prelude->nitems; k++) {
        const Item *item = &prelude->items[k];
        if (item->name_length == length && memcmp(item->name, name, length) == 0) {
            return item;
        }
    }
    return NULL;
}

/* ---- what is used ---- */

static void
need_word(Emit *e, const char *word, size_t length)
{
    const char *macro = micro_portable(e->cx, word, length);
    const Item *item = macro ? NULL : find_item(e, word, length);
    if ((!item && !macro) || !new_helper(e, cx_format(e->cx, "the %.*s", (int)length, word))) {
        return;
    }
    if (macro) {
        c_need(e, macro);
        text_add(e->helpers, "\n%s\n", macro);
    } else {
        c_need(e, cx_format(e->cx, "%.*s", (int)item->length, item->text));
        text_lay_out_c(e->helpers, item->text, item->length, item->function);
    }
}

void
c_need(Emit *e, const char *text)
{
    for (const char *c = text; *c;) {
        const char *end = strncmp(c, "/*", 2) == 0 ? strstr(c, "*/") : NULL;
        if (end) {
            c = end + 2;
        } else if (c_word(c)) {
            size_t length = c_word(c);
            if (!isdigit((unsigned char)*c)) {
                need_word(e, c, length);
            }
            c += length;
        } else {
            c++;
        }
    }
}
