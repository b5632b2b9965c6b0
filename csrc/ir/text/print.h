/* Parts of a function's text, for the files of the folder. */
#ifndef DLC_PRINT_H
#define DLC_PRINT_H

#include "ir/ir.h"
#include "ir/verify/product.h"

void print_binder(const Value *v, Text *out);                   /* name, type, promised strides */
void print_size(Dim size, Text *out); /* as declared: with range and divisor */
void print_result(const Fn *fn, int k, Text *out); /* the type and its promises */

bool nest_is_line(const Let *outermost, CallNest *nest); /* nest.c: are the loops one line? */

#endif
