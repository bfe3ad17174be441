package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"slices"

	"github.com/warmroute/warmroute/router/routertest"
)

//go:embed page.html
var pageText string

// maxCurves is how many policies are told apart by their colours: more can't be.
const maxCurves = 8

// page is what the template shows.
type page struct {
	Scenario string
	Summary  string
	Range    template.HTML
	CDF      template.HTML
	Hits     template.HTML
	Queues   template.HTML
	Heat     []heat
	Most     string
	Legend   []legend
	Left     int // policies without a curve
	Tables   []table
}

type heat struct {
	Name string
	Plot template.HTML
}

type legend struct{ Name, Class string }

type table struct {
	Caption, Note string
	Titles        []string
	Rows          []tableRow
}

type tableRow struct {
	Class string
	Cells []string
}

// writePage writes a page that needs nothing else.
func writePage(file, scenario string, changes []routertest.Change, results []result) error {
	text, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := text.Execute(f, newPage(scenario, changes, results)); err != nil {
		f.Close() // the error of the template says more
		return err
	}
	return f.Close()
}

// newPage puts the best policies first, and last those that got no answer. The
// first with a curve is affinity, if it is among them.
func newPage(scenario string, changes []routertest.Change, results []result) *page {
	sorted := make([]plotted, len(results))
	for i, r := range results {
		sorted[i] = plotted{result: r}
	}
	slices.SortStableFunc(sorted, func(a, b plotted) int {
		return cmp.Or(cmp.Compare(b.answered(), a.answered()), cmp.Compare(a.row.TTFTMean, b.row.TTFTMean))
	})
	curves := coloured(sorted)
	p := &page{Scenario: scenario, Summary: summary(sorted), Left: len(sorted) - len(curves)}
	var marks []mark
	for _, c := range changes {
		marks = append(marks, mark{c.At.Seconds(), fmt.Sprintf("%v e%d", c.Kind, c.Endpoint)})
	}
	p.Range, p.CDF = rangePlot(sorted), cdfPlot(curves)
	p.Hits, p.Queues = hitPlot(curves, marks), queuePlot(curves, marks)
	most := mostInFlight(curves)
	p.Most = fmt.Sprintf("%.0f", most)
	for _, c := range curves {
		p.Heat = append(p.Heat, heat{c.policy.name, heatPlot(c, most)})
		p.Legend = append(p.Legend, legend{c.policy.name, c.class})
	}
	ordered := make([]result, len(sorted))
	for i := range sorted {
		ordered[i] = sorted[i].result
	}
	p.Tables = append(p.Tables, newTable("All figures", "Times in milliseconds.", titles, rowsOf(ordered)))
	for _, a := range aftermaths(changes, ordered) {
		p.Tables = append(p.Tables, newTable(a.title(), aftermathNote, a.titles, a.rows))
	}
	return p
}

const aftermathNote = "The minute before and the time after, in intervals of 10 s. Later turns that moved could have stayed; those that were displaced could not."

func newTable(caption, note string, titles []string, rows [][]string) table {
	t := table{Caption: caption, Note: note, Titles: titles}
	for _, cells := range rows {
		class := ""
		if cells[0] == "affinity" {
			class = "affinity"
		}
		t.Rows = append(t.Rows, tableRow{class, cells})
	}
	return t
}

// coloured gives the policies that get a curve their colours: affinity, then the
// best others.
func coloured(sorted []plotted) []plotted {
	var curves []plotted
	if i := slices.IndexFunc(sorted, func(p plotted) bool { return p.policy.name == "affinity" }); i >= 0 {
		sorted[i].class = "affinity"
		curves = append(curves, sorted[i])
	}
	for i := range sorted {
		if len(curves) < maxCurves && sorted[i].class == "" {
			sorted[i].class = fmt.Sprint("c", len(curves))
			curves = append(curves, sorted[i])
		}
	}
	return curves
}

// summary says in a sentence what came out.
func summary(sorted []plotted) string {
	best := &sorted[0].row
	if len(sorted) == 1 {
		return fmt.Sprintf("%s: a hit rate of %.1f %%, %s to the first token on average.", best.Policy, 100*best.HitRate, duration(best.TTFTMean))
	}
	next := &sorted[1].row
	return fmt.Sprintf("%s is first with %s to the first token on average and a hit rate of %.1f %%; %s follows with %s and %.1f %%.",
		best.Policy, duration(best.TTFTMean), 100*best.HitRate, next.Policy, duration(next.TTFTMean), 100*next.HitRate)
}
