package ledgertest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// probe is a test whose failure is what is wanted.
type probe struct {
	testing.TB // for what is not overridden, and must not be called

	mu       sync.Mutex
	failed   bool
	skipped  bool
	message  string // the first
	cleanups []func()
}

func (p *probe) Helper()                   {}
func (p *probe) Name() string              { return "probe" }
func (p *probe) Log(...any)                {}
func (p *probe) Logf(string, ...any)       {}
func (p *probe) Context() context.Context  { return context.Background() }
func (p *probe) Error(args ...any)         { p.Errorf("%s", fmt.Sprint(args...)) }
func (p *probe) Fatal(args ...any)         { p.Fatalf("%s", fmt.Sprint(args...)) }
func (p *probe) Skip(...any)               { p.SkipNow() }
func (p *probe) Skipf(string, ...any)      { p.SkipNow() }
func (p *probe) FailNow()                  { p.Fail(); runtime.Goexit() }
func (p *probe) Fatalf(f string, a ...any) { p.Errorf(f, a...); runtime.Goexit() }

func (p *probe) SkipNow() {
	p.mu.Lock()
	p.skipped = true
	p.mu.Unlock()
	runtime.Goexit()
}

func (p *probe) Fail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = true
}

func (p *probe) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

func (p *probe) Errorf(format string, args ...any) {
	p.Fail()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.message == "" {
		p.message = strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	}
}

func (p *probe) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

// tries runs a check on a store that may be wrong, and returns what it found. A check that
// hangs, or that panics in the store, has found something too.
func tries(c check, start func(testing.TB) Harness, late time.Duration) (found string) {
	p := &probe{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				p.Errorf("panic: %v", r)
			}
		}()
		c.run(newRig(p, start(p), late))
	}()
	<-done
	p.mu.Lock()
	cleanups := slices.Clone(p.cleanups)
	p.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		cleaned := make(chan struct{})
		go func() { // as it may end with FailNow
			defer close(cleaned)
			f()
		}()
		<-cleaned
	}
	if p.Failed() {
		return p.message
	}
	return ""
}

func TestProbe(t *testing.T) {
	healthy := func(t testing.TB) Harness { return overNetwork(t, nil, unbroken) }
	for name, run := range map[string]func(*rig){
		"Errorf": func(r *rig) { r.Errorf("wrong") }, "Fatalf": func(r *rig) { r.Fatalf("wrong") },
		"panic": func(*rig) { panic("wrong") }, "Cleanup": func(r *rig) { r.Cleanup(func() { r.Errorf("wrong") }) },
	} {
		if found := tries(check{name, run}, healthy, late); !strings.Contains(found, "wrong") {
			t.Errorf("%s was not noticed: %q", name, found)
		}
	}
	for name, run := range map[string]func(*rig){"nothing": func(*rig) {}, "Skip": func(r *rig) { r.Skip() }} {
		if found := tries(check{name, run}, healthy, late); found != "" {
			t.Errorf("%s: %q", name, found)
		}
	}
}
