package main

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// svg is a drawing under way. Colours are classes of the page's style sheet, so
// that they follow its light and dark scheme.
type svg struct {
	b             strings.Builder
	width, height float64
}

func newSVG(width, height float64, title string) *svg {
	s := &svg{width: width, height: height}
	fmt.Fprintf(&s.b, `<svg viewBox="0 0 %s %s" role="img" aria-label="%s">`, num(width), num(height), html.EscapeString(title))
	return s
}

// num is a coordinate, short and the same everywhere.
func num(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.1f", v), "0"), ".")
}

func (s *svg) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&s.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, num(x1), num(y1), num(x2), num(y2))
}

func (s *svg) circle(class string, x, y, r float64, title string) {
	fmt.Fprintf(&s.b, `<circle class="%s" cx="%s" cy="%s" r="%s"><title>%s</title></circle>`, class, num(x), num(y), num(r), html.EscapeString(title))
}

func (s *svg) rect(class string, x, y, w, h, opacity float64) {
	fmt.Fprintf(&s.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s" fill-opacity="%.2f"/>`, class, num(x), num(y), num(w), num(h), opacity)
}

// text writes a label. Anchor is start, middle or end.
func (s *svg) text(class, anchor string, x, y float64, label string) {
	fmt.Fprintf(&s.b, `<text class="%s" text-anchor="%s" x="%s" y="%s">%s</text>`, class, anchor, num(x), num(y), html.EscapeString(label))
}

// path draws a line through points. NaN interrupts it.
func (s *svg) path(class, title string, xs, ys []float64) {
	var d strings.Builder
	pen := "M"
	for i := range xs {
		if math.IsNaN(ys[i]) {
			pen = "M"
			continue
		}
		d.WriteString(pen + num(xs[i]) + " " + num(ys[i]))
		pen = "L"
	}
	fmt.Fprintf(&s.b, `<path class="%s" d="%s"><title>%s</title></path>`, class, d.String(), html.EscapeString(title))
}

func (s *svg) done() template.HTML {
	s.b.WriteString("</svg>")
	return template.HTML(s.b.String()) //nolint:gosec // labels were escaped one by one
}

// scale maps values to coordinates.
type scale struct {
	from, to float64 // values, after the transformation
	low, len float64 // coordinates
	of       func(float64) float64
}

func linear(from, to, low, length float64) scale {
	return scale{from, to, low, length, func(v float64) float64 { return v }}
}

func logarithmic(from, to, low, length float64) scale {
	return scale{math.Log10(from), math.Log10(to), low, length, math.Log10}
}

// rooted is a scale from zero that shows small values and large ones.
func rooted(to, low, length float64) scale {
	return scale{0, math.Sqrt(to), low, length, math.Sqrt}
}

func (s scale) at(v float64) float64 {
	share := (s.of(v) - s.from) / (s.to - s.from)
	return s.low + s.len*min(1, max(0, share))
}

// decades are the ticks of a logarithmic scale.
func decades(from, to float64) []float64 {
	var ticks []float64
	for p := math.Floor(math.Log10(from)); p <= math.Ceil(math.Log10(to)); p++ {
		for _, m := range []float64{1, 3} {
			if v := m * math.Pow(10, p); v >= from && v <= to {
				ticks = append(ticks, v)
			}
		}
	}
	return ticks
}

// steps are about n round ticks from zero.
func steps(to float64, n int) []float64 {
	if to <= 0 {
		return []float64{0}
	}
	raw := to / float64(n)
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := unit * 10
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= raw {
			step = m * unit
			break
		}
	}
	var ticks []float64
	for i := 0; float64(i)*step <= to*1.0001; i++ {
		ticks = append(ticks, float64(i)*step)
	}
	return ticks
}

// duration is a time in milliseconds for people.
func duration(ms float64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 10_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case ms < 120_000:
		return fmt.Sprintf("%.0f s", ms/1000)
	default:
		return fmt.Sprintf("%.0f min", ms/60_000)
	}
}
