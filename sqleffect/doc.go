// Package sqleffect performs the effects of sagas on a database of your own, once for
// each key.
//
// A turn may be repeated, and a token may be used twice with different answers. So
// what is behind a [saga.Effect] has to know keys: the same key again gets the first
// result and changes nothing; a key that was undone is refused, also if the undo came
// first; a key with another input is refused; and what is final is not undone. This
// package keeps a table of keys beside your own tables, and changes both in one
// transaction:
//
//	keys := &sqleffect.Keys{DB: db}
//	if err := keys.Create(ctx); err != nil { … }
//
//	holdRoom := &saga.Effect[Stay, Hold]{
//		Name: "hold-room",
//		Do: func(ctx context.Context, key saga.Key, in Stay) (Hold, error) {
//			return sqleffect.Do(ctx, keys, key, in, insertHold)
//		},
//		Undo: func(ctx context.Context, p saga.Performed[Stay, Hold]) error {
//			return sqleffect.Undo(ctx, keys, p.Key, deleteHold)
//		},
//	}
//
// where insertHold and deleteHold are functions of yours that get the transaction. They
// must neither commit it nor roll it back, and must return the error of every statement
// that fails, since SQLite ends the transaction at some of them (when their context ends,
// at ON CONFLICT ROLLBACK): [Do] and [Undo] then fail. What
// was committed so stays until it is undone, and Do fails for its key until then.
// [Keys.Finish], called in the transaction of a later effect, makes what an earlier
// one did final.
//
// SQLite (3.35 or later, any driver) and PostgreSQL (any driver) are supported. With
// SQLite, set a busy_timeout: transactions wait for each other.
//
// For effects on systems that know idempotency keys themselves, hand the key on
// instead; this package is of no use there.
package sqleffect
