package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// payRig has the tool pay, which acts when it may go on.
type payRig struct {
	*legacyClient
	paid          atomic.Int32
	entered, goOn chan struct{}
	said          chan string
}

func newPayRig(t *testing.T, yields bool, others ...saga.Definition) *payRig {
	p := &payRig{entered: make(chan struct{}, 10), goOn: make(chan struct{}), said: make(chan string, 2)}
	pay := &saga.Effect[string, string]{
		Name: "pay",
		Do:   func(context.Context, saga.Key, string) (string, error) { p.paid.Add(1); return "", nil },
	}
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "pay", Yields: yields, Effects: []saga.Declared{pay}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			p.entered <- struct{}{}
			<-p.goOn //sagavet:ignore
			if _, err := saga.Do(r, pay, "x"); err != nil {
				return "", err
			}
			if yields {
				if err := r.Yield(content.Text{Text: "one"}); err != nil {
					return "", err
				}
			}
			return "paid", nil
		},
	}
	r := newRig(t, server.Options{Tools: append(others, tool), Ledger: inMemory(t)})
	p.legacyClient = r.connect("2025-11-25", everything)
	return p
}

// call calls pay, and returns when the tool waits.
func (p *payRig) call() {
	p.repeat()
	<-p.entered
	time.Sleep(300 * time.Millisecond) // then the ledger has the call
}

func (p *payRig) repeat() {
	go func() { p.said <- readAll(p.t, p.post(toolCall(7, "pay", "{}"))) }()
}

// answer is what the first of the requests reads that is answered.
func (p *payRig) answer() string {
	select {
	case said := <-p.said:
		return said
	case <-time.After(10 * time.Second):
		p.t.Error("no request is answered")
		return ""
	}
}

// A call that cannot be found again is not begun once more while it is under way.
func TestRepeatedCallsActOnce(t *testing.T) {
	for _, yields := range []bool{false, true} {
		t.Run(fmt.Sprint("yields ", yields), func(t *testing.T) {
			t.Parallel()
			p := newPayRig(t, yields)
			p.call()
			p.repeat()
			first := p.answer()
			assert.Equal(t, yields, strings.Contains(first, "the id is in use"), first)
			assert.NotContains(t, first, `"result"`, "it is for the other request")
			close(p.goOn)
			assert.Contains(t, p.answer(), `"result"`)
			assert.EqualValues(t, 1, p.paid.Load())
		})
	}
}

// A session that has as many calls as it may takes the repetition of one.
func TestRepeatedCallsInAFullSession(t *testing.T) {
	t.Parallel()
	p := newPayRig(t, false, roundsTool(new(world)))
	for i := range 99 {
		p.stream(roundsCall(100+i, 1, "I")).wait("elicitation/create")
	}
	p.call()
	assert.Contains(t, p.ask(roundsCall(99, 1, "I")), "too many requests")
	p.repeat()
	assert.NotContains(t, p.answer(), `"error"`, "the first request ends without an answer")
	close(p.goOn)
	assert.Contains(t, p.answer(), "paid")
	assert.EqualValues(t, 1, p.paid.Load())
}
