package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mcpsaga/mcpsaga/codec"
)

// largest leaves room for what a position holds besides the tool's state.
const largest = 255 << 10

// sizeCurve is the cost of a turn whose state has so many bytes, and what of it is
// the token: sealing and opening, compared with zstd, AES-GCM and base64 alone.
func sizeCurve(ctx context.Context, m measurement, to io.Writer) error {
	server, err := startChild(ctx, "", "mcpsaga")
	if err != nil {
		return err
	}
	defer server.stop()
	sizes := []int{1 << 10, 4 << 10, 16 << 10, 64 << 10, largest}
	points := make([]*point, len(sizes))
	for i, n := range sizes {
		turn, err := reach(server, proposal, "rounds", 3, n, 1)
		if err != nil {
			return err
		}
		points[i] = &point{name: fmt.Sprintf("%d bytes", n), server: server, operation: turn}
	}
	if err := m.measure(ctx, max(m.sagas/20, 1)*turns, points); err != nil {
		return err
	}
	out := newTable("state B", "CPU/turn", "ns/B", "token", "seal+open", "alone", "ratio")
	for i, n := range sizes {
		ours, alone, token, err := sealing([]byte(prose(n)), m.rounds)
		if err != nil {
			return err
		}
		cpu := median(points[i].taken, figures.micros)
		out.row("%d\t%.0fµs\t%.1f\t%d\t%.1fµs\t%.1fµs\t%.2f", n, cpu, cpu*1000/float64(n), token, ours, alone, ours/alone)
	}
	return out.print(to)
}

// sealing measures, in this process, sealing and opening a state with this
// project's codec, and with the least that gives a sealed string: zstd, AES-256-GCM
// and base64, without claims, binding or limits. Both compress alike. It returns the
// medians in microseconds.
func sealing(state []byte, rounds int) (ours, alone float64, token int, err error) {
	keys, err := codec.NewKeyset()
	if err != nil {
		return 0, 0, 0, err
	}
	c, err := codec.New(keys, codec.Options{Audience: "bench"})
	if err != nil {
		return 0, 0, 0, err
	}
	now := time.Now()
	contents := &codec.Contents{Claims: codec.Claims{ID: codec.ID{1}, Turn: 1, Tool: "rounds"}, State: state}
	key := make([]byte, 32)
	rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return 0, 0, 0, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return 0, 0, 0, err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return 0, 0, 0, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderLowmem(true))
	if err != nil {
		return 0, 0, 0, err
	}
	var taken [2][]float64
	for range max(rounds, 3) + 1 {
		for i, sealOpen := range []func() error{func() error {
			sealed, err := c.Seal(codec.Binding{}, now, contents)
			if token = len(sealed); err == nil {
				_, err = c.Open(codec.Binding{}, now, sealed)
			}
			return err
		}, func() error {
			sealed, err := base64.RawURLEncoding.DecodeString(base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, encoder.EncodeAll(state, nil), nil)))
			if err == nil {
				sealed, err = aead.Open(nil, nil, sealed, nil)
			}
			if err == nil {
				_, err = decoder.DecodeAll(sealed, nil)
			}
			return err
		}} {
			n, before := max(20, 4_000_000/len(state)), cpuTime()
			for range n {
				if err := sealOpen(); err != nil {
					return 0, 0, 0, err
				}
			}
			taken[i] = append(taken[i], float64((cpuTime()-before).Nanoseconds())/1000/float64(n))
		}
	}
	for i := range taken {
		taken[i] = slices.Sorted(slices.Values(taken[i][1:])) // the first warms up
	}
	return taken[0][len(taken[0])/2], taken[1][len(taken[1])/2], token, nil
}
