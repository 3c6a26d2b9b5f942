// Package replay has flows that do not do the same when they run again, and some
// that do.
package replay

import (
	"context"
	crand "crypto/rand"
	"log"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
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

func behindFunction(r *saga.Run) error {
	_, _ = saga.Do(r, note, deep())                     // want `deep uses time.Now, which does not do the same`
	return r.AskAll(askSure.With(steps.Message(day()))) // want `day uses time.Now, which does not do the same`
}

func goroutines(r *saga.Run) error {
	go today() // want `a flow must not start goroutines`
	var group sync.WaitGroup
	group.Go(func() {}) // want `a flow must not start goroutines`
	return r.AskAll(askSure)
}

func maps1(r *saga.Run, m map[string]int) error {
	for k := range m { // want `a question, an effect or an id in a loop over a map`
		if _, err := saga.Do(r, note, k); err != nil {
			return err
		}
	}
	for k := range maps.Keys(m) { // want `a question, an effect or an id in a loop over a map`
		if err := helper(r, k); err != nil {
			return err
		}
	}
	return r.AskAll(askSure)
}

// booking carries the Run.
type booking struct{ *saga.Run }

func (b *booking) hold(k string) error { return helper(b.Run, k) }

func (b *booking) named(k string) string { return "room " + k }

func holdWith(b *booking, k string) error { return b.hold(k) }

func mapsBehind(r *saga.Run, m map[string]int) error {
	b := &booking{r}
	each := func(k string) { _, _ = saga.Do(r, note, k) }
	for k := range m { // want `a question, an effect or an id in a loop over a map`
		_ = b.hold(k)
	}
	for k := range m { // want `a question, an effect or an id in a loop over a map`
		_ = holdWith(b, k)
	}
	for k := range m { // want `a question, an effect or an id in a loop over a map`
		each(k)
	}
	for k := range m {
		_ = b.named(k)
	}
	return r.AskAll(askSure)
}

func helper(r *saga.Run, in string) error {
	_, err := saga.Do(r, note, in)
	return err
}

func maps2(r *saga.Run, m map[string]int) error {
	text := ""
	for k := range m { // want `text gets the order of a map`
		text += k
	}
	keys := slices.Collect(maps.Keys(m))   // want `keys gets the order of a map`
	inputs := slices.Collect(maps.Keys(m)) // want `inputs gets the order of a map`
	if _, err := saga.DoAll(r, note, inputs); err != nil {
		return err
	}
	if err := r.AskAll(askSure.With(steps.Message(text))); err != nil {
		return err
	}
	_, err := saga.Do(r, note, strings.Join(keys, " "))
	return err
}

func maps3(r *saga.Run) error {
	first, largest, found := "", "", ""
	for k := range map[string]int{"a": 1, "b": 2} { // want `first gets the order of a map`
		first = k
		break
	}
	for k := range map[string]int{"a": 1, "b": 2} {
		largest = max(largest, k)
		if k == "b" {
			found = k
			break
		}
	}
	_, err := saga.Do(r, note, first+largest+found)
	return err
}

func notOneByOne(r *saga.Run, in []string) error {
	_, err := saga.DoAll(r, note, in)
	for range in {
		go today() // want `a flow must not start goroutines`
	}
	_ = r.AskAll(askSure)
	return err
}

var flow = saga.Flow[form, string]{
	Info: saga.Info{Name: "f", Asks: []steps.Question{askSure}, Effects: []saga.Declared{note}},
	Run: func(r *saga.Run, _ form) (string, error) {
		return time.Now().String(), r.AskAll(askSure) // want `time.Now`
	},
}

// nightly asks nothing. If its server goes down between the effects, another runs it from its beginning.
var nightly = saga.Flow[form, string]{Info: saga.Info{Name: "nightly", Effects: []saga.Declared{note}}, Run: func(r *saga.Run, _ form) (string, error) {
	if _, err := saga.Do(r, note, time.Now().String()); err != nil { // want `time.Now does not do the same`
		return "", err
	}
	return saga.Do(r, note, "second")
}}

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

func toldAtTheEnd(r *saga.Run) error {
	defer func(began time.Time) { slog.Info("turn", "took", time.Since(began)) }(time.Now())
	return r.AskAll(askSure)
}

func sortNames(names []string) { slices.Sort(names) }

func counted(r *saga.Run, m map[string]int) error {
	var picked, names []string
	for k := range m {
		picked = append(picked, k)
		names = append(names, k)
	}
	sortNames(names)
	_, err := saga.Do(r, note, strings.Repeat("x", len(picked))+strings.Join(names, " "))
	return err
}

func sorted(r *saga.Run, m map[string]int) error {
	sum, keys := 0, []string(nil)
	for k, v := range m {
		sum += v
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if err := helper(r, k); err != nil {
			return err
		}
	}
	_, err := saga.Do(r, note, strings.Join(keys, " "))
	return err
}

// once neither asks nor has effects.
var once = saga.Flow[form, string]{Info: saga.Info{Name: "once"}, Run: func(*saga.Run, form) (string, error) { return today(), nil }}

// A machine does not run again.
func machine(t *saga.Turn[form, form]) (saga.Next, error) {
	return t.Textf("%v", time.Now())
}
