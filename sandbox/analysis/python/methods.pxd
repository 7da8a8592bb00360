# Types for the compiled pass; methods.py is the source.
cimport cython

from library cimport Library
from values cimport V, join, merge_code, mix, unmangled

cdef class Methods(Library):
    @cython.locals(x=V)
    cdef V method(self, V v, str name, list args, dict kws, object n, V star)
    @cython.locals(x=V)
    cdef V plain_method(self, V v, str name, list args, dict kws, object n, list results)
    @cython.locals(x=V)
    cdef V view_method(self, V v, str name, list args, object n, list results)
    @cython.locals(x=V)
    cdef V unknown_method(self, V v, list results)
    cdef bint is_mutator(self, str kind, str name, list args, object n)
    @cython.locals(x=V)
    cdef V mutating_method(self, V v, str name, list args, dict kws, list results)
    @cython.locals(x=V)
    cdef V tabular_method(self, V v, str name, dict kws, list results, object n)
    cdef V scalar_method(self, V v, str name, list args, list results)
    cdef V path_method(self, V v, str name, list args, list results)
