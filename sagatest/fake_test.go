package sagatest_test

import (
	"fmt"
	"runtime"
	"testing"
)

// fakeT records what is reported, so that failing tests can be tested.
type fakeT struct {
	testing.TB
	errors, logs []string
}

func (f *fakeT) Unwrap() testing.TB        { return f.TB }
func (f *fakeT) Helper()                   {}
func (f *fakeT) Failed() bool              { return len(f.errors) > 0 }
func (f *fakeT) Errorf(s string, a ...any) { f.errors = append(f.errors, fmt.Sprintf(s, a...)) }
func (f *fakeT) Error(a ...any)            { f.errors = append(f.errors, fmt.Sprint(a...)) }
func (f *fakeT) Logf(s string, a ...any)   { f.logs = append(f.logs, fmt.Sprintf(s, a...)) }
func (f *fakeT) Fatalf(s string, a ...any) {
	f.Errorf(s, a...)
	f.FailNow()
}
func (f *fakeT) FailNow() { runtime.Goexit() }

// reported runs a test and returns what it recorded.
func reported(t testing.TB, test func(t testing.TB)) *fakeT {
	f := &fakeT{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(f)
	}()
	<-done
	return f
}
