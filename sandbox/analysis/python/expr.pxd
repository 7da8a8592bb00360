# Types for the compiled pass; expr.py is the source.
cimport cython

from interp cimport Statements
from values cimport Frame, V, join, join_all, join_constants, merge_code, mix, new_value, unmangled

cdef class Expressions(Statements):
    @cython.locals(v=V)
    cdef V display(self, object n, list elts, str kind)
    cdef V attribute(self, V v, str name, object n)
    cpdef V iterate(self, V v, object site)
    cdef bint picks(self, object node, V key)
    cdef bint any_picks(self, list nodes)
    cdef V item_of_table(self, V v, V key, object n, tuple both, bint sliced, bint picks)
    cdef V item_of_accessor(self, V v, object n, tuple both, bint sliced, bint picks)
    @cython.locals(v=V)
    cdef V comprehension(self, object n, tuple parts, str kind)

cdef str arithmetic(V a, V b, object op)
