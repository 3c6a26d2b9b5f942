package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// recent has what was put or got last, by keys: never more than twice size. When the newer half is full it becomes the older
// one, so what is used stays.
type recent[K comparable, V any] struct {
	size         int
	newer, older map[K]V
}

func (m *recent[K, V]) get(key K) (v V, ok bool) {
	if v, ok = m.newer[key]; !ok {
		if v, ok = m.older[key]; ok {
			m.put(key, v)
		}
	}
	return v, ok
}

func (m *recent[K, V]) put(key K, v V) {
	if m.newer == nil || len(m.newer) >= m.size {
		m.newer, m.older = make(map[K]V), m.newer
	}
	m.newer[key] = v
}

type tokenHash [sha256.Size]byte

// memory has what was found out of tokens, never longer than they are valid.
type memory struct {
	most time.Duration
	now  func() time.Time
	mu   sync.Mutex
	all  recent[tokenHash, known]
}

type known struct {
	who        saga.Caller
	thumbprint string // of the key to which the token is bound, if any
	until      time.Time
	bad        error
}

func (m *memory) get(key tokenHash) (known, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.all.get(key)
	return k, ok && m.now().Before(k.until)
}

// set remembers something until the token expires; zero is unknown.
func (m *memory) set(key tokenHash, k known, expires time.Time) {
	if k.until = m.now().Add(m.most); !expires.IsZero() && expires.Before(k.until) {
		k.until = expires
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all.put(key, k)
}

// first reports whether a key was not in the memory, and puts it there.
func (m *memory) first(key tokenHash) bool {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.all.get(key); ok && now.Before(k.until) {
		return false
	}
	m.all.put(key, known{until: now.Add(m.most)})
	return true
}

// checks are those that are under way, by the hashes of their tokens: each token is checked by one request, for which the
// others that have it wait.
type checks struct {
	mu  sync.Mutex
	all map[tokenHash]*checked
}

// checked is what came of a check, once done is closed.
type checked struct {
	done chan struct{}
	known
	err error
}

// once checks a token, unless another request does. Its check does not end with its request, as others wait for it.
func (c *checks) once(ctx context.Context, key tokenHash, check func(context.Context) (known, error)) (known, error) {
	c.mu.Lock()
	one, found := c.all[key]
	if !found {
		one = &checked{done: make(chan struct{}), err: busy()} // of a check that panics
		c.all[key] = one
	}
	c.mu.Unlock()
	if found {
		select {
		case <-one.done:
			return one.known, one.err
		case <-ctx.Done():
			return known{}, busy()
		}
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, key)
		close(one.done)
	}()
	one.known, one.err = check(context.WithoutCancel(ctx))
	return one.known, one.err
}

// rememberBad is for how long a bad token is remembered: servers of one issuer may not all know a new one at once.
const rememberBad = 5 * time.Second

// tokenMethod is a method for access tokens: it finds out what they are worth, and remembers that.
type tokenMethod struct {
	verifier
	jwts      bool // what has not the three parts of a JSON Web Token is for another method
	good, bad *memory
	gate      *gate
	checks    *checks
	misses    *misses
	proofs    *proofs // nil takes no token that is bound to a key
}

// verifier is in what the methods for access tokens differ.
type verifier interface {
	// takes reports whether a token is of this method. It is called before bounds are looked at, which others' tokens do not meet.
	takes(token string) bool
	// read returns a token's claims once the issuer vouches for them. It leaves its place while it waits for the issuer.
	read(ctx context.Context, place *pass, token string) (map[string]any, error)
	// judge says whom such claims stand for. What it refuses is remembered, unlike what read does, of which there may be any
	// number.
	judge(ctx context.Context, claims map[string]any) (saga.Caller, error)
	// probe asks the issuer for what the first token needs.
	probe(context.Context) error
}

func newTokenMethod(v verifier, c *Checking) *tokenMethod {
	memory := func(most time.Duration) *memory {
		return &memory{most: most, now: c.Now, all: recent[tokenHash, known]{size: max(1, c.MaxRemembered/2)}}
	}
	return &tokenMethod{
		verifier: v, good: memory(c.Remember), bad: memory(min(c.Remember, rememberBad)),
		gate: newGate(c.MaxChecks, maxWait), checks: &checks{all: map[tokenHash]*checked{}}, misses: newMisses(c),
	}
}

// proving is the method with proofs.
func (m tokenMethod) proving(p *proofs) *tokenMethod {
	m.proofs = p
	return &m
}

// Identify implements Method: it says whose a token is, and whether it may come as it does.
func (m *tokenMethod) Identify(r *http.Request) (saga.Caller, error) {
	token, _ := credentials(r)
	if token == "" || m.jwts && strings.Count(token, ".") != 2 {
		return saga.Caller{}, ErrNone
	}
	k, err := m.know(r, token)
	if err == nil {
		err = m.proofs.check(r, token, k.thumbprint)
	}
	if err != nil {
		return saga.Caller{}, err
	}
	return k.who, nil
}

func (m *tokenMethod) know(r *http.Request, token string) (known, error) {
	key := tokenHash(sha256.Sum256([]byte(token)))
	if k, ok := m.good.get(key); ok {
		return k, nil
	}
	if k, ok := m.bad.get(key); ok {
		return known{}, k.bad
	}
	if !m.takes(token) {
		return known{}, ErrNone
	}
	limits := m.misses.limiters(r)
	if err := m.misses.allow(limits); err != nil {
		return known{}, err
	}
	return m.checks.once(r.Context(), key, func(ctx context.Context) (known, error) {
		if k, ok := m.good.get(key); ok { // the request that had checked it before has just ended
			return k, nil
		}
		return m.check(ctx, key, token, limits)
	})
}

// check finds out what a token is worth that is not remembered.
func (m *tokenMethod) check(ctx context.Context, key tokenHash, token string, limits []*rate.Limiter) (known, error) {
	place := &pass{gate: m.gate}
	if err := place.enter(ctx); err != nil {
		return known{}, err
	}
	defer place.leave()
	claims, err := m.read(ctx, place, token)
	if err != nil {
		m.misses.add(limits) // also if the issuer could not say: it was asked
		return known{}, err
	}
	place.leave() // judge may ask others, who take long
	who, err := m.judge(ctx, claims)
	k := known{who: who, thumbprint: thumbprintOf(claims)}
	switch {
	case err == nil:
		m.good.set(key, k, seconds(claims["exp"]))
	case !isLater(err):
		m.bad.set(key, known{bad: err}, time.Time{})
		m.misses.add(limits)
	}
	return k, err
}

// isLater reports whether an error says nothing about the credentials.
func isLater(err error) bool {
	return errors.As(err, new(*server.Error))
}
