package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpsaga/mcpsaga/ledger"
)

const (
	// writers is how many transactions of one process are under way at once. While they
	// are, further changes gather, and go together in the next one: a commit costs the
	// same for one change and for a hundred.
	writers = 2
	// mostChanges go into one transaction, unless it gets larger than mostBytes.
	mostChanges = 128
	mostBytes   = 1 << 20
)

// swap is a change that a writer is asked to make.
type swap struct {
	record ledger.Record // a copy: the caller may be gone before it is written
	items  []ledger.Item
	done   chan error
}

// size is about how many bytes the change sends.
func (w *swap) size() int {
	n := len(w.record.Body)
	for _, i := range w.items {
		n += len(i.Body)
	}
	return n
}

func (s *store) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	const what = "write a record"
	if err := r.Check(items...); err != nil {
		return fmt.Errorf("ledger/postgres: %s: %w", what, err)
	}
	if r.Rev >= math.MaxInt64 { // no record has come that far
		return fmt.Errorf("ledger/postgres: %s: %w", what, ledger.ErrConflict)
	}
	w := &swap{record: *r, done: make(chan error, 1)}
	w.record.Body = bytes.Clone(r.Body)
	for _, i := range items {
		w.items = append(w.items, ledger.Item{N: i.N, Body: bytes.Clone(i.Body)})
	}
	within, cancel := s.bound(ctx)
	defer cancel()
	if within.Err() != nil {
		return s.failed(ctx, what, within.Err())
	}
	select {
	case s.swaps <- w:
	case <-within.Done():
		return s.failed(ctx, what, within.Err())
	}
	// From here on it may happen, whether the caller waits for it or not.
	select {
	case err := <-w.done:
		if err == nil {
			r.Rev++
			return nil
		}
		return fmt.Errorf("ledger/postgres: %s: %w", what, err)
	case <-ctx.Done():
		return fmt.Errorf("ledger/postgres: %s: %w: %w", what, ledger.ErrUnknown, ctx.Err())
	}
}

// write makes changes until the store is closed.
func (s *store) write() {
	for {
		var batch []*swap
		select {
		case w := <-s.swaps:
			batch = append(batch, w)
		case <-s.ctx.Done():
			return
		}
		for size := batch[0].size(); len(batch) < mostChanges && size < mostBytes; {
			select {
			case w := <-s.swaps:
				batch, size = append(batch, w), size+w.size()
				continue
			default:
			}
			break
		}
		s.commit(batch)
	}
}

// commit makes changes in one transaction, and tells those who wait for them.
func (s *store) commit(batch []*swap) {
	// Transactions that lock the same records do so in the same order, or they would wait
	// for one another.
	slices.SortStableFunc(batch, func(a, b *swap) int { return cmp.Compare(a.record.Key, b.record.Key) })
	outcomes, err := s.transact(batch)
	var said *pgconn.PgError
	if len(batch) > 1 && errors.As(err, &said) && certain(said) && (said.Code == duplicate || said.Code == deadlock) {
		// One of them has an item that there is already, and spoilt it for all.
		for _, w := range batch {
			s.commit([]*swap{w})
		}
		return
	}
	if errors.As(err, &said) && certain(said) && said.Code == duplicate {
		err = ledger.ErrConflict
	}
	for i, w := range batch {
		switch {
		case err != nil:
			w.done <- err
		case !outcomes[i]:
			w.done <- ledger.ErrConflict
		default:
			s.changed(&w.record)
			w.done <- nil
		}
	}
}

const (
	insertRecord = `INSERT INTO mcpsaga_ledger.records (rev, key, queue, owner, body, wake, keep)
VALUES ($1::bigint + 1, $2::bytea, $3::bytea, $4::bytea, $5::bytea, $6::timestamptz, $7::timestamptz) ON CONFLICT (key) DO NOTHING`
	updateRecord = `UPDATE mcpsaga_ledger.records SET rev = $1::bigint + 1, queue = $3::bytea, owner = $4::bytea, body = $5::bytea, wake = $6::timestamptz, keep = $7::timestamptz
WHERE key = $2::bytea AND rev = $1::bigint`
	appendItems = `
RETURNING key) INSERT INTO mcpsaga_ledger.items (key, n, body)
SELECT written.key, item.n, item.body FROM written, unnest($8::bigint[], $9::bytea[]) AS item (n, body)`
)

// transact sends changes as one transaction and in one round trip, and says which of them
// were made.
func (s *store) transact(batch []*swap) (made []bool, err error) {
	// Not the callers' contexts: one that gives up must not break it for others.
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	if len(batch) == 1 {
		statement, args := batch[0].statement()
		tag, err := conn.Exec(ctx, statement, args...)
		if err != nil {
			return nil, s.judge(err)
		}
		return []bool{tag.RowsAffected() > 0}, nil
	}
	b := &pgx.Batch{}
	for _, w := range batch {
		statement, args := w.statement()
		b.Queue(statement, args...)
	}
	results := conn.SendBatch(ctx, b)
	for range batch {
		tag, failed := results.Exec()
		if failed != nil {
			err = failed
			break
		}
		made = append(made, tag.RowsAffected() > 0)
	}
	// The transaction is committed only now.
	if failed := results.Close(); err == nil {
		err = failed
	}
	if err != nil {
		return nil, s.judge(err)
	}
	return made, nil
}

// statement is what makes the change. It affects a row, unless another change came before.
func (w *swap) statement() (sql string, args []any) {
	sql = insertRecord
	if w.record.Rev > 0 {
		sql = updateRecord
	}
	r := &w.record
	args = []any{int64(r.Rev), []byte(r.Key), name(r.Queue), name(r.Owner), notNull(r.Body), instant(r.Wake), instant(r.Keep)}
	if len(w.items) > 0 {
		numbers, bodies := make([]int64, len(w.items)), make([][]byte, len(w.items))
		for i, item := range w.items {
			numbers[i], bodies[i] = int64(item.N), notNull(item.Body)
		}
		return "WITH written AS (" + sql + appendItems, append(args, numbers, bodies)
	}
	return sql, args
}

// judge says of the error of a transaction whether it may have been committed.
func (s *store) judge(err error) error {
	var said *pgconn.PgError
	switch {
	case errors.As(err, &said) && certain(said):
		if said.Code == readOnly {
			s.pool.Reset() // the server has become a standby; another may be the primary
		}
		return err
	case pgconn.SafeToRetry(err):
		return err
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		s.pool.Reset() // where one connection broke, the others did as well
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnknown, err)
}

// SQLSTATE codes (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	duplicate = "23505"
	deadlock  = "40P01"
	readOnly  = "25006"
)

// certain says whether a server that says this has rolled back the transaction for sure.
// Who says that the connection ends, which may be a pooler, may say so after the commit.
func certain(said *pgconn.PgError) bool {
	return said.SeverityUnlocalized == "ERROR" && !strings.HasPrefix(said.Code, "08") && !strings.HasPrefix(said.Code, "57P") && said.Code != "40003"
}

// name is a name as a parameter: an empty one is stored as NULL, which no index holds.
func name(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// instant is a time as a parameter.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.Truncate(time.Microsecond)
	return &t
}
