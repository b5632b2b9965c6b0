/* Plans whose launches run in one thread or in two. */
#ifndef DLC_FUZZ_THREADS_H
#define DLC_FUZZ_THREADS_H

#include <stdbool.h>

/* From now on, of all plans. */
void threads_use(bool two);

#endif
