package codec_test

import (
	"fmt"

	"github.com/mcpsaga/mcpsaga/codec"
)

// Each stage goes to every replica before the next begins. A file is changed by
// [codec.KeysetFile.Update] in the same way.
func ExampleKeyset_rotation() {
	keys, err := codec.NewKeyset()
	if err != nil {
		fmt.Println(err)
		return
	}
	old := keys.Primary().ID
	token, err := keys.Encrypt([]byte("sealed with the old key"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	show := func(stage string) {
		if _, err := keys.Decrypt(token, nil); err != nil {
			fmt.Println(stage, "-> refused")
			return
		}
		fmt.Println(stage, "-> opens")
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
	// add -> opens
	// promote -> opens
	// disable -> refused
	// destroy -> refused
	// true
}
