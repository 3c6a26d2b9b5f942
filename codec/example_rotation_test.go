package codec_test

import (
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
)

// Each stage goes to every replica before the next begins; here there is one
// replica, and [codec.Codec.SetKeyset] brings it the news.
func ExampleKeyset_rotation() {
	keys, err := codec.NewKeyset()
	if err != nil {
		fmt.Println(err)
		return
	}
	old := keys.Primary().ID
	c, err := codec.New(keys, codec.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	token, err := c.Seal(codec.Binding{}, now, &codec.Contents{State: []byte("sealed with the old key")})
	if err != nil {
		fmt.Println(err)
		return
	}
	show := func(stage string) {
		c.SetKeyset(keys)
		x, err := c.Open(codec.Binding{}, now, token)
		if err != nil {
			fmt.Println(stage, "->", err)
			return
		}
		fmt.Println(stage, "->", string(x.State))
	}

	var added uint32
	if keys, added, err = keys.Add(codec.XAES256GCM); err == nil {
		show("add")
	}
	if keys, err = keys.Promote(added); err == nil {
		show("promote")
	}
	// One TTL later.
	if keys, err = keys.Disable(old); err == nil {
		show("disable")
	}
	if keys, err = keys.Destroy(old); err == nil {
		show("destroy")
	}
	_, err = keys.Destroy(added)
	fmt.Println(err != nil)
	// Output:
	// add -> sealed with the old key
	// promote -> sealed with the old key
	// disable -> token not accepted
	// destroy -> token not accepted
	// true
}
