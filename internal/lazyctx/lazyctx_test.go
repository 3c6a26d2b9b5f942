package lazyctx

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

type testKey struct{}

func TestIsAContext(t *testing.T) {
	for name, wait := range map[string]bool{"waited for": true, "only asked": false} {
		for cause, want := range map[string]error{"deadline": context.DeadlineExceeded, "cancel": context.Canceled, "parent": context.Canceled} {
			t.Run(name+" "+cause, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					why := errors.New("why")
					parent, stop := context.WithCancelCause(context.WithValue(t.Context(), testKey{}, 7))
					defer stop(nil)
					c := begin(parent, time.Now().Add(time.Second))
					defer c.Cancel()
					if wait {
						select {
						case <-c.Done():
							t.Error("ended too early")
						default:
						}
					}
					assert.NoError(t, c.Err())
					assert.NoError(t, context.Cause(c))
					assert.Equal(t, 7, c.Value(testKey{}))
					wantCause := want
					switch cause {
					case "deadline":
						time.Sleep(time.Second)
						synctest.Wait()
					case "cancel":
						c.Cancel()
					case "parent":
						stop(why)
						wantCause = why
					}
					assert.ErrorIs(t, c.Err(), want)
					assert.ErrorIs(t, context.Cause(c), wantCause)
					<-c.Done()
				})
			})
		}
	}
}

func TestEndsItsChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t.Context(), time.Now().Add(time.Second))
		defer c.Cancel()
		child, cancel := context.WithCancel(c)
		defer cancel()
		within := begin(c, time.Now().Add(time.Hour))
		defer within.Cancel()
		at, ok := within.Deadline()
		assert.True(t, ok)
		assert.Equal(t, c.deadline, at, "the parent's is sooner")
		<-child.Done()
		<-within.Done()
		assert.ErrorIs(t, child.Err(), context.DeadlineExceeded)
		assert.ErrorIs(t, within.Err(), context.DeadlineExceeded)
	})
}

func TestWithoutDeadline(t *testing.T) {
	c := begin(t.Context(), time.Time{})
	_, ok := c.Deadline()
	assert.False(t, ok)
	assert.NoError(t, c.Err())
	c.Cancel()
	assert.ErrorIs(t, c.Err(), context.Canceled)
	<-c.Done()
}

func begin(parent context.Context, deadline time.Time) *Context {
	c := new(Context)
	c.Init(parent, deadline)
	return c
}
