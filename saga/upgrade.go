package saga

import (
	"fmt"
	"reflect"
)

// Upgrade turns an encoded state of an older revision, and its secrets, into the
// present one. Make it with [From].
type Upgrade[State any] func(e Encoding, encoded, secrets []byte) (State, error)

// From returns an upgrade from the type that the state had in an older revision:
//
//	Upgrades: map[uint32]saga.Upgrade[state]{
//		1: saga.From(func(old stateV1) (state, error) { return state{Target: old.Where}, nil }),
//	}
//
// Keep the old type in the code for as long as sagas of that revision may be
// under way: the tool's MaxAge, or the time a token lives if it has none. A [Secret]
// of the old type whose field has the same name in the new one, and is empty after the
// upgrade, is kept; every other is for the upgrade to hand on.
func From[Old, State any](upgrade func(Old) (State, error)) Upgrade[State] {
	return func(e Encoding, encoded, secrets []byte) (State, error) {
		var old Old
		if len(encoded) > 0 {
			if err := e.Unmarshal(encoded, &old); err != nil {
				var none State
				return none, fmt.Errorf("it is not of the type %T: %w", old, err)
			}
		}
		if fields, err := findSecrets(reflect.TypeFor[Old](), "the old state"); err == nil {
			_ = scatter(fields, reflect.ValueOf(&old).Elem(), secrets) // those of which the type knows
		}
		return upgrade(old)
	}
}
