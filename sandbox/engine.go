package sandbox

// Engine is how sessions come to be.
type Engine string

const (
	// EngineZygote forks sessions from an interpreter that has imported its packages. Where the host
	// or the environment can't, New falls back to EngineFresh, and Stats says why.
	EngineZygote Engine = "zygote"
	// EngineFresh starts an interpreter for every session.
	EngineFresh Engine = "fresh"
)

// Profile is what a zygote spends memory on.
type Profile string

const (
	// ProfileDensity keeps a session small: it writes the pages that a trivial cell needs.
	ProfileDensity Profile = "density"
	// ProfileThroughput keeps a session fast: it writes the pages that work with tables needs, and a
	// few sessions wait ready, forked and exercised before anyone asks for them.
	ProfileThroughput Profile = "throughput"
)

// warmSessions is how many sessions wait ready.
func (p Profile) warmSessions() int {
	if p == ProfileThroughput {
		return 4
	}
	return 0
}

// Preloaded are the modules that a zygote imports: what data analyses use, and what pandas and
// matplotlib import when they are first used.
func Preloaded() []string {
	return []string{
		"pandas", "numpy", "numpy.linalg", "numpy.random", "numpy.fft", "scipy.stats", "scipy.optimize", "scipy.cluster.hierarchy",
		"scipy.interpolate", "scipy.signal", "scipy.sparse.linalg", "scipy.spatial.distance",
		"sklearn.linear_model", "sklearn.ensemble", "sklearn.tree", "sklearn.cluster", "sklearn.preprocessing", "sklearn.model_selection",
		"sklearn.metrics", "sklearn.decomposition", "sklearn.neighbors", "sklearn.svm", "sklearn.naive_bayes", "sklearn.impute",
		"sklearn.pipeline", "sklearn.compose", "sklearn.feature_selection", "sklearn.feature_extraction.text", "sklearn.datasets",
		"statsmodels.api", "statsmodels.formula.api", "statsmodels.tsa.api", "statsmodels.stats.api",
		"matplotlib.pyplot", "matplotlib.backends.backend_agg", "seaborn",
		"pyarrow.parquet", "pyarrow.compute", "openpyxl", "lxml.etree", "lxml.html",
		"asyncio", "base64", "bisect", "calendar", "collections", "concurrent.futures", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib",
		"enum", "fractions", "functools", "glob", "gzip", "hashlib", "heapq", "io", "itertools", "json", "locale", "logging", "math", "operator",
		"os", "pathlib", "pickle", "pprint", "random", "re", "shutil", "socket", "sqlite3", "statistics", "string", "subprocess", "sys", "tempfile",
		"textwrap", "threading", "time", "traceback", "types", "typing", "unicodedata", "urllib.request", "uuid", "warnings", "zipfile", "zoneinfo",
	}
}
