package server

import (
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"text/template"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

var (
	//go:embed skill.md.tmpl
	skillText     string
	skillTemplate = template.Must(template.New("skill").Parse(skillText))
	notOfSkills   = regexp.MustCompile(`[^a-z0-9]+`)
)

// What a skill may have (agentskills.io).
const mostSkillName, mostSkillDescription = 64, 1024

// skills are the manuals of a server's tools, by the extension of that name (SEP-2640). Each is a resource, so that hosts
// without the extension can read it, too.
type skills struct {
	// entries are the extension's Skill objects; tools are those described, by the names of their skills.
	entries []dialect.Entry
	tools   map[string]string
}

// withSkills returns a registry of the definitions and of the manuals of the tools among them.
func withSkills(definitions []saga.Definition, of *engine.Registry) (*engine.Registry, skills, error) {
	s := skills{tools: make(map[string]string)}
	var uris []string
	definitions = definitions[:len(definitions):len(definitions)]
	for _, t := range of.Of(engine.KindTool) {
		if len(t.Asks) == 0 && !t.Acts() && t.Tasks.Mode == engine.TasksForbidden {
			continue // its description and schemas say all
		}
		entry, manual, err := manualOf(t)
		if err != nil {
			return nil, s, err
		}
		if s.tools[manual.Name] != "" || of.Find(engine.KindResource, manual.Name) != nil {
			return nil, s, fmt.Errorf("the manual of tool %q would be a second resource %q: rename one", t.Name, manual.Name)
		}
		s.tools[manual.Name], uris = t.Name, append(uris, manual.URI)
		s.entries, definitions = append(s.entries, dialect.Entry{JSON: entry}), append(definitions, manual)
	}
	all, err := engine.NewRegistry(definitions...)
	for i := 0; err == nil && i < len(s.entries); i++ {
		s.entries[i].Program, _ = all.At(uris[i])
	}
	return all, s, err
}

// manualOf says how a tool is used, what it asks and what it does.
func manualOf(t *engine.Program) (entry json.RawMessage, r saga.Resource[struct{}, struct{}], err error) {
	type question struct{ ID, Kind, Message, Schema string }
	manual := struct {
		Name, Description string
		Tool              *engine.Program
		Questions         []question
	}{Name: strings.Trim(notOfSkills.ReplaceAllString(strings.ToLower(t.Name), "-"), "-"), Tool: t}
	if len(manual.Name) > mostSkillName {
		return nil, r, fmt.Errorf("the name of tool %q is too long for a skill's, which has %d characters at most", t.Name, mostSkillName)
	}
	about := []rune(strings.Join(strings.Fields("How to use the tool "+t.Name+". "+t.Description), " "))
	manual.Description = string(about[:min(len(about), mostSkillDescription)])
	for _, q := range t.Asks {
		step, _ := q.Step() // what it lacks is known in the call only
		message, _ := jsonview.String(jsonview.Get(step.Params, "message"))
		manual.Questions = append(manual.Questions, question{q.StepID(), step.Kind.String(), message, string(jsonview.Get(step.Params, "requestedSchema"))})
	}
	var b strings.Builder
	if err := skillTemplate.Execute(&b, manual); err != nil {
		return nil, r, err
	}
	const markdown = "text/markdown"
	text, uri := b.String(), "skill://"+manual.Name+"/SKILL.md"
	r.Name, r.Description, r.URI, r.MIMEType = manual.Name, manual.Description, uri, markdown
	r.Start = func(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) {
		return t.Contents(content.ResourceContents{URI: uri, MIMEType: markdown, Text: text})
	}
	entry, err = wire.Marshal(map[string]any{
		"uri": uri, "frontmatter": map[string]string{"name": manual.Name, "description": manual.Description},
		"resources": []any{map[string]any{"uri": uri, "digest": fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))), "size": len(text)}},
	})
	return entry, r, err
}
