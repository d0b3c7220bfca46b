package metriclist

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// notesFile says what the lists cannot: where metrics are served, what differs from upstream's,
// what is not served and why.
//
//go:embed notes.yaml
var notesFile []byte

// notes are what the page says of one component.
type notes struct {
	Component, Title, Address, Access, Text string

	Lists   []string // of testdata
	Differs []remark
	Absent  []remark
}

// remark is one reason for some families.
type remark struct {
	Names []string
	Why   string
}

const introduction = `# Metrics

Rendered by ` + "`make stories`" + ` from the components' registries and from ` + "`test/metriclist/notes.yaml`" + `.

Gantry serves upstream's metrics under upstream's names, labels and types. What v1.37.2's components define
is recorded as data (` + "`hack/metricslist`" + ` reads it from their sources), and a test of each package compares
names and labels. Families of the Go runtime and the process (` + "`go_*`, `process_*`" + `) are served everywhere.

| Component | Where | Who may read |
| --- | --- | --- |
`

const scraping = `
A Prometheus in the cluster scrapes them with the token of its service account:

` + "```yaml" + `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: prometheus}
rules:
- {apiGroups: [""], resources: [nodes, nodes/metrics, services, endpoints, pods], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
- {nonResourceURLs: [/metrics, /metrics/slis], verbs: [get]}
` + "```\n"

// titles are the headings of a component's lists where it has several.
var titles = map[string]string{
	"kubelet": "/metrics and /metrics/probes", "network": "NetworkPolicies, in /metrics",
	"kubelet-resource": "/metrics/resource", "kubelet-cadvisor": "/metrics/cadvisor",
}

func readNotes() ([]notes, error) {
	var all []notes
	if err := yaml.UnmarshalStrict(notesFile, &all); err != nil {
		return nil, fmt.Errorf("notes.yaml: %w", err)
	}
	return all, nil
}

// page renders docs/user/metrics.md.
func page() ([]byte, error) {
	all, err := readNotes()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(introduction)
	for _, n := range all {
		anchor := strings.ReplaceAll(strings.ToLower(n.Title), " ", "-")
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", n.Title, anchor, n.Address, n.Access)
	}
	b.WriteString(scraping)
	for _, n := range all {
		fmt.Fprintf(&b, "\n## %s\n", n.Title)
		if n.Text != "" {
			fmt.Fprintf(&b, "\n%s\n", n.Text)
		}
		for _, list := range n.Lists {
			families, err := readList(listPath(list))
			if err != nil {
				return nil, err
			}
			if len(n.Lists) > 1 {
				fmt.Fprintf(&b, "\n### %s\n", titles[list])
			}
			writeFamilies(&b, families)
		}
		writeRemarks(&b, "These differ from upstream's, or are there at times:", n.Differs)
	}
	b.WriteString("\n## Not served\n")
	for _, n := range all {
		if len(n.Absent) > 0 {
			fmt.Fprintf(&b, "\n### %s\n", "Of the "+lowered(n.Title))
			writeRemarks(&b, "", n.Absent)
		}
	}
	return b.Bytes(), nil
}

// lowered begins a title with a small letter, unless it is an abbreviation.
func lowered(title string) string {
	if len(title) > 1 && strings.ToUpper(title[:2]) == title[:2] {
		return title
	}
	return strings.ToLower(title[:1]) + title[1:]
}

func writeFamilies(b *bytes.Buffer, families []Family) {
	b.WriteString("\n| Name | Type | Labels | Meaning |\n| --- | --- | --- | --- |\n")
	for _, f := range families {
		labels := ""
		if len(f.Labels) > 0 {
			labels = "`" + strings.Join(f.Labels, "`, `") + "`"
		}
		help := strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(f.Help)
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, labels, help)
	}
}

func writeRemarks(b *bytes.Buffer, heading string, all []remark) {
	if len(all) == 0 {
		return
	}
	if heading != "" {
		fmt.Fprintf(b, "\n%s\n", heading)
	}
	b.WriteString("\n| Metric | Why |\n| --- | --- |\n")
	for _, r := range all {
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.Join(r.Names, "`, `"), r.Why)
	}
}
