package turns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What every dialect writes is the same from the record as it was at first.
func TestResponsesAreRecordedExactly(t *testing.T) {
	half := 0.5
	for _, end := range []End{
		{Outcome: engine.Outcome{Result: &content.Result{}}},
		{Outcome: engine.Outcome{Result: &content.Result{IsError: true, Content: content.Blocks{
			content.Text{Text: "a\xffb <&> \u2028", Annotations: &content.Annotations{Priority: &half}, Meta: json.RawMessage(`{ "a" : 1.50 }`)},
			content.Image{Data: []byte{1, 2}, MIMEType: "image/png"}, content.Audio{Data: []byte{}, MIMEType: "audio/wav"},
			content.Resource{URI: "x:y", Blob: []byte{}}, content.Resource{URI: "x:y", Text: ""}, content.ResourceLink{URI: "x:y", Name: "n"},
			content.Unknown{Raw: json.RawMessage(`{"type":"later", "n": 12345678901234567890}`)},
		}}}},
		{Outcome: engine.Outcome{Disclosed: true, Result: &content.Result{StructuredContent: json.RawMessage(` {"b": 1e2, "a": [ 9007199254740993 ]}`), Meta: map[string]any{
			"z": 1, "a": "x", "m": map[string]any{"k": 1.5}, engine.UndoMetaKey: &engine.UndoReport{Undone: []string{"a"}, Outstanding: []string{}, SagaToken: "t"},
		}}}},
		{Outcome: engine.Outcome{Result: &content.Result{StructuredContent: json.RawMessage(`null`), Meta: map[string]any{}}}, Gone: tokens.ReasonExpired},
		{Outcome: engine.Outcome{Messages: &engine.Messages{Description: "d", Messages: []content.Message{{Role: content.User, Content: content.Text{Text: "hi"}}}}}},
		{Outcome: engine.Outcome{Messages: &engine.Messages{}}},
		{Outcome: engine.Outcome{Contents: []content.ResourceContents{{URI: "a:b", Text: "t"}, {URI: "a:b", MIMEType: "m", Blob: []byte{}}, {Text: "\xff"}}}},
		{Outcome: engine.Outcome{Contents: []content.ResourceContents{}}},
		{Outcome: engine.Outcome{Reworded: []string{"a"}, Steps: []steps.Step{{ID: "s~2", Kind: steps.Sampling, Params: json.RawMessage(`{"a":1.0}`), Needs: steps.Features{Sampling: true}}}}},
	} {
		raw, err := encodeResponse(&end, nil)
		require.NoError(t, err)
		again, failure, err := decodeResponse(raw)
		require.NoError(t, err)
		require.NoError(t, failure)
		second, err := encodeResponse(&again, nil)
		require.NoError(t, err)
		assert.Equal(t, string(raw), string(second))
		assert.True(t, again.recorded)
		assert.Equal(t, end.Gone, again.Gone)
		assert.Equal(t, end.Steps, again.Steps)
		assert.Equal(t, undoReport(end.Result), undoReport(again.Result))
		assert.Equal(t, end.Contents == nil, again.Contents == nil)
		for i, c := range again.Contents {
			assert.Equal(t, end.Contents[i].Blob == nil, c.Blob == nil)
		}
	}
}

// A prompt or a resource has no results that say that they failed: how it failed is recorded.
func TestFailuresAreRecorded(t *testing.T) {
	runs := 0
	fail := map[string]error{
		"told":      saga.Failf("no room"),
		"hidden":    errors.New("secret"),
		"not found": fmt.Errorf("%w here", saga.ErrNotFound),
		"declined":  nil,
	}
	ask := &steps.Form[tripForm]{ID: "where", Message: "There?"}
	type args struct {
		How string `json:"how"`
	}
	prompt := saga.Prompt[args, struct{}]{Machine: saga.Machine[args, struct{}]{
		Info:  saga.Info{Name: "p", Asks: []steps.Question{ask}, SingleUse: saga.SingleUseRequired},
		Start: func(t *saga.Turn[args, struct{}]) (saga.Next, error) { return t.Ask("end", ask) },
		Steps: saga.Steps[args, struct{}]{"end": func(t *saga.Turn[args, struct{}]) (saga.Next, error) {
			if _, err := ask.Answer(t); err != nil {
				return nil, err
			}
			runs++
			return nil, fail[t.Args.How]
		}},
	}}
	s := newShared(t, prompt)
	var reasons []string
	a := s.replica(func(c *Config) {
		c.Hook = func(ctx context.Context, turn *Turn, next func(context.Context) error) error {
			err := next(ctx)
			reasons = append(reasons, turn.Outcome+" "+turn.Reason)
			return err
		}
	})
	for how := range fail {
		first, err := a.call(fmt.Sprintf(`{"how":%q}`, how), func(q *Request) { q.Program = a.Registry.Find(engine.KindPrompt, "p") })
		require.NoError(t, err)
		answer := say("where", true)
		if how == "declined" {
			answer.Result = []byte(`{"action":"decline"}`)
		}
		_, once := a.resume(first.Token, answer)
		require.Error(t, once)
		_, again := a.resume(first.Token, answer)
		require.Error(t, again)
		var was, is *engine.ToolError
		if errors.As(once, &was) {
			require.ErrorAs(t, again, &is)
			assert.Equal(t, was.Text, is.Text)
			assert.Equal(t, was.Disclosed, is.Disclosed)
		} else {
			assert.ErrorIs(t, once, saga.ErrNotFound)
			assert.ErrorIs(t, again, saga.ErrNotFound)
		}
		assert.Contains(t, reasons[len(reasons)-1], " recorded")
		assert.NotContains(t, reasons[len(reasons)-2], " recorded")
		_, err = a.resume(first.Token, say("where", false))
		spent(t, err)
		end, err := a.cancel(first.Token)
		require.NoError(t, err)
		assert.Contains(t, end.Result.Content.Text(), "the prompt has ended")
	}
	assert.Equal(t, 3, runs)
}

// Who drives a saga within one request writes no more than it takes to undo it if the process
// dies, and leaves nothing behind.
func TestHeldSagas(t *testing.T) {
	client := func(ctx context.Context, list []steps.Step) ([]steps.Answer, error) {
		return []steps.Answer{say(list[0].ID, true)}, nil
	}
	count := func(l *line, op string) (n int) {
		for _, o := range l.ops {
			if o == op {
				n++
			}
		}
		return n
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a, b := s.replica(), s.replica()
		q := Request{Policy: Held, Principal: "ann", Client: steps.AllFeatures(), Program: a.Registry.Find(engine.KindTool, "trip"), Arguments: json.RawMessage(`{"to":"Rome"}`)}
		out, err := a.Drive(a.context(), q, asked(client))
		require.NoError(t, err)
		assert.Equal(t, "booked", out.Result.Content.Text())
		assert.Equal(t, 4, count(a.line, "swap"), "claims and ends of the two turns that act")
		assert.Zero(t, count(a.line, "load"), "it knows what it has written itself")
		time.Sleep(time.Hour)
		n, err := s.store.Forget(t.Context(), 10)
		require.NoError(t, err)
		assert.Equal(t, 1, n)

		// A client that is gone: undone at once.
		gone := func(_ context.Context, list []steps.Step) ([]steps.Answer, error) {
			if list[0].ID == "pay" {
				return nil, ErrGone
			}
			return []steps.Answer{say(list[0].ID, true)}, nil
		}
		w.done = map[saga.Key]string{}
		_, err = a.Drive(a.context(), q, asked(gone))
		require.ErrorIs(t, err, ErrGone)
		assert.Empty(t, w.things())

		// A process that dies: undone by another.
		dies := func(_ context.Context, list []steps.Step) ([]steps.Answer, error) {
			if list[0].ID == "pay" {
				a.line.die()
			}
			return []steps.Answer{say(list[0].ID, true)}, nil
		}
		_, err = a.Drive(a.context(), q, asked(dies))
		require.Error(t, err)
		assert.Len(t, w.things(), 1)
		b.work(t)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		assert.Empty(t, w.things())
	})
}

// A call with a key that was driven within a request is driven once.
func TestHeldCallsWithAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a, b := s.replica(), s.replica()
		q := Request{Policy: Held, Principal: "ann", Client: steps.AllFeatures(), Program: a.Registry.Find(engine.KindTool, "trip"), Arguments: json.RawMessage(`{"to":"Rome"}`), IdempotencyKey: "k"}
		asks := 0
		client := func(ctx context.Context, list []steps.Step) ([]steps.Answer, error) {
			asks++
			time.Sleep(10 * time.Second)
			return []steps.Answer{say(list[0].ID, true)}, ctx.Err()
		}
		var all sync.WaitGroup
		for _, r := range []*replica{a, b} {
			all.Go(func() {
				out, err := r.Drive(r.context(), q, asked(client))
				if assert.NoError(t, err) {
					assert.Equal(t, "booked", out.Result.Content.Text())
				}
			})
			time.Sleep(time.Second)
		}
		all.Wait()
		assert.Equal(t, 2, asks)
		assert.Len(t, w.calls, 2)

		// One that broke off can be tried again.
		q.IdempotencyKey = "l"
		gone := func(_ context.Context, list []steps.Step) ([]steps.Answer, error) {
			if list[0].ID == "pay" {
				return nil, ErrGone
			}
			return []steps.Answer{say(list[0].ID, true)}, nil
		}
		_, err := a.Drive(a.context(), q, asked(gone))
		require.ErrorIs(t, err, ErrGone)
		out, err := b.Drive(b.context(), q, asked(client))
		require.NoError(t, err)
		assert.Equal(t, "booked", out.Result.Content.Text())
		assert.Len(t, w.things(), 4)
	})
}

// A turn that breaks off can be taken again at once, with the same answers.
func TestBrokenTurnsWithALedger(t *testing.T) {
	w := newWorld()
	s := newShared(t, w.trip(nil))
	a := s.replica()
	first, err := a.call(`{"to":"Rome"}`)
	require.NoError(t, err)
	w.at = func(_ context.Context, _ string, after bool) error {
		if after {
			panic("oops")
		}
		return nil
	}
	_, err = a.resume(first.Token, say("where", true))
	require.ErrorAs(t, err, new(*engine.PanicError))
	w.at = nil
	_, err = a.resume(first.Token, say("where", false))
	spent(t, err)
	begun := time.Now()
	_, err = a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	assert.Less(t, time.Since(begun), leaseTime/2)
	assert.Len(t, w.things(), 1)

	// A first turn that nobody can take again is undone.
	w.at = func(_ context.Context, _ string, after bool) error {
		if after {
			panic("oops")
		}
		return nil
	}
	_, err = a.call(`{"to":"Oslo","early":true}`)
	require.Error(t, err)
	assert.Len(t, w.things(), 1)
}

// Clocks that differ cost time, never a second effect or answer.
func TestClocksThatDiffer(t *testing.T) {
	for _, off := range []time.Duration{-40 * time.Second, 40 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			s := newShared(t, w.trip(nil))
			a := s.replica()
			b := s.replica(func(c *Config) { c.Now = func() time.Time { return time.Now().Add(off) } })
			a.work(t)
			b.work(t)
			first, err := a.call(`{"to":"Rome"}`)
			require.NoError(t, err)
			w.at = func(context.Context, string, bool) error { time.Sleep(8 * time.Second); return nil }
			var all sync.WaitGroup
			answers := make([]string, 10)
			for i := range answers {
				all.Go(func() {
					for range 10 { // as a client does
						end, err := []*replica{a, b}[i%2].resume(first.Token, say("where", true))
						if err == nil {
							answers[i] = told(t, end)
							return
						}
						require.NotErrorIs(t, err, tokens.ErrRejected)
					}
				})
			}
			all.Wait()
			require.NotEmpty(t, answers[0])
			assert.Len(t, slices.Compact(answers), 1)
			assert.Len(t, w.things(), 1)
			time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Minute)
			assert.Empty(t, w.things())
		})
	}
}

// Records survive the stages of a rotation.
func TestRotationWithALedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a := s.replica()
		old := s.keys.Primary().ID
		call := func() End {
			end, err := a.call(`{"to":"Rome","early":true}`, func(q *Request) { q.IdempotencyKey = "k" })
			require.NoError(t, err)
			return end
		}
		first := call()
		keys, id, err := s.keys.Add(codec.XAES256GCM)
		require.NoError(t, err)
		for _, change := range []func() (*codec.Keyset, error){
			func() (*codec.Keyset, error) { return keys, nil },
			func() (*codec.Keyset, error) { return keys.Promote(id) },
		} {
			keys, err = change()
			require.NoError(t, err)
			s.keys = keys
			a.Codec.SetKeyset(keys)
			a = s.replica()
			assert.Equal(t, told(t, first), told(t, call()))
		}
		second, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		keys, err = keys.Disable(old)
		require.NoError(t, err)
		s.keys = keys
		a = s.replica()
		a.work(t)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		assert.Empty(t, w.things(), "the queue is found that the old key has named")
		end, err := a.resume(second.Token, say("pay", true))
		require.NoError(t, err)
		assert.Equal(t, tokens.ReasonExpired, end.Gone)
	})
}

// Servers with other keys, another audience or other tools share a store and neither see nor
// disturb one another.
func TestStrangersShareAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a := s.replica()
		keyed := func(q *Request) { q.IdempotencyKey = "k" }
		first, err := a.call(`{"to":"Rome","early":true}`, keyed)
		require.NoError(t, err)
		other, err := codec.NewKeyset()
		require.NoError(t, err)
		var strangers []*replica
		for name, change := range map[string]func(*Config){
			"keys":     func(c *Config) { c.Codec, err = tokens.New(other, tokens.Options{Audience: "here"}) },
			"audience": func(c *Config) { c.Codec, err = tokens.New(s.keys, tokens.Options{Audience: "there"}) },
		} {
			b := s.replica(change)
			require.NoError(t, err)
			strangers = append(strangers, b)
			elsewhere, err := b.call(`{"to":"Oslo","early":true}`, keyed)
			require.NoError(t, err, name)
			assert.NotEqual(t, first.Token, elsewhere.Token)
			b.work(t)
			synctest.Wait()
		}
		none := newShared(t, newWorld().trip(func(i *saga.Info) { i.Name = "other" }))
		none.store, none.keys = s.store, s.keys
		none.replica().work(t)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Minute)
		assert.Equal(t, []string{"hold"}, w.things(), "theirs are undone, not this one")
		for _, b := range strangers {
			for _, op := range b.line.ops {
				assert.NotEqual(t, "list", op)
			}
		}
		a.work(t)
		time.Sleep(time.Second)
		assert.Empty(t, w.things())
	})
}

// Who reads the store learns nothing, and who changes it gains nothing.
func TestRecordsTellNothing(t *testing.T) {
	w := newWorld()
	s := newShared(t, w.trip(nil))
	a := s.replica()
	seen := &seeing{Store: s.store}
	a.line.Store = seen
	secret := "unmistakable-4711"
	first, err := a.call(fmt.Sprintf(`{"to":%q,"early":true}`, secret), func(q *Request) { q.IdempotencyKey = secret })
	require.NoError(t, err)
	second, err := a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(seen.all), 4)
	for _, r := range seen.all {
		for _, text := range []string{r.Key, r.Queue, r.Owner, string(r.Body)} {
			for _, word := range []string{secret, "trip", "ann", "here", "hold", "where", first.Token, second.Token} {
				assert.NotContains(t, text, word)
			}
		}
		assert.LessOrEqual(t, len(r.Key), ledger.MaxName)
	}
	// A body that is moved to another record does not open.
	a.line.Store = s.store
	last := seen.all[len(seen.all)-1]
	third, err := a.call(`{"to":"Oslo","early":true}`)
	require.NoError(t, err)
	x, err := a.Codec.Open(tokens.Binding{Purpose: "saga", Principal: "ann"}, time.Now(), third.Token)
	require.NoError(t, err)
	e, err := a.records.Saga(t.Context(), "ann", x.Claims.ID)
	require.NoError(t, err)
	moved := last
	moved.Key = e.Key()
	r, err := s.store.Load(t.Context(), moved.Key)
	require.NoError(t, err)
	moved.Rev = r.Rev
	require.NoError(t, s.store.Swap(t.Context(), &moved))
	_, err = a.resume(third.Token, say("where", true))
	require.ErrorIs(t, err, ErrLedger)
}

// seeing remembers what is written to a store.
type seeing struct {
	ledger.Store
	all []ledger.Record
}

func (s *seeing) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	kept := *r
	kept.Body = slices.Clone(r.Body)
	s.all = append(s.all, kept)
	return s.Store.Swap(ctx, r, items...)
}

// A principal may have so many records and no more, others as many.
func TestLimitOfRecords(t *testing.T) {
	w := newWorld()
	s := newShared(t, w.trip(nil))
	a := s.replica(func(c *Config) { c.LedgerLimit = 3 })
	for range 3 {
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
	}
	_, err := a.call(`{"to":"Rome","early":true}`)
	require.ErrorIs(t, err, ErrLedgerFull)
	assert.Len(t, w.calls, 3, "nothing is done that cannot be remembered")
	_, err = a.call(`{"to":"Rome","early":true}`, func(q *Request) { q.Principal = "bob" })
	require.NoError(t, err)
	_, err = a.call(`{"to":"Rome"}`)
	require.NoError(t, err, "which needs no record")
}

// A tool that demands it is refused by a server that cannot remember.
func TestSingleUseIsRequired(t *testing.T) {
	w := newWorld()
	s := newShared(t, w.trip(func(i *saga.Info) { i.SingleUse, i.Effects = saga.SingleUseRequired, nil }))
	tools, err := engine.NewRegistry(s.tools...)
	require.NoError(t, err)
	_, err = New(Config{Registry: tools, Now: time.Now})
	var wrong *saga.DefinitionError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "trip", wrong.Tool)

	ask := &steps.Form[tripForm]{ID: "where", Message: "There?"}
	runs := 0
	s = newShared(t, saga.Flow[struct{}, string]{Info: saga.Info{Name: "trip", Asks: []steps.Question{ask}, SingleUse: saga.SingleUseRequired}, Run: func(r *saga.Run, _ struct{}) (string, error) {
		form, err := saga.Ask(r, ask)
		runs++
		return fmt.Sprint(form.OK), err
	}})
	a := s.replica()
	first, err := a.call(`{}`)
	require.NoError(t, err)
	assert.Empty(t, a.line.ops, "a first turn that does nothing leaves no record")
	var all sync.WaitGroup
	ends := make([]string, 20)
	for i := range ends {
		all.Go(func() {
			end, err := a.resume(first.Token, say("where", i%2 == 0))
			if err == nil {
				ends[i] = end.Result.Content.Text()
			} else {
				spent(t, err)
			}
		})
	}
	all.Wait()
	slices.Sort(ends)
	assert.Equal(t, 10, strings.Count(strings.Join(ends, ","), "true")+strings.Count(strings.Join(ends, ","), "false"))
	assert.Len(t, slices.Compact(ends), 2, "one answer, and refusals")
}

// A turn that ends badly undoes what earlier ones did, so it is claimed as one that acts.
func TestUndoingTurnsAreClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a, b := s.replica(), s.replica()
		first, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		decline := steps.Answer{StepID: "where", Result: []byte(`{"action":"decline"}`)}
		b.line.before = func(_ int, op string) error {
			if op == "swap" { // while it has begun the other turn
				b.line.before = nil
				end, err := a.resume(first.Token, say("where", true))
				assert.NoError(t, err)
				assert.NotEmpty(t, end.Token)
			}
			return nil
		}
		_, err = b.resume(first.Token, decline)
		spent(t, err)
		assert.Equal(t, []string{"hold"}, w.calls)
	})
}

// A token of a saga that began without a ledger, or before it, goes on.
func TestLedgerThatComesLater(t *testing.T) {
	w := newWorld()
	s := newShared(t, w.trip(nil))
	without := s.replica(func(c *Config) { c.Ledger = nil })
	first, err := without.call(`{"to":"Rome"}`)
	require.NoError(t, err)
	second, err := without.resume(first.Token, say("where", true))
	require.NoError(t, err)
	a := s.replica()
	last, err := a.resume(second.Token, say("pay", true))
	require.NoError(t, err)
	assert.Equal(t, "booked", last.Result.Content.Text())
	_, err = a.resume(first.Token, say("where", true))
	spent(t, err)
}

var _ = records.ErrFull

// A turn that went on with answers of the server's own model is taken up where it was, with
// the same answers, or undone from there.
func TestLostTurnsWithAModel(t *testing.T) {
	for _, undo := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			var sent []string
			hold, mail := w.effect("hold"), w.effect("mail")
			do := mail.Do
			mail.Do = func(ctx context.Context, key saga.Key, in string) (string, error) {
				sent = append(sent, in)
				return do(ctx, key, in)
			}
			where := &steps.Form[tripForm]{ID: "where", Message: "There?"}
			draft := &steps.Sample{ID: "draft", Request: steps.SampleRequest{MaxTokens: 10}}
			tool := saga.Flow[tripArgs, string]{Info: saga.Info{Name: "trip", Asks: []steps.Question{where, draft}, Effects: []saga.Declared{hold, mail}}, Run: func(r *saga.Run, in tripArgs) (string, error) {
				if _, err := saga.Ask(r, where); err != nil {
					return "", err
				}
				if _, err := saga.Do(r, hold, in.To); err != nil {
					return "", err
				}
				text, err := saga.Ask(r, draft.With(steps.Promptf("write")))
				if err != nil {
					return "", err
				}
				if _, err := saga.Do(r, mail, text.Content.Text()); err != nil {
					return "", err
				}
				_, err = saga.Ask(r, where.Nth(2))
				return "done", err
			}}
			s := newShared(t, tool)
			thought := 0
			model := func(c *Config) {
				c.Model = func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error) {
					thought++
					return &steps.SampleResult{Role: content.Assistant, Model: "m", Content: content.Blocks{content.Text{Text: fmt.Sprint("text ", thought)}}}, nil
				}
			}
			a, b := s.replica(model), s.replica(model)
			bare := func(q *Request) { q.Client = steps.Features{Forms: true} }
			first, err := a.call(`{"to":"Rome"}`, bare)
			require.NoError(t, err)
			w.at = func(ctx context.Context, name string, after bool) error {
				if name == "mail" && after && ctx.Value(lineKey{}) == a.line {
					a.line.die()
				}
				return nil
			}
			q := Request{Policy: Carried, Principal: "ann", Client: steps.Features{Forms: true}, Token: first.Token, Answers: []steps.Answer{say("where", true)}}
			_, err = a.Resume(a.context(), q)
			require.Error(t, err)
			require.ElementsMatch(t, []string{"hold", "mail"}, w.things())
			if undo {
				b.work(t)
				time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
				assert.Empty(t, w.things(), "%s", s.log.String())
			} else {
				end, err := b.Resume(b.context(), q)
				require.NoError(t, err)
				require.NotEmpty(t, end.Token)
				assert.ElementsMatch(t, []string{"hold", "mail"}, w.things())
			}
			assert.Equal(t, []string{"text 1", "text 1"}, sent)
		})
	}
}
