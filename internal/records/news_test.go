package records

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

func changes(uris ...string) (list []NewsItem) {
	for _, uri := range uris {
		list = append(list, NewsItem{Kind: 3, Of: uri})
	}
	return list
}

func newsName(t *testing.T, b *Book) string {
	t.Helper()
	names, err := b.NewsNames()
	require.NoError(t, err)
	return names[0]
}

func urisOf(items []NewsItem) (list []string) {
	for _, i := range items {
		list = append(list, fmt.Sprintf("%d %s %s", i.N, i.By, i.Of))
	}
	return list
}

// What several processes tell at the same time is all there, in an order that all see. What one
// repeats is there once, by its newest number; what another says besides stays.
func TestNewsAddUp(t *testing.T) {
	_, store, keys := newBook(t)
	b := New(store.Store, func() *codec.Keyset { return keys }, "here", 0)
	name := newsName(t, b)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			by := fmt.Sprint("p", n)
			_, err := b.Tell(t.Context(), name, nil, Telling{By: by, Changes: changes("x", by)})
			assert.NoError(t, err)
		})
	}
	all.Wait()
	n, err := b.Tell(t.Context(), name, nil, Telling{By: "p0", Changes: changes("x"), Sessions: []NewsItem{{Of: "s"}}})
	require.NoError(t, err)
	assert.EqualValues(t, 18, n.Last)
	items, lost := n.Changes.After(0)
	assert.False(t, lost)
	require.Len(t, items, 16)
	assert.Equal(t, NewsItem{N: 17, By: "p0", Kind: 3, Of: "x"}, items[15])
	for i := range items[1:] {
		assert.Less(t, items[i].N, items[i+1].N)
	}
	sessions, lost := n.Sessions.After(17)
	assert.False(t, lost)
	assert.Equal(t, []string{"18 p0 s"}, urisOf(sessions))
	sessions, _ = n.Sessions.After(18)
	assert.Empty(t, sessions)
	for seen, err := range b.WatchNews(t.Context(), name) {
		require.NoError(t, err)
		assert.Equal(t, n, seen)
		break
	}
}

// However much is told, and however large it is, the record stays small, and who was away for
// longer than it reaches finds out.
func TestNewsAreBounded(t *testing.T) {
	b, store, _ := newBook(t)
	name := newsName(t, b)
	told := func(known *News, t_ Telling) *News {
		n, err := b.Tell(t.Context(), name, known, t_)
		require.NoError(t, err)
		return n
	}
	var many []string
	for i := range MaxNews {
		many = append(many, fmt.Sprint(i))
	}
	n := told(nil, Telling{By: "a", Changes: changes(many...), Sessions: []NewsItem{{Of: "s"}}})
	_, lost := n.Changes.After(0)
	assert.False(t, lost)
	n = told(n, Telling{By: "b", Changes: changes("x")})
	items, lost := n.Changes.After(0)
	assert.True(t, lost)
	assert.Len(t, items, MaxNews)
	_, lost = n.Changes.After(1)
	assert.False(t, lost, "only the first was pushed out")
	_, lost = n.Sessions.After(0)
	assert.False(t, lost, "sessions have room of their own")

	n = told(n, Telling{By: "b", Changes: changes(strings.Repeat("u", MaxNewsBytes))})
	items, lost = n.Changes.After(2)
	assert.True(t, lost)
	assert.Len(t, items, 1)
	before := n.Last
	n = told(n, Telling{By: "b", Changes: changes(strings.Repeat("u", 10*MaxNewsBytes))})
	items, lost = n.Changes.After(before)
	assert.True(t, lost, "it has no room at all")
	assert.Empty(t, items)
	before = n.Last
	n = told(n, Telling{By: "b", ChangesLost: true})
	_, lost = n.Changes.After(before)
	assert.True(t, lost)
	_, lost = n.Changes.After(n.Last)
	assert.False(t, lost)
	r, err := store.Load(t.Context(), name)
	require.NoError(t, err)
	assert.Less(t, len(r.Body), 4<<10)
	assert.True(t, r.Keep.IsZero())
}

// News are for those with the keys and the audience. News that cannot be read are begun anew,
// in another epoch.
func TestNewsAreSealed(t *testing.T) {
	b, store, keys := newBook(t)
	name := newsName(t, b)
	n, err := b.Tell(t.Context(), name, nil, Telling{By: "a", Changes: changes("the-uri")})
	require.NoError(t, err)
	r, err := store.Load(t.Context(), name)
	require.NoError(t, err)
	assert.NotContains(t, string(r.Body), "the-uri")
	assert.NotEqual(t, name, newsName(t, New(store, func() *codec.Keyset { return keys }, "there", 0)))
	stranger, err := codec.NewKeyset()
	require.NoError(t, err)
	assert.NotEqual(t, name, newsName(t, New(store, func() *codec.Keyset { return stranger }, "here", 0)))

	r.Body[len(r.Body)-1] ^= 1
	require.NoError(t, store.Swap(t.Context(), r))
	for seen, err := range b.WatchNews(t.Context(), name) {
		require.NoError(t, err)
		assert.NotEqual(t, n.Epoch, seen.Epoch)
		assert.Empty(t, seen.Changes.Items)
		break
	}
	again, err := b.Tell(t.Context(), name, n, Telling{By: "a", Changes: changes("x")})
	require.NoError(t, err)
	assert.NotEqual(t, n.Epoch, again.Epoch)
	assert.Equal(t, []string{"1 a x"}, urisOf(again.Changes.Items))
}

// A position that clients see opens where it was made, and tells nothing. What they make up is
// none that there is.
func TestPositionsTellNothing(t *testing.T) {
	b, store, keys := newBook(t)
	p := Position{0x1234567812345678, 5}
	shown, err := b.ShowPosition(p)
	require.NoError(t, err)
	assert.Regexp(t, `^[A-Z2-7]{26}$`, shown)
	next, err := b.ShowPosition(Position{p.Epoch, 6})
	require.NoError(t, err)
	same := 0
	for i := range shown {
		if shown[i] == next[i] {
			same++
		}
	}
	assert.Less(t, same, 8, "numbers that follow each other do not look alike")
	replica := New(store, func() *codec.Keyset { return keys }, "here", 0)
	assert.Equal(t, p, replica.ReadPosition(shown))
	assert.NotEqual(t, p.Epoch, New(store, func() *codec.Keyset { return keys }, "there", 0).ReadPosition(shown).Epoch)
	for _, made := range []string{"", "x", shown[1:], shown + "A", strings.Repeat("!", 26), strings.Repeat("x", 1<<20)} {
		assert.Zero(t, b.ReadPosition(made))
	}
	assert.NotEqual(t, p.Epoch, b.ReadPosition(strings.Repeat("A", 26)).Epoch)
}
