package debugpage

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed page.html
var pageHTML string

// render writes the snapshot for people. Errors are those of the writer: the
// reader has left.
func render(w io.Writer, s *Snapshot) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"percent": func(f float64) string { return fmt.Sprintf("%.1f %%", 100*f) },
		"share":   share,
	}).Parse(pageHTML)
	if err != nil {
		return err // a test renders every branch
	}
	return t.Execute(w, s)
}

// share is a part of a whole in percent, 0 to 100.
func share(part, whole int) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * min(1, max(0, float64(part)/float64(whole)))
}
