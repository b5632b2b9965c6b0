/* A file's text, for the programs of the tests: in cx, ended by a zero; fails where it cannot be
 * read. */
#ifndef TESTS_READ_FILE_H
#define TESTS_READ_FILE_H

#include <stdio.h>

#include "ir/ir.h"

static inline const char *
read_file(Cx *cx, const char *path)
{
    FILE *file = fopen(path, "r");
    Text text = {.cx = cx};
    char part[4096];
    size_t n;
    if (!file) {
        fail_as(cx, DIAG_ARGUMENT, "%s cannot be read", path);
    }
    while ((n = fread(part, 1, sizeof part, file)) > 0) {
        text_put(&text, part, n);
    }
    fclose(file);
    return text.text ? text.text : "";
}

#endif
