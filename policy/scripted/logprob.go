package scripted

// PrefixHash is a rolling hash of a token prefix: Push gives that of the prefix plus one token.
type PrefixHash uint64

const (
	hashStart = 0xcbf29ce484222325
	hashPrime = 0x100000001b3
)

// NewPrefixHash hashes a whole prefix.
func NewPrefixHash(prefix []int32) PrefixHash {
	h := PrefixHash(hashStart)
	for _, id := range prefix {
		h = h.Push(id)
	}
	return h
}

// Push appends one token.
func (h PrefixHash) Push(id int32) PrefixHash {
	return PrefixHash(mix(uint64(h)*hashPrime ^ uint64(uint32(id))))
}

// LogProb of token after the prefix, under the weights of version.
func (h PrefixHash) LogProb(token int32, version int64) float32 {
	x := mix(uint64(h.Push(token)) ^ mix(uint64(version)))
	// A multiple of 1/4096 is exact in float32 and in any decimal form of it, so tests compare with ==.
	return -float32(x>>49+1) / 4096
}

// LogProb is the log-probability that the scripted policy states for token after prefix (all ids of
// the context, sampled ones included) under weights of the given version: in [-8, 0), a pure
// function, so that a test can recompute every one that was stored. It is made up by hashing.
func LogProb(prefix []int32, token int32, version int64) float32 {
	return NewPrefixHash(prefix).LogProb(token, version)
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
