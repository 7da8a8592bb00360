"""What is set in libraries when they are imported: seeds, display widths, plots that show.

Invariant: what a cell prints and computes does not depend on the host: widths are set on purpose, the
random generators come from the session's seed, and paths in warnings start at the library.
"""
import importlib.machinery
import os
import re
import sys

WIDTH = 120
MAX_PLOTS = 50
LIBRARY = re.compile(r".*/(?:site-packages|dist-packages|lib/python3[.]\d+)/")
NO_PROCESSES = "this session can't start other programs or processes; do the work in Python, in this process"


def warning_line(message, category, filename, lineno, line=None):
    return f"{LIBRARY.sub('', filename)}:{lineno}: {category.__name__}: {message}\n"


class Libraries:
    """state has cell; the seed comes with plant."""

    def __init__(self, state):
        self.seed, self.state = 0, state
        self.plots = 0
        self.hooks = {
            "numpy": self.numpy, "numpy.random": self.numpy_random, "pandas": self.pandas,
            "matplotlib.pyplot": self.pyplot, "_multiprocessing": self.multiprocessing}

    def install(self):
        import warnings
        # Each text once in a session: the lines of a new cell would else be a new place every time.
        warnings.simplefilter("once", append=True)
        warnings.formatwarning = warning_line
        for name in list(self.hooks):
            if name in sys.modules:
                self.hooks.pop(name)(sys.modules[name])
        sys.meta_path.insert(0, self)

    def plant(self, seed):
        """Seeds what is imported already; what is imported later finds the seed here."""
        self.seed = seed
        if "numpy.random" not in self.hooks:
            sys.modules["numpy.random"].seed(seed & 0xFFFFFFFF)

    def find_spec(self, name, path, target=None):
        hook = self.hooks.pop(name, None)
        if hook is None:
            return None
        spec = importlib.machinery.BuiltinImporter.find_spec(name) or importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                hook(module)
            spec.loader.exec_module = exec_module
        return spec

    @staticmethod
    def numpy(numpy):
        numpy.set_printoptions(linewidth=WIDTH, threshold=1000, edgeitems=3)

    def numpy_random(self, module):
        module.seed(self.seed & 0xFFFFFFFF)
        make, made = module.default_rng, [0]

        def default_rng(seed=None):
            if seed is None:
                made[0] += 1
                seed = [self.seed & 0xFFFFFFFFFFFFFFFF, made[0]]
            return make(seed)
        default_rng.__doc__ = make.__doc__
        module.default_rng = default_rng

    @staticmethod
    def pandas(pandas):
        for option, value in (("width", WIDTH), ("max_columns", 20), ("max_colwidth", 60), ("max_rows", 60), ("min_rows", 10)):
            pandas.set_option("display." + option, value)

    @staticmethod
    def multiprocessing(module):
        lock = getattr(module, "SemLock", None)
        if lock is None:
            return

        def refuse(*args, **kwargs):
            raise PermissionError(NO_PROCESSES)
        # Pools and queues make their locks first, in a directory that a session does not have.
        refuse.SEM_VALUE_MAX, refuse._rebuild = lock.SEM_VALUE_MAX, refuse
        module.SemLock = refuse

    def pyplot(self, pyplot):
        def show(*args, **kwargs):
            """Keeps every open figure as a file under plots/ and closes it; never blocks."""
            for number in pyplot.get_fignums():
                try:
                    if self.plots >= MAX_PLOTS:
                        raise OSError(f"a session keeps {MAX_PLOTS} plots")
                    os.makedirs("plots", exist_ok=True)
                    name = f"plots/cell{self.state.cell}-{self.plots + 1}.png"
                    pyplot.figure(number).savefig(name)
                    self.plots += 1
                    print(f"[plot kept as {name}]")
                except OSError as exc:
                    print(f"[plot not kept: {exc}]")
                pyplot.close(number)
        pyplot.show = show
