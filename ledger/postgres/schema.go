package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// format is the version of the tables that this program makes. Version 1 had records of another kind.
const format = 2

// tables makes the tables. Names in the clear are compared byte by byte, and what is sealed cannot be compressed. A record
// that is held is due when its lease is over, so that those who look for work need not pass over what others are at. Each
// query has an index; those with a condition hold only the rows that are asked for.
const tables = `
-- IF NOT EXISTS would ask for the right all the same.
DO $$ BEGIN IF to_regnamespace('mcpsaga_ledger') IS NULL THEN CREATE SCHEMA mcpsaga_ledger; END IF; END $$;
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
	request  uuid,
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
CREATE UNIQUE INDEX records_request ON mcpsaga_ledger.records (request) WHERE request IS NOT NULL;
CREATE INDEX records_due ON mcpsaga_ledger.records (audience, tool, due) WHERE due IS NOT NULL;
CREATE INDEX records_owned ON mcpsaga_ledger.records (audience, owner, mode, created, id) WHERE owner IS NOT NULL;
CREATE INDEX records_status ON mcpsaga_ledger.records (audience, status, created, id, mode);
CREATE INDEX records_account ON mcpsaga_ledger.records (audience, account, mode, created, id) WHERE ` + live + `;
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
	identity uuid NOT NULL DEFAULT gen_random_uuid() -- of the database
);
INSERT INTO mcpsaga_ledger.version (version, oldest) VALUES (2, 2);
`

// live is true of records that are not over.
const live = `status NOT IN ('ended', 'outstanding')`

// prepareTables creates the tables unless they are there, and finds out whether they can be used.
func prepareTables(ctx context.Context, conn *pgx.Conn) error {
	// Stricter, it would not see the tables that were made while it waited.
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(x'6d637073616761'::bigint)`); err != nil { // "mcpsaga" in ASCII
			return err
		}
		found, err := tablesFound(ctx, tx)
		if err == nil && !found {
			_, err = tx.Exec(ctx, tables, pgx.QueryExecModeSimpleProtocol)
		}
		return err
	})
	if rolledBack(err) == missingRight {
		return fmt.Errorf("postgres: this role may not create the tables, or use those that there are: open the ledger once as a role that may create the schema mcpsaga_ledger, "+
			"then GRANT USAGE ON SCHEMA mcpsaga_ledger, and SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mcpsaga_ledger, to this one: %w", err)
	}
	return wrapped("prepare the tables", err)
}

// tablesFound reports whether there are tables. It fails if this program cannot use them.
func tablesFound(ctx context.Context, tx pgx.Tx) (found bool, err error) {
	if err := tx.QueryRow(ctx, `SELECT to_regclass('mcpsaga_ledger.version') IS NOT NULL`).Scan(&found); err != nil || !found {
		return false, err
	}
	var version, oldest int
	var enough bool
	err = tx.QueryRow(ctx, `SELECT version, oldest, (SELECT bool_and(has_table_privilege('mcpsaga_ledger.' || t, p))
FROM unnest(ARRAY['records', 'items']) AS t, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p) FROM mcpsaga_ledger.version`).Scan(&version, &oldest, &enough)
	switch {
	case err != nil:
	case version < format:
		err = fmt.Errorf("those in the schema mcpsaga_ledger are of version %d, which only earlier programs can use: "+
			"let those finish their sagas, then rename the schema or drop it, and this program makes tables of version %d; or give it another database", version, format)
	case oldest > format:
		err = fmt.Errorf("those in the schema mcpsaga_ledger are of version %d, which programs before version %d cannot use, "+
			"and this one is of version %d: use a newer program", version, oldest, format)
	case !enough:
		err = errors.New("this role may not use those that there are: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mcpsaga_ledger to it")
	}
	return true, err
}

// uuid is an ID as a parameter. The zero ID is NULL.
func uuid(id store.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: id != store.ID{}} }
