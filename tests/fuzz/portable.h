/* Plans whose kernels are compiled from the portable C. */
#ifndef DLC_FUZZ_PORTABLE_H
#define DLC_FUZZ_PORTABLE_H

#include <stdbool.h>

/* From now on, what is compiled for the C compiler. */
void portable_use(bool use);

#endif
