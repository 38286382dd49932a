package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/stats"
)

//go:embed assets
var assets embed.FS

// Fact is a named value in a list.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Rate is the estimate of pass@k.
type Rate struct {
	K     int
	Value float64
}

// Run is what a report says about a run besides its rollouts.
type Run struct {
	Title     string // what was run
	Subtitle  string // by what model, in which mode
	Made      time.Time
	Version   string // of hermes-env
	Source    string // the run directory, named where texts were cut
	Mean      *float64
	StdErr    *float64
	Scored    int
	Items     int // with a score
	Rollouts  int
	AsZero    *float64 // the mean with every unscored rollout as 0, where that differs
	Passed    int
	PassAtK   []Rate
	Threshold string
	Warnings  []string
	Facts     []Fact
	Config    string // JSON, indented
	// Dropped are the steps whose groups are not trained on, with the reason.
	Dropped map[int]string
}

// figures is what the statistics part of a page shows.
type figures struct {
	*stats.Result
	Full  bool              // with the parts that a report shows elsewhere
	Links map[string]string // to transcripts, by the id of the rollout
}

type runPage struct {
	Run
	page
	Stats       figures
	Rows        []matrixRow
	Columns     []int
	AllItems    int // or groups
	Grouped     bool
	Categories  []stats.GroupedScore
	Levels      []stats.GroupedScore
	Transcripts int
}

type statsPage struct {
	page
	Title    string
	Subtitle string
	Made     time.Time
	Version  string
	Stats    figures
}

// page is what every page needs.
type page struct {
	Policy string
	Style  template.CSS
}

// WriteRun writes the report of a run: the rollouts given to the builder, their
// statistics, and what is known of the run as a whole.
func (b *Builder) WriteRun(w io.Writer, run Run, figuresOf *stats.Result) error {
	rows, columns, items := b.matrix(run.Dropped)
	p := runPage{Run: run, Stats: figures{Result: figuresOf, Links: b.links}, Rows: rows, AllItems: items, Grouped: b.config.Groups, Transcripts: len(b.packed)}
	for i := range columns {
		p.Columns = append(p.Columns, i)
	}
	for _, g := range figuresOf.Groups {
		if g.Kind == "category" {
			p.Categories = append(p.Categories, g)
		} else {
			p.Levels = append(p.Levels, g)
		}
	}
	sort.SliceStable(p.Levels, func(i, j int) bool { return levelRank(p.Levels[i].Name) < levelRank(p.Levels[j].Name) })
	return write(w, "run.html", func(base page) any { p.page = base; return p }, func() error {
		for _, t := range b.packed {
			if _, err := fmt.Fprintf(w, "<script type=\"text/plain\" id=\"d%d\">%s</script>\n", t.number, t.data); err != nil {
				return err
			}
		}
		return nil
	})
}

// levelRank puts difficulties in the order people expect.
func levelRank(name string) int {
	if i := slices.Index([]string{"trivial", "easy", "medium", "hard", "very hard", "extreme"}, strings.ToLower(name)); i >= 0 {
		return i
	}
	return math.MaxInt
}

// WriteStatistics writes the statistics of a file or a run as a page.
func WriteStatistics(w io.Writer, title, subtitle, version string, made time.Time, figuresOf *stats.Result) error {
	p := statsPage{Title: title, Subtitle: subtitle, Version: version, Made: made, Stats: figures{Result: figuresOf, Full: true}}
	return write(w, "stats.html", func(base page) any { p.page = base; return p }, func() error { return nil })
}

// write fills in a page. The data and the one script that may run follow the body.
func write(w io.Writer, name string, fill func(page) any, data func() error) error {
	style, err := assets.ReadFile("assets/page.css")
	if err != nil {
		return err
	}
	script, err := assets.ReadFile("assets/page.js")
	if err != nil {
		return err
	}
	templates, err := template.New("").Funcs(functions()).ParseFS(assets, "assets/*.html")
	if err != nil {
		return fmt.Errorf("read the page templates: %w", err)
	}
	sum := sha256.Sum256(script)
	policy := "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	if err := templates.ExecuteTemplate(w, name, fill(page{Policy: policy, Style: template.CSS(style)})); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	if err := data(); err != nil {
		return fmt.Errorf("write the transcripts: %w", err)
	}
	_, err = fmt.Fprintf(w, "<script>%s</script>\n</body>\n</html>\n", script)
	return err
}

func functions() template.FuncMap {
	return template.FuncMap{
		"visible": Visible, "oneline": OneLine, "thousands": trajectories.Thousands, "seconds": Seconds, "percent": Percent, "short": Short, "itemname": itemName,
		"int64": func(n int) int64 { return int64(n) },
		"add":   func(a, b int) int { return a + b },
		"three": func(v *float64) string {
			if v == nil {
				return "–"
			}
			return strconv.FormatFloat(*v, 'f', 3, 64)
		},
		"interval": func(se *float64) string { return strconv.FormatFloat(1.96**se, 'f', 3, 64) },
		"usd":      trajectories.Dollars,
		"share": func(n, total int) template.CSS {
			if total == 0 {
				return "0%"
			}
			return template.CSS(strconv.FormatFloat(100*float64(n)/float64(total), 'f', 1, 64) + "%")
		},
		"most": func(counts []stats.Count) int {
			most := 0
			for _, c := range counts {
				most = max(most, c.Count)
			}
			return most
		},
		"tamperingtext": func(t trajectories.Tampering) string { return tamperingText(t, 200) },
		"limittext":     limitText,
		"first3":        func(list []trajectories.Tampering) []trajectories.Tampering { return list[:min(3, len(list))] },
		"more3":         func(list []trajectories.Tampering) int { return max(0, len(list)-3) },
		"first":         func(n int, counts []stats.Count) []stats.Count { return counts[:min(n, len(counts))] },
		"outcomeClass":  outcomeClass,
		"histogram": func(title string, d stats.Distribution, unit string) template.HTML {
			label := Short
			if unit == "seconds" {
				label = Seconds
			}
			return histogramChart(title, d, label)
		},
		"timeline": timelineChart,
		"shares":   shareChart,
		"number": func(v float64, unit string) string {
			if unit == "seconds" {
				return Seconds(v)
			}
			return Short(v)
		},
		"time": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
		"score": func(v *float64) string {
			if v == nil {
				return "–"
			}
			return strconv.FormatFloat(*v, 'f', 2, 64)
		},
		"list": func(values ...any) []any { return values },
	}
}
