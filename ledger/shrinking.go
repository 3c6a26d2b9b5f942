package ledger

import "maps"

// shrinking is a map that gives memory back when it has become much smaller: Go's maps
// keep room for the most that they ever held.
type shrinking[V any] struct {
	m    map[string]V
	most int // since m was made
}

func (s *shrinking[V]) get(key string) (V, bool) {
	v, ok := s.m[key]
	return v, ok
}

func (s *shrinking[V]) set(key string, v V) {
	if s.m == nil {
		s.m = map[string]V{}
	}
	s.m[key] = v
	s.most = max(s.most, len(s.m))
}

func (s *shrinking[V]) delete(key string) {
	delete(s.m, key)
	if s.most > 1024 && len(s.m) < s.most/4 {
		s.m, s.most = maps.Collect(maps.All(s.m)), len(s.m)
	}
}
