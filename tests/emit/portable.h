/* Units in portable C, as anybody compiles them: by a C compiler, strictly. */
#ifndef TESTS_EMIT_PORTABLE_H
#define TESTS_EMIT_PORTABLE_H

#include "codegen/codegen.h"

/* Compiles the text to a shared object and sets every entry of code.  false: `error` says why.
 * Objects are kept in $DLC_CACHE_DIR, if that is set. */
bool portable_compile(Code *code, const char *text, char *error, size_t cap);

#endif
