package reward

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/verigraph/verigraph/trajectory"
)

// identifier is implemented by judges whose verdicts depend on more than their name (template,
// sampling); Identity is then part of the cache key.
type identifier interface{ Identity() string }

// Cache keeps verdicts by content: judge identity and every text that the judge sees. Failures are
// never kept. It is bounded, drops the oldest entry when full, and is safe for concurrent use.
type Cache struct {
	mu       sync.Mutex
	limit    int
	order    [][32]byte // ring of keys, oldest at next once full
	next     int
	verdicts map[[32]byte]any
}

// NewCache holds at most limit verdicts (at least one).
func NewCache(limit int) *Cache {
	return &Cache{limit: max(limit, 1), verdicts: map[[32]byte]any{}}
}

// Judge returns j behind the cache.
func (c *Cache) Judge(j Judge) Judge { return cachedJudge{j, identity(j.Name(), j), c} }

// Outcome returns j behind the cache.
func (c *Cache) Outcome(j OutcomeJudge) OutcomeJudge {
	return cachedOutcome{j, identity(j.Name(), j), c}
}

func identity(name string, j any) string {
	if i, ok := j.(identifier); ok {
		return i.Identity()
	}
	return name
}

// contentKey length-prefixes every field, so that moving text across a border changes the key.
func contentKey(fields ...string) [32]byte {
	h := sha256.New()
	var size [8]byte
	for _, f := range fields {
		binary.BigEndian.PutUint64(size[:], uint64(len(f)))
		h.Write(size[:])
		h.Write([]byte(f))
	}
	return [32]byte(h.Sum(nil))
}

func (c *Cache) get(key [32]byte) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.verdicts[key]
	return v, ok
}

func (c *Cache) put(key [32]byte, v any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.verdicts[key]; !ok {
		if len(c.order) < c.limit {
			c.order = append(c.order, key)
		} else {
			delete(c.verdicts, c.order[c.next])
			c.order[c.next] = key
			c.next = (c.next + 1) % c.limit
		}
	}
	c.verdicts[key] = v
}

type cachedJudge struct {
	Judge
	identity string
	cache    *Cache
}

func (j cachedJudge) Entails(ctx context.Context, step Step) (trajectory.Verdict, error) {
	key := contentKey(append([]string{"entails", j.identity, step.Question, step.Reasoning, step.Conclusion}, step.Premises...)...)
	if v, ok := j.cache.get(key); ok {
		verdict := v.(trajectory.Verdict)
		verdict.Cached = true
		return verdict, nil
	}
	v, err := j.Judge.Entails(ctx, step)
	if err == nil {
		j.cache.put(key, v)
	}
	return v, err
}

type cachedOutcome struct {
	OutcomeJudge
	identity string
	cache    *Cache
}

func (j cachedOutcome) Outcome(ctx context.Context, item OutcomeItem) (OutcomeVerdict, error) {
	key := contentKey("outcome", j.identity, item.Question, item.Reference, item.Answer, item.Evidence)
	if v, ok := j.cache.get(key); ok {
		verdict := v.(OutcomeVerdict)
		verdict.Cached = true
		return verdict, nil
	}
	v, err := j.OutcomeJudge.Outcome(ctx, item)
	if err == nil {
		j.cache.put(key, v)
	}
	return v, err
}
