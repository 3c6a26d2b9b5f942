package durable

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverWork is River. Each of the three is a resumable step whose end is recorded in a transaction,
// as only that survives the death of the process.
type riverWork struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]

	mu      sync.Mutex
	waiting map[int64]chan struct{}
	ended   map[int64]bool // before Do waited for them
	stop    func()
}

type riverArgs struct{}

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return "steps" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	pool *pgxpool.Pool
}

// Work implements river.Worker.
func (w *riverWorker) Work(ctx context.Context, job *river.Job[riverArgs]) error {
	for i := range 3 {
		river.ResumableStep(ctx, fmt.Sprint("step", i), nil, func(ctx context.Context) error {
			tx, err := w.pool.Begin(ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback(ctx)
			if _, err := river.ResumableSetStepTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
				return err
			}
			return tx.Commit(ctx)
		})
	}
	return nil
}

func openRiver(ctx context.Context, target string) (worker, error) {
	pool, err := pgxpool.New(ctx, target+" pool_max_conns=64")
	if err != nil {
		return nil, err
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{pool: pool})
	client, err := river.NewClient(driver, &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: workers,
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: most}},
		FetchCooldown: time.Millisecond, // by default it fetches ten times a second at most
	})
	if err != nil {
		return nil, err
	}
	r := &riverWork{pool: pool, client: client, waiting: make(map[int64]chan struct{}), ended: make(map[int64]bool)}
	events, stop := client.SubscribeConfig(&river.SubscribeConfig{Kinds: []river.EventKind{river.EventKindJobCompleted}, ChanSize: 10_000})
	r.stop = stop
	go r.listen(events)
	return r, client.Start(context.WithoutCancel(ctx))
}

// listen wakes the calls of Do whose jobs have ended.
func (r *riverWork) listen(events <-chan *river.Event) {
	for e := range events {
		r.mu.Lock()
		if wait := r.waiting[e.Job.ID]; wait != nil {
			delete(r.waiting, e.Job.ID)
			close(wait)
		} else {
			r.ended[e.Job.ID] = true
		}
		r.mu.Unlock()
	}
}

func (r *riverWork) Do(ctx context.Context) error {
	made, err := r.client.Insert(ctx, riverArgs{}, nil)
	if err != nil {
		return err
	}
	id, over := made.Job.ID, make(chan struct{})
	r.mu.Lock()
	if r.ended[id] {
		delete(r.ended, id)
		close(over)
	} else {
		r.waiting[id] = over
	}
	r.mu.Unlock()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *riverWork) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = r.client.StopAndCancel(ctx)
	r.stop()
	r.pool.Close()
}
