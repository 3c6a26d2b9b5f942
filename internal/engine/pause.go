package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
)

// checkYield reports whether blocks are a part of a result.
func (t *Program) checkYield(blocks content.Blocks) error {
	if !t.Yields {
		return errors.New("Yield: the tool does not say that it yields; set Yields in its Info")
	}
	if len(blocks) == 0 {
		return errors.New("Yield: no block was given")
	}
	for i, b := range blocks {
		if b == nil {
			return fmt.Errorf("Yield: block %d is nil", i)
		}
	}
	if _, err := blocks.AppendJSON(nil); err != nil {
		return fmt.Errorf("Yield: %w", err)
	}
	return nil
}

// Yield ends a machine's turn with a part of the result; next continues.
func (tc *Turn) Yield(next string, blocks content.Blocks) (*Asked, error) {
	if !tc.Has(next) {
		return nil, fmt.Errorf("Yield: there is no step function %q; the tool's Steps must have it", next)
	}
	if tc.over.Load() {
		return nil, errOver
	}
	if err := tc.program.checkYield(blocks); err != nil {
		return nil, err
	}
	return &Asked{Next: next, Yielded: blocks}, nil
}

// Until ends a machine's turn until at; next continues. It returns nil if that is over, so that
// the machine continues at once. call is what its author called.
func (tc *Turn) Until(call string, at time.Time, next string) (*Asked, error) {
	if !tc.Has(next) {
		return nil, fmt.Errorf("%s: there is no step function %q; the tool's Steps must have it", call, next)
	}
	switch {
	case tc.over.Load():
		return nil, errOver
	case !tc.Now.Before(at):
		return nil, nil
	}
	return &Asked{Next: next, Wake: at.Round(0).UTC()}, nil
}
