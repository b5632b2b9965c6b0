"""Accuracy of the math header, and the program that fits its polynomials."""
