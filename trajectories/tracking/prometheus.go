package tracking

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// ExpositionType is the media type of the text of an Exposition.
const ExpositionType = "text/plain; version=0.0.4; charset=utf-8"

// Exposition builds text in the form that Prometheus reads.
type Exposition struct{ b strings.Builder }

// Metric writes a family of one sample without labels. kind is gauge or counter.
func (e *Exposition) Metric(name, kind, help string, value float64) {
	e.Family(name, kind, help)
	e.Sample(name, "", value)
}

// Family writes the head of a family; its samples follow.
func (e *Exposition) Family(name, kind, help string) {
	help = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help)
	fmt.Fprintf(&e.b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// Sample writes a sample. labels is "" or what Label returns, several joined by commas.
func (e *Exposition) Sample(name, labels string, value float64) {
	e.b.WriteString(name)
	if labels != "" {
		e.b.WriteString("{" + labels + "}")
	}
	e.b.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
}

// String returns the text so far.
func (e *Exposition) String() string { return e.b.String() }

// Label returns name="value" with the value escaped.
func Label(name, value string) string {
	return name + `="` + strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(strings.ToValidUTF8(value, "\uFFFD")) + `"`
}

// Prometheus keeps the last value of every figure for a Prometheus server to fetch. It
// is a Sink, and an http.Handler that answers any request with all values. Both may be
// used at once.
type Prometheus struct {
	prefix string

	mu     sync.Mutex
	order  []string
	values map[string]float64
	step   int
	logs   int64
}

// NewPrometheus returns a sink whose names begin with a prefix such as hermes_env.
func NewPrometheus(prefix string) *Prometheus {
	return &Prometheus{prefix: prefix, values: make(map[string]float64)}
}

// Log implements Sink. Tables are left out: Prometheus has none.
func (p *Prometheus) Log(step int, metrics []Metric, _ []Table) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = step
	p.logs++
	for _, m := range metrics {
		if _, known := p.values[m.Name]; !known {
			p.order = append(p.order, m.Name)
		}
		p.values[m.Name] = m.Value
	}
	return nil
}

// Close implements Sink. The last values stay readable.
func (p *Prometheus) Close() error { return nil }

// ServeHTTP answers with all values.
func (p *Prometheus) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", ExpositionType)
	_, _ = w.Write([]byte(p.Text())) // a client that went away asks again
}

// Text returns all values. Figures whose names differ only in characters that
// Prometheus doesn't allow become one family, told apart by the label name.
func (p *Prometheus) Text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var e Exposition
	e.Metric(p.prefix+"_step", "gauge", "Step of the figures below.", float64(p.step))
	e.Metric(p.prefix+"_logs_total", "counter", "How often figures were logged.", float64(p.logs))
	families := make(map[string][]string)
	var names []string
	for _, original := range p.order {
		name := p.prefix + "_" + prometheusName(original)
		if name == p.prefix+"_step" || name == p.prefix+"_logs_total" {
			name += "_"
		}
		if _, known := families[name]; !known {
			names = append(names, name)
		}
		families[name] = append(families[name], original)
	}
	for _, name := range names {
		originals := families[name]
		e.Family(name, "gauge", originals[0]+" of the last log that had it.")
		for _, original := range originals {
			label := ""
			if len(originals) > 1 {
				label = Label("name", original)
			}
			e.Sample(name, label, p.values[original])
		}
	}
	return e.String()
}

// prometheusName puts _ for every run of characters that a name must not have.
func prometheusName(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if s := b.String(); s != "" && !strings.HasSuffix(s, "_") {
			b.WriteByte('_')
		}
	}
	return strings.TrimSuffix(b.String(), "_")
}
