package analysis

// DecodeAnalysis is for tests and benchmarks.
var DecodeAnalysis = decodeAnalysis
