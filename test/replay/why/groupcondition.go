package why

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// group names several objects: "pods app=web", "pods all", "nodes zone=a", "pods all -n team-a",
// "pods -A". The first word is a kind as kubectl takes it, without a name.
type group struct{ kind, selector, namespace string }

// groupOf reads such a name; not ok for the name of one object.
func groupOf(object string) (g group, ok bool, err error) {
	at := strings.Fields(object)
	if len(at) == 0 || strings.Contains(at[0], "/") {
		return g, false, nil
	}
	g = group{kind: at[0], namespace: "default"}
	for at = at[1:]; len(at) > 0; at = at[1:] {
		switch {
		case at[0] == "-A":
			g.namespace = metav1.NamespaceAll
		case at[0] == "-n" && len(at) > 1:
			g.namespace, at = at[1], at[1:]
		case at[0] == "all":
		case g.selector == "" && !strings.HasPrefix(at[0], "-"):
			g.selector = at[0]
		default:
			return g, true,
				fmt.Errorf("%q of %q is no form that this runner knows: want KIND/NAME, or KIND all, or KIND "+
					"LABEL=VALUE, with -n NAMESPACE", at[0], object)
		}
	}
	return g, true, nil
}

// amount is how many of several must show something.
type amount struct {
	least, most int // most below zero: no bound
	every       bool
	absent      bool // there shall be none at all
	text        string
}

var numbers = []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}

// amountOf reads "at least 4 have …", "one has …", "exactly two …", "all have …", "none has …", and
// returns the words that each must show; without an amount it is all of them.
func amountOf(until string) (a amount, each string, err error) {
	at := strings.Fields(until)
	a = amount{every: true, least: 1, most: -1, text: "all"}
	n, used := 0, 0
	switch {
	case len(at) > 2 && at[0] == "at" && (at[1] == "least" || at[1] == "most"):
		n, err = count(at[2])
		if used, a = 3, (amount{least: n, most: -1}); at[1] == "most" {
			a = amount{most: n}
		}
	case len(at) > 1 && at[0] == "exactly":
		n, err = count(at[1])
		used, a = 2, amount{least: n, most: n}
	case len(at) > 0 && (at[0] == "all" || at[0] == "each" || at[0] == "every"):
		used = 1
	case len(at) > 0 && (at[0] == "none" || at[0] == "no"):
		used, a = 1, amount{}
	case len(at) > 0 && (at[0] == "some" || at[0] == "any"):
		used, a = 1, amount{least: 1, most: -1}
	case len(at) > 0:
		if n, err = count(at[0]); err == nil {
			used, a = 1, amount{least: n, most: -1}
		}
		err = nil // the first word is of what is shown
	}
	if err != nil {
		return a, "", fmt.Errorf("%q: %w", until, err)
	}
	if used > 0 {
		a.text = strings.Join(at[:used], " ")
	}
	for at = at[used:]; len(at) > 0 && strings.Contains(" pod pods of them have has show shows is are be ",
		" "+at[0]+" "); at = at[1:] {
	}
	each = strings.Join(at, " ")
	if a.absent = each == "deleted"; a.absent && !a.every {
		return a, each, fmt.Errorf("%q: several are deleted when none is there; want \"all deleted\"", until)
	}
	_, err = parsePredicates(each)
	return a, each, err
}

func count(s string) (int, error) {
	for n, name := range numbers {
		if s == name {
			return n, nil
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no number", s)
	}
	return n, nil
}

// check reports whether of several objects so many show what each must show.
func (a amount) check(objects []map[string]any, each string) error {
	if a.absent {
		if len(objects) > 0 {
			return fmt.Errorf("%d are still there", len(objects))
		}
		return nil
	}
	have, last := 0, ""
	for _, o := range objects {
		if ok, why := conditionMet(o, each); ok {
			have++
		} else {
			last = idOf(o) + ": " + why
		}
	}
	if have < a.least || a.most >= 0 && have > a.most || a.every && have < len(objects) {
		return fmt.Errorf("%d of %d show %q, wanted %s; %s", have, len(objects), each, a.text, last)
	}
	return nil
}

// waitGroup is nil when so many objects of a group show what the words say.
func (w *Cluster) waitGroup(ctx context.Context, g group, until string) error {
	a, each, err := amountOf(until)
	if err != nil {
		return err
	}
	resource, namespaced, err := w.resource(g.kind)
	if err != nil {
		return err
	}
	if !namespaced {
		g.namespace = metav1.NamespaceAll
	}
	list, err := w.dynamic.Resource(resource).Namespace(g.namespace).List(ctx,
		metav1.ListOptions{LabelSelector: g.selector})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	var all []map[string]any
	if list != nil {
		for _, o := range list.Items {
			all = append(all, o.Object)
		}
	}
	return a.check(all, each)
}

// checkPredicate refuses words of a wait that this runner does not know, before anything is run.
func checkPredicate(object, until string) error {
	if until == "" {
		return errors.New("a wait says `until` what")
	}
	until, _, _ = strings.Cut(until, " for ")
	if m := afterPattern.FindStringSubmatch(until); m != nil {
		until = m[1]
	}
	at := strings.Fields(until)
	if until == "evict answers 201" || len(at) == 4 && at[0] == "port-forward" && at[2] == "answers" {
		return nil
	}
	_, several, err := groupOf(object)
	switch {
	case err != nil:
	case several:
		_, _, err = amountOf(until)
	default:
		_, err = parsePredicates(until)
	}
	return err
}
