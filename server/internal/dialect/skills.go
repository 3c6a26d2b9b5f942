package dialect

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// SkillsExtension is the name of the extension for skills (SEP-2640), and MethodSkills and MethodSkill are its methods. Their
// files are read as resources.
const (
	SkillsExtension = "io.modelcontextprotocol/skills"
	MethodSkills    = "skills/list"
	MethodSkill     = "skills/get"
)

// HasSkills reports whether the server offers any.
func (h *Host) HasSkills() bool { return h.Catalogue.Lists[MethodSkills] != nil }

// Skill answers [MethodSkill]. The result lacks its closing brace.
func (h *Host) Skill(ctx context.Context, params jsontext.Value) (open []byte, err error) {
	var p struct {
		URI string `json:"uri"`
	}
	if rerr := wire.DecodeParams(params, &p); rerr != nil {
		return nil, rerr
	}
	t, _, err := h.Resource(ctx, p.URI)
	if err != nil {
		return nil, err
	}
	for _, e := range h.Catalogue.Lists[MethodSkills] {
		if e.Program == t {
			return append([]byte(`{"skill":`), e.JSON...), nil
		}
	}
	return nil, wire.NewError(wire.CodeInvalidParams, "there is no skill at this URI")
}
