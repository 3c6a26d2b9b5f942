package tokens_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

func Example() {
	keys, err := codec.NewKeyset() // a server loads one: codec.LoadKeyset("keyset.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := tokens.New(keys, tokens.Options{Audience: "https://tools.example.com"})
	if err != nil {
		fmt.Println(err)
		return
	}
	type booking struct {
		Hotel  string
		Nights int
	}
	state, err := json.Marshal(booking{"Seven Stars", 3})
	if err != nil {
		fmt.Println(err)
		return
	}

	caller := tokens.Binding{Purpose: "saga", Principal: "alice"}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	token, err := c.Seal(caller, now, &tokens.Contents{
		Claims: tokens.Claims{ID: tokens.ID{1, 2, 3}, Turn: 1, Tool: "book", Revision: 2},
		State:  state,
		Secret: []byte("the hotel's API session"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// Five minutes later, on any replica.
	x, err := c.Open(caller, now.Add(5*time.Minute), token)
	if err != nil {
		fmt.Println(err)
		return
	}
	var b booking
	err = json.Unmarshal(x.State, &b)
	fmt.Println(x.Claims.Tool, x.Claims.ExpiresAt.Format(time.TimeOnly), b, err)

	// Somebody else's token, or a late one: the client sees no difference.
	_, stolen := c.Open(tokens.Binding{Purpose: "saga", Principal: "mallory"}, now, token)
	_, late := c.Open(caller, now.Add(time.Hour), token)
	fmt.Println(stolen, "|", late)
	var rejected *tokens.Rejected
	if errors.As(late, &rejected) {
		fmt.Println("for the log:", rejected.Reason)
	}
	// Output:
	// book 12:10:00 {Seven Stars 3} <nil>
	// token not accepted | token not accepted
	// for the log: expired
}
