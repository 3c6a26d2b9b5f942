package saga

import "fmt"

// Upgrade turns an encoded state of an older revision into the present one. Make
// it with [From].
type Upgrade[State any] func(e Encoding, encoded []byte) (State, error)

// From returns an upgrade from the type that the state had in an older revision:
//
//	Upgrades: map[uint32]saga.Upgrade[state]{
//		1: saga.From(func(old stateV1) (state, error) { return state{Target: old.Where}, nil }),
//	}
//
// Keep the old type in the code for as long as sagas of that revision may be
// under way: the tool's MaxAge, or the time a token lives if it has none.
func From[Old, State any](upgrade func(Old) (State, error)) Upgrade[State] {
	return func(e Encoding, encoded []byte) (State, error) {
		var old Old
		if len(encoded) > 0 {
			if err := e.Unmarshal(encoded, &old); err != nil {
				var none State
				return none, fmt.Errorf("it is not of the type %T: %w", old, err)
			}
		}
		return upgrade(old)
	}
}
