package ledger

// Notifier is what a [Store] may be besides: one that tells of changes without a goroutine for
// each record that is watched. Where ten thousand wait, that is most of what they cost.
type Notifier interface {
	// Notify has changed be called soon after the record has come to another revision than rev,
	// which its caller has seen, and after each change from then on: as soon as Watch would
	// yield it. It may be called without a change too, as when the store fails or there may have
	// been one. changed is called with locks held, so it must return at once and call no method
	// of the store. Changes made before Notify has returned may not be told: look afterwards.
	// stop ends it; a last call may be under way then. If stop is nil nothing is told, and the
	// record has to be watched.
	Notify(key string, rev uint64, changed func()) (stop func())
}
