package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// largest leaves room for what a position holds besides the tool's state.
const largest = 255 << 10

// sizeCurve is the cost of a turn whose state has so many bytes, and what of it is
// the token: sealing and opening, compared with zstd, AES-GCM and base64 alone.
func sizeCurve(ctx context.Context, s settings) error {
	server, err := startChild(ctx, "mcpsaga")
	if err != nil {
		return err
	}
	defer server.stop()
	sizes := []int{1 << 10, 4 << 10, 16 << 10, 64 << 10, largest}
	points := make([]point, len(sizes))
	for i, n := range sizes {
		turn, err := reach(server, "saga", "rounds", 3, n, 1)
		if err != nil {
			return err
		}
		points[i] = point{name: fmt.Sprintf("%d bytes", n), server: server, turn: turn}
	}
	s.sagas = max(s.sagas/20, 1)
	if err := s.measure(ctx, points); err != nil {
		return err
	}
	out := s.out.table("state B", "CPU/turn", "ns/B", "token", "seal+open", "alone", "ratio")
	for i, n := range sizes {
		ours, alone, token, err := sealing(prose(n), s.rounds)
		if err != nil {
			return err
		}
		cpu := median(points[i].taken, cpu)
		out.row("%d\t%.0fµs\t%.1f\t%d\t%.1fµs\t%.1fµs\t%.2f", n, micros(cpu), float64(cpu.Nanoseconds())/float64(n),
			token, micros(ours), micros(alone), float64(ours)/float64(alone))
	}
	return out.flush()
}

// sealing measures, in this process, sealing and opening a state with this
// project's codec, and with the least that gives a sealed string: both compress
// alike. It returns the medians.
func sealing(state string, rounds int) (ours, alone time.Duration, token int, err error) {
	keys, err := codec.NewKeyset()
	if err != nil {
		return 0, 0, 0, err
	}
	c, err := tokens.New(keys, tokens.Options{Audience: "bench"})
	if err != nil {
		return 0, 0, 0, err
	}
	bare, err := newBare()
	if err != nil {
		return 0, 0, 0, err
	}
	now := time.Now()
	contents := &tokens.Contents{Claims: tokens.Claims{ID: tokens.ID{1}, Turn: 1, Tool: "rounds"}, State: []byte(state)}
	sealOpen := func() error {
		sealed, err := c.Seal(tokens.Binding{}, now, contents)
		if err != nil {
			return err
		}
		token = len(sealed)
		_, err = c.Open(tokens.Binding{}, now, sealed)
		return err
	}
	n := max(20, 4_000_000/len(state))
	var mine, least []time.Duration
	for range max(rounds, 3) + 1 {
		for _, who := range []struct {
			f  func() error
			to *[]time.Duration
		}{{sealOpen, &mine}, {func() error { return bare.sealOpen([]byte(state)) }, &least}} {
			before := cpuTime()
			for range n {
				if err := who.f(); err != nil {
					return 0, 0, 0, err
				}
			}
			*who.to = append(*who.to, (cpuTime()-before)/time.Duration(n))
		}
	}
	mine, least = mine[1:], least[1:] // the first warm up
	slices.Sort(mine)
	slices.Sort(least)
	return mine[len(mine)/2], least[len(least)/2], token, nil
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// bareSealer is zstd, AES-256-GCM and base64: no claims, binding or limits.
type bareSealer struct {
	aead    cipher.AEAD
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func newBare() (b bareSealer, err error) {
	key := make([]byte, 32)
	rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return b, err
	}
	if b.aead, err = cipher.NewGCM(block); err != nil {
		return b, err
	}
	if b.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true)); err != nil {
		return b, err
	}
	b.decoder, err = zstd.NewReader(nil, zstd.WithDecoderLowmem(true))
	return b, err
}

func (b bareSealer) sealOpen(state []byte) error {
	nonce := make([]byte, b.aead.NonceSize())
	rand.Read(nonce)
	token := base64.RawURLEncoding.EncodeToString(b.aead.Seal(nonce, nonce, b.encoder.EncodeAll(state, nil), nil))
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return err
	}
	n := b.aead.NonceSize()
	plain, err := b.aead.Open(nil, sealed[:n], sealed[n:], nil)
	if err == nil {
		_, err = b.decoder.DecodeAll(plain, nil)
	}
	return err
}
