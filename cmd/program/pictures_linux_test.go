package program

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const terminalPicture = "../../docs/pictures/terminal.svg"

// The picture of a form at a terminal, in the documents, is as the form is now. SAGA_PICTURES=1 makes it anew.
// It is not run beside others: how the form is drawn depends on when the terminal answers.
func TestPictureOfTheTerminal(t *testing.T) {
	h := newLunch(t)
	url, _ := h.serve()
	h.env = append(h.env, "ACCESSIBLE=", "TERM=xterm-256color", "LUNCH_SERVER="+url)
	person := inTerminal(t, h.command("call", "order_lunch", "office=Berlin"), 72, true)
	person.when("select", "")
	picture := func() string { return draw("$ ./lunch call order_lunch office=Berlin\n" + person.shown()) }
	if os.Getenv("SAGA_PICTURES") != "" {
		require.NoError(t, os.MkdirAll(filepath.Dir(terminalPicture), 0o755))
		require.NoError(t, os.WriteFile(terminalPicture, []byte(picture()), 0o644))
	}
	want, err := os.ReadFile(terminalPicture)
	require.NoError(t, err)
	if !assert.Eventually(t, func() bool { return picture() == string(want) }, 10*time.Second, 20*time.Millisecond) {
		assert.Equal(t, string(want), picture(), "SAGA_PICTURES=1 makes the picture anew")
	}
}

// control is a control sequence of a terminal.
var control = regexp.MustCompile(`\x1b\[([0-9;?>]*)(\$?[a-zA-Z])`)

// draw makes an SVG of what was written to a terminal, which went back only to the beginnings of lines.
func draw(written string) string {
	lines := []string{""}
	for at, end := 0, 0; at < len(written); at = end {
		found := control.FindStringSubmatchIndex(written[at:])
		end = len(written)
		if found != nil {
			end = at + found[0]
		}
		for i, text := range strings.Split(strings.ReplaceAll(written[at:end], "\r", ""), "\n") {
			if i > 0 {
				lines = append(lines, "")
			}
			lines[len(lines)-1] += text
		}
		if found == nil {
			break
		}
		n, what := written[at+found[2]:at+found[3]], written[at+found[4]:at+found[5]]
		switch end = at + found[1]; what {
		case "m":
			lines[len(lines)-1] += written[at+found[0] : end]
		case "A":
			up, _ := strconv.Atoi(n)
			lines = append(lines[:max(len(lines)-1-up, 0)], "")
		}
	}
	return svg(lines)
}

const columnWidth, lineHeight = 8.4, 20

// svg is a picture of a terminal with these lines, which hold the sequences that colour them.
func svg(lines []string) string {
	const width, top = 640, 44
	var b strings.Builder
	height := top + lineHeight*len(lines) + 8
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-label="A form at a terminal" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="10" fill="#1b1b1f"/>`+"\n", width, height)
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="18" r="6" fill="%s"/>`+"\n", 22+20*i, colour)
	}
	for row, line := range lines {
		y, column, style := top+lineHeight*row+14, 0, look{}
		for line != "" {
			if c := control.FindStringSubmatchIndex(line); c != nil && c[0] == 0 {
				style = style.then(line[c[2]:c[3]])
				line = line[c[1]:]
				continue
			}
			text := line
			if c := control.FindStringIndex(line); c != nil {
				text = line[:c[0]]
			}
			line = line[len(text):]
			style.write(&b, text, 16+float64(column)*columnWidth, y)
			column += utf8.RuneCountInString(text)
		}
	}
	return b.String() + "</svg>\n"
}

// look is how text looks.
type look struct {
	text, back  string
	bold, faint bool
}

// colours are those of the 256 of terminals that forms use.
var colours = map[string]string{
	"36": "#00af87", "62": "#8787ff", "212": "#ff87d7", "231": "#ffffff", "237": "#3a3a3a", "238": "#585858", "239": "#8a8a8a", "241": "#b2b2b2", "252": "#d0d0d0",
}

// then is the look after a sequence.
func (l look) then(codes string) look {
	list := strings.Split(codes, ";")
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case "", "0":
			l = look{}
		case "1":
			l.bold = true
		case "2":
			l.faint = true
		case "39":
			l.text = ""
		case "38":
			i += 2
			l.text = colours[list[i]]
		case "48":
			i += 2
			l.back = colours[list[i]]
		}
	}
	return l
}

func (l look) write(b *strings.Builder, text string, x float64, y int) {
	width := float64(utf8.RuneCountInString(text)) * columnWidth
	if l.back != "" {
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" shape-rendering="crispEdges"/>`+"\n", x, y-15, width, lineHeight, l.back)
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	fill, more := l.text, ""
	if fill == "" {
		fill = "#ececf0"
	}
	if l.bold {
		more = ` font-weight="bold"`
	}
	if l.faint {
		more += ` opacity="0.7"`
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="%s" textLength="%.1f" xml:space="preserve"%s>%s</text>`+"\n", x, y, fill, width, more, html.EscapeString(text))
}
