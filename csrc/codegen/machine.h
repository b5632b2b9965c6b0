/* The rows of machine.def as constants. */
#ifndef DLC_MACHINE_H
#define DLC_MACHINE_H

enum {
#define MACHINE(name, value, unit, what) DLC_##name = value,
#include "machine.def"
};

#endif
