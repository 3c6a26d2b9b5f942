package server

import (
	"context"
	"encoding/json"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

func (c *legacyCall) complete(ctx context.Context) (json.RawMessage, error) {
	var p completeParams
	if fail := wire.DecodeParams(c.params, &p); fail != nil {
		return nil, fail
	}
	found, err := c.completion(ctx, &p)
	if err != nil {
		return nil, err
	}
	return wire.Marshal(map[string]any{"completion": found})
}
