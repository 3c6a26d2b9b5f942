package saga_test

import (
	"fmt"
	"log/slog"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Keys rotate in stages, while sagas are under way. Give every replica the result
// of one stage before you start the next.
func Example_rotation() {
	keys, err := codec.NewKeyset()
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := server.New(server.Options{Tools: []saga.Definition{Lunch}, Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	old := keys.Primary().ID
	stage := func(next *codec.Keyset, err error) {
		if err != nil {
			fmt.Println(err)
			return
		}
		keys = next
		s.SetKeys(keys)
		fmt.Println("keys:", len(keys.Keys()), "the old one seals:", keys.Primary().ID == old)
	}
	added, fresh, err := keys.Add(codec.XAES256GCM)
	stage(added, err)          // the new key opens
	stage(keys.Promote(fresh)) // the new key seals
	stage(keys.Disable(old))   // one TTL later: the old key opens no more
	stage(keys.Destroy(old))   // when nothing misses it
	// Output:
	// keys: 2 the old one seals: true
	// keys: 2 the old one seals: false
	// keys: 2 the old one seals: false
	// keys: 1 the old one seals: false
}
