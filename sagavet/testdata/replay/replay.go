// Package replay has flows that do not do the same when they run again, and some
// that do.
package replay

import (
	"context"
	crand "crypto/rand"
	"log"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type form struct {
	Sure bool `json:"sure"`
}

var (
	askSure = &steps.Form[form]{ID: "sure", Message: "Sure?"}
	note    = &saga.Effect[string, string]{Name: "note", Do: func(context.Context, saga.Key, string) (string, error) {
		return time.Now().String(), nil // an effect may
	}}
)

func clocks(r *saga.Run) error {
	now := time.Now()        // want `time.Now does not do the same when the flow runs again. Use Run.Now.`
	if time.Since(now) > 1 { // want `time.Since`
		time.Sleep(time.Second) // want `time.Sleep`
	}
	<-time.After(1) // want `time.After`
	f := time.Now   // want `time.Now`
	_ = f
	return r.AskAll(askSure)
}

func chance(r *saga.Run) error {
	if rand.IntN(6) == 0 { // want `rand.IntN does not do the same`
		return r.AskAll(askSure)
	}
	_, err := saga.Do(r, note, crand.Text()) // want `rand.Text does not do the same`
	return err
}

func today() string { return time.Now().Format(time.DateOnly) }

func day() string { return "on " + today() }

// deep comes to the clock before day does, and from further away.
func deep() string { return deeper() + deeper() }

func deeper() string { return day() }

func within(r *saga.Run) error {
	go func() { _ = time.Now() }() // want `time.Now does not do the same`
	return r.AskAll(askSure)
}

func behindFunction(r *saga.Run) error {
	_, _ = saga.Do(r, note, deep())                     // want `deep uses time.Now, which does not do the same`
	return r.AskAll(askSure.With(steps.Message(day()))) // want `day uses time.Now, which does not do the same`
}

var flow = saga.Flow[form, string]{
	Info: saga.Info{Name: "f", Asks: []steps.Question{askSure}, Effects: []saga.Declared{note}},
	Run: func(r *saga.Run, _ form) (string, error) {
		return time.Now().String(), r.AskAll(askSure) // want `time.Now`
	},
}

// What follows is as it should be.

func fromTheRun(r *saga.Run) error {
	random := rand.New(rand.NewPCG(1, 2))
	text := r.Now().Add(time.Hour).Sub(r.Now()).String() + r.NewID()
	if r.Rand().IntN(6) == random.IntN(6) {
		text += time.Unix(0, 0).String()
	}
	_, err := saga.Do(r, note, text)
	return err
}

func telling(r *saga.Run, l *slog.Logger) error {
	log.Print("at ", time.Now())
	l.Info("asking", "at", time.Now())
	r.Log(slog.LevelInfo, time.Now().String())
	return r.AskAll(askSure)
}

// once asks nothing, so it runs once.
var once = saga.Flow[form, string]{Info: saga.Info{Name: "once"}, Run: func(*saga.Run, form) (string, error) { return today(), nil }}

// A machine does not run again.
func machine(t *saga.Turn[form, form]) (saga.Next, error) {
	return t.Textf("%v", time.Now())
}
