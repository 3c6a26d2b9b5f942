package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// Two read a record, and both want to change it: the second has to look again.
func Example() {
	ctx := context.Background()
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()

	// Revision 0: there must be no such record yet.
	seat := &ledger.Record{Key: "seat-12A", Body: []byte("free")}
	fmt.Println(store.Swap(ctx, seat), seat.Rev)

	ann, _ := store.Load(ctx, "seat-12A")
	bob, _ := store.Load(ctx, "seat-12A")

	ann.Body = []byte("Ann's")
	fmt.Println(store.Swap(ctx, ann), ann.Rev)
	bob.Body = []byte("Bob's")
	fmt.Println(store.Swap(ctx, bob), errors.Is(store.Swap(ctx, bob), ledger.ErrConflict))

	// Output:
	// <nil> 1
	// <nil> 2
	// ledger: the record has changed true
}

// A worker takes what is due. If it dies, another takes it when the lease is over; if it
// was only slow, its changes are refused from then on.
func ExampleStore_take() {
	ctx := context.Background()
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()

	now, _ := store.Now(ctx)
	job := &ledger.Record{Key: "job", Queue: "mail", Wake: now.Add(10 * time.Millisecond)}
	fmt.Println(store.Swap(ctx, job), job.Rev)

	slow, _ := store.Take(ctx, ledger.Take{Queues: []string{"mail"}, Limit: 1, Lease: 20 * time.Millisecond})
	next, _ := store.Take(ctx, ledger.Take{Queues: []string{"mail"}, Limit: 1, Lease: time.Minute})
	next[0].Wake = time.Time{} // done: nobody need look at it again
	fmt.Println(store.Swap(ctx, next[0]), next[0].Rev)
	fmt.Println(store.Swap(ctx, slow[0]))

	// Output:
	// <nil> 1
	// <nil> 4
	// ledger: the record has changed
}
