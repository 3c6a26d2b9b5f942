package saga_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// gobs is an encoding that calls MarshalBinary.
type gobs struct{}

func (gobs) Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func (gobs) Unmarshal(data []byte, v any) error {
	return gob.NewDecoder(bytes.NewReader(data)).Decode(v)
}

// Types that take care of their encoding in a way that JSON does not know, or that cannot
// be read again.
type (
	onlyBinary  struct{ n int }
	onlyGob     struct{ n int }
	onlyMarshal struct{ n int }
	level       int
	namesake    int
)

func (b onlyBinary) MarshalBinary() ([]byte, error)   { return []byte{byte(b.n)}, nil }
func (b *onlyBinary) UnmarshalBinary(in []byte) error { b.n = int(in[0]); return nil }
func (b onlyGob) GobEncode() ([]byte, error)          { return []byte{byte(b.n)}, nil }
func (b *onlyGob) GobDecode(in []byte) error          { b.n = int(in[0]); return nil }
func (m onlyMarshal) MarshalText() ([]byte, error)    { return []byte{byte(m.n)}, nil }
func (level) MarshalText() ([]byte, error)            { return []byte("high"), nil }

type pointing struct{ At int }

// withEncoding builds a definition with a given state type and encoding.
func withEncoding[S any](e saga.Encoding) saga.Definition {
	m := withState[S]().(saga.Machine[empty, S])
	m.Encoding = e
	return m
}

func TestWhatAnEncodingLosesIsRefused(t *testing.T) {
	tests := map[string]saga.Definition{
		"field n of field B of the state is not exported":        withState[struct{ B onlyBinary }](),
		"the zero value of the state does not come back":         withState[struct{ L level }](),
		"the zero value of the state does not come back: broken": withEncoding[struct{ P string }](broken{}),
		"field namesake of the state is not exported":            withState[struct{ namesake }](),
		"field pointing of the state is not exported":            withState[struct{ *pointing }](),
	}
	for want, d := range tests {
		t.Run(want, func(t *testing.T) {
			_, err := d.Compile()
			var wrong *saga.DefinitionError
			require.ErrorAs(t, err, &wrong)
			assert.ErrorContains(t, err, want)
			assert.ErrorContains(t, err, "cannot be kept between turns")
		})
	}
}

// broken is an encoding that cannot do anything.
type broken struct{ names []string }

func (b broken) Marshal(any) ([]byte, error) { return nil, fmt.Errorf("broken: %v", b.names) }
func (broken) Unmarshal([]byte, any) error   { return errors.New("broken") }

func TestWhatAnEncodingKeepsIsAllowed(t *testing.T) {
	type tree struct {
		Name     string
		Children []tree
		Parent   *tree
	}
	type state struct {
		tree
		When    time.Time
		Addr    netip.Addr
		Prefix  *netip.Prefix
		Number  json.Number
		Raw     json.RawMessage
		Big     *big.Int
		Flags   [3]bool
		ByAddr  map[netip.Addr]float32
		Any     any
		Small   int8
		Key     saga.Secret
		Nothing struct{}
		Quoted  int `json:",string"`
	}
	_, err := withState[state]().Compile()
	require.NoError(t, err)
	_, err = withEncoding[state](strictJSON{}).Compile()
	require.NoError(t, err)
	_, err = withState[saga.Secret]().Compile()
	require.NoError(t, err, "a state may be one secret")
	for name, d := range map[string]saga.Definition{
		"binary": withEncoding[struct{ B onlyBinary }](gobs{}), "gob": withEncoding[struct{ B onlyGob }](gobs{}), "url": withEncoding[struct{ P *url.URL }](gobs{}),
	} {
		_, err := d.Compile()
		require.NoError(t, err, name)
	}
	_, err = withEncoding[struct{ M onlyMarshal }](gobs{}).Compile()
	require.ErrorContains(t, err, "the zero value of the state does not come back")
}

// A URL in a gob goes through a saga whole, as the encoding calls its methods.
func TestEncodingThatCallsMarshalBinary(t *testing.T) {
	type state struct{ Page *url.URL }
	page, err := url.Parse("https://ann:hunter-2@example.com/x")
	require.NoError(t, err)
	s := play(t, saga.Machine[empty, state]{
		Info: saga.Info{Name: "x", Asks: []steps.Question{askConfirm}}, Encoding: gobs{}, Start: func(t *saga.Turn[empty, state]) (saga.Next, error) {
			t.State.Page = page
			return t.Ask("end", askConfirm)
		},
		Steps: saga.Steps[empty, state]{"end": func(t *saga.Turn[empty, state]) (saga.Next, error) {
			return t.Textf("%s", t.State.Page)
		}},
	})
	s.start(`{}`)
	assert.Equal(t, page.String(), text(t, s.answer(accept("confirm", yes))))
}
