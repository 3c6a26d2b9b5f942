package reporeport

import (
	"bytes"
	"fmt"
	"html"
	"slices"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
)

// The chart's size, and the room around what it shows, in pixels.
const (
	width, height = 960, 480
	left, right   = 60, 20
	top, bottom   = 70, 40
)

// colours are those of the lines: all commits, and the directories that matter. They can be distinguished
// with any sight, on light and dark grounds (Okabe and Ito's palette).
var colours = []string{"#888888", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b3a100", "#000000"}

// chart draws how many commits there are in each period: all, and in the directories that matter. It is
// an SVG.
func (s *state) chart() []byte {
	c := &s.Counts
	names, lines := []string{"all commits"}, []series{c.All}
	for _, d := range s.matter() {
		names, lines = append(names, gitrepo.Clip(shown(d.Name), 30)), append(lines, d.Series)
	}
	periods, highest := len(c.All), max(1, slices.Max(append(slices.Clone(c.All), 0)))
	x := func(period int) float64 { // the oldest is on the left
		return left + float64(periods-1-period)/float64(max(1, periods-1))*(width-left-right)
	}
	y := func(n int) float64 { return height - bottom - float64(n)/float64(highest)*(height-top-bottom) }

	var b bytes.Buffer
	text := func(x, y float64, anchor, text string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(text))
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#666">`+"\n", width, height)
	title := "Commits by " + c.Axis.unit()
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(title))
	text(width/2, 20, "middle", title)
	for i := range 5 {
		n := highest * i / 4
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%[3]f" stroke="#ccc"/>`+"\n", left, width-right, y(n))
		text(left-8, y(n)+4, "end", fmt.Sprint(n))
	}
	for period := 0; period < periods; period += 1 + periods/8 {
		text(x(period), height-bottom+20, "middle", c.Axis.name(period))
	}
	for i, line := range lines {
		colour := colours[i%len(colours)]
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, colour)
		for period := periods - 1; period >= 0; period-- {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(period), y(line.at(period)))
		}
		fmt.Fprintf(&b, `"/>`+"\n")
		column, row := float64(left+i%5*170), float64(38+i/5*16)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="10" height="10" fill="%s"/>`+"\n", column, row-9, colour)
		text(column+15, row, "start", names[i])
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
