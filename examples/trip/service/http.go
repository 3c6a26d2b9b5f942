package service

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Problem is the body of every answer that is not a success.
type Problem struct {
	Error string `json:"error"`
}

// Handler serves the service's API.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /holds/{key}", func(w http.ResponseWriter, r *http.Request) {
		var wanted Request
		if read(w, r, &wanted) {
			h, err := s.Place(r.Context(), r.PathValue("key"), wanted)
			answer(w, h, err)
		}
	})
	mux.HandleFunc("POST /holds/{key}/confirm", func(w http.ResponseWriter, r *http.Request) {
		var wanted struct{ Units int }
		if read(w, r, &wanted) {
			h, err := s.Confirm(r.Context(), r.PathValue("key"), wanted.Units)
			answer(w, h, err)
		}
	})
	mux.HandleFunc("POST /holds/{key}/ask", func(w http.ResponseWriter, r *http.Request) {
		var wanted struct{ Callback string }
		if read(w, r, &wanted) {
			answer(w, nil, s.Ask(r.Context(), r.PathValue("key"), wanted.Callback))
		}
	})
	mux.HandleFunc("POST /holds/{key}/agree", func(w http.ResponseWriter, r *http.Request) {
		answer(w, nil, s.Agree(r.Context(), r.PathValue("key")))
	})
	mux.HandleFunc("DELETE /holds/{key}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, nil, s.Release(r.Context(), r.PathValue("key")))
	})
	mux.HandleFunc("GET /holds", func(w http.ResponseWriter, r *http.Request) {
		list, err := s.List(r.Context())
		answer(w, list, err)
	})
	return mux
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(into) // far more than a request needs
	if err != nil {
		write(w, http.StatusBadRequest, Problem{"the body is not the JSON that is expected: " + err.Error()})
	}
	return err == nil
}

func answer(w http.ResponseWriter, v any, err error) {
	var no *Conflict
	switch {
	case errors.As(err, &no):
		write(w, http.StatusConflict, Problem{no.Reason})
	case err != nil:
		slog.Error("request failed", "error", err)
		write(w, http.StatusInternalServerError, Problem{"the service failed; try again"})
	case v == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		write(w, http.StatusOK, v)
	}
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a caller that has gone will ask again
}

// Serve serves the API on l until ctx ends.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = h.Close() })()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
