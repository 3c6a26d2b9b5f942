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
		var c struct {
			Units int `json:"units"`
		}
		if read(w, r, &c) {
			h, err := s.Confirm(r.Context(), r.PathValue("key"), c.Units)
			answer(w, h, err)
		}
	})
	mux.HandleFunc("DELETE /holds/{key}", func(w http.ResponseWriter, r *http.Request) {
		if err := s.Release(r.Context(), r.PathValue("key")); err != nil {
			answer(w, nil, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /holds", func(w http.ResponseWriter, r *http.Request) {
		list, err := s.List(r.Context())
		answer(w, list, err)
	})
	return mux
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	body := http.MaxBytesReader(w, r.Body, 64<<10) // far more than a request needs
	err := json.NewDecoder(body).Decode(into)
	if err != nil {
		write(w, http.StatusBadRequest, Problem{"the body is not the JSON that is expected: " + err.Error()})
	}
	return err == nil
}

func answer(w http.ResponseWriter, v any, err error) {
	var no *Conflict
	switch {
	case err == nil:
		write(w, http.StatusOK, v)
	case errors.As(err, &no):
		write(w, http.StatusConflict, Problem{no.Reason})
	default:
		slog.Error("request failed", "error", err)
		write(w, http.StatusInternalServerError, Problem{"the service failed; try again"})
	}
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error means that the caller has gone; it will ask again.
	_ = json.NewEncoder(w).Encode(v)
}

// Serve serves the API on l until ctx ends.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = h.Shutdown(grace)
	})
	defer stop()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
