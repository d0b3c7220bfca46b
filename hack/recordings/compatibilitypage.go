package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/mitchellh/go-wordwrap"

	"github.com/gantry-project/gantry/test/replay"
)

// savedReport is a report as stored between runs.
type savedReport struct {
	Areas   map[string]*replay.AreaCount
	Unequal []savedCase
}

type savedCase struct {
	Name        string
	Near        bool
	Err         string `json:",omitempty"`
	Differences []replay.Difference
}

func (o options) reportPath(what string) string {
	return filepath.Join(o.out, "recordings-"+what+".json")
}

// save stores a report for docs.
func save(r *replay.Report, path string) error {
	k := savedReport{Areas: r.Areas}
	for _, u := range r.Unequal {
		c := savedCase{Name: u.Name, Near: u.Near, Differences: u.Differences}
		if u.Err != nil {
			c.Err = u.Err.Error()
		}
		k.Unequal = append(k.Unequal, c)
	}
	raw, err := json.MarshalIndent(k, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o644)
}

func (o options) load(what string) (*replay.Report, error) {
	raw, err := os.ReadFile(o.reportPath(what))
	if err != nil {
		return nil, fmt.Errorf("%w: replay %s first", err, what)
	}
	var k savedReport
	if err := json.Unmarshal(raw, &k); err != nil {
		return nil, err
	}
	r := &replay.Report{Areas: k.Areas}
	for _, c := range k.Unequal {
		u := replay.Unequal{Name: c.Name, Near: c.Near, Differences: c.Differences}
		if c.Err != "" {
			u.Err = errors.New(c.Err)
		}
		r.Unequal = append(r.Unequal, u)
	}
	sort.SliceStable(r.Unequal, func(i, j int) bool { return r.Unequal[i].Name < r.Unequal[j].Name })
	return r, nil
}

// comparisonTemplate is what is known beyond the recordings.
//
//go:embed beside.md
var comparisonTemplate string

// families are the rows of the table of API requests: names and prefixes of areas.
var families = []struct{ title, prefix string }{
	{"defaults", "defaulting/"}, {"validation of Pods", "validation/pod-"},
	{"validation of other kinds", "validation/"},
	{"updates of Pods", "updates/pod-"}, {"updates of other kinds", "updates/"}, {"protocol", "protocol/"},
}

// writeDocs renders docs/compatibility/differences.md from the last two runs.
func (o options) writeDocs(path string) error {
	api, err := o.load("api")
	if err != nil {
		return err
	}
	pods, err := o.load("pods")
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(`# Differences from upstream

The answers of upstream Kubernetes (v1.36.3) to requests, and what it did with Pods, were recorded. ` +
		"`make recordings`" + ` repeats this with Gantry, compares, and writes this page.

*Same* is equal in every word, after values that differ from run to run are masked. *Same where clients look*
is equal in what programs act on: codes, reasons, causes; for Pods phases, conditions, container states, exit
codes, restart counts, the set of events.

- What upstream itself did not repeat is not compared.

- A Pod lifecycle that differs runs a second time, with fewer Pods at the same time, and the second run
counts: ten Pods at once delay each other on a busy machine, as they did upstream. If upstream's recording
ended in the middle of a restart loop, the second run ends at the same point of the loop.

- Times are compared as magnitudes: up to ten times, or one sync period of upstream's kubelet (15 s), shorter,
and up to half longer.

- States shorter than upstream's observation interval (a second; two for a Job) may be missing. A first probe
may find a program that started faster. Counts of repeated events may differ by a third.

## Answers of the API

`)
	grouped := &replay.Report{Areas: map[string]*replay.AreaCount{}}
	for area, t := range api.Areas {
		for i, f := range families {
			if strings.HasPrefix(area, f.prefix) {
				name := fmt.Sprintf("%d %s", i, f.title)
				g := grouped.Areas[name]
				if g == nil {
					g = &replay.AreaCount{}
					grouped.Areas[name] = g
				}
				g.All, g.Same, g.Near = g.All+t.All, g.Same+t.Same, g.Near+t.Near
				break
			}
		}
	}
	var table strings.Builder
	grouped.WriteTable(&table)
	b.WriteString(unnumbered(table.String()))
	apiCauses, apiMeant := explain(api.Unequal)
	b.WriteString(sum(api, apiMeant))
	if err := compareNewer(&b, api); err != nil {
		return err
	}
	b.WriteString("\n## Pod lifecycles\n\n")
	pods.WriteTable(&b)
	podCauses, podMeant := explain(pods.Unequal)
	b.WriteString(sum(pods, podMeant))
	b.WriteString(nodeSide(pods))
	writeCauses(&b, append(apiCauses, podCauses...))
	b.WriteString(comparisonTemplate)
	return os.WriteFile(path, []byte(wrapped(b.String())), 0o644)
}

// pageColumns is how wide the text of a page is at most.
const pageColumns = 100

// wrapped is a page with its paragraphs wrapped; rows of tables and headings stay on one line.
func wrapped(page string) string {
	var out, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			out = append(out, wordwrap.WrapString(strings.Join(paragraph, " "), pageColumns))
			paragraph = nil
		}
	}
	for l := range strings.SplitSeq(page, "\n") {
		if l == "" || strings.HasPrefix(l, "|") || strings.HasPrefix(l, "#") {
			end()
			out = append(out, l)
			continue
		}
		paragraph = append(paragraph, l)
	}
	end()
	return strings.Join(out, "\n")
}

// newerTemplate is what a kube-apiserver v1.37.2 answered to the same requests otherwise than was
// recorded.
//
//go:embed newer.json
var newerTemplate []byte

// compareNewer writes how many of the differing answers are those of v1.37.2, and how many of its
// own differ.
func compareNewer(b *strings.Builder, api *replay.Report) error {
	var k savedReport
	if err := json.Unmarshal(newerTemplate, &k); err != nil {
		return fmt.Errorf("hack/recordings/newer.json: %w", err)
	}
	its := map[string][]replay.Difference{}
	for _, c := range k.Unequal {
		if c.Err == "" {
			its[c.Name] = c.Differences
		}
	}
	alike := 0
	for _, u := range api.Unequal {
		if d, differs := its[u.Name]; differs && u.Err == nil && slices.Equal(d, u.Differences) {
			alike++
		}
	}
	t := api.Total()
	fmt.Fprintf(b, `
In the replay Gantry emulates v1.36 (`+"`--emulated-version=1.36`"+
		`), which restores v1.36's defaults. kube-apiserver v1.37.2 answers %d of these %d requests differently from v1.36.3;
%d of Gantry's answers that differ from the recorded ones are those of v1.37.2, so that %d of %d equal one of the two.
`, len(its), t.All, alike, t.Same+alike, t.All)
	return nil
}

// unnumbered takes the numbers away that kept rows in order.
func unnumbered(table string) string {
	lines := strings.Split(table, "\n")
	for i, l := range lines {
		if len(l) > 4 && l[2] >= '0' && l[2] <= '9' && l[3] == ' ' {
			lines[i] = "| " + l[4:]
		}
	}
	return strings.Join(lines, "\n")
}

func sum(r *replay.Report, meant int) string {
	t := r.Total()
	return fmt.Sprintf("\n%d of %d are the same, and %d more differ only as meant.\n", t.Same, t.All, meant)
}

// coveredElsewhere are the areas of life cycles that components other than the kubelet decide.
var coveredElsewhere = regexp.MustCompile(
	`^(controllers|drain|endpoints|eviction|scheduling)/|^preemption/preempt-(equal|never)$|^security/sec-pod-security`)

// nodeSide sums up the life cycles that the kubelet decides.
func nodeSide(r *replay.Report) string {
	all, mine := 0, []replay.Unequal{}
	for area, t := range r.Areas {
		if !coveredElsewhere.MatchString(area + "/") {
			all += t.All
		}
	}
	all -= 3 // of preemption and security, as above
	for _, u := range r.Unequal {
		if !coveredElsewhere.MatchString(u.Name) {
			mine = append(mine, u)
		}
	}
	_, meant := explain(mine)
	return fmt.Sprintf("Of the %d that the node decides, %d are the same (%d %%), and %d more differ only as meant.\n",
		all, all-len(mine), 100*(all-len(mine))/max(all, 1), meant)
}

func writeCauses(b *strings.Builder, list []found) {
	b.WriteString("\n## Meant\n\nThese differences are decisions.\n\n| What is otherwise | Why | Cases | For example " +
		"|\n| --- | --- | --- | --- |\n")
	for _, f := range list {
		if f.why != "" {
			fmt.Fprintf(b, "| %s | %s | %d | %s |\n", f.what, f.why, len(f.cases), examples(f.cases))
		}
	}
	b.WriteString("\n## Not yet\n\nThese are not.\n\n| What is otherwise | Cases | For example |\n| --- | --- | --- " +
		"|\n")
	for _, f := range list {
		if f.why == "" {
			fmt.Fprintf(b, "| %s | %d | %s |\n", f.what, len(f.cases), examples(f.cases))
		}
	}
}

func examples(cases []string) string {
	var out []string
	for i, c := range cases {
		if i == 3 {
			out = append(out, "…")
			break
		}
		out = append(out, "`"+c+"`")
	}
	return strings.Join(out, ", ")
}
