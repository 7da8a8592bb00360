# Types for the compiled pass; library.py is the source.
from expr cimport Expressions
from values cimport Fn, Inst, V, join, join_all, merge_code, mix

cdef class Library(Expressions):
    pass
