"""What is known about builtins, methods and library functions.

A table entry is a promise that an operation does not change its receiver or arguments, or that its
result shares nothing with them. What is in no table may do both.
"""


def words(text):
    return frozenset(text.split())


PRIMITIVES = words("bind infer submit_answer")
PROTECTED = words("bind infer submit_answer Claim")

# Libraries whose functions leave their arguments alone, apart from ARGUMENT_MUTATORS.
SAFE_MODULES = words("""
    pandas numpy scipy sklearn statsmodels math cmath statistics json re datetime time calendar
    collections itertools functools operator random decimal fractions string textwrap copy csv io os
    pathlib glob fnmatch hashlib base64 struct zlib gzip bz2 lzma zipfile tarfile pickle sqlite3
    matplotlib seaborn plotly altair pprint tabulate typing types dataclasses enum abc warnings
    contextlib logging sys platform locale unicodedata html xml urllib uuid bisect heapq numbers
    pyarrow openpyxl xlrd polars networkx nltk spacy wordcloud xgboost lightgbm catboost torch
    dateutil pytz zoneinfo tqdm joblib patsy pingouin linearmodels lifelines geopandas shapely
    IPython yaml toml tomllib h5py tables PIL imblearn builtins secrets array shutil tempfile
    traceback queue weakref""")

# library function (last part of its name) -> positions of the arguments it changes
ARGUMENT_MUTATORS = {
    "shuffle": (0,), "put": (0,), "place": (0,), "putmask": (0,), "copyto": (0,),
    "fill_diagonal": (0,), "put_along_axis": (0,), "at": (0,),
    "heappush": (0,), "heappop": (0,), "heapify": (0,), "heapreplace": (0,), "heappushpop": (0,),
    "insort": (0,), "insort_left": (0,), "insort_right": (0,),
    "iadd": (0,), "iconcat": (0,), "imul": (0,), "isub": (0,), "ior": (0,), "iand": (0,), "setitem": (0,),
    "delitem": (0,), "dump": (1,), "copyfileobj": (1,), "update_wrapper": (0,), "next": (0,),
    "partial_fit": (0,), "train": (0,),
}
UNARY_UFUNCS = words("""sqrt exp log log2 log10 log1p expm1 abs absolute fabs sin cos tan arcsin arccos arctan sinh cosh
    tanh negative sign square reciprocal floor ceil rint trunc isnan isinf isfinite conj deg2rad rad2deg invert cbrt
    logical_not positive""")
BINARY_UFUNCS = words("""add subtract multiply divide true_divide floor_divide power mod remainder fmod maximum minimum
    fmax fmin matmul dot logical_and logical_or logical_xor greater less equal not_equal greater_equal less_equal hypot
    arctan2 bitwise_and bitwise_or bitwise_xor left_shift right_shift copysign""")
# numpy and sklearn both have a shuffle; sklearn's copies.
PURE_PATHS = words("sklearn.utils.shuffle json.dumps pickle.dumps yaml.safe_dump itertools.compress")

# numpy and pandas functions whose result may be, or share memory with, an argument.
VIEW_FUNCTIONS = words("""
    asarray asanyarray ascontiguousarray asfortranarray asarray_chkfinite ravel reshape squeeze transpose
    atleast_1d atleast_2d atleast_3d expand_dims broadcast_to broadcast_arrays split array_split
    hsplit vsplit dsplit swapaxes moveaxis rollaxis flip fliplr flipud rot90 diagonal diag real imag
    nan_to_num frombuffer require matrix asmatrix mat as_strided sliding_window_view meshgrid
    DataFrame Series Index Categorical array to_numeric to_datetime to_timedelta nditer from_dict
    from_records MultiIndex check_array check_X_y indexable memoryview block
    NamedTuple namedtuple wraps lru_cache cache partial chain reduce choice choices sample cycle islice
    accumulate groupby nlargest nsmallest tee zip_longest product permutations combinations itemgetter
    getitem attrgetter deque Counter OrderedDict defaultdict ChainMap UserDict UserList SimpleNamespace
    copy replace asdict astuple tqdm compress takewhile dropwhile filterfalse starmap pairwise
    from_iterable cast suppress closing nullcontext ExitStack""")

PANDAS_FRAME_READERS = words("""read_csv read_table read_parquet read_feather read_excel read_stata
    read_sql read_sql_query read_sql_table read_fwf read_json read_sas read_spss read_orc read_xml""")
FRAME_READER_BREAKERS = words("chunksize iterator squeeze typ")
PANDAS_FRAME_FUNCTIONS = words("DataFrame merge get_dummies crosstab pivot_table pivot melt json_normalize merge_asof")

MATH_MODULES = words("math cmath statistics datetime decimal fractions calendar time")

SCALAR_BUILTINS = words("""len abs round int float str bool repr range ord chr hash format divmod pow
    any all isinstance issubclass id bin hex oct ascii complex bytes callable hasattr slice input dir
    print help""")

# Readers: library functions that open the file named by an argument.
READER_PATHS = {
    "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "numpy.fromfile", "numpy.memmap",
    "numpy.fromregex", "joblib.load", "scipy.io.loadmat", "scipy.io.wavfile.read", "h5py.File",
    "scipy.io.arff.loadarff",
    "xarray.open_dataset", "pyarrow.parquet.ParquetFile", "pyarrow.parquet.ParquetDataset",
    "pyarrow.dataset.dataset", "pyarrow.memory_map", "pyarrow.OSFile", "PIL.Image.open", "cv2.imread",
    "matplotlib.pyplot.imread", "matplotlib.image.imread", "imageio.imread", "sqlite3.connect",
    "zipfile.ZipFile", "tarfile.open", "openpyxl.load_workbook", "xlrd.open_workbook",
    "docx.Document", "pptx.Presentation", "fitz.open", "pdfplumber.open", "PyPDF2.PdfReader",
    "pypdf.PdfReader", "torch.load", "xml.etree.ElementTree.parse", "xml.etree.ElementTree.iterparse",
    "xml.dom.minidom.parse", "linecache.getline", "linecache.getlines", "fileinput.input",
    "shelve.open", "dbm.open", "pandas.ExcelFile", "pandas.HDFStore", "networkx.read_gml",
    "lxml.etree.parse", "csvkit.reader", "pyreadstat.read_sav", "configparser.ConfigParser.read",
    "io.FileIO", "tokenize.open", "runpy.run_path", "numpy.lib.npyio.NpzFile", "sqlalchemy.create_engine",
    "duckdb.connect", "shutil.copyfile", "shutil.copy", "shutil.copy2", "shutil.move", "shutil.copytree",
    "os.rename", "os.replace", "os.link", "os.symlink", "shutil.unpack_archive", "mimetypes.read_mime_types",
}
OPENERS = {"builtins.open", "io.open", "gzip.open", "bz2.open", "lzma.open", "codecs.open",
           "gzip.GzipFile", "bz2.BZ2File", "lzma.LZMAFile", "zipfile.ZipFile", "tarfile.open",
           "h5py.File", "pandas.HDFStore", "shelve.open", "dbm.open"}
DIRECTORY_READERS = words("""os.listdir os.scandir os.walk glob.glob glob.iglob os.stat os.path.getsize
    os.path.getmtime os.fwalk""")
STATUS_READERS = words("os.stat os.path.getsize os.path.getmtime")
READER_METHODS = words("read_text read_bytes iterdir glob rglob")
# Parameter names under which a reader or writer takes its path.
PATH_KEYWORDS = ("filepath_or_buffer", "path_or_buf", "path_or_buffer", "path", "file", "fname", "filename",
                 "io", "name", "source", "fp", "buf", "excel_writer", "handle", "database", "src", "where",
                 "f", "url", "filepath", "file_path", "location")

WRITER_METHODS = words("""to_csv to_excel to_json to_parquet to_pickle to_html to_feather to_hdf to_stata
    to_xml to_orc to_latex to_markdown to_string savefig save tofile write_text write_bytes write_image
    write_html to_netcdf write_csv write_parquet write_json write_excel touch unlink save_model
    to_gbq export""")
WRITER_PATHS = {
    "numpy.save": 0, "numpy.savez": 0, "numpy.savez_compressed": 0, "numpy.savetxt": 0,
    "joblib.dump": 1, "torch.save": 1, "matplotlib.pyplot.savefig": 0, "matplotlib.pyplot.imsave": 0,
    "pandas.ExcelWriter": 0, "pyarrow.parquet.write_table": 1, "pyarrow.csv.write_csv": 1,
    "pyarrow.feather.write_feather": 1, "pandas.to_pickle": 1, "scipy.io.savemat": 0,
    "cv2.imwrite": 0, "os.remove": 0, "os.unlink": 0, "os.truncate": 0, "os.rename": 1,
    "os.replace": 1, "os.link": 1, "os.symlink": 1, "shutil.copy": 1, "shutil.copy2": 1, "shutil.copyfile": 1,
    "shutil.move": 1, "shutil.rmtree": 0, "shutil.copytree": 1, "shutil.unpack_archive": 1,
    "shutil.make_archive": 0, "logging.FileHandler": 0, "zipfile.ZipFile.extractall": 0,
    "plotly.io.write_html": 1, "plotly.io.write_image": 1, "os.mkdir": 0, "os.makedirs": 0, "os.rmdir": 0,
    "tempfile.NamedTemporaryFile": 9, "tempfile.TemporaryFile": 9, "tempfile.mkstemp": 9,
}
DATA_SUFFIXES = ("csv tsv txt json jsonl ndjson xlsx xls xlsm parquet pq feather orc pkl pickle npy npz h5 "
                 "hdf5 hdf db sqlite sqlite3 dat gz bz2 xz zip tar tgz xml html htm md yaml yml toml ini log "
                 "sav dta sas7bdat mat nc rds ods arff avro pdf docx pptx png jpg jpeg gif tif tiff wav").split()

# Methods, by name. MUTATORS change the receiver whatever it is (unless a kind below says otherwise).
MUTATORS = words("""append extend insert add update pop popitem remove discard clear sort reverse setdefault
    appendleft extendleft popleft rotate fill resize put partition itemset setflags byteswap
    difference_update intersection_update symmetric_difference_update subtract move_to_end
    write writelines writerow writerows writeheader truncate seek send throw
    fit fit_transform fit_predict fit_resample partial_fit compile train train_on_batch set_params
    add_node add_edge add_nodes_from add_edges_from execute executemany executescript commit rollback
    seed shuffle step backward zero_grad put_nowait insort load_state_dict register push enqueue
    __setitem__ __delitem__ __setattr__ __iadd__ __ior__ __init__ feed close writestr""")
# What a mutator's arguments become part of.
CONTAINER_MUTATORS = words("""append extend insert add update setdefault appendleft extendleft put
    __setitem__ remove discard pop clear sort reverse popitem popleft rotate fill resize partition""")
WRITES = words("write writelines writerow writerows writeheader close writestr")
ESTIMATOR_METHODS = words("fit fit_transform fit_predict fit_resample partial_fit compile train set_params")
# On pandas objects these names return a new object.
PANDAS_PURE_EXCEPTIONS = words("""append add subtract truncate rotate partition register step compile train
    remove discard sort reverse fill put execute seed close write""")
PANDAS_MUTATORS = words("insert pop update setdefault clear popitem __setitem__ __delitem__ __iadd__")
ARRAY_MUTATORS = words("sort fill resize put partition itemset setflags byteswap __setitem__ __iadd__ shuffle")
DICT_PURE = words("get items keys values copy fromkeys most_common elements total")

# Pure methods by name, on a receiver of unknown type. Their results share nothing with it.
FRESH_METHODS = words("""
    mean median sum std var min max count quantile mode skew kurt kurtosis sem mad prod product cumsum
    cumprod cummax cummin diff pct_change rank describe corr corrwith cov nunique unique value_counts isna
    isnull notna notnull isin between duplicated drop_duplicates dropna fillna ffill bfill interpolate
    replace abs round clip astype copy rename reset_index set_index sort_values sort_index drop assign
    merge join concat melt pivot pivot_table stack unstack explode nlargest nsmallest sample query
    where mask idxmax idxmin argmax argmin argsort searchsorted first last nth size any all
    agg aggregate transform apply applymap map combine combine_first shift tz_localize tz_convert
    to_dict to_list tolist to_string to_markdown strftime total_seconds date isoformat
    strip lstrip rstrip lower upper title capitalize split rsplit splitlines startswith endswith find
    rfind format format_map encode decode zfill ljust rjust center casefold swapcase isdigit
    isalpha isnumeric isalnum isspace isupper islower isdecimal isidentifier removeprefix removesuffix
    translate expandtabs rindex contains extract extractall findall match fullmatch
    search group groups groupdict span start end cat len slice get_dummies pad repeat normalize
    day_name month_name dot matmul conj cross trace ptp nonzero predict predict_proba
    decision_function predict_log_proba score transform inverse_transform get_feature_names_out get_params
    summary conf_int ppf cdf pdf pmf sf rvs logpdf eq ne lt le gt ge add_prefix
    add_suffix sub mul div truediv floordiv mod pow radd rsub rmul rdiv divide multiply select_dtypes
    indices memory_usage info item sqrt hexdigest digest timestamp weekday isocalendar
    isoweekday toordinal quantize bit_length as_integer_ratio conjugate hex is_integer most_common
    union intersection difference symmetric_difference issubset issuperset isdisjoint exists is_file
    is_dir stat resolve with_suffix as_posix joinpath relative_to expanduser
    cumcount ngroup tshift asof to_period to_timestamp normalize floor ceil nlevels droplevel
    read readline readlines getvalue tell fileno fetchall fetchone fetchmany parse
    equals to_period kneighbors get_n_leaves get_depth staged_predict
    random rand randn randint uniform normal integers permutation binomial poisson exponential
    choice standard_normal __len__ __str__ __repr__
    __contains__ __eq__ total elements""")
# Of these, the ones whose result is numbers or text only.
NUMERIC_METHODS = words("""mean median std var count quantile skew kurt kurtosis sem mad cumprod nunique isna isnull
    notna notnull rank corr cov round abs strftime total_seconds isoformat strip lower upper startswith endswith
    find rfind encode decode argmax argmin argsort searchsorted item any all score predict predict_proba
    pct_change size value_counts describe format sum min max prod product cumsum cumprod cummax cummin ptp
    mode diff zfill isdigit hexdigest timestamp weekday corrwith""")
# Pure methods whose result may be the receiver or a part of it.
VIEW_METHODS = words("""get items keys values iterrows itertuples head tail groupby rolling expanding resample
    ewm reshape ravel view squeeze swapaxes transpose to_numpy to_frame flatten xs take get_group pipe filter
    swaplevel set_axis infer_objects convert_dtypes reindex align iteritems flat diagonal
    __getitem__ __iter__ __enter__ cursor get_level_values to_series
    gca getroot iter find_all select children truncate between_time at_time
    asfreq first_valid_index last_valid_index detach numpy cpu __array__ """)
CALLBACK_METHODS = words("""apply applymap map agg aggregate transform pipe filter assign combine sort_values
    rolling where mask groupby rename submit imap starmap reduce sort_index """)
# Methods whose result holds its arguments' functions for later.
SCALAR_METHODS = words("""item strip lstrip rstrip lower upper title capitalize startswith endswith find rfind format
    zfill ljust rjust center casefold isdigit isalpha isnumeric strftime total_seconds isoformat bit_length
    is_integer hexdigest timestamp weekday idxmax idxmin to_string to_markdown nunique exists is_file""")

FRAME_TO_FRAME = words("""copy dropna reset_index set_index sort_values sort_index merge join query fillna assign rename
    drop head tail sample astype drop_duplicates replace melt pivot pivot_table select_dtypes ffill bfill corr
    cov isna isnull notna notnull round clip nlargest nsmallest add_prefix add_suffix interpolate reindex
    diff pct_change cumsum rank describe explode where mask applymap shift abs to_frame transpose
    infer_objects convert_dtypes """)

# Methods of tables that may draw on the current figure, and pyplot functions that give a figure or axes.
PLOTS = words("plot hist boxplot bar barh line scatter pie box area density kde hexbin")
FIGURE_MAKERS = words("figure subplots subplot subplot_mosaic axes gcf gca")
FIGURE_READERS = words("savefig show close ioff ion get_fignums imread isinteractive")

# Functions that take code or formulas as text and look names up in the caller's scope.
TEXT_METHODS = words("query eval")
TEXT_PATHS = {"pandas.eval": "code", "numexpr.evaluate": "code", "duckdb.sql": "sql", "duckdb.query": "sql",
              "duckdb.execute": "sql", "pandasql.sqldf": "sql", "patsy.dmatrices": "formula",
              "patsy.dmatrix": "formula"}
FORMULA_MODULES = ("statsmodels.formula", "patsy", "linearmodels", "lifelines")

# What runs elsewhere or later than its call.
UNTRACKED_PATHS = ("subprocess.", "os.system", "os.popen", "multiprocessing.", "threading.Thread", "threading.Timer",
                   "runpy.", "asyncio.create_task", "asyncio.ensure_future", "concurrent.futures.")
PATH_FUNCTIONS = words("""os.path.join os.path.abspath os.path.realpath os.path.expanduser os.path.normpath os.fspath
    os.path.basename""")
COLLECTION_DICTS = words("Counter OrderedDict defaultdict ChainMap UserDict")
CONTAINER_BUILTINS = words("list tuple set frozenset sorted reversed iter enumerate zip map filter")
