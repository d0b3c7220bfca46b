package explain

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// NamespaceContext is the objects of the Pod's namespace, as far as the user may read them.
type NamespaceContext struct {
	ConfigMaps map[string][]string // keys by name
	Secrets    map[string][]string // keys by name
	Values     map[string]string   // of ConfigMaps, by NAME/KEY
	Registries map[string][]string // hosts of registries that pull secrets are for, by secret
	Services   []*corev1.Service   //
	Claims     []string            // names of PersistentVolumeClaims
	Ready      map[string]int      // ready endpoints by Service
	Budgets    []*policyv1.PodDisruptionBudget
	Policies   []*networkingv1.NetworkPolicy

	RuntimeClasses []string  // names, of the whole cluster; nil: the user may not list them
	Webhooks       []Webhook // admission webhooks of the whole cluster
	// where the namespace is asked about its Pods that are not well; where a selector selects none,
	// the Pod that it nearly does
	Inside []PodAnswer
}

// service returns a Service of the namespace.
func (a *NamespaceContext) service(name string) *corev1.Service {
	if a == nil {
		return nil
	}
	for _, s := range a.Services {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// nearestName returns the name that was probably meant, "" if none is similar: first one that
// differs in case and separators only, then by edit distance, at most a third of the length.
func nearestName(want string, have []string) string {
	best, least := "", max(1, len(want)/3)+1
	for _, h := range slices.Sorted(slices.Values(have)) {
		d := editDistance(want, h)
		if normalizeName(want) == normalizeName(h) {
			d = 0
		}
		if h != want && d < least {
			best, least = h, d
		}
	}
	return best
}

func normalizeName(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(s))
}

// editDistance returns the Levenshtein distance.
func editDistance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			change := diagonal
			if x[i] != y[j] {
				change++
			}
			diagonal, row[j+1] = row[j+1], min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}

// closestTags sorts tags by similarity to want: by edit distance, then by the difference of the
// first differing number, then by name.
func closestTags(want string, have []string) []string {
	out := slices.Clone(have)
	slices.SortStableFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(editDistance(want, a), editDistance(want, b)),
			cmp.Compare(versionDistance(want, a), versionDistance(want, b)), cmp.Compare(b, a))
	})
	return out
}

var number = regexp.MustCompile(`\d+`)

// versionDistance returns the difference of the first differing number of two versions; earlier
// numbers weigh more.
func versionDistance(a, b string) int {
	x, y := number.FindAllString(a, 4), number.FindAllString(b, 4)
	for i := range min(len(x), len(y)) {
		n, err := strconv.Atoi(x[i])
		m, bad := strconv.Atoi(y[i])
		if err == nil && bad == nil && n != m {
			return max(n-m, m-n) << (8 * (4 - i))
		}
	}
	return 0
}

// joinList joins words as in a sentence: "a, b and c".
func joinList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
