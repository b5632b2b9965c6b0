/* The layout of C, see lay_out.c. */
#ifndef DLC_LAY_OUT_H
#define DLC_LAY_OUT_H

#include "ir/ir.h"

/* A declaration of C, all of it in one line, laid out in lines. */
void text_lay_out_c(Text *out, const char *text, size_t n, bool function);
size_t c_word(const char *c); /* the letters of the word at c, 0: none is */
const char *c_skip_space(const char *c);

#endif
