// Package inturn has those who work on requests at the same time take them up in the order in which they came.
package inturn

import (
	"context"
	"sync"
)

type key struct{}

// With returns the context of a request, whose Take calls taken.
func With(ctx context.Context, taken func()) context.Context {
	return context.WithValue(ctx, key{}, taken)
}

// Take says that a request has got its place: the next may be taken up.
func Take(ctx context.Context) {
	if taken, is := ctx.Value(key{}).(func()); is {
		taken()
	}
}

// Go has run call f in a goroutine, and returns as soon as f has taken its place, or has returned.
func Go(ctx context.Context, run func(func()), f func(context.Context)) {
	taken := make(chan struct{})
	take := sync.OnceFunc(func() { close(taken) })
	run(func() {
		defer take()
		f(With(ctx, take))
	})
	<-taken
}
