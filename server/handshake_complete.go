package server

import (
	"context"
	"encoding/json"
)

func (c *legacyCall) complete(ctx context.Context) (json.RawMessage, error) {
	var p completeParams
	if fail := decodeParams(c.params, &p); fail != nil {
		return nil, fail
	}
	found, err := c.completion(ctx, &p)
	if err != nil {
		return nil, err
	}
	return marshal(map[string]any{"completion": found})
}
