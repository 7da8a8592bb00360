# Types for the compiled pass; calls.py is the source.
cimport cython

from classes cimport Classes
from values cimport Bound, Cls, Fn, Frame, Inst, V, join, join_all, merge_code, mix

cdef class Calls(Classes):
    @cython.locals(v=V, around=V)
    cdef V primitive(self, V f, object n, list args, dict kws, V star)
    @cython.locals(v=V)
    cpdef V call_value(self, V f, list args, dict kws, object n, V star=*)
    @cython.locals(v=V)
    cpdef V unknown_call(self, V f, list values, object n)
    @cython.locals(s=V)
    cpdef change(self, V v, object sources)
    cpdef write_through(self, V v)
