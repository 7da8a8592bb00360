# Types for the compiled pass; calls.py is the source.
from classes cimport Classes
from values cimport Bound, Cls, Fn, Frame, Inst, V, join, join_all, merge_code, mix

cdef class Calls(Classes):
    pass
