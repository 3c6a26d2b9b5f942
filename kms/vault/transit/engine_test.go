package transit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/vault/builtin/logical/transit"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/stretchr/testify/require"
)

// token is what clients of the engine have to show.
const token = "hvs.a-token-that-must-not-be-shown"

// engine is Vault's transit engine, mounted at transit, behind what Vault's HTTP API does for it.
type engine struct {
	t       *testing.T
	backend logical.Backend
	storage logical.Storage
	server  *httptest.Server
	asked   atomic.Int32
}

func newEngine(t *testing.T) *engine {
	t.Helper()
	e := &engine{t: t, storage: &logical.InmemStorage{}}
	config := logical.TestBackendConfig()
	config.StorageView = e.storage
	config.System = &logical.StaticSystemView{}
	var err error
	e.backend, err = transit.Factory(t.Context(), config)
	require.NoError(t, err)
	e.server = httptest.NewServer(e)
	t.Cleanup(e.server.Close)
	e.do("keys/lunch", nil)
	e.do("keys/other", nil)
	return e
}

// do asks the engine as its operator.
func (e *engine) do(path string, data map[string]any) {
	e.t.Helper()
	response, err := e.handle(e.t.Context(), path, data)
	require.NoError(e.t, err)
	require.False(e.t, response.IsError(), "%v", response)
}

func (e *engine) handle(ctx context.Context, path string, data map[string]any) (*logical.Response, error) {
	return e.backend.HandleRequest(ctx, &logical.Request{Operation: logical.UpdateOperation, Path: path, Data: data, Storage: e.storage})
}

// ServeHTTP implements [http.Handler].
func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.asked.Add(1)
	answer := func(status int, value any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value)
	}
	path, mounted := strings.CutPrefix(r.URL.Path, "/v1/transit/")
	switch {
	case r.Header.Get("X-Vault-Token") != token:
		answer(http.StatusForbidden, map[string]any{"errors": []string{"permission denied"}})
		return
	case !mounted || r.Method != http.MethodPut && r.Method != http.MethodPost:
		answer(http.StatusNotFound, map[string]any{"errors": []string{"no handler for route"}})
		return
	}
	var data map[string]any
	if err := json.NewDecoder(r.Body).Decode(&data); err != nil {
		answer(http.StatusBadRequest, map[string]any{"errors": []string{err.Error()}})
		return
	}
	response, err := e.handle(r.Context(), path, data)
	if err == nil && response.IsError() {
		err = response.Error()
	} else if response != nil && response.IsError() {
		err = errors.Join(err, response.Error())
	}
	if err != nil {
		answer(http.StatusBadRequest, map[string]any{"errors": []string{err.Error()}})
		return
	}
	answer(http.StatusOK, map[string]any{"data": response.Data})
}
