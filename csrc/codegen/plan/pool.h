/* Threads of dlc's own, by the functions that an OpenMP runtime has: see Runtime in parallel.c. */
#ifndef DLC_CODEGEN_POOL_H
#define DLC_CODEGEN_POOL_H

void pool_parallel(void (*body)(void *arg), void *arg, unsigned threads, unsigned flags);
int pool_threads(void);
int pool_inside(void); /* is this thread in a launch? */
int pool_number(void); /* of this thread in it, from 0 */

#endif
