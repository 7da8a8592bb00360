# Types for the compiled pass; library.py is the source.
cimport cython

from expr cimport Expressions
from values cimport Fn, Inst, V, join, join_all, merge_code, mix

cdef class Library(Expressions):
    @cython.locals(v=V)
    cdef V library(self, V f, list args, dict kws, object n)
    cdef V library_text(self, str path, str root, list args, dict kws, object n)
    @cython.locals(v=V)
    cdef V changed_arguments(self, str path, str root, str last, list args, dict kws, list values, list results, object n)
    @cython.locals(v=V)
    cdef V library_result(self, str path, str root, str last, list args, dict kws, list values, list results, tuple code, object n)
    @cython.locals(v=V)
    cdef V constructed(self, str root, str last, list values, dict kws, list results, object holds, tuple code, object n)
    @cython.locals(v=V)
    cdef V safe_result(self, str path, str root, str last, list values, list results, object holds, tuple code)
    @cython.locals(v=V)
    cdef owns(self, object values)
    @cython.locals(v=V)
    cdef store_all(self, V target, object values)
    @cython.locals(v=V)
    cdef V path_call(self, str last, list args, list results)
    @cython.locals(v=V)
    cdef V pandas(self, str last, str path, list args, dict kws, list results, tuple code)
    @cython.locals(v=V)
    cdef V numpy(self, str last, list args, list results, tuple code)
    @cython.locals(v=V)
    cdef V builtin(self, str name, list args, dict kws, object n, V star=*)
    @cython.locals(v=V)
    cdef V container(self, str name, list args, list values, list results, object holds, tuple code, object n, V star)

cdef bint is_true(object n, str keyword)
