/* Runs one strip once, so that an emulator can say which instructions it executes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void Strip1(void *out, const void *a, int64_t n, unsigned scalars);
typedef void Strip2(void *out, const void *a, const void *b, int64_t n, unsigned scalars);
typedef void Strip3(void *out, const void *a, const void *b, const void *c, int64_t n,
                    unsigned scalars);

typedef struct {
    const char *name;
    void *function;
} Row;

extern const Row strip_rows_neon[];

enum { COUNT = 1024 };

static _Alignas(64) char operands[3][COUNT * 8], out[COUNT * 8];

/* Numbers where every function is defined: from least to least + 1, or whole from 1 to 8. */
static void
fill(void *to, const char *dtype, double least)
{
    for (int k = 0; k < COUNT; k++) {
        double x = least + (k * 37 % COUNT + 0.5) / COUNT;
        int whole = 1 + k * 5 % 8;
        if (!strcmp(dtype, "f32")) {
            ((float *)to)[k] = (float)x;
        } else if (!strcmp(dtype, "f64")) {
            ((double *)to)[k] = x;
        } else if (!strcmp(dtype, "i32")) {
            ((int32_t *)to)[k] = whole;
        } else if (!strcmp(dtype, "i64")) {
            ((int64_t *)to)[k] = whole;
        } else {
            ((uint8_t *)to)[k] = (uint8_t)(k * 7 % 3 == 0);
        }
    }
}

/* run NAME LEAST DTYPE..: a dtype for each operand */
int
main(int argc, char **argv)
{
    const Row *row = strip_rows_neon;
    char(*in)[COUNT * 8] = operands;
    if (argc < 4 || argc > 6) {
        return 2;
    }
    for (int k = 3; k < argc; k++) {
        fill(operands[k - 3], argv[k], atof(argv[2]));
    }
    while (row->name && strcmp(row->name, argv[1]) != 0) {
        row++;
    }
    if (!row->name) {
        return 1;
    }
    if (argc == 4) {
        ((Strip1 *)row->function)(out, in[0], COUNT, 0);
    } else if (argc == 5) {
        ((Strip2 *)row->function)(out, in[0], in[1], COUNT, 0);
    } else {
        ((Strip3 *)row->function)(out, in[0], in[1], in[2], COUNT, 0);
    }
    return 0;
}
