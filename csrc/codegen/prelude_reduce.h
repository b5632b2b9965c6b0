/* The order of reductions; see prelude.h.  A vector reduction goes through lanes inside a block of
 * 1024 elements and pairwise over the blocks; any other through blocks of 64 steps and pairwise.
 *
 *     dlc_combine_<red>_<dtype>(a, b)             one step; a is the older one
 *     dlc_identity_<red>_<dtype>()                what lanes begin with, and the value of no blocks
 *     dlc_lanes_<red>_<dtype>(l)                  16 lanes by halving: 8, 4, 2, 1 apart
 *     dlc_pairs_push_<red>_<dtype>(s, &count, v)  one more block; s holds 64, *count the blocks
 *     dlc_pairs_fold_<red>_<dtype>(s, count)      the value of all blocks
 *
 * The stack is a binary counter: it holds one value for each bit set in count.  The values of
 * argmax and argmin are pairs dlc_arg_<dtype>, element and index; they depend on no order.
 * dlc_beats_<red>_<dtype>(a, b): does an element take the place of an earlier one? */

#define DLC_REDUCTION(name, T, identity, expr) \
    DLC_FN T dlc_combine_##name(T a, T b) { return expr; } \
    DLC_FN T dlc_identity_##name(void) { return identity; } \
    DLC_FN T \
    dlc_lanes_##name(T *l) \
    { \
        for (int half = 8; half > 0; half /= 2) { \
            for (int k = 0; k < half; k++) { \
                l[k] = dlc_combine_##name(l[k], l[k + half]); \
            } \
        } \
        return l[0]; \
    } \
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
#define DLC_REDUCTIONS(dtype, T, lowest, highest) \
    DLC_REDUCTION(sum_##dtype, T, 0, a + b) \
    DLC_REDUCTION(prod_##dtype, T, 1, a * b) \
    DLC_REDUCTION(amax_##dtype, T, lowest, a != a || a > b ? a : b) \
    DLC_REDUCTION(amin_##dtype, T, highest, a != a || a < b ? a : b) \
    typedef struct dlc_arg_##dtype { T value; int64_t index; } dlc_arg_##dtype; \
    DLC_FN int dlc_beats_argmax_##dtype(T a, T b) { return (a > b) | ((a != a) & (b == b)); } \
    DLC_FN int dlc_beats_argmin_##dtype(T a, T b) { return (a < b) | ((a != a) & (b == b)); } \
    DLC_REDUCTION(argmax_##dtype, dlc_arg_##dtype, ((dlc_arg_##dtype){lowest, DLC_LAST_INDEX}), \
                  DLC_FIRST(a.value > b.value, b.value > a.value) ? a : b) \
    DLC_REDUCTION(argmin_##dtype, dlc_arg_##dtype, ((dlc_arg_##dtype){highest, DLC_LAST_INDEX}), \
                  DLC_FIRST(a.value < b.value, b.value < a.value) ? a : b)

/* Whether a comes first: it wins outright, or neither wins and its index is smaller; NaN wins. */
#define DLC_FIRST(a_wins, b_wins) \
    (a.value != a.value ? b.value == b.value || a.index <= b.index \
     : b.value != b.value ? 0 \
     : a_wins ? 1 : b_wins ? 0 : a.index <= b.index)
#define DLC_LAST_INDEX 0x7fffffffffffffff

DLC_REDUCTIONS(f32, float, -__builtin_inff(), __builtin_inff())
DLC_REDUCTIONS(f64, double, -__builtin_inf(), __builtin_inf())
DLC_REDUCTIONS(i32, int32_t, -0x7fffffff - 1, 0x7fffffff)
DLC_REDUCTIONS(i64, int64_t, -0x7fffffffffffffff - 1, 0x7fffffffffffffff)

DLC_REDUCTION(any_bool, uint8_t, 0, a | b)
DLC_REDUCTION(all_bool, uint8_t, 1, a & b)
DLC_REDUCTION(amax_bool, uint8_t, 0, a | b)
DLC_REDUCTION(amin_bool, uint8_t, 1, a & b)
