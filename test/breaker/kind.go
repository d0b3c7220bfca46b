package breaker

import (
	"cmp"
	"maps"
	"math/rand"
	"slices"
	"strings"
)

// kind is one kind of break.
type kind struct {
	name     string
	manifest string  // objects with --- between; placeholders as in words
	ask      string  // kind/name; empty: what is wrong in the namespace
	truth    []truth // none: nothing is wrong
	after    string  // patches to apply when the objects are there: a "kind/name patch" a line
}

// words are the placeholders of one seed: $A, $B, $C, $P names; $a, $b, $c with one letter wrong;
// $N a number from 2 to 9, $K a key and $k the same in another case; $L a key with one letter
// wrong.
type words map[string]string

var names = []string{"orders", "billing", "catalog", "frontend", "payments", "sessions", "reports", "inventory",
	"mailer", "gateway", "metrics", "archive"}

var keys = []string{"database", "password", "endpoint", "username", "loglevel", "timeout"}

func newWords(r *rand.Rand) words {
	pick := r.Perm(len(names))
	k := keys[r.Intn(len(keys))]
	w := words{"$A": names[pick[0]], "$B": names[pick[1]], "$C": names[pick[2]], "$K": k,
		"$k": strings.ToUpper(k), "$L": misspelt(r, k), "$N": string(rune('2' + r.Intn(8)))}
	w["$a"], w["$b"], w["$P"] = misspelt(r, w["$A"]), misspelt(r, w["$B"]), names[pick[3]]
	w["$c"] = misspelt(r, w["$C"])
	return w
}

// misspelt drops, doubles, exchanges or replaces one letter, not the first.
func misspelt(r *rand.Rand, s string) string {
	i := 1 + r.Intn(len(s)-2)
	switch r.Intn(4) {
	case 0:
		return s[:i] + s[i+1:]
	case 1:
		return s[:i] + string(s[i]) + s[i:]
	case 2:
		if s[i] != s[i+1] {
			return s[:i] + string(s[i+1]) + string(s[i]) + s[i+2:]
		}
	}
	c := byte('a' + r.Intn(26))
	if c == s[i] {
		c = 'a' + (c-'a'+1)%26
	}
	return s[:i] + string(c) + s[i+1:]
}

// in puts the words of a seed into a text.
func (w words) in(text string) string {
	var pairs []string
	byLength := slices.SortedFunc(maps.Keys(w), func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b)) // $NS before $N
	})
	for _, k := range byLength {
		pairs = append(pairs, k, w[k])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// inTruth puts them into a truth.
func (w words) inTruth(t truth) truth {
	t.field, t.value, t.want, t.lead = w.in(t.field), w.in(t.value), w.in(t.want), w.in(t.lead)
	out := make([]string, len(t.numbers))
	for i, n := range t.numbers {
		out[i] = w.in(n)
	}
	t.numbers = out
	return t
}

// workload is a Deployment with a Pod spec.
func workload(name, spec string) string {
	return `apiVersion: apps/v1
kind: Deployment
metadata: {name: ` + name + `}
spec:
  replicas: 2
  selector: {matchLabels: {app: ` + name + `}}
  template:
    metadata: {labels: {app: ` + name + `}}
    spec: ` + spec + "\n---\n"
}

// single is a Pod with a spec.
func single(name, spec string) string {
	return `apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, labels: {app: ` + name + `}}
spec: ` + spec + "\n---\n"
}

// object is any object: its version and kind, name and the rest in flow style.
func object(version, kind, name, rest string) string {
	if rest != "" {
		rest = ", " + rest
	}
	return `{apiVersion: ` + version + `, kind: ` + kind + `, metadata: {name: "` + name + `"}` + rest + "}\n---\n"
}

const app = `{name: app, image: app, ports: [{name: http, containerPort: 8080}]}`

// plainApp is a Pod spec with one container.
const plainApp = `{containers: [` + app + `]}`

func withEnv(env string) string {
	return `{containers: [{name: app, image: app, env: [` + env + `]}]}`
}

func withRequest(name, q string) string {
	return `{containers: [{name: app, image: app, resources: {requests: {` + name + `: "` + q + `"}}}]}`
}
