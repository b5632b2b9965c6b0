/* As much of stdio.h as the check of an exported program uses. */
#ifndef BARE_STDIO_H
#define BARE_STDIO_H
typedef struct bare_file FILE;
#define stderr ((FILE *)0)
/* Keeps the arguments that are strings: what the emulator reads afterwards. */
int printf(const char *format, ...);
int puts(const char *text);
int fputs(const char *text, FILE *file);
#endif
