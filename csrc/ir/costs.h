/* The rows of costs.def as constants. */
#ifndef DLC_COSTS_H
#define DLC_COSTS_H

enum {
#define COST(name, value, what) COST_##name = value,
#include "ir/costs.def"
};

#endif
