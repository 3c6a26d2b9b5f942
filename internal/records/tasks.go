package records

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// TaskEntry is the record of a task as it was found, or is to be written.
//
// Who runs a task has taken its record, by the store's Take or by a swap of its own, and
// its fence is [TaskEntry.Epoch]: how often the record was taken. A swap that takes nothing
// counts itself in [Task.Writes], so the epoch is what the revision has beyond that.
type TaskEntry struct {
	Task
	// Wake is when a worker must look at it, KeepUntil until when the record is kept.
	Wake, KeepUntil time.Time

	key string
	rev uint64
	// queue and owner are names for target and state as they were. They are made anew when a
	// record is found, as keys are rotated while tasks wait.
	queue, owner string
	target       Target
	ended        bool
}

// Exists reports whether there is such a record in the store.
func (e *TaskEntry) Exists() bool { return e.rev != 0 }

// Key is the record's name in the store.
func (e *TaskEntry) Key() string { return e.key }

// Rev is the record's revision.
func (e *TaskEntry) Rev() uint64 { return e.rev }

// Epoch counts how often the record was taken.
func (e *TaskEntry) Epoch() uint64 { return e.rev - e.Writes }

// Taken reports whether the record was taken since it was put to rest: somebody runs it, or
// did and is gone.
func (e *TaskEntry) Taken() bool { return micros(e.Wake) != micros(e.Rest) }

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Clone returns a copy that can be changed, but for what its slices lead to.
func (e *TaskEntry) Clone() *TaskEntry {
	c := *e
	return &c
}

// TaskItem is something that hangs on a task, under its number.
type TaskItem struct {
	N    uint64
	Body []byte
}

// taskFormat begins what is sealed of tasks. It is another one than that of other records,
// so that neither is taken for the other.
const taskFormat = 2

// sealTask encrypts what a task's record or item says, which write appends.
func (b *Book) sealTask(associated []byte, write func([]byte) []byte) ([]byte, error) {
	return b.sealBytes(associated, func(plain []byte) ([]byte, error) { return write(append(plain, taskFormat)), nil })
}

// openTask undoes sealTask.
func (b *Book) openTask(associated, body []byte) ([]byte, error) {
	plain, err := b.keys().Decrypt(body, associated)
	if err != nil {
		return nil, fmt.Errorf("%w: it was sealed with a key that is not enabled, or was altered", ErrUnreadable)
	}
	plain = bytes.TrimRight(plain, "\x00")
	if len(plain) < 2 || plain[0] != taskFormat || plain[len(plain)-1] != paddingMark {
		return nil, fmt.Errorf("%w: a newer program wrote it", ErrUnreadable)
	}
	return plain[1 : len(plain)-1], nil
}

// ofItem binds an item to its record and number.
func (b *Book) ofItem(key string, n uint64) []byte {
	return binary.BigEndian.AppendUint64(b.bind("mcpsaga ledger item 1", key), n)
}

// Task returns the record of a task, or nil if there is none.
func (b *Book) Task(ctx context.Context, principal, id string) (*TaskEntry, error) {
	names, err := b.taskNames(principal, id)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if e, err := b.TaskAt(ctx, name); e != nil || err != nil {
			return e, err
		}
	}
	return nil, nil
}

// TaskAt returns the record of that name, or nil if there is none.
func (b *Book) TaskAt(ctx context.Context, key string) (*TaskEntry, error) {
	r, err := b.load(ctx, key)
	if r == nil || err != nil {
		return nil, err
	}
	return b.taskEntry(r)
}

func (b *Book) taskEntry(r *ledger.Record) (*TaskEntry, error) {
	keys := b.keys()
	plain := b.opened.find(keys, r.Key, r.Body)
	if plain == nil {
		var err error
		if plain, err = b.openTask(b.associated(r.Key), r.Body); err != nil {
			return nil, err
		}
		b.opened.note(keys, r.Key, r.Body, plain)
	}
	e := &TaskEntry{key: r.Key, rev: r.Rev, Wake: r.Wake, KeepUntil: r.Keep}
	if err := e.decode(plain); err != nil {
		return nil, fmt.Errorf("%w: it does not decode", ErrUnreadable)
	}
	return e, nil
}

// NewTask returns the record of a task that is to be. If the id was chosen by a client,
// it fails with [ErrConflict] if it can tell already that there is such a task.
func (b *Book) NewTask(ctx context.Context, t Task, chosen bool) (*TaskEntry, error) {
	names, err := b.taskNames(t.Principal, t.ID)
	if err != nil {
		return nil, err
	}
	for _, name := range names[1:] { // of other keys, where a swap would not find it
		if !chosen {
			break
		}
		if r, err := b.load(ctx, name); err != nil {
			return nil, err
		} else if r != nil {
			return nil, ErrConflict
		}
	}
	return &TaskEntry{Task: t, key: names[0]}, nil
}

// PutTask writes e and appends items, unless the record was changed meanwhile ([ErrConflict]).
// With take, the swap makes the task the caller's. It returns the epoch of what it has
// written; if e.Epoch() is another one afterwards somebody has taken the task since. On
// failure e is as it was. From then on e must not be changed.
func (b *Book) PutTask(ctx context.Context, e *TaskEntry, take bool, items ...TaskItem) (epoch uint64, err error) {
	if err := b.nameTask(e); err != nil {
		return 0, err
	}
	writes := e.Writes
	if !take {
		e.Writes++
	}
	r := &ledger.Record{Key: e.key, Rev: e.rev, Queue: e.queue, Owner: e.owner, Wake: e.Wake, Keep: e.KeepUntil}
	epoch = e.rev + 1 - e.Writes
	list := make([]ledger.Item, len(items))
	keys, known := b.keys(), []byte(nil)
	r.Body, err = b.sealTask(b.associated(e.key), func(plain []byte) []byte {
		begin := len(plain)
		plain = e.encode(plain)
		known = bytes.Clone(plain[begin:])
		return plain
	})
	for i, item := range items {
		if err == nil {
			list[i].N = item.N
			list[i].Body, err = b.sealTask(b.ofItem(e.key, item.N), func(plain []byte) []byte { return append(plain, item.Body...) })
		}
	}
	if err == nil {
		err = b.swap(ctx, r, list...)
	}
	if err != nil {
		e.Writes = writes
		return 0, err
	}
	e.rev = r.Rev
	b.opened.note(keys, e.key, r.Body, known)
	return epoch, nil
}

// nameTask names the queue and the owner of a task, unless they are those that it has.
func (b *Book) nameTask(e *TaskEntry) error {
	if e.queue == "" || e.target != e.Target {
		queues, err := b.taskQueues(e.Target)
		if err != nil {
			return err
		}
		e.queue, e.target = queues[0], e.Target
	}
	if ended := e.State == TaskEnded; e.owner == "" || e.ended != ended {
		kind := ownerGoing
		switch {
		case e.Call && ended:
			kind = ownerCallEnded
		case e.Call:
			kind = ownerCall
		case ended:
			kind = ownerEnded
		}
		owner, err := b.taskOwner(kind, e.Principal, e.Account)
		if err != nil {
			return err
		}
		e.owner, e.ended = owner, ended
	}
	return nil
}

// TaskItems returns items of a task with numbers greater than after, in order.
func (b *Book) TaskItems(ctx context.Context, e *TaskEntry, after uint64, limit int) ([]TaskItem, error) {
	found, err := insist(ctx, &b.reads, func() ([]ledger.Item, error) { return b.store.Items(ctx, e.key, after, limit) })
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	list := make([]TaskItem, 0, len(found))
	for _, item := range found {
		plain, err := b.openTask(b.ofItem(e.key, item.N), item.Body)
		if err != nil {
			return nil, err
		}
		list = append(list, TaskItem{item.N, plain})
	}
	return list, nil
}

// WatchTask yields a task each time that its record is found at a revision greater than after.
// It ends with an error.
func (b *Book) WatchTask(ctx context.Context, e *TaskEntry, after uint64) iter.Seq2[*TaskEntry, error] {
	return func(yield func(*TaskEntry, error) bool) {
		for r, err := range b.store.Watch(ctx, e.key, after) {
			if err != nil {
				yield(nil, unavailable(ctx, err))
				return
			}
			found, err := b.taskEntry(r)
			if !yield(found, err) || err != nil {
				return
			}
		}
		yield(nil, unavailable(ctx, errors.New("the store stopped watching")))
	}
}

// NotifyTask has changed be called soon after the record of a task has changed, until stop is
// called; see [ledger.Notifier]. If stop is nil, the store cannot.
func (b *Book) NotifyTask(e *TaskEntry, changed func()) (stop func()) {
	n, ok := b.store.(ledger.Notifier)
	if !ok {
		return nil
	}
	return n.Notify(e.key, e.Rev(), changed)
}

// TakeTasks is [Book.Take] for tasks.
func (b *Book) TakeTasks(ctx context.Context, targets []Target, limit int, lease time.Duration) (list []*TaskEntry, unreadable int, err error) {
	found, err := b.take(ctx, targets, b.taskQueues, limit, lease)
	list = readable(found, b.taskEntry)
	return list, len(found) - len(list), err
}

// OwnTasks returns tasks of a principal, at most limit of them, and what to give as after
// for those that follow; empty if there are none. Those that cannot be read are left out.
func (b *Book) OwnTasks(ctx context.Context, principal, after string, limit int) (list []*TaskEntry, next string, err error) {
	going, ended, err := b.taskOwners(principal)
	if err != nil {
		return nil, "", err
	}
	owners := slices.Concat(going, ended)
	found, err := insist(ctx, &b.reads, func() ([]*ledger.Record, error) { return b.store.Owned(ctx, owners, after, limit) })
	if err != nil {
		return nil, "", unavailable(ctx, err)
	}
	if len(found) == limit && limit > 0 {
		next = found[limit-1].Key
	}
	return readable(found, b.taskEntry), strings.Clone(next), nil
}

// SomeTasks returns tasks that are under way on an account, or a principal's, at most limit of them,
// drawn anew each time. Names of tasks that were made at one time begin alike, so the place is drawn
// twice: a time, and then a name.
func (b *Book) SomeTasks(ctx context.Context, principal, account string, limit int) ([]*TaskEntry, error) {
	owner, err := b.taskOwner(ownerGoing, principal, account)
	if err != nil {
		return nil, err
	}
	var random [2 * sha256.Size]byte
	rand.Read(random[:]) // never fails
	time, name := nameOf(random[:sha256.Size]), nameOf(random[sha256.Size:])
	var found []*ledger.Record
	for _, after := range []string{time, ""} {
		if len(found) == 0 && err == nil {
			found, err = b.store.Owned(ctx, []string{owner}, after, 1)
		}
	}
	if len(found) > 0 && err == nil {
		found, err = b.store.Owned(ctx, []string{owner}, found[0].Key[:nameHead]+name[nameHead:], limit)
	}
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	return readable(found, b.taskEntry), nil
}
