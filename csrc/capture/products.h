/* The option `products`: which products of tensors are computed here, and not by the eager
 * operators. */
#ifndef DLC_CAPTURE_PRODUCTS_H
#define DLC_CAPTURE_PRODUCTS_H

typedef enum {
    PRODUCTS_LIBRARY,           /* none */
    PRODUCTS_AUTO, /* those measured to be as fast here: aten_product.c, aten_conv_choice.c */
    PRODUCTS_OWN, /* all */
} Products;

#endif
