package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// format is the version of the tables that this program makes and uses. Version 1 had records of
// another kind.
const format = 2

// tables makes the tables. Names in the clear are compared byte by byte, and what is sealed cannot be
// compressed.
//
// A record that is held is due when its lease is over, so that those who look for work need not
// pass over what others are at. Each query has an index; those with a condition hold only the rows
// that are asked for.
const tables = `
CREATE TABLE mcpsaga_ledger.records (
	id       uuid PRIMARY KEY,
	audience text COLLATE "C" NOT NULL,
	owner    uuid,
	account  uuid NOT NULL,
	tool     text COLLATE "C" NOT NULL,
	revision bigint NOT NULL,
	format   int NOT NULL,
	mode     text COLLATE "C" NOT NULL,
	status   text COLLATE "C" NOT NULL,
	request  uuid UNIQUE,
	wake     timestamptz,
	keep     timestamptz,
	lease    timestamptz, -- until when it is held
	due      timestamptz GENERATED ALWAYS AS (CASE WHEN wake IS NOT NULL THEN greatest(wake, lease) END) STORED,
	fence    bigint NOT NULL,
	tries    int NOT NULL,
	head     bigint NOT NULL, -- the number of the newest item
	applied  bigint NOT NULL, -- head when the record was last written: later items are unread
	floor    bigint NOT NULL,
	created  timestamptz NOT NULL,
	updated  timestamptz NOT NULL,
	summary  bytea NOT NULL,
	state    bytea NOT NULL
);
ALTER TABLE mcpsaga_ledger.records ALTER summary SET STORAGE EXTERNAL, ALTER state SET STORAGE EXTERNAL;
CREATE INDEX records_due ON mcpsaga_ledger.records (audience, tool, due) WHERE due IS NOT NULL;
CREATE INDEX records_owned ON mcpsaga_ledger.records (audience, owner, mode, created, id) WHERE owner IS NOT NULL;
CREATE INDEX records_status ON mcpsaga_ledger.records (audience, status, created, id);
CREATE INDEX records_account ON mcpsaga_ledger.records (audience, account, mode) WHERE ` + live + `;
CREATE INDEX records_keep ON mcpsaga_ledger.records (keep) WHERE keep IS NOT NULL;
CREATE TABLE mcpsaga_ledger.items (
	id      uuid NOT NULL REFERENCES mcpsaga_ledger.records ON DELETE CASCADE,
	n       bigint NOT NULL,
	kind    text COLLATE "C" NOT NULL,
	lasting boolean NOT NULL,
	at      timestamptz NOT NULL,
	body    bytea NOT NULL,
	PRIMARY KEY (id, n)
);
ALTER TABLE mcpsaga_ledger.items ALTER body SET STORAGE EXTERNAL;
CREATE TABLE mcpsaga_ledger.version (
	one      boolean PRIMARY KEY DEFAULT true CHECK (one),
	version  int NOT NULL, -- of the tables
	oldest   int NOT NULL, -- version of the program that can use them
	identity uuid NOT NULL -- of the database
);
`

// live is true of records that are not over.
const live = `status NOT IN ('ended', 'outstanding')`

// creating is the number of the lock that keeps those apart who create the tables: "mcpsaga" in ASCII.
const creating = 0x6d637073616761

// prepareTables creates the tables unless they are there, and finds out whether they can be used.
func prepareTables(ctx context.Context, conn *pgx.Conn) error {
	found, err := tablesFound(ctx, conn)
	if err != nil {
		return err
	}
	if !found {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return create(ctx, tx) })
		if denied := (*pgconn.PgError)(nil); errors.As(err, &denied) && denied.Code == missingRight {
			return fmt.Errorf("postgres: there are no tables in the schema mcpsaga_ledger, and this role may not create them: open the ledger once as a role that may, then grant this one their use: %w", err)
		}
		if err != nil {
			return fmt.Errorf("postgres: create the tables: %w", err)
		}
	}
	var enough bool
	if err := conn.QueryRow(ctx, `SELECT bool_and(has_table_privilege('mcpsaga_ledger.' || t, p))
FROM unnest(ARRAY['records', 'items']) AS t, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p`).Scan(&enough); err != nil {
		return fmt.Errorf("postgres: look at this role's rights: %w", err)
	}
	if !enough {
		return unusable("postgres: this role may not use the tables: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mcpsaga_ledger to it")
	}
	return nil
}

// create makes the tables, and the schema unless its administrator has, while no other process does.
func create(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1::bigint)`, int64(creating)); err != nil {
		return err
	}
	if found, err := tablesFound(ctx, tx); found || err != nil {
		return err
	}
	var schema bool
	if err := tx.QueryRow(ctx, `SELECT to_regnamespace('mcpsaga_ledger') IS NOT NULL`).Scan(&schema); err != nil {
		return err
	}
	if !schema { // IF NOT EXISTS would ask for the right all the same
		if _, err := tx.Exec(ctx, `CREATE SCHEMA mcpsaga_ledger`); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, tables, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	var identity store.ID
	rand.Read(identity[:]) // never fails
	_, err := tx.Exec(ctx, `INSERT INTO mcpsaga_ledger.version (version, oldest, identity) VALUES ($1::int, $1::int, $2::uuid)`, format, uuid(identity))
	return err
}

// querier is what a connection, a transaction and a pool have in common.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// tablesFound reports whether there are tables. It fails if this program cannot use them.
func tablesFound(ctx context.Context, conn querier) (bool, error) {
	var there bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'mcpsaga_ledger' AND c.relname = 'version')`).Scan(&there); err != nil || !there {
		return false, wrapped("look for the tables", err)
	}
	var version, oldest int
	if err := conn.QueryRow(ctx, `SELECT version, oldest FROM mcpsaga_ledger.version`).Scan(&version, &oldest); err != nil {
		return false, wrapped("read the version of the tables in the schema mcpsaga_ledger", err)
	}
	switch {
	case version < format:
		return false, unusable(fmt.Sprintf("postgres: the tables in the schema mcpsaga_ledger are of version %d, which only earlier programs can use: "+
			"let those finish their sagas, then rename the schema or drop it, and this program makes tables of version %d; or give it another database", version, format))
	case oldest > format:
		return false, unusable(fmt.Sprintf("postgres: the tables in the schema mcpsaga_ledger are of version %d, which programs before version %d cannot use, "+
			"and this one is of version %d: use a newer program", version, oldest, format))
	}
	return true, nil
}

// uuid is an ID as a parameter. The zero ID is NULL.
func uuid(id store.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: id != store.ID{}} }
