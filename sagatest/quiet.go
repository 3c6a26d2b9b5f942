package sagatest

import "testing"

// quiet returns a testing.TB for runs that only find something out: what they would
// report, a scenario of its own does.
func (s *sweep) quiet() testing.TB { return quietTB{s.t} }

// quietTB drops errors. Its other methods are those of the test, so that what New
// sets up is cleaned up when the test ends.
type quietTB struct{ testing.TB }

func (q quietTB) Error(...any)          {}
func (q quietTB) Errorf(string, ...any) {}
func (q quietTB) Log(...any)            {}
func (q quietTB) Logf(string, ...any)   {}
