/* The memory of one compile by libtcc. */
#ifndef DLC_TCC_MEMORY_H
#define DLC_TCC_MEMORY_H

#include <setjmp.h>
#include <stdbool.h>

/* What longjmp brings out of libtcc. */
enum { ESCAPE_EXIT = 1, ESCAPE_MEMORY };

/* libtcc is as it was when it was loaded. What it allocates until the end is freed there as a
 * whole; where there is no memory, or libtcc would end the process, it jumps to `escape`. */
bool tcc_memory_begin(jmp_buf *escape);       /* false: this libtcc cannot be used */
void tcc_memory_end(void);

/* Has libtcc to free what it allocates itself? */
bool tcc_memory_is_its_own(void);

#endif
