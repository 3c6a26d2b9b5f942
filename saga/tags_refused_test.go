package saga_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/schema"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

func refusedTag[T any](t *testing.T, want string) {
	t.Helper()
	for _, d := range []saga.Definition{
		saga.Flow[T, string]{Info: saga.Info{Name: "x"}, Run: func(*saga.Run, T) (string, error) { return "", nil }},
		saga.Flow[empty, T]{Info: saga.Info{Name: "x"}, Run: func(*saga.Run, empty) (out T, err error) { return out, nil }},
	} {
		_, err := d.Compile()
		var definition *saga.DefinitionError
		require.ErrorAs(t, err, &definition, want)
		var field *schema.FieldError
		require.ErrorAs(t, err, &field, want)
		assert.ErrorContains(t, err, want)
	}
	_, err := saga.SchemaFor[T]()
	assert.ErrorContains(t, err, want)
}

type pointed struct{ *shared }

type named string

func TestTagsWithoutMeaningAreRefused(t *testing.T) {
	refusedTag[struct {
		A int `enum:"1|2"`
	}](t, `struct { A int "enum:\"1|2\"" }.A, tag enum: is not for a number; allowed here: title, minimum, maximum, exclusiveMinimum`)
	refusedTag[struct {
		A bool `minLength:"1"`
	}](t, "tag minLength: is not for a boolean")
	refusedTag[struct {
		A map[string]string `minItems:"1"`
	}](t, "tag minItems: is not for an object; allowed here: title, notsecret")
	refusedTag[struct {
		A any `minimum:"1"`
	}](t, "tag minimum: is not for a field that can hold anything")
	refusedTag[struct {
		A []int `enum:"1"`
	}](t, "tag enum: is not for a list of something else than strings")
	refusedTag[struct {
		A []string `maxLength:"1"`
	}](t, "tag maxLength: is not for a list of text")
	refusedTag[struct {
		A shared `title:"fine" default:"x"`
	}](t, "tag default: is not for an object")
	refusedTag[struct {
		A struct {
			B []struct {
				C *string `format:"hostname"`
			}
		}
	}](t, `.C, tag format: "hostname" is not a format`)
	refusedTag[struct {
		A map[string][]struct {
			B int `minimun:"1"`
		}
	}](t, ".B, tag minimun: is written minimum")
	refusedTag[struct {
		A string `min_length:"1"`
	}](t, "tag min_length: is written minLength")
	refusedTag[struct {
		A string `required:"true"`
	}](t, "tag required: a field is required unless its json tag says omitempty or omitzero")
	refusedTag[struct {
		A string `const:"a"`
	}](t, "tag const: an enum with one value says the same")
	refusedTag[struct {
		A string `enum:"a=A" enumNames:"legacy"`
	}](t, "tag enumNames: is for forms")
	refusedTag[struct {
		A table `enum:"a"`
	}](t, "the type has a method Choices already")
	refusedTag[struct {
		A []noChoices
	}](t, "its method Choices returns none")
	refusedTag[struct {
		A named `pattern:"("`
	}](t, `tag pattern: "(" is not a regular expression`)
	refusedTag[struct {
		A float64 `multipleOf:"0"`
	}](t, `tag multipleOf: "0" is not a number greater than 0`)
	refusedTag[struct {
		A uint8 `maximum:"256"`
	}](t, "tag maximum: 256 is more than 255")
	refusedTag[struct {
		A int `exclusiveMinimum:"1" maximum:"1"`
	}](t, "tag exclusiveMinimum: 1 leaves no number that is allowed")
	refusedTag[struct {
		A string `json:"a,omitempty" enum:"a|b" default:"c"`
	}](t, `tag default: "c" is not valid: `)
	refusedTag[struct {
		A string `json:"a,omitempty" format:"date" default:"today"`
	}](t, `tag default: "today" is not valid: must be a date`)
	refusedTag[struct {
		A uint8 `json:"a,omitempty" default:"x"`
	}](t, `tag default: "x" is not valid: `)
	refusedTag[struct {
		A int `json:"a,omitempty" default:"1.0"`
	}](t, "tag default: does not fit the field's type")
	refusedTag[pointed](t, "tag default: is not for a field of an embedded pointer")
	refusedTag[struct {
		A [2]string `minItems:"1"`
	}](t, "an array has a fixed number of items")
	refusedTag[struct {
		shared `json:"in"`
	}](t, ".shared: is embedded, but not merged into the struct by JSON")
	refusedTag[struct {
		shared `title:"x"`
	}](t, "an embedded struct has no member of its own")
	refusedTag[struct {
		Numbered
		Otherwise
	}](t, ".Numbered: is embedded beside another struct that has a field ID too, so JSON has neither")
	refusedTag[struct {
		A string `json:"B"`
		B string
	}](t, `.B: has the same name "B" as A`)
	refusedTag[struct {
		A int `json:",string"`
	}](t, `.A, tag json: the option "string"`)
	refusedTag[struct {
		A []string `header:"A"`
	}](t, "tag header: is not for a list of text")
}

type noChoices string

func (noChoices) Choices() []steps.Choice { return nil }

// What looks like ours and is another's, or none, is left alone.
func TestForeignTags(t *testing.T) {
	_, err := saga.SchemaFor[struct {
		A string `json:"a" yaml:"a" xml:"a" toml:"a" db:"a" bson:"a" form:"a" query:"a" param:"a" path:"a" uri:"a" url:"a" env:"A" validate:"required,min=1" binding:"required" mapstructure:"a" gorm:"size:1" csv:"a" protobuf:"bytes" example:"a" doc:"a" desc:"a" min:"1" max:"2" len:"1" num:"1" cost:"1" jsonschema:"the Title: a Minimum:1 enum:x"`
		b string `minimun:"1"`
		C string `json:"-" minimun:"1"`
	}]()
	assert.NoError(t, err)
}
