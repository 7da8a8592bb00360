# Types for the compiled pass; classes.py is the source.
cimport cython

from methods cimport Methods
from values cimport Bound, Cls, Fn, Inst, V, join, join_all, mix

cdef class Classes(Methods):
    cpdef V touch(self, V v, object operands)
