/* What a program has of runtime.h: the parts that it uses, with its name. */
#include <ctype.h>
#include <string.h>

#include "export_text.h"

/* The file as one text: made by the build. */
extern const char dlc_runtime_text[];

static const char begins[] = "/* ---- ", needs[] = "/* part: ";

/* A part of the file: its name, and the text behind the line with it. */
typedef struct {
    const char *name, *text, *end;
    size_t length;
    bool used;
} Part;

static bool
in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Is the word in the text?  Comments do not count, in which lines of the user's program stand, but
 * those that say what a part needs. */
static bool
uses(const char *text, const char *end, const Part *part)
{
    for (const char *c = text; c < end;) {
        size_t length = 1;
        if (strncmp(c, "/*", 2) == 0 && strncmp(c, needs, sizeof needs - 1) != 0) {
            const char *behind = strstr(c, "*/");
            c = behind ? behind + 2 : end;
            continue;
        }
        while (in_word(*c) && in_word(c[length])) {
            length++;
        }
        if (length == part->length && memcmp(c, part->name, length) == 0) {
            return true;
        }
        c += length;
    }
    return false;
}

static Part *
read_parts(Cx *cx, int *n)
{
    Part *parts = NULL;
    *n = 0;
    for (const char *c = strstr(dlc_runtime_text, begins); c; c = strstr(c, begins)) {
        const char *name = c + sizeof begins - 1, *line = strchr(name, '\n') + 1,
                   *next = strstr(line, begins);
        parts = cx_grow(cx, parts, *n, sizeof *parts);
        parts[(*n)++] = (Part){.name = name,
                               .length = (size_t)(strchr(name, ' ') - name),
                               .text = line,
                               .end = next ? next : line + strlen(line)};
        c = line;
    }
    return parts;
}

/* Without the lines that name other parts, and with the name of the program. */
static void
put_part(Export *x, const Part *part, Text *out)
{
    static const char model[] = "model_";
    const char *name = cx_format(x->cx, "%s_", x->options->name);
    for (const char *line = part->text; line < part->end;) {
        const char *end = strchr(line, '\n') + 1;
        bool needed = strncmp(line, needs, sizeof needs - 1) == 0;
        for (const char *c = line; c < end && !needed; c++) {
            bool begin = !in_word(c[-1]) && strncmp(c, model, sizeof model - 1) == 0;
            text_put(out, begin ? name : c, begin ? strlen(name) : 1);
            c += begin ? sizeof model - 2 : 0;
        }
        line = end;
    }
}

void
put_runtime(Export *x, const char *text, Text *out)
{
    int n;
    Part *parts = read_parts(x->cx, &n);
    for (int k = n - 1; k >= 0; k--) {
        parts[k].used = uses(text, text + strlen(text), &parts[k]);
        for (int j = k + 1; j < n && !parts[k].used; j++) {
            parts[k].used = parts[j].used && uses(parts[j].text, parts[j].end, &parts[k]);
        }
    }
    for (int k = 0; k < n; k++) {
        if (parts[k].used) {
            text_add(out, "\n");
            put_part(x, &parts[k], out);
        }
    }
}
