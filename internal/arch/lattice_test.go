package arch

import (
	"os"
	"slices"
	"strings"
	"testing"
)

type lattice struct {
	classes []struct{ pattern, class string }
	may     map[string][]string
	apart   []string
}

func readLattice(t *testing.T) lattice {
	t.Helper()
	raw, err := os.ReadFile("lattice.txt")
	if err != nil {
		t.Fatal(err)
	}
	l := lattice{may: map[string][]string{}}
	for _, line := range strings.Split(string(raw), "\n") {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] == "#" {
			continue
		}
		switch words[0] {
		case "class":
			for _, p := range words[2:] {
				l.classes = append(l.classes, struct{ pattern, class string }{p, words[1]})
			}
		case "may":
			l.may[words[1]] = words[2:]
		case "apart":
			l.apart = words[1:]
		default:
			t.Fatalf("lattice.txt: %q is no rule", line)
		}
	}
	return l
}

func below(path, top string) bool { return path == top || strings.HasPrefix(path, top+"/") }

func (l lattice) class(path string) string {
	for _, c := range l.classes {
		if top, all := strings.CutSuffix(c.pattern, "/..."); path == c.pattern || all && below(path, top) {
			return c.class
		}
	}
	return ""
}

func (l lattice) family(path string) string {
	for _, f := range l.apart {
		if below(path, f) {
			return f
		}
	}
	return ""
}

func TestImportsPointDown(t *testing.T) {
	l := readLattice(t)
	for _, p := range tree(t) {
		from := l.class(p.path)
		if from == "" {
			t.Errorf("%s has no class: add it to internal/arch/lattice.txt, after choosing its room in STYLE section "+
				"2's tree", p.path)
		}
		if from == "tests" {
			continue
		}
		for file, f := range p.files {
			for _, spec := range f.Imports {
				path := strings.Trim(spec.Path.Value, `"`)
				if path == "k8s.io/kubernetes" || strings.HasPrefix(path, "k8s.io/kubernetes/") {
					t.Errorf("%s imports %s: Gantry re-makes it; use the staging libraries", file, path)
				}
				to, own := strings.CutPrefix(path, module+"/")
				if !own {
					continue
				}
				if c := l.class(to); c != "tests" && !slices.Contains(l.may[from], c) {
					t.Errorf("%s (%s) imports %s (%s): an arrow may only point to %v. Declare the interface you need "+
						"where you need it and let internal/app join them", file, from, to, c, l.may[from])
				}
				if a, b := l.family(p.path), l.family(to); a != "" && b != "" && a != b {
					t.Errorf("%s imports %s: %s and %s meet in API objects and in internal/pod only", file, to, a, b)
				}
			}
		}
	}
}
