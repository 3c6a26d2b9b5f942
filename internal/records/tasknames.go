package records

import (
	"encoding/binary"
	"slices"
)

// Tasks are found, taken and counted by names that are made here.

// idHead is how much of a task's id is the same for those that a server makes at about the same
// time, and nameHead how much of their names is.
const (
	idHead   = 5
	nameHead = 8
)

// taskNames returns the names under which a task is found. Clients may choose the id, so
// the names are keyed. Ids that begin alike have names that do: what is made at about the same
// time is then close together in a store's indexes, whose pages are what a new record costs most.
func (b *Book) taskNames(principal, id string) ([]string, error) {
	return b.oftenBy((*Book).namesOfTask, "task", principal, id)
}

// namesOfTask makes what taskNames returns.
func (b *Book) namesOfTask(kind string, parts ...string) ([]string, error) {
	keys, err := b.nameKeys()
	if err != nil {
		return nil, err
	}
	id := parts[len(parts)-1]
	list := b.namesBy(keys, kind, parts...)
	for i, head := range b.namesBy(keys, "task head", id[:min(idHead, len(id))]) {
		list[i] = head[:nameHead] + list[i][nameHead:]
	}
	return list, nil
}

// TaskID returns ids that nobody can guess for what can be: a client's key for a call. The
// first is to be used, the others may have been, before keys were rotated.
func (b *Book) TaskID(principal, key string) ([]string, error) {
	list, err := b.often("task of a call", principal, key)
	return slices.Clone(list), err
}

// TaskKey returns the name that the record of a task made now has.
func (b *Book) TaskKey(principal, id string) (string, error) {
	names, err := b.taskNames(principal, id)
	if err != nil {
		return "", err
	}
	return names[0], nil
}

func (b *Book) taskQueues(t Target) ([]string, error) {
	return b.often("task queue", t.Name, string(binary.BigEndian.AppendUint32(nil, t.Revision)))
}

// What owners are named by.
const (
	ownerGoing = "task owner"
	ownerEnded = "task owner ended"
	ownerCall  = "call owner"
	// Ends of calls are many for whoever is busy, and kept for a moment only: they have a limit of
	// their own.
	ownerCallEnded = "call owner ended"
)

// Limits of calls and of who is not known, by that of a principal.
const (
	// manyEnds is how many times more calls may have ended lately than may be under way.
	manyEnds = 10
	// accountShare is what part an account has that is no principal's.
	accountShare = 4
)

// taskOwner returns the name under which what is of a kind is counted.
func (b *Book) taskOwner(kind, principal, account string) (string, error) {
	if account != "" {
		kind, principal = kind+" by account", account
	}
	owners, err := b.often(kind, principal)
	if err != nil {
		return "", err
	}
	return owners[0], nil
}

// taskOwners returns the names under which a principal's tasks are counted while they are
// under way, and those for when they have ended.
func (b *Book) taskOwners(principal string) (going, ended []string, err error) {
	if going, err = b.often(ownerGoing, principal); err == nil {
		ended, err = b.often(ownerEnded, principal)
	}
	return going, ended, err
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
