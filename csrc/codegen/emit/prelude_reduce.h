/* The order of reductions; see prelude.h.  A vector reduction goes through lanes inside a block of
 * 1024 elements and pairwise over the blocks; any other through blocks of 64 steps and pairwise.
 *
 *     dlc_combine_<red>_<dtype>(a, b)             one step; a is the older one
 *     dlc_identity_<red>_<dtype>()                what lanes begin with, and the value of no blocks
 *     dlc_lanes_<red>_<dtype>(l)                  16 lanes by halving: 8, 4, 2, 1 apart
 *     dlc_pairs_push_<red>_<dtype>(s, &count, v)  one more block; s holds 64, *count the blocks
 *     dlc_pairs_fold_<red>_<dtype>(s, count)      the value of all blocks
 *
 * Extremes of floats within lanes wait for one comparison a step, with NaN looked for beside:
 *     dlc_combine_further_<red>_<dtype>(a, v)     the further of a lane and an element that is no
 *     NaN dlc_size_seen_<dtype>(seen, v)              sizes[k] of the elements of lane k; begins
 *     with 0 dlc_lanes_checked_<red>_<dtype>(l, sizes)    as dlc_lanes, NaN where one was seen
 *     dlc_place_<red>_<dtype>(place, at, l, v)    where the lane's element stands: `at` if v is
 *     further dlc_lanes_join_<red>_<dtype>(l, sizes, places, ..)  two sets of lanes in the first
 *     one dlc_lanes_place_<red>_<dtype>(l, sizes, places, &v) v as dlc_lanes_checked, and the first
 *     of its places; -1 where
 *                                                 it is NaN
 *
 * The stack is a binary counter: it holds a value where the count has a bit that is set.  The
 * values of argmax and argmin are pairs dlc_arg_<dtype>, element and index; they depend on no
 * order.
 * dlc_beats_<red>_<dtype>(a, b): does an element take the place of an earlier one? */

/* v where has is -1, other where it is 0, without a choice that a compiler could make a branch
 * of. */
#define DLC_ONLY(dtype, T, U, bits, from_bits) \
    DLC_FN T dlc_only_##dtype(int32_t has, T v, T other) \
    { \
        U mask = (U)(int64_t)has; \
        return from_bits((U)((bits(v) & mask) | (bits(other) & ~mask))); \
    }
DLC_ONLY(bool, uint8_t, uint8_t, , )
DLC_ONLY(i32, int32_t, int32_t, , )
DLC_ONLY(i64, int64_t, int64_t, , )
DLC_ONLY(f32, float, uint32_t, dlc_bits_f32, dlc_from_bits_f32)
DLC_ONLY(f64, double, uint64_t, dlc_bits_f64, dlc_from_bits_f64)

/* Lanes by halving, in loops. */
#define DLC_LANES_LOOP(name, T) \
    DLC_FN T dlc_lanes_##name(T *l) \
    { \
        for (int half = 8; half > 0; half /= 2) { \
            for (int k = 0; k < half; k++) { \
                l[k] = dlc_combine_##name(l[k], l[k + half]); \
            } \
        } \
        return l[0]; \
    }

/* The same in registers: four lanes side by side.  With loops compilers take halves through memory,
 * which costs more than a short row does. */
#ifdef DLC_ZIP
#define DLC_LANES_HALVED(name, T, dtype, join) \
    DLC_FN T dlc_lanes_##name(const T *l) \
    { \
        const dlc_four_##dtype *f = (const dlc_four_##dtype *)l; \
        dlc_four_##dtype low = join(dtype, f[0], f[2]), high = join(dtype, f[1], f[3]); \
        dlc_four_##dtype four = join(dtype, low, high), right = DLC_ZIP(four, four, 2, 3, 2, 3); \
        dlc_four_##dtype two = join(dtype, four, right), last = DLC_ZIP(two, two, 1, 1, 1, 1); \
        return join(dtype, two, last)[0]; \
    }
#define DLC_FOUR(dtype, T, U, bytes) \
    typedef T dlc_four_##dtype __attribute__((vector_size(bytes), aligned(bytes / 4), may_alias)); \
    typedef U dlc_mask_##dtype __attribute__((vector_size(bytes), aligned(bytes / 4), may_alias)); \
    DLC_FN int dlc_some_beyond_##dtype(const U *sizes, U limit) \
    { \
        const dlc_mask_##dtype *m = (const dlc_mask_##dtype *)sizes; \
        dlc_mask_##dtype any = (m[0] > limit) | (m[1] > limit) | (m[2] > limit) | (m[3] > limit); \
        any |= DLC_ZIP(any, any, 2, 3, 2, 3); \
        return (any[0] | any[1]) != 0; \
    }
#else
#define DLC_LANES_HALVED(name, T, dtype, join) DLC_LANES_LOOP(name, T)
#define DLC_FOUR(dtype, T, U, bytes) \
    DLC_FN int dlc_some_beyond_##dtype(const U *sizes, U limit) \
    { \
        int any = 0; \
        for (int k = 0; k < 16; k++) { \
            any |= sizes[k] > limit; \
        } \
        return any; \
    }
#endif

#define DLC_JOIN_SUM(dtype, a, b) (a + b)
#define DLC_JOIN_PROD(dtype, a, b) (a * b)
#define DLC_JOIN_AMAX(dtype, a, b) DLC_SELECT(dtype, (a != a) | (a > b), a, b)
#define DLC_JOIN_AMIN(dtype, a, b) DLC_SELECT(dtype, (a != a) | (a < b), a, b)
#define DLC_JOIN_FURTHER_AMAX(dtype, a, b) DLC_SELECT(dtype, a > b, a, b)
#define DLC_JOIN_FURTHER_AMIN(dtype, a, b) DLC_SELECT(dtype, a < b, a, b)
#define DLC_SELECT(dtype, first, a, b) \
    ((dlc_four_##dtype)(((first) & (dlc_mask_##dtype)a) | (~(first) & (dlc_mask_##dtype)b)))

DLC_FOUR(f32, float, int32_t, 16)
DLC_FOUR(f64, double, int64_t, 32)
DLC_FOUR(i32, int32_t, int32_t, 16)
DLC_FOUR(i64, int64_t, int64_t, 32)

#define DLC_REDUCTION(name, T, identity, expr) \
    DLC_FN T dlc_combine_##name(T a, T b) { return expr; } \
    DLC_FN T dlc_identity_##name(void) { return identity; } \
    DLC_FN void dlc_pairs_push_##name(T *stack, int64_t *count, T v) \
    { \
        int64_t level = 0; \
        for (int64_t c = (*count)++; c & 1; c >>= 1) { \
            v = dlc_combine_##name(stack[level++], v); \
        } \
        stack[level] = v; \
    } \
    DLC_FN T dlc_pairs_fold_##name(const T *stack, int64_t count) \
    { \
        T v = dlc_identity_##name(); \
        for (int64_t level = 0, lower = 0; count >> level != 0; level++) { \
            if (count >> level & 1) { \
                v = lower++ ? dlc_combine_##name(stack[level], v) : stack[level]; \
            } \
        } \
        return v; \
    }

/* The arithmetic and the order reductions of one dtype, and those that keep the index.  NaN is
 * looked for in a function of its own: of one expression compilers make branches, and no vectors of
 * the loop round it. */
#define DLC_REDUCTIONS(dtype, T, lowest, highest, LANES) \
    DLC_FN T dlc_or_nan_##dtype(T a, T v) { return a != a ? a : v; } \
    DLC_REDUCTION(sum_##dtype, T, 0, a + b) \
    DLC_REDUCTION(prod_##dtype, T, 1, a *b) \
    DLC_REDUCTION(amax_##dtype, T, lowest, dlc_or_nan_##dtype(a, a > b ? a : b)) \
    DLC_REDUCTION(amin_##dtype, T, highest, dlc_or_nan_##dtype(a, a < b ? a : b)) \
    LANES(sum_##dtype, T, dtype, DLC_JOIN_SUM) \
    LANES(prod_##dtype, T, dtype, DLC_JOIN_PROD) \
    LANES(amax_##dtype, T, dtype, DLC_JOIN_AMAX) \
    LANES(amin_##dtype, T, dtype, DLC_JOIN_AMIN) \
    typedef struct dlc_arg_##dtype { \
        T value; \
        int64_t index; \
    } dlc_arg_##dtype; \
    DLC_FN int dlc_beats_argmax_##dtype(T a, T b) { return (a > b) | ((a != a) & (b == b)); } \
    DLC_FN int dlc_beats_argmin_##dtype(T a, T b) { return (a < b) | ((a != a) & (b == b)); } \
    DLC_REDUCTION(argmax_##dtype, dlc_arg_##dtype, ((dlc_arg_##dtype){lowest, DLC_LAST_INDEX}), \
                  DLC_FIRST(a.value > b.value, b.value > a.value) ? a : b) \
    DLC_REDUCTION(argmin_##dtype, dlc_arg_##dtype, ((dlc_arg_##dtype){highest, DLC_LAST_INDEX}), \
                  DLC_FIRST(a.value < b.value, b.value < a.value) ? a : b)

/* Whether a comes first: it wins outright, or neither wins and its index is smaller; NaN wins. */
#define DLC_FIRST(a_wins, b_wins) \
    (a.value != a.value   ? b.value == b.value || a.index <= b.index \
     : b.value != b.value ? 0 \
     : a_wins             ? 1 \
     : b_wins             ? 0 \
                          : a.index <= b.index)
#define DLC_LAST_INDEX 0x7fffffffffffffff

DLC_REDUCTIONS(f32, float, -__builtin_inff(), __builtin_inff(), DLC_LANES_HALVED)
DLC_REDUCTIONS(f64, double, -__builtin_inf(), __builtin_inf(), DLC_LANES_HALVED)
DLC_REDUCTIONS(i32, int32_t, -0x7fffffff - 1, 0x7fffffff, DLC_LANES_HALVED)
DLC_REDUCTIONS(i64, int64_t, -0x7fffffffffffffff - 1, 0x7fffffffffffffff, DLC_LANES_HALVED)

/* Of what a lane has seen the size is kept, as the integer of its bits: beyond that of infinity are
 * NaN. Of a comparison with itself compilers would make a branch where an element is chosen by a
 * mask. */
#define DLC_EXTREME(name, T, dtype, size, better, JOIN) \
    DLC_FN T dlc_combine_further_##name(T a, T v) { return a better v ? a : v; } \
    DLC_LANES_HALVED(further_##name, T, dtype, JOIN) \
    DLC_FN T dlc_lanes_checked_##name(T *l, const dlc_size_##dtype *sizes) \
    { \
        const dlc_size_##dtype infinity = dlc_size_seen_##dtype(0, (T)__builtin_inff()); \
        return dlc_some_beyond_##dtype(sizes, infinity) ? (T)__builtin_nanf("") \
                                                        : dlc_lanes_further_##name(l); \
    } \
    DLC_FN dlc_size_##dtype dlc_place_##name(dlc_size_##dtype place, dlc_size_##dtype at, T lane, \
                                             T v) \
    { \
        return v better lane ? at : place; \
    } \
    DLC_FN void dlc_lanes_join_##name(T *l, dlc_size_##dtype *sizes, dlc_size_##dtype *places, \
                                      const T *others, const dlc_size_##dtype *their_sizes, \
                                      const dlc_size_##dtype *their_places) \
    { \
        for (int k = 0; k < 16; k++) { \
            int takes = (others[k] better l[k]) | \
                        ((others[k] == l[k]) & (their_places[k] < places[k])); \
            places[k] = takes ? their_places[k] : places[k]; \
            l[k] = takes ? others[k] : l[k]; \
            sizes[k] = their_sizes[k] > sizes[k] ? their_sizes[k] : sizes[k]; \
        } \
    } \
    DLC_FN int64_t dlc_lanes_place_##name(const T *l, const dlc_size_##dtype *sizes, \
                                          const dlc_size_##dtype *places, T *furthest) \
    { \
        T lanes[16]; \
        dlc_size_##dtype first[16]; \
        __builtin_memcpy(lanes, l, sizeof lanes); \
        T v = dlc_lanes_checked_##name(lanes, sizes); \
        for (int k = 0; k < 16; k++) { \
            first[k] = dlc_only_##size(-(l[k] == v), places[k], 0x7fffffff); \
        } \
        *furthest = v; \
        return v == v ? dlc_lanes_amin_##size(first) : -1; \
    }
#define DLC_EXTREMES(dtype, T, size, I, mask) \
    typedef I dlc_size_##dtype; \
    DLC_FN I dlc_size_seen_##dtype(I seen, T v) \
    { \
        I far = (I)(dlc_bits_##dtype(v) & mask); \
        return far > seen ? far : seen; \
    } \
    DLC_EXTREME(amax_##dtype, T, dtype, size, >, DLC_JOIN_FURTHER_AMAX) \
    DLC_EXTREME(amin_##dtype, T, dtype, size, <, DLC_JOIN_FURTHER_AMIN)

DLC_EXTREMES(f32, float, i32, int32_t, 0x7fffffff)
DLC_EXTREMES(f64, double, i64, int64_t, 0x7fffffffffffffff)

/* The place of the first of n elements that is v, or of the first NaN where v is one; there is such
 * an element. */
#define DLC_FIND_WHERE(name, T, is) \
    DLC_FN int64_t dlc_find_##name(const T *a, T v, int64_t n) \
    { \
        int64_t at = 0; \
        (void)v; \
        for (int any = 0; at + 128 <= n; at += 128) { \
            for (int k = 0; k < 128; k++) { \
                any |= is; \
            } \
            if (any) { \
                break; \
            } \
        } \
        int left = n - at < 128 ? (int)(n - at) : 128, first = 128; \
        for (int k = 0; k < left; k++) { \
            int place = is ? k : 128; \
            first = place < first ? place : first; \
        } \
        return at + first; \
    }
#define DLC_FIND(dtype, T) \
    DLC_FIND_WHERE(equal_##dtype, T, (a[at + k] == v)) \
    DLC_FIND_WHERE(nan_##dtype, T, (a[at + k] != a[at + k])) \
    DLC_FN int64_t dlc_find_##dtype(const T *a, T v, int64_t n) \
    { \
        return v == v ? dlc_find_equal_##dtype(a, v, n) : dlc_find_nan_##dtype(a, v, n); \
    }
DLC_FIND(f32, float)
DLC_FIND(f64, double)
DLC_FIND(i32, int32_t)
DLC_FIND(i64, int64_t)

DLC_REDUCTION(any_bool, uint8_t, 0, a | b)
DLC_REDUCTION(all_bool, uint8_t, 1, a &b)
DLC_REDUCTION(amax_bool, uint8_t, 0, a | b)
DLC_REDUCTION(amin_bool, uint8_t, 1, a &b)
DLC_LANES_LOOP(any_bool, uint8_t)
DLC_LANES_LOOP(all_bool, uint8_t)
DLC_LANES_LOOP(amax_bool, uint8_t)
DLC_LANES_LOOP(amin_bool, uint8_t)
