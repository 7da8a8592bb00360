# Types for the compiled pass; methods.py is the source.
from library cimport Library
from values cimport V, join, merge_code, mix, unmangled

cdef class Methods(Library):
    pass
