/* The rows of machine.def as constants. */
#ifndef DLC_MACHINE_H
#define DLC_MACHINE_H

#ifdef __aarch64__
#define BY(x86_64, aarch64) aarch64
#else
#define BY(x86_64, aarch64) x86_64
#endif
enum {
#define MACHINE(name, value, unit, what) DLC_##name = value,
#include "machine.def"
};
#undef BY

#endif
