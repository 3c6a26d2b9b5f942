package reporeport

import (
	"fmt"

	"github.com/go-analyze/charts"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
)

// The picture's size in pixels.
const (
	width  = 960
	height = 480
)

// chart draws how many commits there are in each period: all, and in the directories that
// matter. It is a PNG of that size.
func (s *state) chart(width, height int) ([]byte, error) {
	c := &s.Counts
	periods := len(c.All)
	line := func(of series) []float64 {
		values := make([]float64, periods)
		for i := range values {
			values[i] = float64(of.at(periods - 1 - i)) // from left to right
		}
		return values
	}
	names, values := []string{"all commits"}, [][]float64{line(c.All)}
	for _, d := range s.matter() {
		names, values = append(names, gitrepo.Clip(shown(d.Name), 30)), append(values, line(d.Series))
	}
	labels := make([]string, periods)
	for i := range labels {
		labels[i] = c.Axis.name(periods - 1 - i)
	}
	o := charts.NewLineChartOptionWithData(values)
	o.Title.Text = fmt.Sprintf("Commits by %s", c.Axis.unit())
	o.Legend.SeriesNames = names
	o.XAxis.Labels = labels
	o.ValueFormatter = func(v float64) string { return fmt.Sprintf("%.0f", v) }
	p := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputPNG, Width: width, Height: height})
	if err := p.LineChart(o); err != nil {
		return nil, err
	}
	return p.Bytes()
}
