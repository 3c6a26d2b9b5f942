package records

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

func TestNamesOfTasksWhoseIDsBeginAlikeAreCloseTogether(t *testing.T) {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	book := New(nil, func() *codec.Keyset { return keys }, "test", 0)
	name := func(principal, id string) string {
		list, err := book.taskNames(principal, id)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Len(t, list[0], 43)
		return list[0]
	}
	const one, same, other = "12345aaaaaaaaaaaaaaaaa", "12345bbbbbbbbbbbbbbbbb", "12346aaaaaaaaaaaaaaaaa"
	assert.Equal(t, name("a", one)[:nameHead], name("a", same)[:nameHead])
	assert.Equal(t, name("a", one)[:nameHead], name("b", one)[:nameHead], "whosever they are")
	assert.NotEqual(t, name("a", one)[:nameHead], name("a", other)[:nameHead])
	assert.NotEqual(t, name("a", one)[nameHead:], name("a", same)[nameHead:])
	assert.NotEqual(t, name("a", one)[nameHead:], name("b", one)[nameHead:])
	assert.NotContains(t, name("a", one), one[:idHead], "what a client has chosen is not told")
	assert.Equal(t, name("a", "x"), name("a", "x"), "a short one")
}
