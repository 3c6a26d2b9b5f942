// Package background has tools that use their turn in the background, and some that do not.
package background

import (
	"context"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
)

type form struct{}

type turn = saga.Turn[form, form]

var note = &saga.Effect[string, string]{Name: "note", Do: func(ctx context.Context, _ saga.Key, in string) (string, error) {
	go send(ctx, in) // want `nothing in this function waits for what it starts here, which uses ctx`
	return in, nil
}}

func send(context.Context, string) {}

var last *turn

type service struct {
	run *saga.Run
	t   *turn
}

var shared service

func kept(t *turn) (saga.Next, error) {
	last = t     // want `a variable of the package keeps the turn`
	shared.t = t // want `a variable of the package keeps the turn`
	return t.Textf("done")
}

func keptRun(r *saga.Run, _ form) (string, error) {
	shared.run = r // want `a variable of the package keeps the turn`
	return "", nil
}

func started(t *turn) (saga.Next, error) {
	go func() { // want `nothing in this function waits for what it starts here, which uses t`
		t.Progress(1, 2, "half")
	}()
	time.AfterFunc(time.Minute, func() { send(t, "late") }) // want `which uses t`
	var group sync.WaitGroup
	group.Go(func() { send(t, "x") }) // want `which uses t`
	return t.Textf("done")
}

func derived(t *turn) (saga.Next, error) {
	ctx, stop := context.WithTimeout(t, time.Hour)
	go func() { // want `which uses ctx`
		defer stop()
		send(ctx, "derived")
	}()
	return t.Textf("done")
}

func performs(t *turn) (saga.Next, error) {
	var group sync.WaitGroup
	group.Go(func() {
		_, _ = saga.Do(t, note, "a") // want `an effect in a goroutine of the tool's own is refused, and the turn fails`
	})
	go func() { _, _ = saga.Do(t, note, "b") }() // want `an effect in a goroutine`
	group.Go(func() {
		_, _ = saga.DoAll(t, note, []string{"d"}) // want `an effect in a goroutine`
	})
	go func() { t.Progress(1, 2, "") }()
	group.Wait()
	if _, err := saga.DoAll(t, note, []string{"e", "f"}); err != nil {
		return nil, err
	}
	_, err := saga.Do(t, note, "c")
	return nil, err
}

// What follows is as it should be.

func waits(t *turn) (saga.Next, error) {
	done := make(chan error, 1)
	go func() { defer close(done); send(t, "x") }()
	select {
	case <-done:
	case <-t.Done():
	}
	return t.Textf("done")
}

func hands(ctx context.Context, _ saga.Key, in string) (string, error) {
	sent := make(chan string)
	go func() { defer close(sent); send(ctx, in) }()
	return collect(sent), nil
}

func collect(sent chan string) string { return <-sent }

func stops(t *turn) (saga.Next, error) {
	timer := time.AfterFunc(time.Second, func() { t.Progress(1, 2, "still at it") })
	defer timer.Stop()
	return t.Textf("done")
}

func outlives(t *turn) (saga.Next, error) {
	go send(context.WithoutCancel(t), "later")
	name := "x"
	ctx := context.WithoutCancel(t)
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	go func() {
		defer stop()
		send(ctx, name)
	}()
	go send(context.Background(), name)
	return t.Textf("done")
}

func detach(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

func outlivesBehind(t *turn) (saga.Next, error) {
	var declared = context.WithoutCancel(t)
	go send(declared, "later")
	behind := detach(t)
	go send(behind, "later")
	return t.Textf("done")
}

// pool waits when it is closed.
type pool struct{ sync.WaitGroup }

func (p *pool) Close() { p.WaitGroup.Wait() }

func closes(t *turn) (saga.Next, error) {
	var p pool
	defer p.Close()
	p.Go(func() { send(t, "x") })
	return t.Textf("done")
}

func handsOnWait(t *turn) (saga.Next, error) {
	var group sync.WaitGroup
	group.Go(func() { send(t, "x") })
	all(group.Wait)
	return t.Textf("done")
}

func all(waits ...func()) {
	for _, wait := range waits {
		wait()
	}
}

func each(t *turn) (saga.Next, error) {
	s := service{t: t}
	s.t = t
	return s.t.Textf("done")
}
