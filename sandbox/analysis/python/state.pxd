# Types for the compiled pass; state.py is the source.
from values cimport Bound, Cls, Fn, Frame, Inst, V, join

cdef class Coder:
    cdef public dict raw, new, closures
    cdef public Frame module
    cdef public set known
    cdef public str source
    cdef public Py_ssize_t budget

    cpdef encode(self, V v, Py_ssize_t depth=*)
    cpdef V decode(self, object d)

cpdef plain(V v)
