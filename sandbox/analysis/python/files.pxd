# Types for the compiled pass; files.py is the source.
cimport cython

from machine cimport Machine
from values cimport V, mix

cpdef str base_name(str path)
cpdef V path_argument(list args, dict kws, Py_ssize_t position=*)
cpdef bint is_stream(V v)

@cython.locals(e=V)
cpdef V read(Machine m, V v, V result)

cpdef write(Machine m, V v, object sources)
cpdef str mode_of(list args, dict kws, Py_ssize_t position=*)
cpdef V open_file(Machine m, V path, str mode, list values)

@cython.locals(v=V)
cpdef V library(Machine m, str path, list args, dict kws, list values)

cpdef V mix_dynamic(list values)

@cython.locals(x=V)
cpdef V method(Machine m, V v, str name, list args, dict kws, object n)
