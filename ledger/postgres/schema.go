package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A step changes the tables from one version to the next. Servers of the version before
// go on meanwhile and afterwards, so a step only adds. (One that does more says so with
// oldest, and is for a release after which the servers before can no longer run.)
type step struct {
	sql string
	// oldest is the oldest version of this program that can use the tables after the step.
	oldest int
}

// steps lead to the version of this program, which is their number. What has been released
// is not changed.
var steps = []step{
	{oldest: 1, sql: `
CREATE TABLE mcpsaga_ledger.records (
	key   bytea PRIMARY KEY,
	rev   bigint NOT NULL,
	queue bytea,
	owner bytea,
	body  bytea NOT NULL,
	wake  timestamptz,
	keep  timestamptz
);
-- What is sealed cannot be compressed.
ALTER TABLE mcpsaga_ledger.records ALTER body SET STORAGE EXTERNAL;
CREATE INDEX records_due ON mcpsaga_ledger.records (queue, wake) WHERE queue IS NOT NULL AND wake IS NOT NULL;
CREATE INDEX records_owner ON mcpsaga_ledger.records (owner, key) WHERE owner IS NOT NULL;
CREATE INDEX records_keep ON mcpsaga_ledger.records (keep) WHERE keep IS NOT NULL;
CREATE TABLE mcpsaga_ledger.items (
	key  bytea NOT NULL REFERENCES mcpsaga_ledger.records ON DELETE CASCADE,
	n    bigint NOT NULL,
	body bytea NOT NULL,
	PRIMARY KEY (key, n)
);
ALTER TABLE mcpsaga_ledger.items ALTER body SET STORAGE EXTERNAL;
`},
}

// migrating is the number of the lock that keeps migrations apart: "mcpsaga" in ASCII.
const migrating = 0x6d637073616761

// migrate brings the tables to the version of this program, or finds that it can use them
// as they are.
func migrate(ctx context.Context, conn *pgx.Conn) error {
	found, err := version(ctx, conn)
	if err != nil || found >= len(steps) {
		return err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1::bigint)`, int64(migrating)); err != nil {
			return err
		}
		// Others may have done it while this waited.
		if found, err = version(ctx, tx); err != nil {
			return err
		}
		if found == 0 {
			if err := create(ctx, tx); err != nil {
				return err
			}
		}
		for i := found; i < len(steps); i++ {
			if _, err := tx.Exec(ctx, steps[i].sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `UPDATE mcpsaga_ledger.version SET version = $1::int, oldest = $2::int`, i+1, steps[i].oldest); err != nil {
				return err
			}
		}
		return nil
	})
	if denied := (*pgconn.PgError)(nil); errors.As(err, &denied) && denied.Code == "42501" {
		return fmt.Errorf("ledger/postgres: the tables in the schema mcpsaga_ledger are of version %d, %d is needed, and this role may not change them; open the ledger once as a role that may, then grant this one its use: %w", found, len(steps), err)
	}
	if err != nil {
		return fmt.Errorf("ledger/postgres: create the tables: %w", err)
	}
	return nil
}

// create makes the schema, unless its administrator has, and the table of the version.
func create(ctx context.Context, tx pgx.Tx) error {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT to_regnamespace('mcpsaga_ledger') IS NOT NULL`).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := tx.Exec(ctx, `CREATE SCHEMA mcpsaga_ledger`); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `
CREATE TABLE mcpsaga_ledger.version (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	version int NOT NULL, -- of the tables
	oldest  int NOT NULL  -- version of the program that can use them
);
INSERT INTO mcpsaga_ledger.version (version, oldest) VALUES (0, 0);
`, pgx.QueryExecModeSimpleProtocol)
	return err
}

// querier is what a connection, a pool and a transaction have in common.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version returns the version of the tables, 0 if there are none. It fails if they are newer
// than this program and cannot be used by it.
func version(ctx context.Context, conn querier) (int, error) {
	var there bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'mcpsaga_ledger' AND c.relname = 'version')`).Scan(&there); err != nil {
		return 0, fmt.Errorf("ledger/postgres: look for the tables: %w", err)
	}
	if !there {
		return 0, nil
	}
	var found, oldest int
	err := conn.QueryRow(ctx, `SELECT version, oldest FROM mcpsaga_ledger.version`).Scan(&found, &oldest)
	switch {
	case err != nil:
		return 0, fmt.Errorf("ledger/postgres: read the version of the tables in the schema mcpsaga_ledger: %w", err)
	case oldest > len(steps):
		return 0, unusable(fmt.Sprintf("ledger/postgres: the tables in the schema mcpsaga_ledger are of version %d, which programs before version %d cannot use, and this one is of version %d: use a newer program", found, oldest, len(steps)))
	}
	return found, nil
}
