/* Loops that only scan what they load, see scan.c. */
#ifndef DLC_SCAN_H
#define DLC_SCAN_H

#include "facts.h"

/* the steps in elements: to the next element of a row, to the next row */
typedef struct {
    Dim along, row;
} ScanSteps;
typedef struct {
    const Let *first; /* the store of a row's first value, a literal */
    const Let *loop, *load, *store;
    Op op;
    Dtype dtype, wide; /* of the elements, and of the running result */
    ScanSteps to, from;
    bool at_once; /* contiguous floats, for dlc_scan_rows of prelude_scan.h */
} Scan;
/* Does a loop marked recurrences only scan the elements that it loads? */
bool scan_alone(const Facts *facts, const Let *recurrences, Scan *s);

#endif
