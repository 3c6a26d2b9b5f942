package saga_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
)

type unexported struct {
	user string
	pass saga.Secret
}

// Package fmt calls no methods of fields that are not exported.
func TestSecretInAnUnexportedFieldDoesNotPrint(t *testing.T) {
	in := unexported{"ann", saga.NewSecret("hunter-2")}
	values := []any{in, &in, []unexported{in}, []*unexported{&in}, map[unexported]unexported{in: in}, struct{ any any }{in}, struct{ any any }{in.pass}, struct{ p *saga.Secret }{&in.pass}}
	for verb := ' '; verb <= '~'; verb++ {
		for _, flags := range []string{"", "+", "#", " ", "0", "-", "# ", "+#"} {
			for _, v := range values {
				shown := fmt.Sprintf("%"+flags+string(verb), v)
				for _, value := range []string{"hunter-2", "HUNTER-2", "68756e7465722d32", "68 75 6e 74", "104 117 110", "GVudGVyLTI"} {
					assert.NotContains(t, strings.ToLower(shown), strings.ToLower(value), "%%%s%c of %T", flags, verb, v)
				}
			}
		}
	}
}

func TestSecretsAmongArgumentsAreRefused(t *testing.T) {
	type args struct {
		In struct{ Password saga.Secret } `json:"in"`
	}
	_, flow := saga.Flow[args, string]{Info: saga.Info{Name: "f"}, Run: func(*saga.Run, args) (string, error) { return "", nil }}.Compile()
	_, machine := saga.Machine[args, empty]{Info: saga.Info{Name: "m"}, Start: func(t *saga.Turn[args, empty]) (saga.Next, error) { return t.Textf("") }}.Compile()
	for _, err := range []error{flow, machine} {
		assert.ErrorContains(t, err, "its arguments have a Secret, which takes nothing of what a client sends: give the field the type string")
	}
}

func TestSecretsCompareByValue(t *testing.T) {
	a, same, other := saga.NewSecret("hunter-2"), saga.NewSecret(string([]byte("hunter-2"))), saga.NewSecret("hunter-3")
	assert.True(t, a == same)
	assert.False(t, a == other)
	assert.True(t, reflect.DeepEqual(unexported{"ann", a}, unexported{"ann", same}))
	assert.False(t, reflect.DeepEqual(unexported{"ann", a}, unexported{"ann", other}))
	assert.Equal(t, "hunter-2", same.Reveal())

	none := saga.Secret{}
	assert.True(t, none == saga.NewSecret(""))
	assert.True(t, none.IsZero())
	assert.False(t, a.IsZero())
	assert.Empty(t, none.Reveal())
	assert.True(t, reflect.ValueOf(saga.NewSecret("")).IsZero())
}
