package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/warmroute/warmroute/router/routertest"
)

// formats write results, those for people also what followed the changes.
var formats = map[string]func(io.Writer, []result, []routertest.Change) error{
	"table": writeTable, "csv": writeCSV, "json": writeJSON, "markdown": writeMarkdown,
}

// columns are those of a CSV file.
var columns = []string{
	"policy", "requests", "hit_rate", "ttft_mean", "ttft_p50", "ttft_p90", "ttft_p99",
	"e2e_p50", "e2e_p99", "tpot", "req_s", "imbalance", "timeouts", "lost",
}

func (r *row) fields() []string {
	f := func(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	return []string{
		r.Policy, f(r.Requests, 0), f(r.HitRate, 4), f(r.TTFTMean, 1), f(r.TTFTP50, 1), f(r.TTFTP90, 1), f(r.TTFTP99, 1),
		f(r.E2EP50, 1), f(r.E2EP99, 1), f(r.TPOT, 1), f(r.Rate, 2), f(r.Imbalance, 3), f(r.Timeouts, 0), f(r.Lost, 0),
	}
}

func writeCSV(w io.Writer, results []result, _ []routertest.Change) error {
	c := csv.NewWriter(w)
	_ = c.Write(columns) // Error tells
	for i := range results {
		_ = c.Write(results[i].row.fields())
	}
	c.Flush()
	return c.Error()
}

func writeJSON(w io.Writer, results []result, _ []routertest.Change) error {
	e := json.NewEncoder(w)
	for i := range results {
		if err := e.Encode(&results[i].row); err != nil {
			return err
		}
	}
	return nil
}

// titles are the columns for people.
var titles = []string{
	"policy", "requests", "hit %", "TTFT mean", "p50", "p90", "p99", "E2E p50", "p99", "TPOT", "req/s", "imbal.", "timeouts", "lost",
}

// cells are the fields for people: whole milliseconds, and commas.
func (r *row) cells() []string {
	f := func(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	n := func(v float64) string { return thousands(f(v, 0)) }
	return []string{
		r.Policy, n(r.Requests), f(100*r.HitRate, 1), n(r.TTFTMean), n(r.TTFTP50), n(r.TTFTP90), n(r.TTFTP99),
		n(r.E2EP50), n(r.E2EP99), n(r.TPOT), f(r.Rate, 2), f(r.Imbalance, 2), n(r.Timeouts), n(r.Lost),
	}
}

// thousands puts commas into a whole number.
func thousands(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if left := len(digits) - i; i > 0 && left%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

func writeTable(w io.Writer, results []result, changes []routertest.Change) error {
	fmt.Fprintln(w, "Times in milliseconds.")
	if err := writeColumns(w, titles, rowsOf(results)); err != nil {
		return err
	}
	for _, a := range aftermaths(changes, results) {
		fmt.Fprintf(w, "\n%s:\n", a.title())
		if err := writeColumns(w, a.titles, a.rows); err != nil {
			return err
		}
	}
	return nil
}

func rowsOf(results []result) [][]string {
	rows := make([][]string, len(results))
	for i := range results {
		rows[i] = results[i].row.cells()
	}
	return rows
}

func writeColumns(w io.Writer, titles []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, strings.Join(titles, "\t")+"\t")
	for _, cells := range rows {
		fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	}
	return t.Flush()
}

func writeMarkdown(w io.Writer, results []result, changes []routertest.Change) error {
	if err := writePipes(w, titles, rowsOf(results)); err != nil {
		return err
	}
	for _, a := range aftermaths(changes, results) {
		fmt.Fprintf(w, "\n%s:\n\n", a.title())
		if err := writePipes(w, a.titles, a.rows); err != nil {
			return err
		}
	}
	return nil
}

func writePipes(w io.Writer, titles []string, rows [][]string) error {
	fmt.Fprintf(w, "| %s |\n|---|%s\n", strings.Join(titles, " | "), strings.Repeat("--:|", len(titles)-1))
	for _, cells := range rows {
		cells = slices.Clone(cells)
		if cells[0] == "affinity" {
			cells[0] = "**affinity**"
		}
		if _, err := fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")); err != nil {
			return err
		}
	}
	return nil
}
