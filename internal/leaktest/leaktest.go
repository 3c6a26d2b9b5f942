// Package leaktest fails a test run that leaves goroutines behind: [Main].
package leaktest

import (
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end after the tests. goleak itself waits for less
// than half a second; on a machine with much to do, connections are let go later.
const patience = 10 * time.Second

// Main runs the tests of a package, and fails if they leave goroutines behind other than those that
// are ignored. It does not return.
func Main(m goleak.TestingM, ignored ...goleak.Option) {
	goleak.VerifyTestMain(settling{m, patience, ignored}, ignored...)
}

// settling are tests after which is waited until their goroutines have ended, if they do.
type settling struct {
	goleak.TestingM
	patience time.Duration
	ignored  []goleak.Option
}

// Run implements [goleak.TestingM].
func (s settling) Run() int {
	code := s.TestingM.Run()
	for end := time.Now().Add(s.patience); code == 0 && time.Now().Before(end) && goleak.Find(s.ignored...) != nil; {
		// Find takes a moment to say so.
	}
	return code
}
