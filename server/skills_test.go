package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// skilledTools are one that asks and acts, one that only is a task, and one that needs no manual.
func skilledTools() []saga.Definition {
	type city struct {
		City string `json:"city" title:"City"`
	}
	where := &steps.Form[city]{ID: "where", Message: "Where to?"}
	book := &saga.Effect[city, string]{
		Name: "book_room", Do: func(context.Context, saga.Key, city) (string, error) { return "1", nil },
		Undo: func(context.Context, saga.Performed[city, string]) error { return nil },
	}
	pay := &saga.Effect[city, string]{
		Name: "pay", Irreversible: true, Do: func(context.Context, saga.Key, city) (string, error) { return "1", nil },
	}
	run := func(*saga.Run, struct{}) (string, error) { return "", nil }
	return []saga.Definition{
		saga.Flow[struct{}, string]{Info: saga.Info{
			Name: "Book_Trip", Description: "Books a \"trip\": to\nanywhere.", Asks: []steps.Question{where}, Effects: []saga.Declared{book, pay},
		}, Run: run},
		saga.Flow[struct{}, string]{Info: saga.Info{Name: "report", Tasks: saga.Tasks{Mode: saga.TasksRequired}}, Run: run},
		saga.Flow[struct{}, string]{Info: saga.Info{Name: "plain"}, Run: run},
	}
}

// listedSkill is what a client sees of a skill.
type listedSkill struct {
	URI         string
	Frontmatter struct{ Name, Description string }
	Resources   []struct {
		URI, Digest string
		Size        int
	}
}

// What lists say of a manual is what is read, in both eras.
func TestSkills(t *testing.T) {
	const uri = "skill://book-trip/SKILL.md"
	r := newRig(t, server.Options{Ledger: inMemory(t), Skills: true, Tools: skilledTools()})
	session := r.connect("2025-11-25", `{}`)
	eras := map[string]func(method string, params object) (result, all string){
		"2026-07-28": func(method string, params object) (string, string) {
			got := r.send(modernRequest(method, params))
			return string(got.Result), got.raw
		},
		"2025-11-25": func(method string, params object) (string, string) {
			raw, err := json.Marshal(object{"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
			require.NoError(t, err)
			var got struct{ Result json.RawMessage }
			all := session.ask(string(raw))
			require.NoError(t, json.Unmarshal([]byte(all), &got))
			return string(got.Result), all
		},
	}
	for era, ask := range eras {
		t.Run(era, func(t *testing.T) {
			var list struct{ Skills []listedSkill }
			result, _ := ask("skills/list", object{})
			require.NoError(t, json.Unmarshal([]byte(result), &list))
			require.Len(t, list.Skills, 2, result)
			trip := list.Skills[0]
			assert.Equal(t, uri, trip.URI)
			assert.Equal(t, "book-trip", trip.Frontmatter.Name)
			assert.Equal(t, `How to use the tool Book_Trip. Books a "trip": to anywhere.`, trip.Frontmatter.Description)
			assert.Equal(t, "skill://report/SKILL.md", list.Skills[1].URI)

			var one struct{ Skill listedSkill }
			result, _ = ask("skills/get", object{"uri": uri})
			require.NoError(t, json.Unmarshal([]byte(result), &one))
			assert.Equal(t, trip, one.Skill)

			var read struct{ Contents []struct{ Text string } }
			result, _ = ask("resources/read", object{"uri": uri})
			require.NoError(t, json.Unmarshal([]byte(result), &read))
			require.Len(t, read.Contents, 1, result)
			text := read.Contents[0].Text
			require.Len(t, trip.Resources, 1)
			assert.Equal(t, uri, trip.Resources[0].URI)
			assert.Equal(t, len(text), trip.Resources[0].Size)
			assert.Equal(t, fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))), trip.Resources[0].Digest)
			for _, part := range []string{
				"---\nname: book-trip\n", "- `where` (elicitation): Where to? The answer's schema: `{", `"title":"City"`, "- `book_room` can be undone.", "- `pay` cannot be undone.",
			} {
				assert.Contains(t, text, part)
			}

			_, all := ask("skills/get", object{"uri": "skill://plain/SKILL.md"})
			assert.Contains(t, all, `"code":-32602`)
			result, _ = ask("resources/list", object{})
			assert.Contains(t, result, uri)
		})
	}
	const declared = `"io.modelcontextprotocol/skills":{}`
	assert.Contains(t, r.send(modernRequest("server/discover", nil)).raw, declared)
	off := newRig(t, server.Options{Ledger: inMemory(t), Tools: skilledTools()})
	assert.NotContains(t, off.send(modernRequest("server/discover", nil)).raw, declared)
	assert.Contains(t, off.send(modernRequest("skills/list", nil)).raw, "-32601")
	assert.Contains(t, off.connect("2025-11-25", `{}`).ask(`{"jsonrpc":"2.0","id":2,"method":"skills/list"}`), "-32601")
}

// A manual is for those who may use the tool.
func TestSkillsOfForbiddenTools(t *testing.T) {
	o := server.Options{Ledger: inMemory(t), Skills: true, Tools: []saga.Definition{new(seats).tool()}}
	byScopes(&o)
	r := newRig(t, o)
	const uri = "skill://seat/SKILL.md"
	for scope, want := range map[string]struct{ listed, read string }{
		"office": {uri, "How to use the tool seat"}, "asks": {uri, "403"}, "none": {"", "-32602"},
	} {
		t.Run(scope, func(t *testing.T) {
			send := func(method string, params object) string {
				q := modernRequest(method, params)
				q.header["User"], q.header["Scopes"] = []string{"ann"}, []string{scope}
				got := r.send(q)
				return fmt.Sprint(got.status, got.raw)
			}
			for _, method := range []string{"skills/list", "resources/list"} {
				assert.Equal(t, want.listed != "", strings.Contains(send(method, nil), uri), method)
			}
			for _, method := range []string{"skills/get", "resources/read"} {
				assert.Contains(t, send(method, object{"uri": uri}), want.read, method)
			}
		})
	}
}

// Tools whose manuals could not be told apart, or named, are refused.
func TestNamesOfSkills(t *testing.T) {
	named := func(name string) saga.Definition {
		ask := &steps.Form[struct{}]{ID: "sure", Message: "Sure?"}
		return saga.Flow[struct{}, string]{
			Info: saga.Info{Name: name, Asks: []steps.Question{ask}}, Run: func(*saga.Run, struct{}) (string, error) { return "", nil },
		}
	}
	newerStatic := legacyStatic
	newerStatic.Revision = 1
	for problem, tools := range map[string][]saga.Definition{
		`tool "A.b" would be a second resource "a-b"`: {named("a_b"), named("A.b")},
		// Permit would be asked about the tool for it.
		`tool "static" would be a second resource "static"`: {named("static"), newerStatic},
		`tool "": the name`:              {named("__")},
		`xxx" is too long for a skill's`: {named(strings.Repeat("x", 65))},
	} {
		_, err := server.New(server.Options{Keys: newKeys(t), Tools: tools, Skills: true})
		assert.ErrorContains(t, err, problem)
		_, err = server.New(server.Options{Keys: newKeys(t), Tools: tools})
		assert.NoError(t, err)
	}
}
