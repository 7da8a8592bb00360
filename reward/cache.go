package reward

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/verigraph/verigraph/trajectory"
)

// identifier is implemented by judges whose verdicts depend on more than their name (template,
// sampling); Identity is then part of the cache key.
type identifier interface{ Identity() string }

// Store keeps verdicts durably for all replicas. It is safe for concurrent use.
type Store interface {
	// Get returns the value of a key and whether there is one.
	Get(ctx context.Context, key string) ([]byte, bool, error)
	// Put stores a value and returns the one that stands afterwards: without replace the first one
	// stays, so that replicas which judged the same text at once agree on one verdict.
	Put(ctx context.Context, key string, value []byte, replace bool) ([]byte, error)
}

// CacheConfig configures a Cache.
type CacheConfig struct {
	// Limit bounds the verdicts held in memory.
	Limit int
	// Tenant keeps verdicts of different owners apart.
	Tenant string
	// Store is shared by replicas; nil keeps verdicts in memory only.
	Store Store
	// Rejudge asks for every verdict anew and replaces what the store holds.
	Rejudge bool
}

// Cache keeps verdicts by content: tenant, judge identity (model, template hashes, sampling) and every
// text that the judge sees. Failures are never kept. A store that fails costs a judge call and never
// a verdict. It is safe for concurrent use.
type Cache struct {
	cfg      CacheConfig
	mu       sync.Mutex
	order    [][32]byte // ring of keys, oldest at next once full
	next     int
	verdicts map[[32]byte]any
	faults   atomic.Int64
}

// NewCache holds at most limit verdicts in memory (at least one).
func NewCache(limit int) *Cache { return NewSharedCache(CacheConfig{Limit: limit}) }

// NewSharedCache returns a cache in front of a store.
func NewSharedCache(cfg CacheConfig) *Cache {
	cfg.Limit = max(cfg.Limit, 1)
	return &Cache{cfg: cfg, verdicts: map[[32]byte]any{}}
}

// StoreFaults counts the store's failures.
func (c *Cache) StoreFaults() int64 { return c.faults.Load() }

// Judge returns j behind the cache. A BlockJudge stays one.
func (c *Cache) Judge(j Judge) Judge {
	cached := cachedJudge{j, identity(j.Name(), j), c}
	if b, ok := j.(BlockJudge); ok {
		return cachedBlocks{cached, b}
	}
	return cached
}

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

func (c *Cache) key(fields ...string) [32]byte {
	return contentKey(append([]string{c.cfg.Tenant}, fields...)...)
}

// recall looks into memory, then into the store. What can't be decoded or is no verdict is not there.
func recall[T any](ctx context.Context, c *Cache, key [32]byte, usable func(T) bool) (v T, ok bool) {
	c.mu.Lock()
	held, ok := c.verdicts[key]
	c.mu.Unlock()
	if ok {
		v, ok = held.(T)
		return v, ok
	}
	if c.cfg.Store == nil || c.cfg.Rejudge {
		return v, false
	}
	value, ok, err := c.cfg.Store.Get(ctx, hex.EncodeToString(key[:]))
	switch {
	case err != nil:
		c.faults.Add(1)
		return v, false
	case !ok || json.Unmarshal(value, &v) != nil || !usable(v):
		return v, false
	}
	c.hold(key, v)
	return v, true
}

// remember keeps a verdict and returns the one that stands: another replica may have stored its own
// first. A stored value that is no verdict is replaced.
func remember[T any](ctx context.Context, c *Cache, key [32]byte, v T, usable func(T) bool) T {
	if c.cfg.Store != nil {
		value, err := json.Marshal(v)
		if err != nil { // a NaN grade, which the scorer refuses
			return v
		}
		var stands T
		stored, err := c.cfg.Store.Put(ctx, hex.EncodeToString(key[:]), value, c.cfg.Rejudge)
		if err == nil {
			if json.Unmarshal(stored, &stands) == nil && usable(stands) {
				v = stands
			} else {
				_, err = c.cfg.Store.Put(ctx, hex.EncodeToString(key[:]), value, true)
			}
		}
		if err != nil {
			c.faults.Add(1)
		}
	}
	c.hold(key, v)
	return v
}

func (c *Cache) hold(key [32]byte, v any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.verdicts[key]; !ok {
		if len(c.order) < c.cfg.Limit {
			c.order = append(c.order, key)
		} else {
			delete(c.verdicts, c.order[c.next])
			c.order[c.next] = key
			c.next = (c.next + 1) % c.cfg.Limit
		}
	}
	c.verdicts[key] = v
}

type cachedJudge struct {
	Judge
	identity string
	cache    *Cache
}

// Identity lets caches and panels be stacked.
func (j cachedJudge) Identity() string { return j.identity }

func (j cachedJudge) Entails(ctx context.Context, step Step) (trajectory.Verdict, error) {
	key := j.cache.key(append([]string{"entails", j.identity, step.Question, step.Reasoning, step.Conclusion}, step.Premises...)...)
	if kept, ok := recall(ctx, j.cache, key, said); ok {
		kept.Cached = true
		return kept, nil
	}
	v, err := j.Judge.Entails(ctx, step)
	if err == nil && said(v) {
		v = remember(ctx, j.cache, key, v, said)
	}
	return v, err
}

// said reports whether a verdict is of a kind that a judge may say.
func said(v trajectory.Verdict) bool {
	return v.Kind == trajectory.Entailed || v.Kind == trajectory.NotEntailed || v.Kind == trajectory.Abstained
}

type cachedBlocks struct {
	cachedJudge
	blocks BlockJudge
}

type blockVerdict struct {
	First   int                `json:"first"`
	Verdict trajectory.Verdict `json:"verdict"`
}

func (j cachedBlocks) EntailsBlock(ctx context.Context, b Block) (int, trajectory.Verdict, error) {
	material, err := json.Marshal(b)
	if err != nil {
		return j.blocks.EntailsBlock(ctx, b)
	}
	key := j.cache.key("block", j.identity, string(material))
	usable := func(v blockVerdict) bool { return v.First >= -1 && v.First < len(b.Steps) }
	if kept, ok := recall(ctx, j.cache, key, usable); ok {
		kept.Verdict.Cached = true
		return kept.First, kept.Verdict, nil
	}
	first, v, err := j.blocks.EntailsBlock(ctx, b)
	if err == nil && usable(blockVerdict{First: first}) {
		kept := remember(ctx, j.cache, key, blockVerdict{first, v}, usable)
		first, v = kept.First, kept.Verdict
	}
	return first, v, err
}

type cachedOutcome struct {
	OutcomeJudge
	identity string
	cache    *Cache
}

// Identity lets caches and panels be stacked.
func (j cachedOutcome) Identity() string { return j.identity }

func (j cachedOutcome) Outcome(ctx context.Context, item OutcomeItem) (OutcomeVerdict, error) {
	key := j.cache.key("outcome", j.identity, string(item.Task), item.Question, item.Reference, item.Rubric, item.Answer, item.Evidence)
	if kept, ok := recall(ctx, j.cache, key, graded); ok {
		kept.Cached = true
		return kept, nil
	}
	v, err := j.OutcomeJudge.Outcome(ctx, item)
	if err == nil && graded(v) {
		v = remember(ctx, j.cache, key, v, graded)
	}
	return v, err
}

func graded(v OutcomeVerdict) bool { return len(v.Axes) > 0 }
