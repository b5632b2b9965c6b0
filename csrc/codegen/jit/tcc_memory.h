/* The memory of one compile by libtcc.  It stands in the shared object that holds libtcc. */
#ifndef DLC_TCC_MEMORY_H
#define DLC_TCC_MEMORY_H

#include <setjmp.h>
#include <stdbool.h>

/* Other names are hidden: one shared object has what follows, and the extension calls it. */
#define DLC_TCC_LENT __attribute__((visibility("default")))

/* The values of longjmp out of libtcc. */
enum { ESCAPE_EXIT = 1, ESCAPE_MEMORY };

/* Begins with libtcc as it was loaded.  Its allocations until the end are freed there as a whole;
 * if there is no memory, or libtcc would end the process, it jumps to `escape`. */
DLC_TCC_LENT bool tcc_memory_begin(jmp_buf *escape);  /* false: this libtcc cannot be used */
DLC_TCC_LENT void tcc_memory_end(void);

/* Why libtcc would have ended the process, or "". */
DLC_TCC_LENT const char *tcc_memory_said(void);

/* Does libtcc have to free its own allocations? */
DLC_TCC_LENT bool tcc_memory_is_its_own(void);

#endif
