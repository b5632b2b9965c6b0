/* The passes of all folders by name: for dlc-opt and for Python. */
#ifndef DLC_PASSES_H
#define DLC_PASSES_H

#include "codegen/codegen.h"
#include "fusion/fusion.h"

/* A graph pass, a rewrite of the loops, or a whole pipeline; NULL: none has the name. */
static inline const PassInfo *
pass_named(const char *name)
{
    const PassInfo *pass = pass_find(name);
    return pass ? pass : rewrite_find(name);
}

#endif
