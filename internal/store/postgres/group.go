package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

const (
	// writers is how many transactions of changes one process has under way at once. Meanwhile further
	// changes gather, and go together in the next one: a commit costs the same for one and for a hundred.
	writers = 2
	// mostTogether go into one transaction, unless they have more than mostBytes.
	mostTogether = 128
	mostBytes    = 1 << 20
)

// job is a change to one record, which may share a transaction with others.
type job struct {
	id   store.ID
	head uint64 // afterwards
	size int    // about how many bytes it sends
	sql  string
	args []any               // not the caller's: it may give up before they are sent
	scan func(pgx.Row) error // reads the answer, of which the error is [expected] if it is no
	done chan error
}

// do has a writer make a change.
func (d *database) do(ctx context.Context, what string, j *job) error {
	if err := cmp.Or(ctx.Err(), d.ctx.Err()); err != nil {
		return d.failed(ctx, what, err)
	}
	j.done = make(chan error, 1)
	waiting, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	select {
	case d.jobs <- j:
	case <-waiting.Done():
		return d.failed(ctx, what, waiting.Err())
	case <-d.ctx.Done():
		return d.failed(ctx, what, d.ctx.Err())
	}
	// From here on it may be made, whether the caller waits for it or not.
	within, cancel := d.late(ctx)
	defer cancel()
	select {
	case err := <-j.done:
		return d.failed(ctx, what, err)
	case <-within.Done():
		return d.failed(ctx, what, fmt.Errorf("%w: %w", store.ErrUnknown, within.Err()))
	}
}

// writeJobs makes changes until the store is closed.
func (d *database) writeJobs() {
	for {
		var batch []*job
		select {
		case j := <-d.jobs:
			batch = append(batch, j)
		case <-d.ctx.Done():
			return
		}
	gather:
		for size := batch[0].size; len(batch) < mostTogether && size < mostBytes; {
			select {
			case j := <-d.jobs:
				batch, size = append(batch, j), size+j.size
			default:
				break gather
			}
		}
		d.commit(batch)
	}
}

// commit makes changes in one transaction and one round trip, and answers those who wait for them.
func (d *database) commit(batch []*job) {
	// Transactions that lock the same records do so in the same order, lest they wait for each other.
	slices.SortStableFunc(batch, func(a, b *job) int { return bytes.Compare(a.id[:], b.id[:]) })
	answers := make([]error, len(batch))
	err := d.change(context.Background(), func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		b := &pgx.Batch{}
		for _, j := range batch {
			b.Queue(j.sql, j.args...)
		}
		results := conn.SendBatch(ctx, b)
		for i, j := range batch {
			if answers[i] = j.scan(results.QueryRow()); answers[i] != nil && !expected(answers[i]) {
				err = answers[i]
				break
			}
		}
		// The transaction is committed only now.
		if end := results.Close(); err == nil {
			err = end
		}
		return err
	})
	var said *pgconn.PgError
	if errors.As(err, &said) && !errors.Is(err, store.ErrUnknown) {
		if len(batch) > 1 { // one of them spoilt it for all
			for _, j := range batch {
				d.commit([]*job{j})
			}
			return
		}
		if said.Code == duplicate { // there is another record of the same request
			err = store.ErrConflict
		}
	}
	for i, j := range batch {
		switch {
		case err != nil:
			answers[i] = err
			if errors.Is(err, store.ErrUnknown) {
				d.changed(store.ID{}, 0)
			}
		case answers[i] == nil:
			d.changed(j.id, j.head)
		}
		j.done <- answers[i]
	}
}
