// Package codec turns what a suspended saga knows into one opaque string, the
// token, and back. The client keeps the token and hands it back with its answers,
// so the server keeps nothing: any replica that holds the keys can go on.
//
//	keys, err := codec.LoadKeyset("keyset.json")
//	c, err := codec.New(keys, codec.Options{Audience: "https://tools.example.com"})
//	token, err := c.Seal(binding, time.Now(), &codec.Contents{Claims: claims, State: state})
//	contents, err := c.Open(binding, time.Now(), token)
//
// The package handles bytes. [JSON] is the default way to make bytes of typed
// state, and [Encoding] what another way has to offer.
//
// # What a token protects
//
// A token is encrypted and authenticated. The client cannot read it, and cannot
// change a bit of it. It opens only for the [Binding] and the audience it was
// sealed for, only until it expires, and only while its key is enabled. [Claims]
// such as the tool and its revision are inside; comparing them with the request is
// up to the caller.
//
// Every refusal is a *[Rejected] error with one and the same message, so that a
// client learns nothing about why. The [Reason] is for logs and metrics.
//
// Nothing of a token is decompressed or decoded before it is authenticated, and
// decompression is bounded all the same.
//
// # What a token does not protect
//
// A token is not single-use: until it expires, the client can present it twice,
// with different answers. Who must prevent that has to remember [Claims.ID] and
// [Claims.Turn] somewhere.
//
// A token's length is visible. State is compressed, so the length depends on its
// content; padding hides most of that, not all. If a client may choose some text
// of the state and see many tokens, it can work out other text of the same state
// from lengths alone. What the client has no hand in therefore belongs in
// [Contents.Apart], which is compressed by itself, and values that it must not learn in
// [Contents.Plain] or [Contents.Secret], which are never compressed.
//
// Whoever has the keys can make tokens. A server must treat what it opens as data
// all the same: decode it into fixed types, never into types the data names.
//
// # Keys
//
// A [Keyset] is a keyset of Tink with one primary key, which seals, and any number
// of others that still open. It is kept in Tink's JSON form: in a file that only
// its owner can read ([CreateKeysetFile], [LoadKeyset]) or encrypted by a key
// management service ([ParseEncryptedKeyset]).
//
// Rotate keys in stages, and let every replica have the result of one stage before
// the next begins:
//
//  1. [Keyset.Add] a key. It opens tokens, but seals none.
//  2. [Keyset.Promote] it. New tokens are sealed with it.
//  3. After the longest time to live, [Keyset.Disable] the old key.
//  4. When nothing misses it, [Keyset.Destroy] it.
//
// [UpdateKeysetFile] applies a stage to a file, without losing what others change at
// the same time.
//
// [Codec.SetKeyset] replaces the keyset of a running server. If a key has leaked,
// promote another and disable it at once: sagas in flight have to start again.
//
// Only kinds of key with which random nonces never run out are accepted; see
// [KeyType].
//
// # Compatibility
//
// The first character of a token is the format's version. Within a version, what
// one release of this package seals, every later release opens: tokens sealed in
// the past are part of the tests. A format that changes gets a new version, and
// the old one still opens.
//
// The other way round it does not hold: an older release may refuse what a newer
// one sealed, with [ReasonVersion] or [ReasonFormat]. How short a token becomes is
// no part of the promise either.
package codec
