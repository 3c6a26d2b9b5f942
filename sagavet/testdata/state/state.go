// Package state has states that cannot be encoded, and some that can.
package state

import (
	"io"
	"net/netip"
	"net/url"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
)

type args struct{}

type inner struct {
	Name string
	next *inner
}

type (
	unexported struct{ hidden string }
	deep       struct{ In map[string][]inner }
	channel    struct{ C chan int }
	function   struct{ F func() }
	reader     struct{ R io.Reader }
	dropped    struct {
		X string `json:"-"`
	}
	secrets struct{ S []saga.Secret }
	private struct{ s saga.Secret }
)

var _ = []saga.Definition{
	saga.Machine[args, unexported]{}, // want `the state cannot be kept between turns: field hidden of the state is not exported. Use exported fields`
	saga.Machine[args, deep]{},       // want `field next of field In of the state's element's element is not exported`
	saga.Machine[args, *channel]{},   // want `field C of the state's element is a chan`
	saga.Machine[args, function]{},   // want `field F of the state is a func`
	saga.Machine[args, reader]{},     // want `field R of the state is the interface io.Reader`
	saga.Machine[args, dropped]{},    // want `field X of the state is tagged json:"-"`
	saga.Machine[args, complex128]{}, // want `the state is a complex128`
	saga.Machine[args, secrets]{},    // want `field S of the state has a Secret that is not the field of a struct`
	saga.Machine[args, private]{},    // want `field s of the state is a Secret but not exported`
	saga.Machine[args, saga.Secret]{},
	saga.Machine[args, page]{},     // want `field hidden of field Binary of the state is not exported`
	saga.Machine[args, *url.URL]{}, // want `field username of field User of the state's element's element is not exported`
	saga.Machine[args, page]{Encoding: nil},
	saga.Machine[args, embedding]{},    // want `field count of the state is not exported`
	saga.Prompt[args, unexported]{},    // want `field hidden of the state is not exported`
	&saga.Resource[args, unexported]{}, // want `field hidden of the state is not exported`
}

var _ = []saga.Declared{
	&saga.Effect[unexported, string]{}, // want `the input of the effect cannot be kept between turns: field hidden of the input is not exported`
	&saga.Effect[string, channel]{},    // want `field C of the result is a chan`
	&saga.Effect[string, saga.Secret]{},
	&saga.Effect[good, string]{},
	&saga.Effect[string, []saga.Secret]{}, // want `the result has a Secret that is not the field of a struct`
	&saga.Effect[page, string]{},          // want `field hidden of field Binary of the input is not exported`
	&saga.Effect[string, time.Time]{},
}

// binary encodes itself in a way that JSON does not know.
type binary struct{ hidden int }

func (b binary) MarshalBinary() ([]byte, error)   { return []byte{byte(b.hidden)}, nil }
func (b *binary) UnmarshalBinary(in []byte) error { b.hidden = int(in[0]); return nil }

type page struct{ Binary binary }

type count int

type embedding struct{ count }

// good is as it should be.
type good struct {
	inside
	Names   []string
	When    time.Time
	Address netip.Addr
	Any     any
	Next    *inside
	Key     saga.Secret
	In      struct{ Key saga.Secret }
}

type inside struct{ Wait time.Duration }

var _ = saga.Machine[args, good]{}

func generic[S any]() saga.Definition { return saga.Machine[args, S]{} }

var _ = generic[struct{ Name string }]()
