/* One chain in vectors of BYTES, whose types and functions are OF(vec), OF(splat), OF(fma).
 * Included by micro_kernel.h for whole vectors and, if HALVES, for halves of vectors.
 *
 * One chain of k steps, or a part of one, for R x P * V vectors of the tile `out`, whose rows are
 * out_row apart.  A single row has one run: with a loop over several clang keeps its sums in
 * memory. */
DLC_FN void
OF(chain)(const int R, const int V, const int P, const Chain *c, const char *a, const char *b,
          T *out)
{
    OF(vec) sum[MICRO_ROWS][ROW_VECTORS * MOST_PANELS], x[ROW_VECTORS * MOST_PANELS], y[MICRO_ROWS];
    const int64_t row = c->row_stride * (int)sizeof(T), step = c->k_stride * (int)sizeof(T);
    const int64_t b_step = c->b_step, next_step = c->next_step, panel = c->b_panel,
                  row_3 = 3 * row, panel_3 = 3 * panel, out_row = c->out_row;
    const enum Mode mode = c->mode;
    const char *rows[4], *next = b + c->next;
    const Run *run = c->runs, *end = run + c->nruns;

    UNROLL for (int i = 0; i < R; i++) {
        UNROLL for (int j = 0; j < P * V; j++) {
            sum[i][j] = (OF(vec)){0};
            if (mode == CONTINUE) {
                sum[i][j] = *(const OF(vec) *)(out + i * out_row + j * (BYTES / (int)sizeof(T)));
            }
        }
    }
#define B(j) (*(const OF(vec) *)(OF_FOUR(b, (j) / V, panel, panel_3) + (j) % V * BYTES))
#define A(i) OF(splat)(*(const T *)OF_FOUR(rows[(i) / 4], i, row, row_3))
    do {
        const char *from = a + run->at * (int)sizeof(T);
        UNROLL for (int i = 0; i < (R + 3) / 4; i++) {
            rows[i] = from + 4 * i * row;
        }
        for (int64_t p = run->k; p > 0; p--) {
            UNROLL for (int j = 0; j < V * BYTES; j += 64) {
                UNROLL for (int q = 0; q < P; q++) {
                    __builtin_prefetch(OF_FOUR(next, q, panel, panel_3) + j, 0, 2);
                }
            }
            if (R < P * V) {        /* the fewer wait in registers */
                UNROLL for (int i = 0; i < R; i++) {
                    y[i] = A(i);
                }
                UNROLL for (int j = 0; j < P * V; j++) {
                    x[0] = B(j);
                    UNROLL for (int i = 0; i < R; i++) {
                        sum[i][j] = OF(fma)(y[i], x[0], sum[i][j]);
                    }
                }
            }
            else {
                UNROLL for (int j = 0; j < P * V; j++) {
                    x[j] = B(j);
                }
                UNROLL for (int i = 0; i < R; i++) {
                    y[0] = A(i);
                    UNROLL for (int j = 0; j < P * V; j++) {
                        sum[i][j] = OF(fma)(y[0], x[j], sum[i][j]);
                    }
                }
            }
            UNROLL for (int i = 0; i < (R + 3) / 4; i++) {
                rows[i] += step;
                OPAQUE(rows[i]);
            }
            b += b_step;
            next += next_step;
            OPAQUE(b);
            OPAQUE(next);
        }
    } while (R > 1 && ++run < end);
#undef A
#undef B
    OPAQUE(out);                    /* else its rows wait in registers, or on the stack */
    UNROLL for (int i = 0; i < R; i++) {
        UNROLL for (int j = 0; j < P * V; j++) {
            OF(vec) *to = (OF(vec) *)(out + i * out_row + j * (BYTES / (int)sizeof(T)));
            if (mode == ADD) {
                sum[i][j] += *to;
            }
            *to = sum[i][j];
        }
    }
}

#undef OF
#undef BYTES
