package tokens

// Format names the format of the tokens that this package seals. Tokens begin with
// it. It opens all formats up to this one.
const Format = string(rune(version))
