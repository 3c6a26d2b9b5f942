package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Whatever is asked of it in whatever order, a store does the same as one in memory. Leases and times
// are either far away or long over.
func testModel(t *testing.T, r rig) {
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		audience := fmt.Sprintf("audience %d", n)
		model := store.NewMemory(nil)
		defer model.Close()
		ids, requests := make([]store.ID, 4), make([]store.ID, 3)
		for i := range ids {
			ids[i] = newID()
		}
		for i := range requests[1:] {
			requests[i+1] = newID()
		}
		id := rapid.SampledFrom(ids)
		at := rapid.SampledFrom([]time.Time{{}, time.Unix(1e9, 0), time.Unix(2e9, 0), time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)})
		// agree compares what became of the same call.
		agree := func(what string, got, want error) bool {
			for _, e := range []error{store.ErrNotFound, store.ErrConflict, store.ErrFull, nil} {
				if errors.Is(want, e) || want == e {
					if !errors.Is(got, e) {
						rt.Fatalf("%s: got %v, want %v", what, got, want)
					}
					return want == nil
				}
			}
			rt.Fatalf("%s: the model fails: %v", what, want)
			return false
		}
		shown := func(rec *store.Record) string {
			unread := ""
			for _, i := range rec.Unread {
				unread += fmt.Sprintf(" %d=%s", i.N, i.Body)
			}
			return fmt.Sprintf("%v %q %v %v %s %d %d %s %s %v wake %d keep %d %q %q fence %d head %d floor %d held %t tries %d unread%s", rec.ID, rec.Audience, rec.Owner, rec.Account,
				rec.Tool, rec.Revision, rec.Format, rec.Mode, rec.Status, rec.Request, coarse(rec.Wake), coarse(rec.Keep), rec.Summary, rec.State, rec.Fence, rec.Head, rec.Floor, !rec.Until.IsZero(), rec.Tries, unread)
		}
		draw := func(c *rapid.T) (*store.Record, store.Change) {
			rec := &store.Record{
				ID: id.Draw(c, "id"), Audience: audience, Owner: store.ID{rapid.Byte().Draw(c, "owner") % 2}, Account: store.ID{1},
				Tool: rapid.SampledFrom([]string{"t", "u"}).Draw(c, "tool"), Revision: rapid.Uint32Range(1, 3).Draw(c, "revision"), Mode: rapid.SampledFrom([]store.Mode{store.ModeTask, store.ModeTask, store.ModeClient}).Draw(c, "mode"),
				Status:  rapid.SampledFrom([]store.Status{store.Working, store.Waiting, store.Undoing, store.Outstanding, store.Ended}).Draw(c, "status"),
				Request: rapid.SampledFrom(requests).Draw(c, "request"), Wake: at.Draw(c, "wake"), Keep: at.Draw(c, "keep"),
				State: []byte(rapid.StringN(0, 3, 9).Draw(c, "state")),
			}
			change := store.Change{Lease: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(c, "lease"), Most: rapid.IntRange(0, 3).Draw(c, "most")}
			for range rapid.IntRange(1, 3).Draw(c, "items") {
				change.Items = append(change.Items, store.Item{Kind: "k", Lasting: rapid.Bool().Draw(c, "lasting"), Body: []byte(rapid.StringN(0, 3, 9).Draw(c, "body"))})
			}
			return rec, change
		}
		write := func(rec *store.Record, change store.Change) {
			same := *rec
			want := model.Write(t.Context(), &same, change)
			if agree("write", r.Write(t.Context(), rec, change), want) && rec.Head != same.Head {
				rt.Fatalf("write: head %d, want %d", rec.Head, same.Head)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(c *rapid.T) { write(draw(c)) },
			"replace": func(c *rapid.T) {
				rec, change := draw(c)
				if found, err := model.Load(t.Context(), rec.ID); err == nil {
					rec.Head = found.Head + rapid.SampledFrom([]uint64{0, 0, 0, 1}).Draw(c, "head")
					rec.Fence = found.Fence + rapid.Uint64Range(0, 2).Draw(c, "fence")
					rec.Floor = rapid.Uint64Range(0, found.Head+2).Draw(c, "floor")
					write(rec, change)
				}
			},
			"signal": func(c *rapid.T) {
				i, head := id.Draw(c, "id"), uint64(0)
				if found, err := model.Load(t.Context(), i); err == nil {
					head = found.Head + rapid.SampledFrom([]uint64{0, 0, 1}).Draw(c, "head")
				}
				agree("signal", r.Signal(t.Context(), i, head, items("s")...), model.Signal(t.Context(), i, head, items("s")...))
			},
			"take": func(c *rapid.T) {
				take := store.Take{Audience: audience, Tools: []store.Tool{{Name: "t", Revision: rapid.Uint32Range(0, 3).Draw(c, "revision")}, {Name: "u", Revision: 2}}, Limit: 10, Lease: time.Hour}
				want, _, err := model.Take(t.Context(), take)
				require.NoError(t, err)
				got, _, err := r.Take(t.Context(), take)
				require.NoError(t, err)
				seen := map[string]bool{}
				for _, rec := range want {
					seen[shown(rec)] = true
				}
				for _, rec := range got {
					if !seen[shown(rec)] {
						rt.Fatalf("take: %s is not in %v", shown(rec), seen)
					}
				}
				if len(got) != len(want) {
					rt.Fatalf("take: %d records, want %d", len(got), len(want))
				}
			},
			"renew": func(c *rapid.T) {
				held := []store.Held{{ID: id.Draw(c, "id"), Fence: rapid.Uint64Range(0, 3).Draw(c, "fence")}}
				want, err := model.Renew(t.Context(), held, time.Hour)
				require.NoError(t, err)
				got, err := r.Renew(t.Context(), held, time.Hour)
				require.NoError(t, err)
				if len(got) != len(want) {
					rt.Fatalf("renew: lost %v, want %v", got, want)
				}
			},
			"": func(*rapid.T) {
				for _, i := range ids {
					want, werr := model.Load(t.Context(), i)
					got, gerr := r.Load(t.Context(), i)
					if !agree("load", gerr, werr) {
						continue
					}
					if shown(got) != shown(want) {
						rt.Fatalf("load: got  %s\nwant %s", shown(got), shown(want))
					}
					wl, err := model.Log(t.Context(), i, 0, 1000)
					require.NoError(t, err)
					gl, err := r.Log(t.Context(), i, 0, 1000)
					require.NoError(t, err)
					if listed(gl) != listed(wl) {
						rt.Fatalf("log: got  %s\nwant %s", listed(gl), listed(wl))
					}
				}
				for _, request := range requests {
					_, werr := model.Find(t.Context(), request)
					_, gerr := r.Find(t.Context(), request)
					agree("find", gerr, werr)
				}
			},
		})
	})
}

// coarse is a time as models compare it: those of signals are of the moment.
func coarse(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix() / 1e6
}

func listed(l *store.Log) string {
	s := fmt.Sprintf("head %d floor %d:", l.Head, l.Floor)
	for _, i := range l.Items {
		s += fmt.Sprintf(" %d %t %q", i.N, i.Lasting, i.Body)
	}
	return s
}
