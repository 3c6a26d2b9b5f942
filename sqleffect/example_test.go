package sqleffect_test

import (
	"context"
	"database/sql"
	"fmt"

	_ "modernc.org/sqlite"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sqleffect"
)

// A room is held in a table of the author's, and paid once and for all.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection would have a database in memory of its own
	if _, err := db.Exec(`CREATE TABLE rooms (number INTEGER PRIMARY KEY, guest TEXT); INSERT INTO rooms VALUES (1, NULL), (2, NULL)`); err != nil {
		fmt.Println(err)
		return
	}
	keys := &sqleffect.Keys{DB: db}
	if err := keys.Create(ctx); err != nil {
		fmt.Println(err)
		return
	}

	type room struct {
		Number int      `json:"number"`
		Key    saga.Key `json:"key"`
	}
	holdRoom := &saga.Effect[string, room]{
		Name: "hold-room",
		Do: func(ctx context.Context, key saga.Key, guest string) (room, error) {
			return sqleffect.Do(ctx, keys, key, guest, func(ctx context.Context, tx *sql.Tx, guest string) (room, error) {
				r := room{Key: key}
				err := tx.QueryRowContext(ctx, `UPDATE rooms SET guest = ? WHERE number = (SELECT min(number) FROM rooms WHERE guest IS NULL) RETURNING number`, guest).Scan(&r.Number)
				return r, err
			})
		},
		Undo: func(ctx context.Context, p saga.Performed[string, room]) error {
			return sqleffect.Undo(ctx, keys, p.Key, func(ctx context.Context, tx *sql.Tx, r room) error {
				_, err := tx.ExecContext(ctx, `UPDATE rooms SET guest = NULL WHERE number = ?`, r.Number)
				return err
			})
		},
	}
	pay := &saga.Effect[saga.Key, bool]{
		Name:         "pay",
		Irreversible: true,
		Do: func(ctx context.Context, key, held saga.Key) (bool, error) {
			return sqleffect.Do(ctx, keys, key, held, func(ctx context.Context, tx *sql.Tx, held saga.Key) (bool, error) {
				return true, keys.Finish(ctx, tx, held)
			})
		},
	}

	// What a server does when a turn is repeated, a saga ends badly, and an old token
	// comes back.
	ann, err := holdRoom.Do(ctx, "key-1", "Ann")
	fmt.Println("Ann:", ann.Number, err)
	ann, err = holdRoom.Do(ctx, "key-1", "Ann")
	fmt.Println("Ann again:", ann.Number, err)
	bob, err := holdRoom.Do(ctx, "key-2", "Bob")
	fmt.Println("Bob:", bob.Number, err)
	fmt.Println("Bob leaves:", holdRoom.Undo(ctx, saga.Performed[string, room]{Key: "key-2", In: "Bob", Out: bob, Known: true}))
	_, err = holdRoom.Do(ctx, "key-2", "Bob")
	fmt.Println("Bob's request arrives late:", err)
	paid, err := pay.Do(ctx, "key-3", ann.Key)
	fmt.Println("Ann pays:", paid, err)
	fmt.Println("Ann's old token:", holdRoom.Undo(ctx, saga.Performed[string, room]{Key: "key-1", In: "Ann", Out: ann, Known: true}))
	// Output:
	// Ann: 1 <nil>
	// Ann again: 1 <nil>
	// Bob: 2 <nil>
	// Bob leaves: <nil>
	// Bob's request arrives late: this key was released
	// Ann pays: true <nil>
	// Ann's old token: what was done under this key is final
}
