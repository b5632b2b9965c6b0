/* The order of reductions; see prelude.h.  A vector reduction goes through lanes inside a block of
 * 1024 elements and pairwise over the blocks; any other through blocks of 64 steps and pairwise.
 *
 *     dlc_combine_<red>_<dtype>(a, b)             one step; a is the older one
 *     dlc_identity_<red>_<dtype>()                what lanes begin with, and the value of no blocks
 *     dlc_lanes_<red>_<dtype>(l)                  16 lanes by halving: 8, 4, 2, 1 apart
 *     dlc_pairs_push_<red>_<dtype>(s, &count, v)  one more block; s holds 64, *count the blocks
 *     dlc_pairs_fold_<red>_<dtype>(s, count)      the value of all blocks
 *
 * Extremes of floats within lanes wait for one comparison a step, with NaN kept beside:
 *     dlc_further_<red>_<dtype>(a, v)             the further of a lane and an element that is no NaN
 *     dlc_lanes_beside_<red>_<dtype>(l, nans)     as dlc_lanes; nans[k], a dlc_nan_<dtype>: was there
 *                                                 a NaN in lane k?
 *
 * The stack is a binary counter: it holds one value for each bit set in count.  The values of
 * argmax and argmin are pairs dlc_arg_<dtype>, element and index; they depend on no order.
 * dlc_beats_<red>_<dtype>(a, b): does an element take the place of an earlier one? */

/* Lanes by halving, in loops. */
#define DLC_LANES_LOOP(name, T) \
    DLC_FN T \
    dlc_lanes_##name(T *l) \
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
    DLC_FN T \
    dlc_lanes_##name(const T *l) \
    { \
        const dlc_four_##dtype *f = (const dlc_four_##dtype *)l; \
        dlc_four_##dtype low = join(dtype, f[0], f[2]), high = join(dtype, f[1], f[3]); \
        dlc_four_##dtype four = join(dtype, low, high), two = DLC_ZIP(four, four, 2, 3, 2, 3); \
        two = join(dtype, four, two); \
        return dlc_combine_##name(two[0], two[1]); \
    }
#define DLC_FOUR(dtype, T, U, bytes) \
    typedef T dlc_four_##dtype __attribute__((vector_size(bytes), aligned(bytes / 4), may_alias)); \
    typedef U dlc_mask_##dtype __attribute__((vector_size(bytes)));
#else
#define DLC_LANES_HALVED(name, T, dtype, join) DLC_LANES_LOOP(name, T)
#define DLC_FOUR(dtype, T, U, bytes)
#endif

#define DLC_JOIN_SUM(dtype, a, b) (a + b)
#define DLC_JOIN_PROD(dtype, a, b) (a * b)
#define DLC_JOIN_AMAX(dtype, a, b) DLC_PICK(dtype, (a != a) | (a > b), a, b)
#define DLC_JOIN_AMIN(dtype, a, b) DLC_PICK(dtype, (a != a) | (a < b), a, b)
#define DLC_PICK(dtype, first, a, b) \
    ((dlc_four_##dtype)(((first) & (dlc_mask_##dtype)a) | (~(first) & (dlc_mask_##dtype)b)))

DLC_FOUR(f32, float, int32_t, 16)
DLC_FOUR(f64, double, int64_t, 32)

#define DLC_REDUCTION(name, T, identity, expr) \
    DLC_FN T dlc_combine_##name(T a, T b) { return expr; } \
    DLC_FN T dlc_identity_##name(void) { return identity; } \
    DLC_FN void \
    dlc_pairs_push_##name(T *stack, int64_t *count, T v) \
    { \
        int64_t depth = 0; \
        for (int64_t c = *count; c != 0; c &= c - 1) { \
            depth++; \
        } \
        for (int64_t c = *count; c & 1; c >>= 1) { \
            v = dlc_combine_##name(stack[--depth], v); \
        } \
        stack[depth] = v; \
        ++*count; \
    } \
    DLC_FN T \
    dlc_pairs_fold_##name(const T *stack, int64_t count) \
    { \
        int64_t depth = 0; \
        for (int64_t c = count; c != 0; c &= c - 1) { \
            depth++; \
        } \
        if (depth == 0) { \
            return dlc_identity_##name(); \
        } \
        T v = stack[--depth]; \
        while (depth > 0) { \
            v = dlc_combine_##name(stack[--depth], v); \
        } \
        return v; \
    }

/* The arithmetic and the order reductions of one dtype, and those that keep the index. */
#define DLC_REDUCTIONS(dtype, T, lowest, highest, LANES) \
    DLC_REDUCTION(sum_##dtype, T, 0, a + b) \
    DLC_REDUCTION(prod_##dtype, T, 1, a * b) \
    DLC_REDUCTION(amax_##dtype, T, lowest, a != a || a > b ? a : b) \
    DLC_REDUCTION(amin_##dtype, T, highest, a != a || a < b ? a : b) \
    LANES(sum_##dtype, T, dtype, DLC_JOIN_SUM) \
    LANES(prod_##dtype, T, dtype, DLC_JOIN_PROD) \
    LANES(amax_##dtype, T, dtype, DLC_JOIN_AMAX) \
    LANES(amin_##dtype, T, dtype, DLC_JOIN_AMIN) \
    typedef struct dlc_arg_##dtype { T value; int64_t index; } dlc_arg_##dtype; \
    DLC_FN int dlc_beats_argmax_##dtype(T a, T b) { return (a > b) | ((a != a) & (b == b)); } \
    DLC_FN int dlc_beats_argmin_##dtype(T a, T b) { return (a < b) | ((a != a) & (b == b)); } \
    DLC_REDUCTION(argmax_##dtype, dlc_arg_##dtype, ((dlc_arg_##dtype){lowest, DLC_LAST_INDEX}), \
                  DLC_FIRST(a.value > b.value, b.value > a.value) ? a : b) \
    DLC_REDUCTION(argmin_##dtype, dlc_arg_##dtype, ((dlc_arg_##dtype){highest, DLC_LAST_INDEX}), \
                  DLC_FIRST(a.value < b.value, b.value < a.value) ? a : b) \
    DLC_LANES_LOOP(argmax_##dtype, dlc_arg_##dtype) \
    DLC_LANES_LOOP(argmin_##dtype, dlc_arg_##dtype)
#define DLC_LANES_WHOLE(name, T, dtype, join) DLC_LANES_LOOP(name, T)

/* Whether a comes first: it wins outright, or neither wins and its index is smaller; NaN wins. */
#define DLC_FIRST(a_wins, b_wins) \
    (a.value != a.value ? b.value == b.value || a.index <= b.index \
     : b.value != b.value ? 0 \
     : a_wins ? 1 : b_wins ? 0 : a.index <= b.index)
#define DLC_LAST_INDEX 0x7fffffffffffffff

DLC_REDUCTIONS(f32, float, -__builtin_inff(), __builtin_inff(), DLC_LANES_HALVED)
DLC_REDUCTIONS(f64, double, -__builtin_inf(), __builtin_inf(), DLC_LANES_HALVED)
DLC_REDUCTIONS(i32, int32_t, -0x7fffffff - 1, 0x7fffffff, DLC_LANES_WHOLE)
DLC_REDUCTIONS(i64, int64_t, -0x7fffffffffffffff - 1, 0x7fffffffffffffff, DLC_LANES_WHOLE)

/* Rare as they are, one question for all lanes tells whether there was a NaN. */
#define DLC_EXTREME(name, T, dtype, better) \
    DLC_FN T dlc_further_##name(T a, T v) { return a better v ? a : v; } \
    DLC_FN T \
    dlc_lanes_beside_##name(T *l, const dlc_nan_##dtype *nans) \
    { \
        dlc_nan_##dtype some = 0; \
        for (int k = 0; k < 16; k++) { \
            some |= nans[k]; \
        } \
        return some ? (T)__builtin_nanf("") : dlc_lanes_##name(l); \
    }
#define DLC_EXTREMES(dtype, T, U) \
    typedef U dlc_nan_##dtype; \
    DLC_EXTREME(amax_##dtype, T, dtype, >) \
    DLC_EXTREME(amin_##dtype, T, dtype, <)

DLC_EXTREMES(f32, float, uint32_t)
DLC_EXTREMES(f64, double, uint64_t)

DLC_REDUCTION(any_bool, uint8_t, 0, a | b)
DLC_REDUCTION(all_bool, uint8_t, 1, a & b)
DLC_REDUCTION(amax_bool, uint8_t, 0, a | b)
DLC_REDUCTION(amin_bool, uint8_t, 1, a & b)
DLC_LANES_LOOP(any_bool, uint8_t)
DLC_LANES_LOOP(all_bool, uint8_t)
DLC_LANES_LOOP(amax_bool, uint8_t)
DLC_LANES_LOOP(amin_bool, uint8_t)
