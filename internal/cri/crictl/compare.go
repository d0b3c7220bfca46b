package crictl

import (
	"cmp"
	"io"
	"maps"
	"slices"
)

// PodRecord is one Pod as one source reports it.
type PodRecord struct {
	UID, Namespace, Name string
	State                string // in the source's terms: a phase, Ready, NotReady
	// the other sources should report it too; false for ended Pods and old sandboxes
	Needed bool
}

// Source is a component that lists Pods.
type Source struct {
	Name  string // column title
	Pods  []PodRecord
	Error string // if not empty the source could not be read and is ignored
}

// Difference is a Pod that not all sources report. States are by column: "-" if a source does not
// report the Pod, "?" if it could not be read.
type Difference struct {
	UID, Namespace, Name string
	States               []string
}

// Compare returns the Pods that at least one source needs reported and another does not report,
// sorted by name.
func Compare(sources []Source) []Difference {
	type pod struct {
		Difference
		needed bool
	}
	all := map[string]*pod{}
	for i, s := range sources {
		for _, p := range s.Pods {
			d := all[p.UID]
			if d == nil {
				d = &pod{Difference: Difference{p.UID, p.Namespace, p.Name, make([]string, len(sources))}}
				all[p.UID] = d
			}
			d.needed = d.needed || p.Needed
			if d.States[i] == "" || p.Needed { // of several sandboxes of a Pod the current one counts
				d.States[i] = p.State
			}
		}
	}
	var out []Difference
	for _, uid := range slices.Sorted(maps.Keys(all)) {
		d, missing := all[uid], false
		for i, s := range sources {
			switch {
			case s.Error != "":
				d.States[i] = "?"
			case d.States[i] == "":
				d.States[i], missing = "-", true
			}
		}
		if d.needed && missing {
			out = append(out, d.Difference)
		}
	}
	slices.SortStableFunc(out, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// WriteDifferences prints one row per Pod and a column per source.
func WriteDifferences(out io.Writer, sources []Source, list []Difference) error {
	head := []string{"NAMESPACE", "NAME", "POD UID"}
	for _, s := range sources {
		head = append(head, s.Name)
	}
	rows := [][]string{head}
	for _, d := range list {
		rows = append(rows, append([]string{d.Namespace, d.Name, d.UID}, d.States...))
	}
	return table(out, rows)
}
