/* As much of stdlib.h as the check of an exported program uses. */
#ifndef BARE_STDLIB_H
#define BARE_STDLIB_H
#include <stddef.h>
void *calloc(size_t n, size_t bytes);
void free(void *memory);
_Noreturn void exit(int code);
#endif
