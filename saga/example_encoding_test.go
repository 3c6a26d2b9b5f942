package saga_test

import (
	"encoding/binary"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// fixed encodes structs of numbers of fixed size, each in as many bytes as its
// type has.
type fixed struct{}

// Marshal implements saga.Encoding.
func (fixed) Marshal(v any) ([]byte, error) { return binary.Append(nil, binary.BigEndian, v) }

// Unmarshal implements saga.Encoding.
func (fixed) Unmarshal(data []byte, v any) error {
	_, err := binary.Decode(data, binary.BigEndian, v)
	return err
}

// A state can be encoded in another way than JSON. An encoding must read what it
// wrote before, as long as there are tokens.
func ExampleEncoding() {
	type none struct{}
	type board struct {
		White, Black uint64
		Moves        uint16
	}
	type turn = saga.Turn[none, board]
	type moveForm struct {
		Move string `json:"move"`
	}
	askMove := &steps.Form[moveForm]{ID: "move", Message: "Your move?"}

	game := saga.Machine[none, board]{
		Info:     saga.Info{Name: "game", Asks: []steps.Question{askMove}},
		Encoding: fixed{},
		Start: func(t *turn) (saga.Next, error) {
			t.State = board{White: 0x1c00, Black: 0x2000, Moves: 1}
			return t.Ask("moved", askMove)
		},
		Steps: saga.Steps[none, board]{
			"moved": func(t *turn) (saga.Next, error) {
				return t.Textf("%x %x after %d move", t.State.White, t.State.Black, t.State.Moves)
			},
		},
	}
	s := begin(game, steps.AllFeatures(), `{}`)
	s.accept("move", `{"move":"e4"}`)
	// Output:
	// asked: move
	// caller: 1c00 2000 after 1 move
}
