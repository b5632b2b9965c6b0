/* A processor without an operating system: what begins a program, and what it calls.
 *
 * The emulator sets the stack, calls bare_start, stops at bare_end, and reads bare_code and the
 * text in bare_said. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "stdio.h"
#include "stdlib.h"

#ifndef BARE_HEAP
#define BARE_HEAP (32 << 20)
#endif

int main(void);

volatile int bare_code = -1;
char bare_said[512];
static size_t said;
static _Alignas(64) char heap[BARE_HEAP];
static size_t used;

void *
memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    for (volatile size_t k = 0; k < bytes; k++) {
        ((char *)to)[k] = ((const char *)from)[k];
    }
    return to;
}

void *
memset(void *to, int value, size_t bytes)
{
    for (volatile size_t k = 0; k < bytes; k++) {
        ((char *)to)[k] = (char)value;
    }
    return to;
}

__attribute__((noinline, noreturn)) void
bare_end(void)
{
    for (volatile int forever = 1; forever;) {
    }
    __builtin_unreachable();
}

void
exit(int code)
{
    bare_code = code;
    bare_end();
}

void
bare_start(void)
{
    exit(main());
}

int
fputs(const char *text, FILE *file)
{
    (void)file;
    while (*text && said + 1 < sizeof bare_said) {
        bare_said[said++] = *text++;
    }
    return 0;
}

int
puts(const char *text)
{
    fputs(text, stderr);
    return fputs("\n", stderr);
}

/* Says what is plain and the strings; a number is left out. */
int
printf(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    for (const char *c = format; *c; c++) {
        char one[2] = {*c, 0};
        if (*c == '%' && c[1] == 's') {
            fputs(va_arg(list, const char *), stderr);
            c++;
        } else if (*c == '%') {
            break; /* behind a number nothing is a string */
        } else {
            fputs(one, stderr);
        }
    }
    va_end(list);
    return 0;
}

void *
calloc(size_t n, size_t bytes)
{
    size_t room = (n * bytes + 63) / 64 * 64;
    if (room > sizeof heap - used) {
        return NULL;
    }
    used += room;
    return heap + used - room; /* it is zero: nothing is freed */
}

void
free(void *memory)
{
    (void)memory;
}
