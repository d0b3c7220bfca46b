package crictl

import (
	"cmp"
	"io"
	"maps"
	"slices"
)

// PodRecord is one Pod as one side knows it.
type PodRecord struct {
	UID, Namespace, Name string
	State                string // the side's own word: a phase, Ready, NotReady
	// the other sides should know it too: an ended Pod or a sandbox of the past need not be known
	// anywhere
	Needed bool
}

// Source is one that knows Pods.
type Source struct {
	Name  string // column
	Pods  []PodRecord
	Error string // not empty: the side could not be asked, and is left out
}

// Difference is a Pod that not all sides know. States are by column; a side that does not know the
// Pod has "-", one that was not asked "?".
type Difference struct {
	UID, Namespace, Name string
	States               []string
}

// Compare returns the Pods that at least one side needs known and another does not know, in the
// order of their names.
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
			if d.States[i] == "" || p.Needed { // of several sandboxes of a Pod the one that is in use counts
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

// WriteDifferences prints one row per Pod and a column per side.
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
