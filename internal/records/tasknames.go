package records

import (
	"encoding/binary"
	"slices"
)

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

func (b *Book) taskQueues(t Target) ([]string, error) {
	return b.often("task queue", t.Name, string(binary.BigEndian.AppendUint32(nil, t.Revision)))
}

// TaskKey returns the name that the record of a task made now has.
func (b *Book) TaskKey(principal, id string) (string, error) {
	names, err := b.taskNames(principal, id)
	if err != nil {
		return "", err
	}
	return names[0], nil
}
