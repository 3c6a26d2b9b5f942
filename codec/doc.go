// Package codec keeps the keys that seal tokens.
//
// A server seals what a suspended saga knows into one opaque string, the token. The client
// keeps it and hands it back with its answers, so the server keeps nothing: any replica that
// holds the keys can continue.
//
//	keys, err := codec.LoadKeyset("keyset.json")
//	s, err := server.New(server.Options{Keys: keys, Tools: tools})
//
// # Which functions you need
//
//   - [LoadKeyset] for a server whose keys are in a file; [CreateKeysetFile] makes the file, and
//     so does the command "saga keys new".
//   - [KeysetFile] for one that a key management service encrypts, which is asked when the file is
//     read, and [ParseEncryptedKeyset] or [ParseKeyset] for keys that are in no file.
//   - [NewKeyset] for tests, and for a server alone whose sagas may end when it does.
//   - [KeysetFile.Update] to change a keyset file from a program, without losing what others
//     change at the same time. "saga keys" does the same.
//
// # How keys are kept
//
// A holder of the keys can make tokens that a server takes for its own, and read what others
// hold. A keyset file belongs to the user that the server runs as, or to root, and no other user may read
// it: [KeysetFile.Load] refuses one that others can. Keep it out of repositories and images. Give
// deployments that trust one another differently keysets of their own.
//
// A [Keyset] has one primary key, which seals, and any number of others that still open.
// Rotate keys in stages, and let every replica have the result of one stage before the next
// begins:
//
//  1. [Keyset.Add] a key. It opens tokens, but seals none.
//  2. [Keyset.Promote] it. New tokens are sealed with it.
//  3. After the longest time to live, [Keyset.Disable] the old key. If there is a ledger, wait for a day, and until
//     it has no tasks from before: what the key sealed there is forgotten, and not undone.
//  4. When nothing misses it, [Keyset.Destroy] it.
//
// If a key has leaked, promote another and disable it at once: sagas in flight have to start
// again. A running server takes a new keyset without a restart.
//
// Only kinds of key with which random nonces never run out are accepted; see [KeyType].
//
// # What stays compatible
//
// Keysets are Tink's, in its JSON form: what was a keyset stays one, and Tink's own tools read
// it. Tokens begin with the version of their format. What one release sealed, every later one
// opens, as long as the key is there and enabled; tokens sealed in the past are part of the
// tests.
//
// What may change is how long a token is and how it is made: an older release may refuse
// what a newer one sealed, and says in its log that it is of a newer one.
package codec
