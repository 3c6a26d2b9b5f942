// Package schema makes JSON Schemas of Go types and of their fields' tags, and validates
// and decodes JSON by them.
//
// [Infer] returns the schema of a type, and [Resolve] makes it ready for
// [Schema.Validate]. What it accepts is decoded by [Decode], which fills in the defaults
// that tags give. Tags mean what package fieldtags says, in arguments as in forms.
package schema
