package hook

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAround(t *testing.T) {
	type next = func(context.Context) error
	mine, its := errors.New("the hook's"), errors.New("the work's")
	for name, test := range map[string]struct {
		hook func(context.Context, next) error
		work error
		want error
		done int
	}{
		"passes on":                      {func(ctx context.Context, n next) error { return n(ctx) }, its, its, 1},
		"passes on success":              {func(ctx context.Context, n next) error { return n(ctx) }, nil, nil, 1},
		"refuses":                        {func(context.Context, next) error { return mine }, nil, mine, 0},
		"is silent":                      {func(context.Context, next) error { return nil }, nil, ErrSilent, 0},
		"cannot take back what is done":  {func(ctx context.Context, n next) error { _ = n(ctx); return mine }, nil, nil, 1},
		"cannot hide what failed":        {func(ctx context.Context, n next) error { _ = n(ctx); return nil }, its, its, 1},
		"calls twice":                    {func(ctx context.Context, n next) error { _ = n(ctx); return n(ctx) }, its, its, 1},
		"panics after the work was done": {func(ctx context.Context, n next) error { _ = n(ctx); panic("oops") }, nil, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			done := 0
			err := Around(t.Context(), test.hook, func(context.Context) error { done++; return test.work })
			assert.Equal(t, test.want, err)
			assert.Equal(t, test.done, done)
		})
	}
	t.Run("waits for what a goroutine does", func(t *testing.T) {
		done := 0
		began := make(chan bool)
		err := Around(t.Context(), func(ctx context.Context, n next) error {
			go func() { _ = n(ctx) }()
			<-began
			return nil
		}, func(context.Context) error {
			close(began)
			time.Sleep(time.Millisecond)
			done++
			return its
		})
		assert.Equal(t, its, err)
		assert.Equal(t, 1, done)
	})
	t.Run("once for several goroutines", func(t *testing.T) {
		done := 0
		err := Around(t.Context(), func(ctx context.Context, n next) error {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { assert.Equal(t, its, n(ctx)) })
			}
			all.Wait()
			return nil
		}, func(context.Context) error { done++; return its })
		assert.Equal(t, its, err)
		assert.Equal(t, 1, done)
	})
	t.Run("never late", func(t *testing.T) {
		var kept next
		err := Around(t.Context(), func(_ context.Context, n next) error { kept = n; return nil }, func(context.Context) error { panic("late") })
		assert.Equal(t, ErrSilent, err)
		assert.Equal(t, ErrLate, kept(t.Context()))
	})
	t.Run("panics inside", func(t *testing.T) {
		err := Around(t.Context(), func(ctx context.Context, n next) error { _ = n(ctx); return n(ctx) }, func(context.Context) error { panic("inside") })
		assert.ErrorContains(t, err, "inside")
	})
	err := Around(t.Context(), func(context.Context, next) error { panic("oops") }, func(context.Context) error { return nil })
	var panicked *PanicError
	assert.ErrorAs(t, err, &panicked)
	assert.ErrorContains(t, err, "a hook panicked: oops")
}
